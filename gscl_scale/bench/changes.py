"""`bench changes`: samples since an earlier run compared with samples from nothing, after some edges have changed."""

import filecmp
import shutil
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gscl_scale import seeding
from gscl_scale.bench.engines import compile_kernels, engines_for, sample
from gscl_scale.bench.graphs import config_graph, describe, describe_lists, edges_of, graph_setting
from gscl_scale.bench.harness import Columns, Line, events, table_of
from gscl_scale.bench.options import Changes
from gscl_scale.config.graphs import MemoryGraph
from gscl_scale.config.sections import RingsConfig
from gscl_scale.errors import RunError
from gscl_scale.graph.draft import GraphDraft, write_graph
from gscl_scale.graph.graph import Graph
from gscl_scale.machine import usable_cores


@dataclass(frozen=True)
class Update(Line):
    """One engine after one share of the edges changed: median times, and what `--since` sampled and wrote again."""

    engine: str
    hops: int
    share: float
    edges_changed: int
    from_nothing_s: float
    since_s: float
    ratio: float
    anchors: int
    anchors_again: int
    parts: int
    parts_written: int


_COLUMNS: Columns[Update] = {
    "edges changed": lambda row: f"{row.edges_changed:,} ({row.share:.3%})",
    "engine": lambda row: row.engine,
    "from nothing": lambda row: f"{row.from_nothing_s:.2f} s",
    "since": lambda row: f"{row.since_s:.2f} s",
    "ratio": lambda row: f"{row.ratio:.1f} x",
    "anchors sampled again": lambda row: f"{row.anchors_again:,} of {row.anchors:,}",
    "parts written": lambda row: f"{row.parts_written} of {row.parts}",
}


def bench_changes(bench: Changes) -> str:
    """Measure, write changes.json and changes.md, and return the page."""
    rows: list[Update] = []
    rings = bench.config.rings
    with bench.scratch() as folder:
        graph = config_graph(bench, bench.config, folder)
        for share in bench.shares:
            changed = folder / f"changed-{share:g}"
            number = bench.alone(_change, folder / "graph", changed, share)
            for engine in engines_for(rings)[-2:]:  # not auto, which is one of the others
                chosen = rings.model_copy(update={"engine": engine})
                bench.say(f"{share:.3%} of the edges changed, engine {engine}")
                rows.append(bench.alone(_measure, folder, changed, chosen, share, number, bench.turns))
    page = (
        f"Samples of {describe(graph, f'k = {rings.hops}', describe_lists(rings))} after a share of its edges "
        "changed, half of them removed and half added at random. `From nothing` samples all anchors; `since` starts "
        f"from the samples of the earlier graph and writes the same bytes. On {bench.machine}. "
        f"`{bench.command}` makes this table:\n\n{table_of(rows, _COLUMNS, left=[1])}"
    )
    shown = rings.model_dump(mode="json", include={"hops", "width", "per_ring", "beyond", "sampling"})
    return bench.write(page, rows, {**graph_setting(graph), "rings": shown})


def _change(folder: Path, target: Path, share: float) -> int:
    """Write the graph with a share of its edges changed, half of them removed and half added; return the number."""
    graph = Graph.open(folder)
    edges = np.stack(edges_of(graph, both_ways=False), axis=1).astype(np.int64)
    draw = seeding.generator("bench-changes")
    half = max(1, round(share * len(edges) / 2))
    remaining = np.sort(draw.permutation(len(edges))[half:])
    edges = np.concatenate([edges[remaining], draw.integers(0, graph.num_nodes, (half, 2))])
    draft = GraphDraft(
        name="changed", origin="bench changes", num_nodes=graph.num_nodes, edges=[(edges[:, 0], edges[:, 1])],
        features=np.zeros((graph.num_nodes, 1), np.float32), ids=graph.ids,
    )  # fmt: skip
    write_graph(draft, MemoryGraph(undirected=graph.undirected), target)
    return 2 * half


def _measure(folder: Path, changed: Path, rings: RingsConfig, share: float, edges_changed: int, turns: int) -> Update:
    """Sample both ways in turn, in one process with compiled kernels; both must write the same bytes."""
    compile_kernels(folder / "compile", rings)
    earlier = folder / "graph", folder / "earlier"
    _sample(*earlier, rings, None)
    _sample(changed, folder / "since", rings, earlier)  # compiles the kernels that only this way needs
    times: dict[str, list[float]] = {"nothing": [], "since": []}
    for _ in range(turns):
        times["nothing"].append(_sample(changed, folder / "nothing", rings, None))
        times["since"].append(_sample(changed, folder / "since", rings, earlier))
    _check_same_bytes(folder / "nothing", folder / "since")
    parts = sorted(path.relative_to(folder / "since") for path in (folder / "since").rglob("part-*"))
    linked = sum((folder / "since" / part).samefile(folder / "earlier" / part) for part in parts)
    nothing_s, since_s = (statistics.median(seconds) for seconds in times.values())
    for name in ("earlier", "nothing", "since"):
        shutil.rmtree(folder / name)
    return Update(
        engine=rings.engine, hops=rings.hops, share=share, edges_changed=edges_changed, from_nothing_s=nothing_s,
        since_s=since_s, ratio=nothing_s / since_s, anchors=Graph.open(changed).num_nodes,
        anchors_again=events(folder / "since.log", "since")[0]["anchors_again"],
        parts=len(parts), parts_written=len(parts) - linked,
    )  # fmt: skip


def _sample(graph: Path, target: Path, rings: RingsConfig, since: tuple[Path, Path] | None) -> float:
    """Seconds of sampling all anchors of a graph into an empty folder."""
    shutil.rmtree(target, ignore_errors=True)
    log = target.with_name(f"{target.name}.log")
    log.unlink(missing_ok=True)
    began = time.perf_counter()
    sample(graph, target, rings, len(usable_cores()), log, since)
    return time.perf_counter() - began


def _check_same_bytes(one: Path, other: Path) -> None:
    files = [path.relative_to(one) for path in one.rglob("*") if path.is_file()]
    _, different, missing = filecmp.cmpfiles(one, other, files, shallow=False)
    if different or missing:
        raise RunError(f"bench changes: {(different + missing)[0]} differs from the one made from nothing")
