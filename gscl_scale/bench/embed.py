"""`bench embed`: time, memory and disk of embedding all nodes of a graph, from its folder to the Parquet file."""

import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from gscl_scale.bench.graphs import draw, graph_folders, num_edges
from gscl_scale.bench.harness import Columns, Entry, Figures, events, table_of
from gscl_scale.bench.options import Embed
from gscl_scale.bench.processes import most_allocated
from gscl_scale.config.sections import ModelConfig
from gscl_scale.embed.layers import EncodingSettings, encode_nodes
from gscl_scale.embed.store import layers_folder, write_embeddings
from gscl_scale.graph.graph import Graph
from gscl_scale.machine import peak_memory, usable_cores
from gscl_scale.model.model import build_model
from gscl_scale.model.scaling import Scaling
from gscl_scale.runtime.console import Console

FEATURES = 32  # of a graph that is drawn


@dataclass(frozen=True)
class Embedding(Entry):
    """One graph embedded by one encoder."""

    graph: str
    nodes: int
    edges: int
    features: int
    encoder: str


_COLUMNS: Columns[Embedding] = {
    "nodes": lambda row: f"{row.nodes:,}",
    "edges": lambda row: f"{row.edges:,}",
    "features": lambda row: f"{row.features:,}",
    "encoder": lambda row: row.encoder,
    "time": lambda row: f"{row['seconds']:,.1f} s",
    "of it the file": lambda row: f"{row['file_seconds']:,.1f} s",
    "nodes/s": lambda row: f"{row['nodes_per_second']:,.0f}",
    "edges/s": lambda row: f"{row['edges_per_second'] / 1e6:,.2f} million",
    "allocated (at most)": lambda row: f"{row['allocated'] / 1e9:,.2f} ({row['memory_bound'] / 1e9:,.2f}) GB",
    "peak memory": lambda row: f"{row['peak_memory'] / 1e9:,.2f} GB",
    "scratch on disk": lambda row: f"{row['scratch'] / 1e9:,.2f} GB",
}


def bench_embed(bench: Embed) -> str:
    """Measure, write embed.json and embed.md, and return the page."""
    with bench.scratch() as scratch:
        folders = graph_folders(bench, scratch, FEATURES)
        entries = [entry for folder in folders for entry in _measure(bench, folder, scratch)]
    page = (
        f"Embeddings of all nodes with {bench.layers} layers of width {bench.width}, without sampling. The time "
        f"runs from the graph folder to the Parquet file; {bench.machine}. Edges per second are those of all "
        "layers. Allocated is what the work takes without the program and the files that it maps; in brackets is "
        "the bound that it prints before it begins. Peak memory includes mapped files in memory. "
        f"`{bench.command}` makes this table:\n\n{table_of(entries, _COLUMNS, left=[3])}"
    )
    setting = {"layers": bench.layers, "width": bench.width, "memory_gb": bench.memory_gb}
    return bench.write(page, entries, setting, ["torch"])


def _measure(bench: Embed, folder: Path, scratch: Path) -> list[Embedding]:
    """Embed one graph with all encoders in turn."""
    graph = Graph.open(folder)
    models = [
        ModelConfig(encoder=name, layers=bench.layers, width=bench.width) for name in bench.encoders
    ]  # fmt: skip
    ways = {model.encoder: partial(bench.alone, _embed, folder, scratch, model, bench.memory_gb) for model in models}
    runs = bench.in_turns(ways, lambda key, run: f"{num_edges(graph):,} edges, {key}: {run['seconds'][0]:,.1f} s")
    size = graph.name, graph.num_nodes, num_edges(graph), graph.num_features
    return [Embedding(*size, encoder, figures=_middle(measured)) for encoder, measured in runs.items()]


def _middle(runs: list[Figures]) -> Figures:
    """The figures of the run with the median time, and the most memory of all runs."""
    middle = sorted(runs, key=lambda run: run["seconds"])[len(runs) // 2]
    return middle | {name: max(run[name] for run in runs) for name in ("peak_memory", "allocated")}


def _embed(folder: Path, scratch: Path, model: ModelConfig, memory_gb: float) -> Figures:
    torch.set_num_threads(len(usable_cores()))
    with tempfile.TemporaryDirectory(dir=scratch, prefix=".embeddings-") as place:
        return _measure_in(Path(place), folder, model, memory_gb)


def _measure_in(place: Path, folder: Path, model: ModelConfig, memory_gb: float) -> Figures:
    draw(1000, place / "small", FEATURES)
    _embed_all(place / "small", place / "warm-up", model, memory_gb)  # compiles the kernels
    began = time.perf_counter()
    with most_allocated() as allocated:
        log = _embed_all(folder, place / "embeddings", model, memory_gb)
    seconds, peak = time.perf_counter() - began, peak_memory()
    graph, layers = Graph.open(folder), events(log, "layer")
    return {
        "seconds": (seconds, "s"),
        "file_seconds": (seconds - sum(layer["seconds"] for layer in layers), "s"),
        "nodes_per_second": (graph.num_nodes / seconds, "1/s"),
        "edges_per_second": (model.layers * num_edges(graph) / seconds, "1/s"),
        "peak_memory": (peak, "bytes"),
        "allocated": (allocated.more, "bytes"),
        "memory_bound": (events(log, "encoding")[0]["memory_bound_bytes"], "bytes"),
        "scratch": (sum(4 * layer["width"] * layer["rows"] for layer in layers), "bytes"),
        "file": ((place / "embeddings/embeddings.parquet").stat().st_size, "bytes"),
        **{f"seconds of {layer['file'].removesuffix('.raw')}": (layer["seconds"], "s") for layer in layers},
    }


def _embed_all(folder: Path, out: Path, config: ModelConfig, memory_gb: float) -> Path:
    """Embed with initial weights, and return the log."""
    graph = Graph.open(folder)
    encoder = build_model(config, graph.feature_blocks, seed=0).encoder
    place = EncodingSettings(layers_folder(out), "first weights", torch.device("cpu"), memory_gb)
    log = out / "log.jsonl"
    scaling = Scaling.of(graph.features, config.feature_scaling)
    with encode_nodes(encoder, graph, scaling, place, Console(log, quiet=True)) as vectors:
        write_embeddings(out, graph, vectors, "first weights", npy=False)
    return log
