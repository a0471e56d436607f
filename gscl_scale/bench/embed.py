"""`bench embed`: time, memory and disk of embedding all nodes of a graph, from its folder to the Parquet file."""

import platform
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gscl_scale import machine
from gscl_scale.bench.processes import in_process, most_allocated
from gscl_scale.bench.scale import drawn_graph
from gscl_scale.config.sections import ModelConfig
from gscl_scale.embed.layers import Workplace, encode_nodes
from gscl_scale.embed.store import scratch_folder, write_embeddings
from gscl_scale.graph.graph import Graph
from gscl_scale.io.atomic import write_text
from gscl_scale.io.json import read_json_lines, write_json
from gscl_scale.machine import peak_memory, processor_name, usable_cores
from gscl_scale.model.model import build_model
from gscl_scale.model.scaling import Scaling
from gscl_scale.runtime.console import Console
from gscl_scale.text import cores_of, table, turns_of
from gscl_scale.version import __version__

FEATURES = 32  # of a graph that is drawn


@dataclass(frozen=True)
class EmbedBench:
    """What to measure: graphs to draw by their edges, graph folders that exist, encoders, their size, and how often.

    command   what to type to measure this again
    """

    edges: Sequence[int]
    graphs: Sequence[Path]
    encoders: Sequence[str]
    layers: int = 2
    width: int = 128
    memory_gb: float = 4.0
    turns: int = 1
    command: str = ""


@dataclass(frozen=True)
class Embedded:
    """One embedding of all nodes, in a process of its own.

    seconds         from opening the graph to the Parquet file, which takes `file_seconds` of them
    peak_bytes      largest resident memory, the program and the files that it maps included
    allocated       the most that was allocated at any time, before it began and while it ran
    bound_bytes     what it says that it allocates at the most
    scratch_bytes   of the layers on disk
    """

    seconds: float
    file_seconds: float
    peak_bytes: int
    allocated: tuple[int, int]
    bound_bytes: int
    scratch_bytes: int
    file_bytes: int
    steps: list[dict[str, Any]]


def bench_embed(asked: EmbedBench, out: Path, keep: Path | None, console: Console) -> str:
    """Measure, write embed.json and embed.md into `out`, and return the Markdown."""
    out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=out, prefix=".bench-") as place:
        for edges in sorted(asked.edges):
            folder = (keep or Path(place)) / f"edges-{edges}-features-{FEATURES}"
            drawn_graph(edges, folder, console, FEATURES)
            rows += _measure_graph(folder, asked, Path(place), console)
        for folder in asked.graphs:
            rows += _measure_graph(folder, asked, Path(place), console)
    written = {"setting": _setting(asked), "rows": rows}
    page = embed_page(written)
    write_json(out / "embed.json", written)
    write_text(out / "embed.md", page + "\n")
    return page


def _measure_graph(folder: Path, asked: EmbedBench, place: Path, console: Console) -> list[dict[str, Any]]:
    """All encoders in turn."""
    graph = Graph.open(folder)
    edges = graph.indices.size // 2 if graph.undirected else graph.indices.size
    runs: dict[str, list[Embedded]] = {encoder: [] for encoder in asked.encoders}
    for _ in range(asked.turns):
        for encoder, of in runs.items():
            model = ModelConfig(encoder=encoder, layers=asked.layers, width=asked.width)
            with tempfile.TemporaryDirectory(dir=place, prefix=".embeddings-") as where:
                of.append(in_process(usable_cores(), _embed, folder, Path(where), model, asked.memory_gb))
            console.say(f"bench embed: {edges:,} edges, {encoder}: {of[-1].seconds:,.1f} s")
    common = {"graph": graph.name, "nodes": graph.num_nodes, "edges": edges, "features": graph.num_features}
    return [row for encoder, of in runs.items() for row in _rows({**common, "encoder": encoder}, of, asked.layers)]


def _embed(folder: Path, where: Path, model: ModelConfig, memory_gb: float) -> Embedded:
    torch.set_num_threads(len(usable_cores()))
    _compile_kernels(where / "compile", model, memory_gb)
    before = machine.allocated_memory()
    began = time.perf_counter()
    with most_allocated() as most:
        log = _embed_all(folder, where / "embeddings", model, memory_gb)
    seconds = time.perf_counter() - began
    lines = read_json_lines(log)
    bound = next(line["memory_bound_bytes"] for line in lines if line["event"] == "encoding")
    steps = [line for line in lines if line["event"] == "layer"]
    file = where / "embeddings/embeddings.parquet"
    return Embedded(
        seconds=seconds,
        file_seconds=seconds - sum(step["seconds"] for step in steps),
        peak_bytes=peak_memory(),
        allocated=(before, max(most)),
        bound_bytes=bound,
        scratch_bytes=sum(4 * step["width"] * step["rows"] for step in steps),
        file_bytes=file.stat().st_size,
        steps=[{name: step[name] for name in ("file", "seconds", "rows_per_s")} for step in steps],
    )


