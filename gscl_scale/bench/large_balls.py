"""`bench rings` on graphs whose balls hold all nodes: does `auto` choose the faster engine, is its estimate right?"""

import shutil
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding
from gscl_scale.bench.engines import Round, engines_for, measure_round
from gscl_scale.bench.graphs import describe_lists, edges_of
from gscl_scale.bench.harness import Bench, Columns, Entry, rows_of, table_of
from gscl_scale.config.graphs import MemoryGraph
from gscl_scale.config.sections import RingsConfig
from gscl_scale.graph.draft import GraphDraft, write_graph
from gscl_scale.graph.graph import Graph
from gscl_scale.rings.choose_engine import Choice, choose_engine
from gscl_scale.rings.sample import Lists, RingSample
from gscl_scale.shards.reader import Samples


@dataclass(frozen=True)
class BallSizes:
    """Nodes of the star and of the random graph that are drawn, and the mean degree of the latter."""

    star: int = 100_001
    random: int = 50_000
    mean_degree: int = 50


SIZES = BallSizes()


@dataclass(frozen=True)
class BallGraph:
    """A graph at the depth where a ball holds all nodes, and the rounds of each engine.

    differs   the first column in which the samples of the two engines differ, if there is one
    """

    graph: Graph
    rings: RingsConfig
    choice: Choice
    rounds: dict[str, list[Round]]
    differs: str


@dataclass(frozen=True)
class BallEntry(Entry):
    """One engine on one graph."""

    graph: str
    competitor: str
    hops: int


def measure_large_balls(bench: Bench, graph: Graph, scratch: Path) -> list[BallGraph]:
    """Measure a whole round of each engine on each graph."""
    bench.say("drawing three graphs whose balls hold all nodes")
    return [_measure(bench, drawn, hops, scratch) for drawn, hops in draw_graphs(graph, SIZES, scratch)]


def _measure(bench: Bench, graph: Graph, hops: int, scratch: Path) -> BallGraph:
    rings = RingsConfig(hops=hops)
    kept = {engine: scratch / f"{engine}-samples" for engine in ("sketch", "exact")}
    ways = {
        engine: partial(
            measure_round, bench, graph.folder, rings.model_copy(update={"engine": engine}), scratch,
            samples=kept.get(engine),
        )
        for engine in engines_for(rings)
    }  # fmt: skip
    rounds = bench.in_turns(ways, lambda engine, run: f"{graph.name}, {engine}: {run.seconds:.2f} s")
    choice = choose_engine(graph.indptr, graph.indices, rings)
    return BallGraph(graph, rings, choice, rounds, _compare(*kept.values()))


# --- graphs ----------------------------------------------------------------------------------------------------------


