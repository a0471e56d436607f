"""`bench rings` on graphs whose balls hold all nodes: does `auto` choose the faster engine, is its estimate right?"""

import shutil
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding
from gscl_scale.bench.engines import Whole, engines_for, measure_whole
from gscl_scale.config.graphs import MemoryGraph
from gscl_scale.config.sections import RingsConfig
from gscl_scale.graph.draft import Draft, write_graph
from gscl_scale.graph.graph import Graph
from gscl_scale.rings.choose_engine import Choice, choose_engine
from gscl_scale.rings.sample import Lists, RingSample
from gscl_scale.runtime.console import Console
from gscl_scale.shards.reader import Samples


@dataclass(frozen=True)
class BallSizes:
    """Nodes of the graphs that are drawn, and the mean degree of the random one."""

    star: int = 100_001
    random: int = 50_000
    mean_degree: int = 50


@dataclass
class BallGraph:
    """A graph at the depth where a ball is the whole graph, and its measurements so far.

    differs   where the samples of the two engines differ, if they do
    """

    graph: Graph
    rings: RingsConfig
    choice: Choice
    wholes: dict[str, list[Whole]] = field(default_factory=dict)
    differs: str = ""


@dataclass(frozen=True)
class BallRow:
    """One figure of one engine on one graph."""

    graph: str
    competitor: str
    hops: int
    figure: str
    value: float
    unit: str


def measure_large_balls(
    graph: Graph, sizes: BallSizes, turns: int, cores: list[int], place: Path, console: Console
) -> dict[str, Any]:
    """A whole round of each engine on each graph in turn; the graphs and the rows of what was measured."""
    cases = [_case(made, hops) for made, hops in _draw(graph, sizes, place)]
    engines = engines_for(RingsConfig())
    with console.progress("bench rings, large balls", turns * len(cases) * len(engines), "measurements") as advance:
        for turn in range(turns):
            for case in cases:
                for engine in engines:
                    chosen = case.rings.model_copy(update={"engine": engine})
                    kept = place / f"{engine}-samples" if turn == 0 and engine != "auto" else None
                    whole = measure_whole(case.graph.folder, chosen, cores, place, kept)
                    case.wholes.setdefault(engine, []).append(whole)
                    advance(1)
                if turn == 0:
                    case.differs = _compare(place / "sketch-samples", place / "exact-samples")
    return {
        "graphs": [_told(case) for case in cases],
        "rows": [asdict(row) for case in cases for row in _rows(case)],
    }


# --- graphs ----------------------------------------------------------------------------------------------------------


