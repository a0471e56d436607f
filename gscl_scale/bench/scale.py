"""`bench scale`: time, memory and disk of sampling rings as graphs grow, and an extrapolation to papers100M."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from gscl_scale.bench.engines import Round, measure_round
from gscl_scale.bench.graphs import describe_lists, graph_folders, num_edges
from gscl_scale.bench.harness import Columns, Entry, table_of
from gscl_scale.bench.options import Scale
from gscl_scale.config.sections import RingsConfig
from gscl_scale.errors import UserError
from gscl_scale.graph.graph import Graph
from gscl_scale.machine import peak_memory

PAPERS100M = {"nodes": 111_059_956, "edges": 1_615_685_872}
RINGS = RingsConfig(hops=3, width=32, per_ring=8, beyond=32, rounds=1, disk_gb=10_000)


@dataclass(frozen=True)
class Sampling(Entry):
    """One graph sampled by one number of workers."""

    graph: str
    nodes: int
    edges: int
    workers: int
    engine: str


_COLUMNS: Columns[Sampling] = {
    "nodes": lambda row: f"{row.nodes:,}",
    "edges": lambda row: f"{row.edges:,}",
    "workers": lambda row: str(row.workers),
    "engine": lambda row: row.engine,
    "time": lambda row: f"{row['seconds']:,.1f} s",
    "nodes/s": lambda row: f"{row['anchors_per_second']:,.0f}",
    "peak memory": lambda row: f"{row['peak_memory'] / 1e9:,.2f} GB",
    "written": lambda row: f"{row['bytes_written'] / 1e9:,.2f} GB",
    "short lists": lambda row: f"{row['short_share']:.2%}",
    "cores used": lambda row: f"{row['cores_used']:.1f}",
}


@dataclass(frozen=True)
class Growth:
    """time = factor * size ** exponent, and time = fixed + slope * size; both by least squares.

    The power law is fitted to the logarithms, the line to relative times, so that small sizes count as much as large
    ones.
    """

    factor: float
    exponent: float
    fixed: float
    slope: float

    @classmethod
    def fit(cls, sizes: Sequence[float], times: Sequence[float]) -> "Growth":
        """Fit the times of at least two different sizes.

        >>> round(Growth.fit([1, 10, 100], [3, 30, 300]).exponent, 6)
        1.0
        """
        x, y = np.asarray(sizes, np.float64), np.asarray(times, np.float64)
        exponent, logarithm = np.polyfit(np.log(x), np.log(y), 1)
        slope, fixed = np.polyfit(x, y, 1, w=1 / y)
        return cls(float(np.exp(logarithm)), float(exponent), float(fixed), float(slope))

    def by_power(self, size: float) -> float:
        """The time by the power law."""
        return float(self.factor * size**self.exponent)

    def by_line(self, size: float) -> float:
        """The time by the line."""
        return float(self.fixed + self.slope * size)


def bench_scale(bench: Scale) -> str:
    """Measure, write scale.json and scale.md, and return the page."""
    workers = bench.worker_numbers
    for number in workers:
        if not 1 <= number <= len(bench.core_ids):
            most = f"1 to {len(bench.core_ids)}, the cores that may be used here"
            raise UserError(f"bench scale: --workers {number}: expected {most}")
    with bench.scratch() as scratch:
        folders = graph_folders(bench, scratch)
        entries = [entry for folder in folders for entry in _measure(bench, folder, workers, scratch)]
    rings = RINGS.model_dump(mode="json", include={"hops", "engine", "width", "per_ring", "beyond", "sampling"})
    growth, told = _growth(entries)
    sentence = (
        f"Ring samples of every node of synthetic graphs with communities and hubs: k = {RINGS.hops}, "
        f"{describe_lists(RINGS)}, one round. The time includes writing the samples and "
        f"reading them back with checksums; {bench.machine}. Memory is the peak of all processes together, mapped "
        "files included. Cores used are seconds of processor per second, fewer than workers if other programs keep the "
        f"machine busy. `{bench.command}` makes this table:"
    )
    page = "\n\n".join([sentence, table_of(entries, _COLUMNS, left=[3]), *told])
    return bench.write(page, entries, {"rings": rings}, **growth)


def _measure(bench: Scale, folder: Path, workers: Sequence[int], scratch: Path) -> list[Sampling]:
    """Sample one graph with all numbers of workers in turn."""
    graph = Graph.open(folder)
    ways = {number: partial(measure_round, bench, folder, RINGS, scratch, workers=number) for number in workers}
    runs = bench.in_turns(ways, lambda key, run: f"{num_edges(graph):,} edges, {key} workers: {run.seconds:,.1f} s")
    return [_entry(graph, number, measured) for number, measured in runs.items()]


def _entry(graph: Graph, workers: int, runs: list[Round]) -> Sampling:
    seconds = statistics.median(run.seconds for run in runs)
    middle = min(runs, key=lambda run: abs(run.seconds - seconds))
    return Sampling(
        graph.name, graph.num_nodes, num_edges(graph), workers, middle.engine,
        figures={
            "seconds": (seconds, "s"),
            "verify_seconds": (middle.verify_seconds, "s"),
            "anchors_per_second": (graph.num_nodes / seconds, "1/s"),
            "peak_memory": (max(run.peak_bytes for run in runs) + peak_memory(), "bytes"),
            "bytes_written": (middle.bytes_written, "bytes"),
            "short_share": (middle.short, "share of lists"),
            "cores_used": (middle.cores_used, "cores"),
        },
    )  # fmt: skip


def _growth(entries: Sequence[Sampling]) -> tuple[dict[str, dict[str, object]], list[str]]:
    """Fits at the most workers, the speedup on the largest graph and the extrapolation: JSON, and paragraphs."""
    most, fewest = max(entry.workers for entry in entries), min(entry.workers for entry in entries)
    at_most = [entry for entry in entries if entry.workers == most]
    largest = max(at_most, key=lambda entry: entry.edges)
    written: dict[str, dict[str, object]] = {"largest": {"edges": largest.edges, "nodes": largest.nodes}}
    told = []
    if fewest < most:
        alone = next(entry for entry in entries if entry.workers == fewest and entry.edges == largest.edges)
        speedup = alone["seconds"] / largest["seconds"]
        written["speedup"] = {"workers": [fewest, most], "value": speedup}
        told.append(f"On the largest graph, {most} workers are {speedup:.2f} times as fast as {fewest}.")
    if len({entry.edges for entry in at_most}) > 1:
        growth = Growth.fit([entry.edges for entry in at_most], [entry["seconds"] for entry in at_most])
        by_power, by_line = (fit(PAPERS100M["edges"]) * most / 60 for fit in (growth.by_power, growth.by_line))
        written["fit"] = {**asdict(growth), "workers": most}
        written["papers100m"] = {
            **PAPERS100M, "core_minutes_by_power": by_power, "core_minutes_by_line": by_line
        }  # fmt: skip
        told.append(
            f"With {most} workers, time grows as edges to the power of {growth.exponent:.2f} (a straight line in "
            f"logarithms); as a line it is {growth.fixed:.2f} s and {growth.slope * 1e6:.2f} s per million edges."
        )
        told.append(
            f"An extrapolation, not a measurement: papers100M ({PAPERS100M['nodes']:,} nodes, {PAPERS100M['edges']:,} "
            f"edges) would take {by_line:,.0f} core-minutes by the line and {by_power:,.0f} by the power law, on a "
            "machine whose memory holds all mapped files."
        )
    return written, told
