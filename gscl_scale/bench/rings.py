"""`bench rings`: our engines and other tools in turn, on the same cores and the same graph; and engines by graph."""

import os
import platform
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from gscl_scale.bench.engines import Whole, engines_for, measure_exact, measure_whole
from gscl_scale.bench.large_balls import BallSizes, measure_large_balls
from gscl_scale.bench.listing import Trial, Turn, measure_peer, median_rate, random_anchors, try_forms
from gscl_scale.bench.peers import PEERS, rows_of_scipy
from gscl_scale.bench.rings_page import peer_depth, rings_page
from gscl_scale.config.config import Config
from gscl_scale.config.sections import RingsConfig
from gscl_scale.errors import RunError, UserError
from gscl_scale.graph.draft import write_graph
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.sources.read import read
from gscl_scale.io.atomic import write_text
from gscl_scale.io.json import write_json
from gscl_scale.machine import processor_name, usable_cores
from gscl_scale.runtime.console import Console
from gscl_scale.version import __version__

SECTIONS = ("tools", "large-balls")
_VISITED = 256  # anchors whose edge visits are counted


@dataclass(frozen=True)
class RingsBench:
    """What to measure: depths of our engines and of the peers, on how many cores (0: all), how long and how often.

    command    what to type to measure this again
    sections   tools: our engines beside the peers; large-balls: our engines where a ball holds all nodes
    balls      the graphs of large-balls
    """

    hops: Sequence[int]
    peer_hops: Sequence[int]
    cores: int = 0
    seconds: float = 5.0
    turns: int = 3
    command: str = ""
    sections: Sequence[str] = SECTIONS
    balls: BallSizes = field(default_factory=BallSizes)


@dataclass
class _Results:
    """Measurements so far, by (competitor, hops), and what was left out and why."""

    forms: dict[tuple[str, int], list[Trial]] = field(default_factory=dict)
    peers: dict[tuple[str, int], list[Turn]] = field(default_factory=dict)
    exact: dict[int, list[Turn]] = field(default_factory=dict)
    whole: dict[tuple[str, int], list[Whole]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def bench_rings(config: Config, asked: RingsBench, out: Path, console: Console) -> str:
    """Measure, write rings.json and rings.md into `out`, and return the Markdown."""
    cores = take_cores(asked.cores)
    if config.rings.sharing != "shared":
        raise UserError("bench rings: only shared priorities are measured; set rings.sharing to shared")
    load = os.getloadavg()[0]
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=".bench-") as place:
        graph = write_graph(read(config.graph), config.graph, Path(place) / "graph")
        results = _Results()
        if "tools" in asked.sections:
            _choose_forms(results, graph, asked, cores, console)
            _measure_in_turn(results, graph, config.rings, asked, cores, console)
        setting = {**_setting(graph, config.rings, asked, cores, results), "load_before": load}
        written = {"setting": setting, "rows": _rows(results, graph)}
        if "large-balls" in asked.sections:
            found = measure_large_balls(graph, asked.balls, asked.turns, cores, Path(place), console)
            written["large_balls"] = found
    page = rings_page(written)
    write_json(out / "rings.json", written)
    write_text(out / "rings.md", page + "\n")
    return page


def take_cores(number: int) -> list[int]:
    """The first so many of the cores that this process may use; 0: all."""
    usable = usable_cores()
    if number > len(usable):
        raise UserError(f"bench: --cores {number} asks for more than the {len(usable)} cores that may be used here")
    return usable[: number or len(usable)]


# --- measuring -------------------------------------------------------------------------------------------------------


def _choose_forms(results: _Results, graph: Graph, asked: RingsBench, cores: list[int], console: Console) -> None:
    """The fastest right form of each peer at each depth; what is missing or wrong is left out, with the reason."""
    for peer in PEERS:
        if not peer.is_installed():
            results.left_out[peer.name] = f"the package {peer.package} is not installed"
            continue
        for hops in asked.peer_hops:
            console.say(f"bench rings: which form of {peer.name} is fastest at {hops} hops")
            trials = try_forms(peer.name, graph.folder, hops, asked.seconds, cores[0])
            if trials[0].wrong:
                results.left_out[peer.name] = f"{trials[0].form}: {trials[0].wrong}"
            else:
                results.forms[peer.name, hops] = trials


