"""The section of `bench rings` about other tools: our engines and theirs measured in turn, and their figures."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from gscl_scale.bench.engines import Round, engines_for, measure_exact, measure_round
from gscl_scale.bench.harness import Entry, Figures
from gscl_scale.bench.listing import Rate, Trial, measure_peer, random_anchors, try_forms
from gscl_scale.bench.options import Rings
from gscl_scale.bench.peers import PEERS, rows_of_scipy
from gscl_scale.config.sections import RingsConfig
from gscl_scale.errors import RunError
from gscl_scale.graph.graph import Graph

_VISITED = 256  # anchors whose edge visits are counted

OURS = ("auto", "sketch", "exact")

Key = tuple[str, int]  # (competitor, hops)


@dataclass(frozen=True)
class Competitor(Entry):
    """One competitor at one depth; only rounds of all anchors have the figure `short_share`."""

    competitor: str
    hops: int


@dataclass
class Results:
    """The trials of peers and the rates of all competitors so far, and the peers left out with the reason."""

    trials: dict[Key, list[Trial]] = field(default_factory=dict)
    rates: dict[Key, list[Rate]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def engines_chosen(self) -> dict[int, str]:
        """The engine that `auto` chose at each depth."""
        rounds = {hops: runs[0] for (name, hops), runs in self.rates.items() if name == "auto"}
        return {hops: first.engine for hops, first in rounds.items() if isinstance(first, Round)}


def measure_tools(bench: Rings, graph: Graph) -> Results:
    """Find the fastest form of each peer, then measure peers and our engines in turn."""
    results = Results()
    for number, peer in enumerate(PEERS, start=1):
        if peer.is_installed():
            bench.say(f"tool {number} of {len(PEERS)}, {peer.name}: which of its forms is fastest")
            _try(results, bench, graph, peer.name)
        else:
            results.left_out[peer.name] = f"the package {peer.package} is not installed"
    at_depth = [bench.config.rings.model_copy(update={"hops": hops}) for hops in bench.our_depths]
    ours = [depth.model_copy(update={"engine": engine}) for depth in at_depth for engine in engines_for(depth)]
    ways: dict[Key, Callable[[], Rate | None]] = {
        **{key: partial(_measure_peer, results, bench, graph, *key) for key in results.trials},
        **{(one.engine, one.hops): partial(_measure_ours, bench, graph.folder, one) for one in ours},
    }
    measured = bench.in_turns(ways, lambda key, rate: f"{key[0]} at {key[1]} hops: {_told(rate)}")
    results.rates = {key: done for key, rates in measured.items() if (done := [rate for rate in rates if rate])}
    return results


def _try(results: Results, bench: Rings, graph: Graph, peer: str) -> None:
    for hops in bench.peer_depths:
        trials = try_forms(bench, peer, graph.folder, hops, bench.seconds)
        if trials[0].wrong:
            results.left_out[peer] = f"{trials[0].form}: {trials[0].wrong}"
            bench.say(f"{peer} is left out: {results.left_out[peer]}")
        else:
            bench.say(f"{peer} at {hops} hops: {trials[0].form}")
            results.trials[peer, hops] = trials


def _measure_peer(results: Results, bench: Rings, graph: Graph, peer: str, hops: int) -> Rate | None:
    """The rate of a peer, None once it has failed."""
    if (peer, hops) not in results.trials:
        return None
    form = results.trials[peer, hops][0].form
    try:
        return measure_peer(peer, form, graph.folder, hops, bench.seconds, bench.core_ids)
    except RunError as error:
        results.left_out[peer] = str(error)
        del results.trials[peer, hops]
        return None


def _measure_ours(bench: Rings, folder: Path, rings: RingsConfig) -> Rate:
    if rings.engine == "exact":
        return measure_exact(bench, folder, rings, bench.seconds, folder.parent)
    return measure_round(bench, folder, rings, folder.parent)


def _told(rate: Rate | None) -> str:
    return f"{rate.anchors_per_second:,.0f} nodes a second" if rate else "left out"


# --- figures ---------------------------------------------------------------------------------------------------------


def entries_of(results: Results, graph: Graph) -> list[Competitor]:
    """The figures of all competitors; the peers come first."""
    peers = {key: median_rate(runs) for key, runs in results.rates.items() if key[0] not in OURS}
    return [
        Competitor(name, hops, figures=_figures(hops, runs, peers, graph))
        for (name, hops), runs in results.rates.items()
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
