"""`bench scale`: time, memory and disk of ring extraction as graphs grow, and what a very large one would take."""

import platform
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gscl_scale.bench.engines import Whole, measure_whole
from gscl_scale.bench.fit import Growth, fit_growth
from gscl_scale.bench.processes import in_process
from gscl_scale.config.graphs import SyntheticGraph
from gscl_scale.config.sections import RingsConfig
from gscl_scale.errors import UserError
from gscl_scale.graph.draft import write_graph
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.sources.read import read
from gscl_scale.io.atomic import write_text
from gscl_scale.io.json import write_json
from gscl_scale.machine import peak_memory, processor_name, usable_cores
from gscl_scale.runtime.console import Console
from gscl_scale.text import cores_of, table, turns_of
from gscl_scale.version import __version__

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


def scale_page(written: dict[str, Any]) -> str:
    """Markdown: one sentence about the setting, the table, and what follows from it."""
    setting, rings = written["setting"], written["setting"]["rings"]
    sentence = (
        f"Ring samples of every node of synthetic graphs with communities and hubs: k = {rings['hops']}, "
        f"{rings['per_ring']} per ring, {rings['beyond']} beyond, width {rings['width']}, one round, written and read "
        f"back with checksums, all of it in the time; {cores_of(setting['cores'])} of {setting['processor']}, "
        f"{turns_of(setting['turns'])}. Memory is the peak of all processes together, files that they map included; "
        "cores used are seconds of processor per second, fewer than workers where others keep the machine busy. "
        f"`{setting['command']}` makes this table:"
    )
    return "\n\n".join([sentence, _measured(written["rows"]), *_found(written)])


def _measured(rows: list[dict[str, Any]]) -> str:
    figures: dict[tuple[int, int, int, str], dict[str, float]] = {}
    for row in rows:
        key = row["edges"], row["nodes"], row["workers"], row["engine"]
        figures.setdefault(key, {})[row["figure"]] = row["value"]
    lines = [
        [
            f"{nodes:,}",
            f"{edges:,}",
            str(workers),
            engine,
            f"{of['seconds']:,.1f} s",
            f"{of['anchors_per_second']:,.0f}",
            f"{of['peak_memory'] / 1e9:,.2f} GB",
            f"{of['bytes_written'] / 1e9:,.2f} GB",
            f"{of['short_share']:.2%}",
            f"{of['cores_used']:.1f}",
        ]
        for (edges, nodes, workers, engine), of in figures.items()
    ]
    headers = [
        "nodes",
        "edges",
        "workers",
        "engine",
        "time",
        "nodes/s",
        "peak memory",
        "written",
        "short lists",
        "cores used",
    ]
    return table(headers, lines, left=(3,))


def _found(written: dict[str, Any]) -> list[str]:
    """What the table says about workers and growth, a paragraph each."""
    told = []
    if "speedup" in written:
        fewest, most = written["speedup"]["workers"]
        told.append(
            f"On the largest graph, {most} workers are {written['speedup']['value']:.2f} times as fast as {fewest}."
        )
    if "fit" in written:
        fit, papers = written["fit"], written["papers100m"]
        told.append(
            f"With {fit['workers']} workers time grows as edges to the power of {fit['exponent']:.2f} (a straight line "
            f"in logarithms); as a line it is {fit['fixed']:.2f} s and {fit['slope'] * 1e6:.2f} s per million edges."
        )
        told.append(
            f"An extrapolation, not a measurement: papers100M ({papers['nodes']:,} nodes, {papers['edges']:,} edges) "
            f"would take {papers['core_minutes_by_line']:,.0f} core-minutes by the line and "
            f"{papers['core_minutes_by_power']:,.0f} by the power law, on a machine whose memory holds what is mapped."
        )
    return told