def _measure_in_turn(
    results: _Results, graph: Graph, rings: RingsConfig, asked: RingsBench, cores: list[int], console: Console
) -> None:
    depths = [rings.model_copy(update={"hops": hops}) for hops in asked.hops]
    steps = asked.turns * (len(results.forms) + len(depths) * len(engines_for(rings)))
    with console.progress("bench rings", steps, "measurements") as advance:
        for _ in range(asked.turns):
            for (peer, hops), trials in list(results.forms.items()):
                try:
                    turn = measure_peer(peer, trials[0].form, graph.folder, hops, asked.seconds, cores)
                    results.peers.setdefault((peer, hops), []).append(turn)
                except RunError as error:
                    results.left_out[peer] = str(error)
                    del results.forms[peer, hops]
                advance(1)
            for depth in depths:
                for _ in _measure_ours(results, graph.folder, depth, asked.seconds, cores):
                    advance(1)


def _measure_ours(
    results: _Results, folder: Path, rings: RingsConfig, seconds: float, cores: list[int]
) -> Iterator[None]:
    place = folder.parent
    for engine in engines_for(rings):
        chosen = rings.model_copy(update={"engine": engine})
        if engine == "exact":
            turn = measure_exact(folder, chosen, cores, seconds, place)
            results.exact.setdefault(rings.hops, []).append(turn)
        else:
            whole = measure_whole(folder, chosen, cores, place)
            results.whole.setdefault((engine, rings.hops), []).append(whole)
        yield


# --- telling ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One figure of one competitor at one depth."""

    competitor: str
    hops: int
    figure: str
    value: float
    unit: str


def _rows(results: _Results, graph: Graph) -> list[dict[str, Any]]:
    rates = {key: median_rate(turns) for key, turns in results.peers.items()}
    rows: list[Row] = []
    for (peer, hops), turns in results.peers.items():
        rows += _listing_rows(peer, hops, turns, rates, graph)
    for hops, turns in results.exact.items():
        rows += _listing_rows("exact", hops, turns, rates, graph)
    for (engine, hops), wholes in results.whole.items():
        rows += _whole_rows(engine, hops, wholes, rates, graph)
    return [asdict(row) for row in rows]


def _listing_rows(
    name: str, hops: int, turns: list[Turn], peers: dict[tuple[str, int], float], graph: Graph
) -> Iterator[Row]:
    """Figures of what was measured on some anchors."""
    rate = median_rate(turns)
    yield from _rate_rows(name, hops, [turn.anchors_per_second for turn in turns], peers)
    yield Row(name, hops, "edge_visits_per_second", rate * mean_visits(graph, hops), "1/s")
    yield Row(name, hops, "peak_memory", max(turn.peak_bytes for turn in turns), "bytes")
    yield Row(name, hops, "cores_used", statistics.median(turn.cores_used for turn in turns), "cores")
    per_core = statistics.median(turn.anchors_per_second / turn.cores_used for turn in turns)
    yield Row(name, hops, "anchors_per_core_second", per_core, "1/s")
    yield Row(name, hops, "anchors_measured", sum(turn.anchors for turn in turns), "anchors")
    yield Row(name, hops, "all_anchors_extrapolated", graph.num_nodes / rate, "s")