def _embed_all(folder: Path, out: Path, config: ModelConfig, memory_gb: float) -> Path:
    """Embed with first weights, and return the log."""
    graph = Graph.open(folder)
    encoder = build_model(config, graph.num_features, seed=0).encoder
    place = Workplace(scratch_folder(out), "first weights", torch.device("cpu"), memory_gb)
    log = out / "log.jsonl"
    scaling = Scaling.of(graph.features, config.feature_scaling)
    with encode_nodes(encoder, graph, scaling, place, Console(log, quiet=True)) as vectors:
        write_embeddings(out, graph, vectors, "first weights", npy=False)
    return log


def _compile_kernels(folder: Path, model: ModelConfig, memory_gb: float) -> None:
    """Embed a small graph, so that what is measured next finds its kernels ready."""
    drawn_graph(1000, folder / "graph", Console(quiet=True), FEATURES)
    _embed_all(folder / "graph", folder / "embeddings", model, memory_gb)


def _rows(place: dict[str, Any], runs: list[Embedded], layers: int) -> list[dict[str, Any]]:
    seconds = statistics.median(run.seconds for run in runs)
    middle = min(runs, key=lambda run: abs(run.seconds - seconds))
    figures = {
        "seconds": (seconds, "s"),
        "file_seconds": (middle.file_seconds, "s"),
        "nodes_per_second": (place["nodes"] / seconds, "1/s"),
        "edges_per_second": (layers * place["edges"] / seconds, "1/s"),
        "peak_memory": (max(run.peak_bytes for run in runs), "bytes"),
        "allocated": (max(run.allocated[1] - run.allocated[0] for run in runs), "bytes"),
        "memory_bound": (middle.bound_bytes, "bytes"),
        "scratch": (middle.scratch_bytes, "bytes"),
        "file": (middle.file_bytes, "bytes"),
    }
    rows = [{**place, "figure": name, "value": value, "unit": unit} for name, (value, unit) in figures.items()]
    return rows + [
        {**place, "figure": f"seconds of {step['file'].removesuffix('.raw')}", "value": step["seconds"], "unit": "s"}
        for step in middle.steps
    ]


def _setting(asked: EmbedBench) -> dict[str, Any]:
    return {
        "command": asked.command,
        "layers": asked.layers,
        "width": asked.width,
        "memory_gb": asked.memory_gb,
        "turns": asked.turns,
        "processor": processor_name(),
        "cores": len(usable_cores()),
        "versions": {"gscl_scale": __version__, "python": platform.python_version(), "torch": torch.__version__},
    }


def embed_page(written: dict[str, Any]) -> str:
    """Markdown: one sentence about the setting, and the table."""
    setting = written["setting"]
    sentence = (
        f"Embeddings of all nodes with {setting['layers']} layers of width {setting['width']}, without sampling, from "
        f"the graph folder to the Parquet file, all of it in the time; {cores_of(setting['cores'])} of "
        f"{setting['processor']}, {turns_of(setting['turns'])}. Edges per second are those of all layers. Allocated is "
        "what the work takes beside the program and the files that it maps, and in brackets what it says before it "
        "begins that this is at the most; peak memory is all of it, mapped files included where they are in memory. "
        f"`{setting['command']}` makes this table:"
    )
    return f"{sentence}\n\n{_measured(written['rows'])}"


def _measured(rows: list[dict[str, Any]]) -> str:
    figures: dict[tuple[Any, ...], dict[str, float]] = {}
    for row in rows:
        key = row["nodes"], row["edges"], row["features"], row["encoder"], row["graph"]
        figures.setdefault(key, {})[row["figure"]] = row["value"]
    lines = [
        [
            f"{nodes:,}",
            f"{edges:,}",
            f"{features:,}",
            encoder,
            f"{of['seconds']:,.1f} s",
            f"{of['file_seconds']:,.1f} s",
            f"{of['nodes_per_second']:,.0f}",
            f"{of['edges_per_second'] / 1e6:,.2f} million",
            f"{of['allocated'] / 1e9:,.2f} ({of['memory_bound'] / 1e9:,.2f}) GB",
            f"{of['peak_memory'] / 1e9:,.2f} GB",
            f"{of['scratch'] / 1e9:,.2f} GB",
        ]
        for (nodes, edges, features, encoder, _), of in figures.items()
    ]
    headers = [
        "nodes", "edges", "features", "encoder", "time", "of it the file", "nodes/s", "edges/s", "allocated (at most)",
        "peak memory", "scratch on disk",
    ]  # fmt: skip
    return table(headers, lines, left=(3,))