def draw_graphs(graph: Graph, sizes: BallSizes, place: Path) -> Iterator[tuple[Graph, int]]:
    """Yield a star, the graph with one more node joined to all, and a dense random graph, with the depth of such balls.

    The hub of the star is its first node, the additional node is the last: the pilot of `auto` takes neither.
    """
    hub = np.zeros(sizes.star - 1, np.int64)
    yield _write(f"star of {sizes.star:,} nodes", sizes.star, [(hub, 1 + np.arange(hub.size))], place / "star"), 2
    nodes = np.arange(graph.num_nodes)
    hub = np.full(nodes.size, graph.num_nodes)
    edges = [edges_of(graph, both_ways=True), (hub, nodes), (nodes, hub)]
    name = f"{graph.name} with a node joined to all"
    yield _write(name, nodes.size + 1, edges, place / "with-hub", graph.undirected), 2
    ends = seeding.generator("bench-large-balls").integers(0, sizes.random, (2, sizes.random * sizes.mean_degree // 2))
    name = f"random, {sizes.random:,} nodes, mean degree {sizes.mean_degree}"
    yield _write(name, sizes.random, [(ends[0], ends[1])], place / "random"), 4


def _write(
    name: str, num_nodes: int, edges: Sequence[tuple[npt.NDArray[Any], npt.NDArray[Any]]], folder: Path,
    undirected: bool = True,
) -> Graph:  # fmt: skip
    features = np.zeros((num_nodes, 1), np.float32)
    draft = GraphDraft(name=name, origin="bench rings", num_nodes=num_nodes, edges=edges, features=features)
    return write_graph(draft, MemoryGraph(undirected=undirected), folder)


# --- samples ---------------------------------------------------------------------------------------------------------


def _compare(one: Path, other: Path) -> str:
    """The first difference of two samples folders, which are then deleted; empty if there is none."""
    rounds = [Samples.open(folder).round(0).parts for folder in (one, other)]
    columns = (difference(mine, theirs) for mine, theirs in zip(*rounds, strict=True))
    differs = next((f"{column} of part {part}" for part, column in enumerate(columns) if column), "")
    shutil.rmtree(one)
    shutil.rmtree(other)
    return differs


def difference(one: RingSample, other: RingSample) -> str:
    """The first column that differs in two samples of the same anchors; empty if all are equal.

    A ring size may differ where one of the two is an estimate.
    """
    exact = one.ring_size_exact & other.ring_size_exact
    columns = zip(_columns(one, exact), _columns(other, exact), strict=True)
    return next((name for (name, mine), (_, theirs) in columns if not np.array_equal(mine, theirs)), "")


def _columns(sample: RingSample, exact: npt.NDArray[np.bool_]) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    rings: dict[str, Lists | None] = {f"ring_{hop}": ring for hop, ring in enumerate(sample.rings, start=1)}
    for name, lists in {**rings, "beyond": sample.beyond, "near": sample.near}.items():
        if lists is not None:
            yield name, lists.offsets
            yield name, lists.members
    yield from (("anchor", sample.anchors), ("decided", sample.decided), ("ring_size", sample.ring_size[exact]))


# --- figures and the section of the page -----------------------------------------------------------------------------


def _entries(one: BallGraph) -> Iterator[BallEntry]:
    """The figures of each engine; `auto` has the estimate of the engine that it chose."""
    seconds = {engine: statistics.median(run.seconds for run in runs) for engine, runs in one.rounds.items()}
    core_s = {engine: statistics.median(map(core_seconds, runs)) for engine, runs in one.rounds.items()}
    estimates = {"exact": one.choice.exact_s, "sketch": one.choice.sketch_s}
    for engine, runs in one.rounds.items():
        estimate = estimates[one.choice.engine if engine == "auto" else engine]
        assert estimate is not None
        yield BallEntry(
            one.graph.name, engine, one.rings.hops,
            figures={
                "seconds": (seconds[engine], "s"),
                "seconds_lowest": (min(run.seconds for run in runs), "s"),
                "seconds_highest": (max(run.seconds for run in runs), "s"),
                "seconds_to_faster_engine": (seconds[engine] / min(seconds["sketch"], seconds["exact"]), "times"),
                "core_seconds": (core_s[engine], "s"),
                "core_seconds_to_faster_engine": (core_s[engine] / min(core_s["sketch"], core_s["exact"]), "times"),
                "core_seconds_estimated": (estimate, "s"),
                "measured_to_estimated": (core_s[engine] / estimate, "times"),
                "peak_memory": (max(run.peak_bytes for run in runs), "bytes"),
                "short_share": (runs[0].short, "share of lists"),
            },
        )  # fmt: skip


def as_json(graphs: Sequence[BallGraph]) -> dict[str, object]:
    """The graphs and the rows of figures."""
    about = [
        {
            "graph": one.graph.name, "nodes": one.graph.num_nodes, "entries": int(one.graph.indices.size),
            "hops": one.rings.hops, "engine_chosen": one.choice.engine, "samples_differ": one.differs,
        }
        for one in graphs
    ]  # fmt: skip
    return {"graphs": about, "rows": rows_of(entry for one in graphs for entry in _entries(one))}


def core_seconds(measured: Round) -> float:
    """Processor time without the reading back: what `auto` estimates; other programs hardly change it."""
    return measured.cores_used * (measured.seconds - measured.verify_seconds)


def large_balls_section(bench: Bench, graphs: Sequence[BallGraph]) -> list[str]:
    """A heading, a sentence about the figures, the table, and whether the samples of the engines are equal."""
    rings, named = RingsConfig(), {one.graph.name: one for one in graphs}
    labels = {"auto": "**auto** (it chose {})"}
    columns: Columns[BallEntry] = {
        "graph": lambda row: row.graph,
        "nodes": lambda row: f"{named[row.graph].graph.num_nodes:,}",
        "entries": lambda row: f"{named[row.graph].graph.indices.size:,}",
        "k": lambda row: str(row.hops),
        "engine": lambda row: labels.get(row.competitor, row.competitor).format(named[row.graph].choice.engine),
        "time": lambda row: f"{row['seconds']:.2f} s",
        "time / faster": lambda row: f"{row['seconds_to_faster_engine']:.2f} x",
        "core time": lambda row: f"{row['core_seconds']:.2f} s",
        "core time / faster": lambda row: f"{row['core_seconds_to_faster_engine']:.2f} x",
        "estimate": lambda row: f"{row['core_seconds_estimated']:.2f} s",
        "core time / estimate": lambda row: f"{row['measured_to_estimated']:.2f} x",
    }
    sentence = (
        f"A round of *every* node with the default rings ({describe_lists(rings)}), written and read back with "
        "checksums, on graphs where k hops lead to all nodes. `Time` is of all that, in a fresh process with compiled "
        f"kernels on {bench.machine}. `Core time` is processor time without the reading back, `/ faster` compares it "
        "with the lower one of `sketch` and `exact`, `estimate` is the core time that `auto` expects. "
        f"`{bench.command}` makes this table:"
    )
    equal = "`sketch` and `exact` have equal bytes in all columns but in ring sizes that are estimates"
    notes = [
        f"- {one.graph.name}: "
        + (f"the samples of `sketch` and `exact` **differ**, first in {one.differs}" if one.differs else equal)
        for one in graphs
    ]
    table = table_of([entry for one in graphs for entry in _entries(one)], columns, left=[0, 4])
    return ["## Graphs whose balls hold all nodes", sentence, table, "\n".join(notes)]