def _draw(graph: Graph, sizes: BallSizes, place: Path) -> Iterator[tuple[Graph, int]]:
    """A star, a graph with one node more that is joined to all, a dense random graph; the depth at which all is near.

    The hub of the star is its first node, the one more is the last: auto's pilot takes neither.
    """
    hub = np.zeros(sizes.star - 1, np.int64)
    yield _write(f"star of {sizes.star:,} nodes", sizes.star, [(hub, 1 + np.arange(hub.size))], place / "star"), 2
    yield _with_hub(graph, place / "with-hub"), 2
    ends = seeding.generator("bench-large-balls").integers(0, sizes.random, (2, sizes.random * sizes.mean_degree // 2))
    name = f"random, {sizes.random:,} nodes, mean degree {sizes.mean_degree}"
    yield _write(name, sizes.random, [(ends[0], ends[1])], place / "random"), 4


def _with_hub(graph: Graph, folder: Path) -> Graph:
    """The graph with one node more, joined to all both ways."""
    nodes = np.arange(graph.num_nodes)
    hub = np.full(nodes.size, graph.num_nodes)
    edges = [(np.repeat(nodes, np.diff(graph.indptr)), graph.indices), (hub, nodes), (nodes, hub)]
    return _write(f"{graph.name} with a node joined to all", nodes.size + 1, edges, folder, graph.undirected)


def _write(
    name: str,
    num_nodes: int,
    edges: Sequence[tuple[npt.NDArray[Any], npt.NDArray[Any]]],
    folder: Path,
    undirected: bool = True,
) -> Graph:
    features = np.zeros((num_nodes, 1), np.float32)
    draft = Draft(name=name, origin="bench rings", num_nodes=num_nodes, edges=edges, features=features)
    return write_graph(draft, MemoryGraph(undirected=undirected), folder)


def _case(graph: Graph, hops: int) -> BallGraph:
    rings = RingsConfig(hops=hops)
    return BallGraph(graph, rings, choose_engine(graph.indptr, graph.indices, rings))


# --- samples ---------------------------------------------------------------------------------------------------------


def _compare(one: Path, other: Path) -> str:
    """The first difference of two samples folders, which are removed; nothing where there is none."""
    rounds = [Samples.open(folder).round(0).parts for folder in (one, other)]
    found = (difference(mine, theirs) for mine, theirs in zip(*rounds, strict=True))
    differs = next((f"{column} of part {part}" for part, column in enumerate(found) if column), "")
    shutil.rmtree(one)
    shutil.rmtree(other)
    return differs


def difference(one: RingSample, other: RingSample) -> str:
    """The first column that is not the same in two samples of the same anchors; nothing where all are.

    A ring size may differ where one of the two is an estimate.
    """
    known = one.ring_size_exact & other.ring_size_exact
    columns = zip(_columns(one, known), _columns(other, known), strict=True)
    return next((name for (name, mine), (_, theirs) in columns if not np.array_equal(mine, theirs)), "")


def _columns(sample: RingSample, known: npt.NDArray[np.bool_]) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    lists: dict[str, Lists | None] = {f"ring_{hop}": ring for hop, ring in enumerate(sample.rings, start=1)}
    for name, of in {**lists, "beyond": sample.beyond, "near": sample.near}.items():
        if of is not None:
            yield name, of.offsets
            yield name, of.members
    yield from (("anchor", sample.anchors), ("decided", sample.decided), ("ring_size", sample.ring_size[known]))


# --- telling ---------------------------------------------------------------------------------------------------------


def _told(case: BallGraph) -> dict[str, Any]:
    return {
        "graph": case.graph.name,
        "nodes": case.graph.num_nodes,
        "entries": int(case.graph.indices.size),
        "hops": case.rings.hops,
        "engine_chosen": case.choice.engine,
        "samples_differ": case.differs,
    }


def _rows(case: BallGraph) -> Iterator[BallRow]:
    """The figures of each engine; `auto` has the estimate of the engine that it chose."""
    seconds = {engine: statistics.median(whole.seconds for whole in of) for engine, of in case.wholes.items()}
    core_s = {engine: statistics.median(_core_s(whole) for whole in of) for engine, of in case.wholes.items()}
    estimates = {"exact": case.choice.exact_s, "sketch": case.choice.sketch_s}
    for engine, wholes in case.wholes.items():
        estimate = estimates[case.choice.engine if engine == "auto" else engine]
        assert estimate is not None
        figures = {
            "seconds": (seconds[engine], "s"),
            "seconds_lowest": (min(whole.seconds for whole in wholes), "s"),
            "seconds_highest": (max(whole.seconds for whole in wholes), "s"),
            "seconds_to_faster_engine": (seconds[engine] / min(seconds["sketch"], seconds["exact"]), "times"),
            "core_seconds": (core_s[engine], "s"),
            "core_seconds_to_faster_engine": (core_s[engine] / min(core_s["sketch"], core_s["exact"]), "times"),
            "core_seconds_estimated": (estimate, "s"),
            "measured_to_estimated": (core_s[engine] / estimate, "times"),
            "peak_memory": (max(whole.peak_bytes for whole in wholes), "bytes"),
            "short_share": (wholes[0].short, "share of lists"),
        }
        for figure, (value, unit) in figures.items():
            yield BallRow(case.graph.name, engine, case.rings.hops, figure, value, unit)


def _core_s(whole: Whole) -> float:
    """Seconds of processor without the reading back: what `auto` estimates, and others on the machine hardly change."""
    return whole.cores_used * (whole.seconds - whole.verify_seconds)
