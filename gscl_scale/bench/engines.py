"""Our engines measured: a round of all anchors, sampled, written and verified; or the rate of the exact engine."""

import itertools
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding
from gscl_scale.bench.harness import Bench, events
from gscl_scale.bench.listing import Rate
from gscl_scale.config.graphs import SyntheticGraph
from gscl_scale.config.sections import RingsConfig
from gscl_scale.graph.draft import write_graph
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.sources.read import read
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
class Round(Rate):
    """One round of all anchors, from the call of precompute to the last checksum compared.

    seconds, verify_seconds   all of it, and the reading back in it
    engine                    the engine that did the work
    short                     share of (anchor, list) entries that the exact engine finished for the sketch
    references, distinct      of a batch of random anchors: members per ring and in all, and distinct nodes among them
    """

    seconds: float
    verify_seconds: float
    engine: str
    bytes_written: int
    short: float
    references: list[int]
    distinct: list[int]


def engines_for(rings: RingsConfig) -> list[str]:
    """The engines that can sample as the settings ask."""
    return ["auto", "sketch", "exact"] if rings.sketchable() else ["exact"]


def sample(
    graph: Path, samples: Path, rings: RingsConfig, workers: int, log: Path | None = None,
    since: tuple[Path, Path] | None = None,
) -> None:  # fmt: skip
    """Write one round of samples of a graph."""
    one_round = rings.model_copy(update={"rounds": 1})
    with start_runner(RunnerSettings(workers=workers)) as runner:
        precompute(graph, samples, one_round, 1, runner, Console(log, quiet=True), since)


def measure_round(
    bench: Bench, graph: Path, rings: RingsConfig, place: Path, workers: int | None = None, samples: Path | None = None
) -> Round:
    """Run precompute in a fresh process with a worker per core; the first result is kept in the folder `samples`."""
    cores = bench.core_ids[:workers]
    with tempfile.TemporaryDirectory(dir=place, prefix=".samples-") as folder:
        measured = bench.alone(_run_round, graph, Path(folder), rings, len(cores), cores=cores)
        if samples and not samples.exists():
            (Path(folder) / "samples").rename(samples)
        return measured


def measure_exact(bench: Bench, graph: Path, rings: RingsConfig, seconds: float, place: Path) -> Rate:
    """The rate of the exact engine's search alone, on random blocks of anchors, with a thread per core."""
    with tempfile.TemporaryDirectory(dir=place, prefix=".samples-") as folder:
        return bench.alone(_run_exact, graph, Path(folder), rings, len(bench.core_ids), seconds)


def batch_of(samples: Samples, num_nodes: int, hops: int) -> tuple[list[int], list[int]]:
    """(references, distinct nodes) per ring and of all rings, of a batch of random anchors."""
    anchors = np.sort(seeding.generator("bench-batch").permutation(num_nodes)[:_BATCH])
    sample = samples.round(0).take(anchors)
    rings = [_lowest(ring) for ring in sample.rings[:hops]]
    rings.append(np.concatenate(rings))
    return [ring.size for ring in rings], [np.unique(ring).size for ring in rings]


def _lowest(ring: Lists) -> npt.NDArray[Any]:
    """The first members of each anchor's list, at most as many as a batch takes."""
    position = np.arange(ring.members.size) - np.repeat(ring.offsets[:-1], ring.lengths())
    return ring.members[position < _PER_RING]


def compile_kernels(folder: Path, rings: RingsConfig) -> None:
    """Sample a small graph with every engine, so that all kernels are compiled before something is measured.

    Lists of a single node, of which many are short, compile what the sketch leaves to the exact engine.
    """
    config = SyntheticGraph(source="synthetic", preset="small", num_features=1)
    write_graph(read(config), config, folder / "graph")
    for engine, width in itertools.product(engines_for(rings), (rings.width, 1)):
        chosen = rings.model_copy(update={"engine": engine, "width": width})
        sample(folder / "graph", folder / f"{engine}-{width}", chosen, 1)
    shutil.rmtree(folder)


def _run_round(graph: Path, folder: Path, rings: RingsConfig, workers: int) -> Round:
    compile_kernels(folder / "compile", rings)
    num_nodes = Graph.open(graph).num_nodes
    began, used = time.perf_counter(), time.process_time()
    sample(graph, folder / "samples", rings, workers, folder / "log.jsonl")
    written = time.perf_counter()
    samples = Samples.open(folder / "samples")
    samples.round(0)
    ended, used = time.perf_counter(), time.process_time() - used
    seconds, peak = ended - began, peak_memory()
    references, distinct = batch_of(samples, num_nodes, rings.hops)
    done = events(folder / "log.jsonl", "done")[-1]
    return Round(
        num_nodes / seconds, num_nodes, peak, used / seconds, seconds, ended - written,
        engine=done.get("engine", rings.engine), short=done.get("short", 0.0),
        bytes_written=sum(path.stat().st_size for path in (folder / "samples").rglob("*") if path.is_file()),
        references=references, distinct=distinct,
    )  # fmt: skip


def _run_exact(folder: Path, place: Path, rings: RingsConfig, workers: int, seconds: float) -> Rate:
    compile_kernels(place / "compile", rings)
    graph = Graph.open(folder)
    priorities = draw_priorities(graph.identities(), rings.seed, 0, None, graph.indices.dtype.type)
    rank = priorities.rank()
    blocks = seeding.generator("bench-blocks").permutation(-(-graph.num_nodes // _BLOCK)) * _BLOCK

    def search(start: int) -> int:
        anchors = np.arange(start, min(start + _BLOCK, graph.num_nodes), dtype=np.int64)
        exact_rings(graph.indptr, graph.indices, anchors, priorities, rank, rings)
        return int(anchors.size)

    def work(number: int) -> tuple[float, int]:
        done, turn, began = 0, number, time.perf_counter()
        while (spent := time.perf_counter() - began) < seconds:
            done += search(int(blocks[turn % blocks.size]))
            turn += workers
        return done / spent, done

    search(int(blocks[-1]))
    began, used = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(workers) as pool:
        rates, anchors = zip(*pool.map(work, range(workers)), strict=True)
    cores_used = (time.process_time() - used) / (time.perf_counter() - began)
    return Rate(sum(rates), sum(anchors), peak_memory(), cores_used)
