"""Measuring a peer: which of its forms is right and fastest here, and its anchors per second on all cores."""

import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding
from gscl_scale.bench.peers import PEERS, Form, Search
from gscl_scale.bench.processes import in_process, on_each_core
from gscl_scale.graph.graph import Graph
from gscl_scale.machine import peak_memory
from gscl_scale.rings.exact.ring_sizes import ring_profile

_CHECKED = 12  # anchors whose rings are compared before a form is timed
_TRIAL = 5  # a trial of a form takes this fraction of a measurement


@dataclass(frozen=True)
class Trial:
    """A form on one core for a moment; `wrong` says how its rings differ, where they do."""

    form: str
    anchors_per_second: float
    wrong: str = ""


@dataclass(frozen=True)
class Turn:
    """One measurement of a competitor on all cores together.

    cores_used   seconds of processor per second: less than all cores where others keep the machine busy
    """

    anchors_per_second: float
    anchors: int
    peak_bytes: int
    cores_used: float


def try_forms(peer: str, folder: Path, hops: int, seconds: float, core: int) -> list[Trial]:
    """Every form of a peer, fastest first, one after the other in a process of their own."""
    trials = in_process([core], _try_all, peer, folder, hops, seconds / _TRIAL)
    return sorted(trials, key=lambda trial: (trial.wrong != "", -trial.anchors_per_second))


def measure_peer(peer: str, form: str, folder: Path, hops: int, seconds: float, cores: Sequence[int]) -> Turn:
    """Anchors per second of a process per core, at the same time, added up."""
    parts = on_each_core(cores, _measure, peer, form, folder, hops, seconds, len(cores))
    return Turn(
        sum(part.anchors_per_second for part in parts),
        sum(part.anchors for part in parts),
        sum(part.peak_bytes for part in parts),
        sum(part.cores_used for part in parts),
    )


def median_rate(turns: Sequence[Turn]) -> float:
    """The middle of the rates."""
    return statistics.median(turn.anchors_per_second for turn in turns)


def random_anchors(num_nodes: int) -> npt.NDArray[np.int64]:
    """All nodes in a random order that every competitor follows."""
    return seeding.generator("bench").permutation(num_nodes)


def wrong_rings(search: Search, graph: Graph, hops: int) -> str:
    """The first of some anchors whose rings are not what they should be, as a phrase; nothing if all are right."""
    anchors = random_anchors(graph.num_nodes)[:_CHECKED]
    expected, _ = ring_profile(graph.indptr, graph.indices, anchors, hops)
    found = search.rings(search.find(anchors))
    for anchor, rings, sizes in zip(anchors, found, expected, strict=True):
        for hop, (ring, size) in enumerate(zip(rings, sizes, strict=True), start=1):
            if np.unique(ring).size != size or ring.size != size:
                return f"gives {ring.size} nodes {hop} hops from node {anchor}, expected {size} different ones"
    return ""


def _peer_forms(peer: str) -> tuple[Form, ...]:
    return next(known.forms for known in PEERS if known.name == peer)


def _try_all(peer: str, folder: Path, hops: int, seconds: float) -> list[Trial]:
    graph = Graph.open(folder)
    return [_try(form, graph, hops, seconds) for form in _peer_forms(peer)]


def _try(form: Form, graph: Graph, hops: int, seconds: float) -> Trial:
    search = form.build(graph, hops)
    if wrong := wrong_rings(search, graph, hops):
        return Trial(form.name, 0.0, wrong)
    return Trial(form.name, _time(search, random_anchors(graph.num_nodes), form.batch, seconds)[0])


def _measure(
    number: int,
    barrier: threading.Barrier,
    peer: str,
    form: str,
    folder: Path,
    hops: int,
    seconds: float,
    processes: int,
) -> Turn:
    graph = Graph.open(folder)
    chosen = next(known for known in _peer_forms(peer) if known.name == form)
    search = chosen.build(graph, hops)
    anchors = random_anchors(graph.num_nodes)[number::processes]
    search.find(anchors[-chosen.batch :])  # touches the graph
    barrier.wait()
    used = time.process_time()
    rate, done = _time(search, anchors, chosen.batch, seconds)
    return Turn(rate, done, peak_memory(), (time.process_time() - used) * rate / done)


def _time(search: Search, anchors: npt.NDArray[np.int64], batch: int, seconds: float) -> tuple[float, int]:
    """(anchors per second, anchors): batch after batch until the time is up, from the beginning again at the end."""
    done, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < seconds:
        start = done % anchors.size
        part = anchors[start : start + batch]
        search.find(part)
        done += part.size
    return done / spent, done
