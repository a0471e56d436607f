"""The section of `bench rings` about other tools: our engines and theirs measured in turn, and their figures."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gscl_scale.bench.engines import Round, engines_for, measure_exact, measure_round
from gscl_scale.bench.harness import Bench, Entry, Figures
from gscl_scale.bench.listing import Rate, Trial, measure_peer, random_anchors, try_forms
from gscl_scale.bench.peers import PEERS, rows_of_scipy
from gscl_scale.config.sections import RingsConfig
from gscl_scale.errors import RunError
from gscl_scale.graph.graph import Graph

_VISITED = 256  # anchors whose edge visits are counted

Key = tuple[str, int]  # (competitor, hops)


@dataclass(frozen=True)
class Depths:
    """Depths of our engines and of the peers, and the seconds of each measurement that is extrapolated."""

    hops: Sequence[int]
    peer_hops: Sequence[int]
    seconds: float = 5.0


@dataclass(frozen=True)
class Competitor(Entry):
    """One competitor at one depth; only rounds of all anchors have the figure `short_share`."""

    competitor: str
    hops: int


@dataclass
class Results:
    """Measurements so far, and the peers that are left out with the reason."""

    trials: dict[Key, list[Trial]] = field(default_factory=dict)
    peers: dict[Key, list[Rate]] = field(default_factory=dict)
    ours: dict[Key, list[Rate]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def engines_chosen(self) -> dict[int, str]:
        """The engine that `auto` chose at each depth."""
        rounds = {hops: runs[0] for (name, hops), runs in self.ours.items() if name == "auto"}
        return {hops: first.engine for hops, first in rounds.items() if isinstance(first, Round)}


def measure_tools(bench: Bench, graph: Graph, rings: RingsConfig, depths: Depths) -> Results:
    """Find the fastest form of each peer, then measure peers and our engines in turn."""
    results = Results()
    for peer in PEERS:
        if not peer.is_installed():
            results.left_out[peer.name] = f"the package {peer.package} is not installed"
            continue
        for hops in depths.peer_hops:
            bench.say(f"which form of {peer.name} is fastest at {hops} hops")
            trials = try_forms(peer.name, graph.folder, hops, depths.seconds, bench.cores[0])
            if trials[0].wrong:
                results.left_out[peer.name] = f"{trials[0].form}: {trials[0].wrong}"
            else:
                results.trials[peer.name, hops] = trials
    _measure_in_turn(results, bench, graph, rings, depths)
    return results


def _measure_in_turn(results: Results, bench: Bench, graph: Graph, rings: RingsConfig, depths: Depths) -> None:
    at_depth = [rings.model_copy(update={"hops": hops}) for hops in depths.hops]
    ours = [depth.model_copy(update={"engine": engine}) for depth in at_depth for engine in engines_for(depth)]
    steps = bench.turns * (len(results.trials) + len(ours))
    with bench.console.progress("bench rings", steps, "measurements") as advance:
        for _ in range(bench.turns):
            for (peer, hops), trials in list(results.trials.items()):
                try:
                    rate = measure_peer(peer, trials[0].form, graph.folder, hops, depths.seconds, bench.cores)
                    results.peers.setdefault((peer, hops), []).append(rate)
                except RunError as error:
                    results.left_out[peer] = str(error)
                    del results.trials[peer, hops]
                advance(1)
            for chosen in ours:
                measured = _measure_ours(graph.folder, chosen, depths.seconds, bench)
                results.ours.setdefault((chosen.engine, chosen.hops), []).append(measured)
                advance(1)


def _measure_ours(folder: Path, rings: RingsConfig, seconds: float, bench: Bench) -> Rate:
    if rings.engine == "exact":
        return measure_exact(folder, rings, bench.cores, seconds, folder.parent)
    return measure_round(folder, rings, bench.cores, folder.parent)


# --- figures ---------------------------------------------------------------------------------------------------------


def entries_of(results: Results, graph: Graph) -> list[Competitor]:
    """The figures of all competitors; the peers come first."""
    peers = {key: median_rate(runs) for key, runs in results.peers.items()}
    return [
        Competitor(name, hops, figures=_figures(hops, runs, peers, graph))
        for (name, hops), runs in {**results.peers, **results.ours}.items()
    ]


def _figures(hops: int, runs: Sequence[Rate], peers: Mapping[Key, float], graph: Graph) -> Figures:
    common = {
        **rate_figures(hops, [run.anchors_per_second for run in runs], peers),
        "peak_memory": (max(run.peak_bytes for run in runs), "bytes"),
        "anchors_per_core_second": (statistics.median(run.anchors_per_second / run.cores_used for run in runs), "1/s"),
    }
    rounds = [run for run in runs if isinstance(run, Round)]
    return common | (_round_figures(hops, rounds, graph) if rounds else _listing_figures(hops, runs, graph))


def _listing_figures(hops: int, runs: Sequence[Rate], graph: Graph) -> Figures:
    """Figures of what was measured on some anchors."""
    rate = median_rate(runs)
    return {
        "edge_visits_per_second": (rate * mean_visits(graph, hops), "1/s"),
        "cores_used": (statistics.median(run.cores_used for run in runs), "cores"),
        "anchors_measured": (sum(run.anchors for run in runs), "anchors"),
        "all_anchors_extrapolated": (graph.num_nodes / rate, "s"),
    }


def _round_figures(hops: int, rounds: Sequence[Round], graph: Graph) -> Figures:
    """Figures of what was done for all anchors."""
    middle = sorted(rounds, key=lambda run: run.seconds)[len(rounds) // 2]
    exact = middle.engine == "exact"
    visits = mean_visits(graph, hops) * middle.anchors if exact else graph.indices.size * hops
    figures: Figures = {
        "seconds": (middle.seconds, "s"),
        "verify_seconds": (middle.verify_seconds, "s"),
        "edge_visits_per_second": (visits / middle.seconds, "1/s"),
        "bytes_written": (middle.bytes_written, "bytes"),
        "short_share": (middle.short, "share of lists"),
        "cores_used": (middle.cores_used, "cores"),
        "anchors_measured": (middle.anchors, "anchors"),
    }
    for place, references, distinct in zip(ring_names(hops), middle.references, middle.distinct, strict=True):
        figures[f"batch_references_{place}"] = references, "nodes"
        figures[f"batch_distinct_{place}"] = distinct, "nodes"
    return figures


def ring_names(hops: int) -> list[str]:
    """What the figures of a batch are about: each ring, and all of them."""
    return [*(f"ring_{hop}" for hop in range(1, hops + 1)), "all_rings"]


def rate_figures(hops: int, rates: Sequence[float], peers: Mapping[Key, float]) -> Figures:
    """Median and range of the rates, and their ratios to the peers at the depth that is compared."""
    rate = statistics.median(rates)
    figures: Figures = {
        "anchors_per_second": (rate, "1/s"),
        "anchors_per_second_lowest": (min(rates), "1/s"),
        "anchors_per_second_highest": (max(rates), "1/s"),
    }
    if depth := peer_depth(hops, [hops for _, hops in peers]):
        compared = {peer: theirs for (peer, hops), theirs in peers.items() if hops == depth}
        programs = {peer.name for peer in PEERS if peer.program}
        tools = {peer: theirs for peer, theirs in compared.items() if peer not in programs} or compared
        figures["ratio_to_best_peer"] = rate / max(tools.values()), f"times, best peer at {depth} hops"
        for peer, theirs in compared.items():
            figures[f"ratio_to {peer}"] = rate / theirs, f"times, at {depth} hops"
    return figures


def peer_depth(hops: int, measured: Sequence[int]) -> int:
    """The depth of the peers to compare with: the same if they were measured there, else their deepest; 0 if none."""
    return hops if hops in measured else max(measured, default=0)


def median_rate(runs: Sequence[Rate]) -> float:
    """The median of the rates."""
    return statistics.median(run.anchors_per_second for run in runs)


def mean_visits(graph: Graph, hops: int) -> float:
    """Edges out of the ball of one hop less, on average over some anchors: what a search for one anchor reads."""
    anchors = random_anchors(graph.num_nodes)[:_VISITED]
    degree = np.diff(graph.indptr)
    balls = rows_of_scipy(graph, hops - 1).find(anchors)
    visits = [
        degree[anchor] + sum(degree[ring].sum() for ring in rings) for anchor, rings in zip(anchors, balls, strict=True)
    ]
    return float(np.mean(visits))