def _whole_rows(
    name: str, hops: int, wholes: list[Whole], peers: dict[tuple[str, int], float], graph: Graph
) -> Iterator[Row]:
    """Figures of what was done for all anchors."""
    middle = sorted(wholes, key=lambda whole: whole.seconds)[len(wholes) // 2]
    yield from _rate_rows(name, hops, [whole.anchors_per_second for whole in wholes], peers)
    yield Row(name, hops, "seconds", middle.seconds, "s")
    yield Row(name, hops, "verify_seconds", middle.verify_seconds, "s")
    visits = graph.indices.size * hops / middle.seconds
    if middle.engine == "exact":
        visits = mean_visits(graph, hops) * middle.anchors_per_second
    yield Row(name, hops, "edge_visits_per_second", visits, "1/s")
    yield Row(name, hops, "peak_memory", max(whole.peak_bytes for whole in wholes), "bytes")
    yield Row(name, hops, "bytes_written", middle.bytes_written, "bytes")
    yield Row(name, hops, "short_share", middle.short, "share of lists")
    yield Row(name, hops, "cores_used", middle.cores_used, "cores")
    per_core = statistics.median(whole.anchors_per_second / whole.cores_used for whole in wholes)
    yield Row(name, hops, "anchors_per_core_second", per_core, "1/s")
    yield Row(name, hops, "anchors_measured", middle.anchors, "anchors")
    places = [*(f"ring_{hop}" for hop in range(1, hops + 1)), "all_rings"]
    for place, references, distinct in zip(places, middle.references, middle.distinct, strict=True):
        yield Row(name, hops, f"batch_references_{place}", references, "nodes")
        yield Row(name, hops, f"batch_distinct_{place}", distinct, "nodes")


def _rate_rows(name: str, hops: int, rates: list[float], peers: dict[tuple[str, int], float]) -> Iterator[Row]:
    rate = statistics.median(rates)
    yield Row(name, hops, "anchors_per_second", rate, "1/s")
    yield Row(name, hops, "anchors_per_second_lowest", min(rates), "1/s")
    yield Row(name, hops, "anchors_per_second_highest", max(rates), "1/s")
    depth = peer_depth(hops, [hops for _, hops in peers])
    if depth:
        beside = {peer: theirs for (peer, hops), theirs in peers.items() if hops == depth}
        programs = {peer.name for peer in PEERS if peer.program}
        tools = {peer: theirs for peer, theirs in beside.items() if peer not in programs} or beside
        yield Row(name, hops, "ratio_to_best_peer", rate / max(tools.values()), f"times, best peer at {depth} hops")
        for peer, theirs in beside.items():
            yield Row(name, hops, f"ratio_to {peer}", rate / theirs, f"times, at {depth} hops")


def mean_visits(graph: Graph, hops: int) -> float:
    """Edges out of the ball of one hop less, on average over some anchors: what a search of its own looks at."""
    anchors = random_anchors(graph.num_nodes)[:_VISITED]
    degree = np.diff(graph.indptr)
    search = rows_of_scipy(graph, hops - 1)
    visits = [
        degree[anchor] + sum(degree[ring].sum() for ring in rings)
        for anchor, rings in zip(anchors, search.find(anchors), strict=True)
    ]
    return float(np.mean(visits))


def _setting(
    graph: Graph, rings: RingsConfig, asked: RingsBench, cores: list[int], results: _Results
) -> dict[str, Any]:
    return {
        "command": asked.command,
        "graph": graph.name,
        "nodes": graph.num_nodes,
        "entries": int(graph.indices.size),
        "undirected": graph.undirected,
        "rings": rings.model_dump(mode="json", include={"width", "per_ring", "beyond", "sampling", "sharing"}),
        "hops": list(asked.hops),
        "peer_hops": list(asked.peer_hops),
        "cores": len(cores),
        "processor": processor_name(),
        "seconds": asked.seconds,
        "turns": asked.turns,
        "versions": _versions(),
        "engine_chosen": {str(hops): w[0].engine for (name, hops), w in results.whole.items() if name == "auto"},
        "forms": [
            {"competitor": peer, "hops": hops, "trials": [asdict(trial) for trial in trials]}
            for (peer, hops), trials in results.forms.items()
        ],
        "left_out": results.left_out,
    }


def _versions() -> dict[str, str]:
    packages = {"igraph": "igraph", "scipy": "scipy", "networkit": "networkit", "torch_geometric": "torch-geometric"}
    versions = {"gscl_scale": __version__, "python": platform.python_version(), "numpy": np.__version__}
    for package, distribution in packages.items():
        if any(peer.package == package and peer.is_installed() for peer in PEERS):
            versions[distribution] = version(distribution)
    return versions
