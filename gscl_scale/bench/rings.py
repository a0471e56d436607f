"""Anchors per second of ring extraction: our engines and igraph, one core each, in turn."""

import importlib.util
import multiprocessing
import os
import platform
import resource
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale import __version__, seeding
from gscl_scale.config import Config, RingsConfig
from gscl_scale.errors import UserError
from gscl_scale.files import publish, write_json
from gscl_scale.graph import Graph, write_graph
from gscl_scale.graph.sources import read
from gscl_scale.rings import draw_priorities, exact_rings
from gscl_scale.runtime import Console

_TURNS = 3
_MOST_ANCHORS = 200_000
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")

Work = Callable[[npt.NDArray[np.int64]], object]


@dataclass(frozen=True)
class Measurement:
    """One competitor at one depth: medians over the turns, the highest peak of memory."""

    competitor: str
    hops: int
    anchors_per_second: float
    ratio_to_igraph: float
    peak_mb: float
    anchors_measured: int


def bench_rings(config: Config, hops: list[int], seconds: float, out: Path, console: Console) -> str:
    """Measure, write rings.json and rings.md into `out`, and return the Markdown."""
    if importlib.util.find_spec("igraph") is None:
        raise UserError("bench rings: igraph is not installed; install the extra: pip install 'gscl-scale[dev]'")
    folder = out / "graph"
    graph = write_graph(read(config.graph), config.graph, folder)
    rows = []
    for depth in hops:
        rings = config.rings.model_copy(update={"hops": depth})
        rows += _compare(folder, rings, seconds, console)
    markdown = _markdown(graph, rows, seconds)
    write_json(out / "rings.json", {**_setting(graph, config), "rows": [asdict(row) for row in rows]})
    with publish(out / "rings.md") as temporary:
        temporary.write_text(markdown + "\n", encoding="utf-8")
    return markdown


def _compare(folder: Path, rings: RingsConfig, seconds: float, console: Console) -> list[Measurement]:
    """Our engine and igraph in turn, each time in a process of its own."""
    turns: dict[str, list[tuple[float, float, int]]] = {"exact": [], "igraph": []}
    with console.progress(f"{rings.hops} hops", _TURNS * len(turns), unit="measurements") as advance:
        for _ in range(_TURNS):
            for name, results in turns.items():
                with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _single_thread) as pool:
                    results.append(pool.submit(_measure, name, folder, rings, seconds).result())
                advance(1)
    rates = {name: statistics.median(rate for rate, _, _ in results) for name, results in turns.items()}
    return [
        Measurement(
            competitor=name,
            hops=rings.hops,
            anchors_per_second=rates[name],
            ratio_to_igraph=rates[name] / rates["igraph"],
            peak_mb=max(peak for _, peak, _ in results),
            anchors_measured=sum(count for _, _, count in results),
        )
        for name, results in turns.items()
    ]


def _single_thread() -> None:
    for name in _THREAD_VARIABLES:
        os.environ[name] = "1"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def _measure(name: str, folder: Path, rings: RingsConfig, seconds: float) -> tuple[float, float, int]:
    """(anchors per second, peak memory in MB, anchors measured) of one competitor in this process."""
    graph = Graph.open(folder)
    work = {"exact": _exact, "igraph": _igraph}[name](graph, rings)
    anchors = seeding.generator("bench").permutation(graph.num_nodes)[:_MOST_ANCHORS]
    work(anchors[:256])  # compile, and touch the graph
    size = 64
    done, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < seconds and done < anchors.size:
        work(anchors[done : done + size])
        done += min(size, anchors.size - done)
        size = min(2 * size, 4096) if spent < seconds / 8 else size
    return done / (time.perf_counter() - began), _peak_mb(), done


def _peak_mb() -> float:
    """Peak memory of this process alone: ru_maxrss of a new process begins with its parent's on Linux."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _exact(graph: Graph, rings: RingsConfig) -> Work:
    priorities = draw_priorities(graph.identities(), rings.seed, 0, None, graph.indices.dtype.type)
    return lambda anchors: exact_rings(graph.indptr, graph.indices, np.sort(anchors), priorities, rings)


def _igraph(graph: Graph, rings: RingsConfig) -> Work:
    """One call per hop, as igraph tells rings apart; it lists whole rings and draws nothing."""
    import igraph

    row = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    once = row <= graph.indices if graph.undirected else np.ones(row.size, bool)
    edges = np.stack([row[once], graph.indices[once]], axis=1)
    peer = igraph.Graph(n=graph.num_nodes, edges=edges, directed=not graph.undirected)
    return lambda anchors: [
        peer.neighborhood(anchors.tolist(), order=hop, mindist=hop, mode="out") for hop in range(1, rings.hops + 1)
    ]


def _setting(graph: Graph, config: Config) -> dict[str, Any]:
    import igraph

    return {
        "graph": graph.name,
        "nodes": graph.num_nodes,
        "entries": int(graph.indices.size),
        "rings": config.rings.model_dump(mode="json", include={"width", "per_ring", "beyond", "sampling"}),
        "versions": {"gscl_scale": __version__, "igraph": igraph.__version__, "python": platform.python_version()},
        "machine": {"cores_used": 1, "processor": platform.machine()},
    }


def _markdown(graph: Graph, rows: list[Measurement], seconds: float) -> str:
    lines = [
        f"Rings of {graph.name}: {graph.num_nodes:,} nodes, {graph.indices.size:,} directed entries; one core each, "
        f"in turn, median of {_TURNS} times {seconds:g} s.",
        "",
        "| hops | engine | anchors/s | against igraph | peak memory |",
        "|---:|---|---:|---:|---:|",
    ]
    lines += [
        f"| {row.hops} | {row.competitor} | {row.anchors_per_second:,.0f} | {row.ratio_to_igraph:.1f} x "
        f"| {row.peak_mb:,.0f} MB |"
        for row in rows
    ]
    return "\n".join(lines)
