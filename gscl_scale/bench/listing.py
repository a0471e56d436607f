"""Other tools measured: which form of a tool is correct and fastest here, and its rate on all cores."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding
from gscl_scale.bench.harness import Bench
from gscl_scale.bench.peers import PEERS, Form, Search
from gscl_scale.bench.processes import on_each_core
from gscl_scale.graph.graph import Graph
from gscl_scale.machine import peak_memory
from gscl_scale.rings.exact.ring_sizes import ring_profile

_CHECKED = 12  # anchors whose rings are compared before a form is timed
_TRIAL = 5  # a trial of a form takes this fraction of a measurement


@dataclass(frozen=True)
class Trial:
    """A form on one core for a moment; `wrong` says how its rings differ from the correct ones, if they do."""

    form: str
    anchors_per_second: float
    wrong: str = ""


@dataclass(frozen=True)
class Rate:
    """One measurement of a competitor on all cores.

    cores_used   seconds of processor per second: less than all cores if other programs keep the machine busy
    """

    anchors_per_second: float
    anchors: int
    peak_bytes: int
    cores_used: float


def try_forms(bench: Bench, peer: str, folder: Path, hops: int, seconds: float) -> list[Trial]:
    """Try the forms of a peer one after the other on one core; the fastest is first, wrong ones are last."""
    trials = bench.alone(_try_all, peer, folder, hops, seconds / _TRIAL, cores=bench.core_ids[:1])
    return sorted(trials, key=lambda trial: (trial.wrong != "", -trial.anchors_per_second))


def measure_peer(peer: str, form: str, folder: Path, hops: int, seconds: float, cores: Sequence[int]) -> Rate:
    """The summed rate of one process per core, all at the same time."""
    parts = on_each_core(cores, _measure, peer, form, folder, hops, seconds, len(cores))
    return Rate(
        sum(part.anchors_per_second for part in parts), sum(part.anchors for part in parts),
        sum(part.peak_bytes for part in parts), sum(part.cores_used for part in parts),
    )  # fmt: skip


def random_anchors(num_nodes: int) -> npt.NDArray[np.int64]:
    """All nodes in the random order that every competitor follows."""
    return seeding.generator("bench").permutation(num_nodes)


def wrong_rings(search: Search, graph: Graph, hops: int) -> str:
    """Describe the first wrong ring of some anchors; empty if all rings are correct."""
    anchors = random_anchors(graph.num_nodes)[:_CHECKED]
    expected, *_ = ring_profile(graph.indptr, graph.indices, anchors, hops)
    for anchor, rings, sizes in zip(anchors, search.members(anchors), expected, strict=True):
        for hop, (ring, size) in enumerate(zip(rings, sizes, strict=True), start=1):
            if np.unique(ring).size != size or ring.size != size:
                return f"gives {ring.size} nodes {hop} hops from node {anchor}, expected {size} different ones"
    return ""


def _forms(peer: str) -> tuple[Form, ...]:
    return next(known.forms for known in PEERS if known.name == peer)


def _try_all(peer: str, folder: Path, hops: int, seconds: float) -> list[Trial]:
    graph, trials = Graph.open(folder), []
    for form in _forms(peer):
        search = form.build(graph, hops)
        wrong = wrong_rings(search, graph, hops)
        rate, _ = (0.0, 0) if wrong else _time(search, random_anchors(graph.num_nodes), form.batch, seconds)
        trials.append(Trial(form.name, rate, wrong))
    return trials


def _measure(
    number: int, barrier: threading.Barrier, peer: str, name: str, folder: Path, hops: int, seconds: float, cores: int
) -> Rate:
    graph = Graph.open(folder)
    form = next(form for form in _forms(peer) if form.name == name)
    search = form.build(graph, hops)
    anchors = random_anchors(graph.num_nodes)[number::cores]
    search.find(anchors[-form.batch :])  # reads the graph into memory
    barrier.wait()
    used = time.process_time()
    rate, done = _time(search, anchors, form.batch, seconds)
    return Rate(rate, done, peak_memory(), (time.process_time() - used) * rate / done)


def _time(search: Search, anchors: npt.NDArray[np.int64], batch: int, seconds: float) -> tuple[float, int]:
    """(anchors per second, anchors) of batch after batch until the time is up, if need be from the beginning again."""
    done, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < seconds:
        start = done % anchors.size
        part = anchors[start : start + batch]
        search.find(part)
        done += part.size
    return done / spent, done
