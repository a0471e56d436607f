"""`bench changes`: samples since an earlier run against samples from nothing, after some edges have changed."""

import filecmp
import platform
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding
from gscl_scale.bench.engines import compile_kernels
from gscl_scale.bench.processes import in_process
from gscl_scale.config.config import Config
from gscl_scale.config.graphs import MemoryGraph
from gscl_scale.config.sections import RingsConfig
from gscl_scale.errors import RunError
from gscl_scale.graph.draft import Draft, write_graph
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.sources.read import read
from gscl_scale.io.atomic import write_text
from gscl_scale.io.json import read_json_lines, write_json
from gscl_scale.machine import processor_name, usable_cores
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.runner import start_runner
from gscl_scale.runtime.settings import RunnerSettings
from gscl_scale.shards.precompute import precompute
from gscl_scale.text import cores_of, table, turns_of
from gscl_scale.version import __version__


@dataclass(frozen=True)
class Update:
    """One share of changed edges with one engine: middle of the turns, and what the second way did."""

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


def bench_changes(
    config: Config, shares: Sequence[float], turns: int, command: str, out: Path, console: Console
) -> str:
    """Measure, write changes.json and changes.md into `out`, and return the Markdown."""
    out.mkdir(parents=True, exist_ok=True)
    rows: list[Update] = []
    with tempfile.TemporaryDirectory(dir=out, prefix=".bench-") as place:
        folder = Path(place)
        graph = write_graph(read(config.graph), config.graph, folder / "graph")
        for share in shares:
            changed = in_process(usable_cores(), _change, folder / "graph", folder / f"changed-{share:g}", share)
            for engine in ("sketch", "exact") if config.rings.sketchable() else ("exact",):
                rings = config.rings.model_copy(update={"engine": engine, "rounds": 1})
                console.say(f"bench changes: {share:.3%} of the edges changed, engine {engine}")
                rows.append(
                    in_process(
                        usable_cores(), _measure, folder, folder / f"changed-{share:g}", rings, share, changed, turns
                    )
                )
        setting = {
            "command": command, "graph": graph.name, "nodes": graph.num_nodes, "entries": int(graph.indices.size),
            "rings": config.rings.model_dump(mode="json", include={"hops", "width", "per_ring", "beyond", "sampling"}),
            "turns": turns, "cores": len(usable_cores()), "processor": processor_name(),
            "versions": {"gscl_scale": __version__, "python": platform.python_version()},
        }  # fmt: skip
    page = _page(setting, rows)
    write_json(out / "changes.json", {"setting": setting, "rows": [asdict(row) for row in rows]})
    write_text(out / "changes.md", page + "\n")
    return page


def _change(folder: Path, target: Path, share: float) -> int:
    """Write the graph with a share of its edges changed, half of them removed and half added; returns how many."""
    graph = Graph.open(folder)
    edges = _edges_of(graph)
    draw = seeding.generator("bench-changes")
    half = max(1, round(share * len(edges) / 2))
    kept = np.sort(draw.permutation(len(edges))[half:])
    edges = np.concatenate([edges[kept], draw.integers(0, graph.num_nodes, (half, 2))])
    draft = Draft(
        name="changed", origin="bench changes", num_nodes=graph.num_nodes, edges=[(edges[:, 0], edges[:, 1])],
        features=np.zeros((graph.num_nodes, 1), np.float32), ids=graph.ids,
    )  # fmt: skip
    write_graph(draft, MemoryGraph(undirected=graph.undirected), target)
    return 2 * half


def _edges_of(graph: Graph) -> npt.NDArray[np.int64]:
    """Each edge once [E, 2]."""
    row = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    once = row < graph.indices if graph.undirected else np.ones(row.size, np.bool_)
    return np.stack([row[once], graph.indices[once]], axis=1).astype(np.int64)


def _measure(folder: Path, changed: Path, rings: RingsConfig, share: float, edges_changed: int, turns: int) -> Update:
    """Both ways in turn, in one process whose kernels are ready; they must end with the same bytes."""
    compile_kernels(folder / "compile", rings)
    _sample(folder / "graph", folder / "earlier", rings, None)
    times: dict[str, list[float]] = {"nothing": [], "since": []}
    _sample(changed, folder / "since", rings, (folder / "graph", folder / "earlier"))  # compiles what only it needs
    for _ in range(turns):
        for way, since in (("nothing", None), ("since", (folder / "graph", folder / "earlier"))):
            times[way].append(_sample(changed, folder / way, rings, since))
    _check_same_bytes(folder / "nothing", folder / "since")
    told = next(line for line in read_json_lines(folder / "since.log") if line["event"] == "since")
    parts = sorted(path.relative_to(folder / "since") for path in (folder / "since").rglob("part-*"))
    kept = sum((folder / "since" / part).samefile(folder / "earlier" / part) for part in parts)
    nothing, again = (statistics.median(times[way]) for way in ("nothing", "since"))
    for name in ("earlier", "nothing", "since"):
        shutil.rmtree(folder / name)
    return Update(
        engine=rings.engine, hops=rings.hops, share=share, edges_changed=edges_changed, from_nothing_s=nothing,
        since_s=again, ratio=nothing / again, anchors=Graph.open(changed).num_nodes,
        anchors_again=told["anchors_again"], parts=len(parts), parts_written=len(parts) - kept,
    )  # fmt: skip


def _sample(graph: Path, target: Path, rings: RingsConfig, since: tuple[Path, Path] | None) -> float:
    shutil.rmtree(target, ignore_errors=True)
    log = target.with_name(f"{target.name}.log")
    log.unlink(missing_ok=True)
    began = time.perf_counter()
    with start_runner(RunnerSettings(workers=len(usable_cores()))) as runner:
        precompute(graph, target, rings, 1, runner, Console(log, quiet=True), since)
    return time.perf_counter() - began


def _check_same_bytes(one: Path, other: Path) -> None:
    files = [path.relative_to(one) for path in one.rglob("*") if path.is_file()]
    _, different, missing = filecmp.cmpfiles(one, other, files, shallow=False)
    if different or missing:
        raise RunError(f"bench changes: {(different + missing)[0]} differs from the one made from nothing")


def _page(setting: dict[str, Any], rows: Sequence[Update]) -> str:
    rings = setting["rings"]
    lines = [
        f"Samples of `{setting['graph']}` ({setting['nodes']:,} nodes, {setting['entries']:,} directed entries, "
        f"k = {rings['hops']}, {rings['per_ring']} per ring, {rings['beyond']} beyond, width {rings['width']}) "
        f"after a share of its edges changed, half of them removed and half added at random: from nothing, and with "
        f"`--since` the earlier run, with the same bytes. On {cores_of(setting['cores'])} of {setting['processor']}, "
        f"{turns_of(setting['turns'])}. `{setting['command']}` makes this table:",
        "",
        table(
            ["edges changed", "engine", "from nothing", "since", "ratio", "anchors sampled again", "parts written"],
            [
                [
                    f"{row.edges_changed:,} ({row.share:.3%})", row.engine, f"{row.from_nothing_s:.2f} s",
                    f"{row.since_s:.2f} s", f"{row.ratio:.1f} x", f"{row.anchors_again:,} of {row.anchors:,}",
                    f"{row.parts_written} of {row.parts}",
                ]
                for row in rows
            ],
            left=[1],
        ),
    ]  # fmt: skip
    return "\n".join(lines)
