"""Measuring our engines: all anchors sampled, written and verified; or the rate of the exact engine on some."""

import itertools
import shutil
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding
from gscl_scale.bench.listing import Turn
from gscl_scale.bench.processes import in_process
from gscl_scale.config.graphs import SyntheticGraph
from gscl_scale.config.sections import RingsConfig
from gscl_scale.graph.draft import write_graph
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.sources.read import read
from gscl_scale.io.json import read_json_lines
from gscl_scale.machine import peak_memory
from gscl_scale.rings.exact.bfs import exact_rings
from gscl_scale.rings.priorities import draw_priorities
from gscl_scale.rings.sample import Lists
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.runner import start_runner
from gscl_scale.runtime.settings import RunnerSettings
from gscl_scale.shards.precompute import precompute
from gscl_scale.shards.reader import Samples

_BATCH = 4096
_PER_RING = 16
_BLOCK = 256  # consecutive anchors, as in a part: the exact engine lets 64 of them share a traversal


@dataclass(frozen=True)
class Whole:
    """One round of all anchors, from the call of precompute to the last checksum compared.

    seconds, verify_seconds   the whole, and the reading back in it
    cores_used                seconds of processor per second
    engine                    the one that did the work
    short                     share of (anchor, list) entries that the exact engine finished for the sketch
    references, distinct      of a batch of random anchors: members per ring and in all, and distinct nodes among them
    """

    seconds: float
    verify_seconds: float
    engine: str
    anchors: int
    bytes_written: int
    short: float
    peak_bytes: int
    cores_used: float
    references: list[int]
    distinct: list[int]

    @property
    def anchors_per_second(self) -> float:
        """All anchors by the whole time."""
        return self.anchors / self.seconds


def engines_for(rings: RingsConfig) -> list[str]:
    """The engines that can make such samples."""
    names: Sequence[str] = ("auto", "sketch", "exact")
    return [name for name in names if name == "exact" or rings.sketchable()]


def measure_whole(
    graph: Path, rings: RingsConfig, cores: Sequence[int], place: Path, kept: Path | None = None
) -> Whole:
    """Run precompute in a fresh process on these cores, with a worker for each.

    The samples are moved to the folder `kept`, if there is one, or removed again.
    """
    with tempfile.TemporaryDirectory(dir=place, prefix=".samples-") as folder:
        whole = in_process(cores, _run_whole, graph, Path(folder), rings, len(cores))
        if kept:
            (Path(folder) / "samples").rename(kept)
        return whole


def measure_exact(graph: Path, rings: RingsConfig, cores: Sequence[int], seconds: float, place: Path) -> Turn:
    """Anchors per second of the exact engine's search alone, on random blocks of anchors, a thread per core."""
    with tempfile.TemporaryDirectory(dir=place, prefix=".samples-") as folder:
        return in_process(cores, _run_exact, graph, Path(folder), rings, len(cores), seconds)


def batch_of(samples: Samples, num_nodes: int, hops: int) -> tuple[list[int], list[int]]:
    """(references, distinct nodes) per ring and of all rings, of a batch of random anchors."""
    anchors = np.sort(seeding.generator("bench-batch").permutation(num_nodes)[:_BATCH])
    sample = samples.round(0).take(anchors)
    rings = [_lowest(ring) for ring in sample.rings[:hops]]
    rings.append(np.concatenate(rings))
    return [ring.size for ring in rings], [np.unique(ring).size for ring in rings]


def compile_kernels(folder: Path, rings: RingsConfig) -> None:
    """Sample a small graph with every engine, so that what is measured next finds its kernels ready.

    Also with lists of a single node, of which many are short: those the sketch leaves to the exact engine.
    """
    config = SyntheticGraph(source="synthetic", preset="small", num_features=1)
    write_graph(read(config), config, folder / "graph")
    quiet = Console(quiet=True)
    for engine, width in itertools.product(engines_for(rings), (rings.width, 1)):
        chosen = rings.model_copy(update={"engine": engine, "rounds": 1, "width": width})
        with start_runner(RunnerSettings(workers=1)) as runner:
            precompute(folder / "graph", folder / f"{engine}-{width}", chosen, 1, runner, quiet)
    shutil.rmtree(folder)


def _lowest(ring: Lists) -> npt.NDArray[Any]:
    """The lowest of each anchor's list, at most as many as a batch takes."""
    position = np.arange(ring.members.size) - np.repeat(ring.offsets[:-1], ring.lengths())
    return ring.members[position < _PER_RING]


def _run_whole(graph: Path, folder: Path, rings: RingsConfig, workers: int) -> Whole:
    compile_kernels(folder / "compile", rings)
    num_nodes = Graph.open(graph).num_nodes
    console = Console(folder / "log.jsonl", quiet=True)
    one_round = rings.model_copy(update={"rounds": 1})
    began, used = time.perf_counter(), time.process_time()
    with start_runner(RunnerSettings(workers=workers)) as runner:
        precompute(graph, folder / "samples", one_round, 1, runner, console)
    written = time.perf_counter()
    samples = Samples.open(folder / "samples")
    for number in range(samples.num_rounds):
        samples.round(number)
    ended, used = time.perf_counter(), time.process_time() - used
    peak = peak_memory()
    references, distinct = batch_of(samples, num_nodes, rings.hops)
    done = next(line for line in reversed(read_json_lines(folder / "log.jsonl")) if line["event"] == "done")
    return Whole(
        seconds=ended - began,
        verify_seconds=ended - written,
        engine=str(done.get("engine", rings.engine)),
        anchors=num_nodes,
        bytes_written=sum(path.stat().st_size for path in (folder / "samples").rglob("*") if path.is_file()),
        short=float(done.get("short", 0.0)),
        peak_bytes=peak,
        cores_used=used / (ended - began),
        references=references,
        distinct=distinct,
    )


def _run_exact(folder: Path, place: Path, rings: RingsConfig, workers: int, seconds: float) -> Turn:
    compile_kernels(place / "compile", rings)
    graph = Graph.open(folder)
    priorities = draw_priorities(graph.identities(), rings.seed, 0, None, graph.indices.dtype.type)
    rank = priorities.rank()
    blocks = seeding.generator("bench-blocks").permutation(-(-graph.num_nodes // _BLOCK)) * _BLOCK

    def search(start: int) -> int:
        anchors = np.arange(start, min(start + _BLOCK, graph.num_nodes), dtype=np.int64)
        exact_rings(graph.indptr, graph.indices, anchors, priorities, rank, rings)
        return int(anchors.size)

    def work(number: int) -> tuple[int, float]:
        done, turn, began = 0, number, time.perf_counter()
        while (spent := time.perf_counter() - began) < seconds:
            done += search(int(blocks[turn % blocks.size]))
            turn += workers
        return done, done / spent

    search(int(blocks[-1]))
    began, used = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(workers) as pool:
        parts = list(pool.map(work, range(workers)))
    cores_used = (time.process_time() - used) / (time.perf_counter() - began)
    return Turn(sum(rate for _, rate in parts), sum(done for done, _ in parts), peak_memory(), cores_used)
