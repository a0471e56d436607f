"""`bench scale`: time, memory and disk of ring extraction as graphs grow, and what a very large one would take."""

import platform
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gscl_scale import __version__
from gscl_scale.bench.engines import Whole, measure_whole
from gscl_scale.bench.fit import Growth, fit_growth
from gscl_scale.bench.processes import in_process
from gscl_scale.bench.scale_page import scale_page
from gscl_scale.config import RingsConfig, SyntheticGraph
from gscl_scale.errors import UserError
from gscl_scale.files import write_json, write_text
from gscl_scale.graph import Graph, write_graph
from gscl_scale.graph.sources import read
from gscl_scale.machine import peak_memory, processor_name, usable_cores
from gscl_scale.runtime import Console

EDGES_PER_NODE = 10
PAPERS100M = {"nodes": 111_059_956, "edges": 1_615_685_872}
RINGS = RingsConfig(hops=3, width=32, per_ring=8, beyond=32, rounds=1, disk_gb=10_000)


@dataclass(frozen=True)
class ScaleBench:
    """What to measure: graphs to draw by their edges, graph folders that exist, how many workers, and how often.

    command   what to type to measure this again
    """

    edges: Sequence[int]
    graphs: Sequence[Path]
    workers: Sequence[int]
    turns: int = 1
    command: str = ""


@dataclass(frozen=True)
class Measured:
    """One graph with one number of workers."""

    graph: str
    nodes: int
    edges: int
    workers: int
    runs: list[Whole]
    parent_bytes: int

    @property
    def seconds(self) -> float:
        """The middle of the whole times."""
        return statistics.median(run.seconds for run in self.runs)


def bench_scale(asked: ScaleBench, out: Path, keep: Path | None, console: Console) -> str:
    """Measure, write scale.json and scale.md into `out`, and return the Markdown."""
    _check_workers(asked.workers)
    out.mkdir(parents=True, exist_ok=True)
    measured: list[Measured] = []
    with tempfile.TemporaryDirectory(dir=out, prefix=".bench-") as place:
        for edges in sorted(asked.edges):
            folder = (keep or Path(place)) / f"edges-{edges}"
            drawn_graph(edges, folder, console)
            measured += _measure_graph(folder, asked, Path(place), console)
        for folder in asked.graphs:
            measured += _measure_graph(folder, asked, Path(place), console)
    written = {"setting": _setting(asked), "rows": _rows(measured), **_growth(measured)}
    page = scale_page(written)
    write_json(out / "scale.json", written)
    write_text(out / "scale.md", page + "\n")
    return page


def drawn_graph(edges: int, folder: Path, console: Console, num_features: int = 1) -> None:
    """Draw a synthetic graph with so many edges into a folder, in a process of its own, unless it is there."""
    if (folder / "manifest.json").exists():
        return
    console.say(f"bench: drawing a graph of {edges:,} edges")
    in_process(usable_cores(), _draw, edges, folder, num_features)


def _draw(edges: int, folder: Path, num_features: int) -> None:
    nodes = max(100, edges // EDGES_PER_NODE)
    config = SyntheticGraph(
        source="synthetic", preset="large", num_nodes=nodes, mean_degree=2 * edges / nodes, num_features=num_features
    )
    write_graph(read(config), config, folder)


def _check_workers(workers: Sequence[int]) -> None:
    cores = len(usable_cores())
    for number in workers:
        if not 1 <= number <= cores:
            raise UserError(f"bench scale: --workers {number}: expected 1 to {cores}, the cores that may be used here")


def _measure_graph(folder: Path, asked: ScaleBench, place: Path, console: Console) -> list[Measured]:
    """All numbers of workers in turn."""
    graph = Graph.open(folder)
    nodes, edges = graph.num_nodes, graph.indices.size // 2 if graph.undirected else graph.indices.size
    runs: dict[int, list[Whole]] = {number: [] for number in asked.workers}
    for _ in range(asked.turns):
        for number, of in runs.items():
            of.append(measure_whole(folder, RINGS, usable_cores()[:number], place))
            console.say(f"bench scale: {edges:,} edges, {number} workers: {of[-1].seconds:,.1f} s")
    return [Measured(graph.name, nodes, int(edges), number, of, peak_memory()) for number, of in runs.items()]


# --- telling ---------------------------------------------------------------------------------------------------------


def _rows(measured: Sequence[Measured]) -> list[dict[str, Any]]:
    rows = []
    for one in measured:
        middle = min(one.runs, key=lambda run: abs(run.seconds - one.seconds))
        figures = {
            "seconds": (one.seconds, "s"),
            "verify_seconds": (middle.verify_seconds, "s"),
            "anchors_per_second": (one.nodes / one.seconds, "1/s"),
            "peak_memory": (max(run.peak_bytes for run in one.runs) + one.parent_bytes, "bytes"),
            "bytes_written": (middle.bytes_written, "bytes"),
            "short_share": (middle.short, "share of lists"),
            "cores_used": (middle.cores_used, "cores"),
        }
        place = {
            "graph": one.graph, "nodes": one.nodes, "edges": one.edges, "workers": one.workers, "engine": middle.engine
        }  # fmt: skip
        rows += [{**place, "figure": name, "value": value, "unit": unit} for name, (value, unit) in figures.items()]
    return rows


def _growth(measured: Sequence[Measured]) -> dict[str, Any]:
    """Fits over the graphs at the most workers, the gain by workers on the largest, and papers100M extrapolated."""
    most, fewest = max(one.workers for one in measured), min(one.workers for one in measured)
    at_most = [one for one in measured if one.workers == most]
    largest = max(at_most, key=lambda one: one.edges)
    found: dict[str, Any] = {"largest": {"edges": largest.edges, "nodes": largest.nodes}}
    if fewest < most:
        alone = next(one for one in measured if one.workers == fewest and one.edges == largest.edges)
        found["speedup"] = {"workers": [fewest, most], "value": alone.seconds / largest.seconds}
    if len({one.edges for one in at_most}) > 1:
        growth = fit_growth([one.edges for one in at_most], [one.seconds for one in at_most])
        found["fit"] = {**asdict(growth), "workers": most}
        found["papers100m"] = {**PAPERS100M, **_extrapolated(growth, most)}
    return found


def _extrapolated(growth: Growth, workers: int) -> dict[str, float]:
    """Core-minutes: the time at so many workers, times them."""
    edges = PAPERS100M["edges"]
    return {
        "core_minutes_by_power": growth.by_power(edges) * workers / 60,
        "core_minutes_by_line": growth.by_line(edges) * workers / 60,
    }


def _setting(asked: ScaleBench) -> dict[str, Any]:
    return {
        "command": asked.command,
        "rings": RINGS.model_dump(mode="json", include={"hops", "engine", "width", "per_ring", "beyond", "sampling"}),
        "turns": asked.turns,
        "processor": processor_name(),
        "cores": len(usable_cores()),
        "versions": {"gscl_scale": __version__, "python": platform.python_version()},
    }
