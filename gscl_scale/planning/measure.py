"""Rates of this machine: the stages' own work on a small graph, in seconds of processor."""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from gscl_scale.config.graphs import SyntheticGraph
from gscl_scale.config.sections import ModelConfig, RingsConfig
from gscl_scale.embed.layers import EncodingSettings, encode_nodes
from gscl_scale.graph.draft import write_graph
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.sources import synthetic
from gscl_scale.machine import cpu_seconds, processor_name
from gscl_scale.model.model import build_model
from gscl_scale.model.scaling import Scaling
from gscl_scale.planning.rates import Rates
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.local import LocalRunner
from gscl_scale.shards.precompute import precompute

_NODES, _WARM_UP, _DEGREE, _WIDTH = 200_000, 3_000, 20.0, 64
_SIDE = 1024  # of the matrices of a product
_PRODUCTS = 4
_WRITTEN, _WRITES = 64 << 20, 3
_LEAST = 1e-12  # seconds: a difference of two measurements may be none
_QUIET = Console(quiet=True)


def measure_rates() -> Rates:
    """Measure for some seconds; what other programs compute at the same time is not counted."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gscl-scale-plan-") as folder:
        _measure_all(Path(folder, "warm-up"), _WARM_UP)  # loads the kernels
        measured = _measure_all(Path(folder, "graph"), _NODES)
        write = _writing_rate(Path(folder, "bytes"))
    origin = (
        f"measured on one core of {processor_name()} with a graph of {_NODES:,} nodes, in "
        f"{time.monotonic() - began:.0f} s; its disk takes {1e-6 / write:,.0f} MB/s"
    )
    return Rates(**measured, write=write, origin=origin)


def _measure_all(folder: Path, nodes: int) -> dict[str, float]:
    folder.mkdir()
    config = SyntheticGraph(source="synthetic", num_nodes=nodes, mean_degree=_DEGREE, num_features=_WIDTH)
    ingesting = _seconds(lambda: write_graph(synthetic.read(config), config, folder / "graph"))
    graph = Graph.open(folder / "graph")
    entries = graph.indices.size
    two, three, exact = (_sampling_s(folder, *way) for way in (("sketch", 2), ("sketch", 3), ("exact", 1)))
    sketch = max(_LEAST, (three - two) / entries)
    anchor = max(_LEAST, (two - entries * sketch) / nodes)
    flop = _product_s() / (2.0 * _PRODUCTS * _SIDE**3)
    encoding = _seconds(lambda: _encode(folder, graph)) - 2.0 * nodes * _WIDTH**2 * flop
    return {
        "sort": ingesting / entries,
        "sketch": sketch,
        "anchor": anchor,
        "visit": max(_LEAST, (exact - nodes * anchor) / entries),
        "flop": flop,
        "gather": max(_LEAST, encoding / (entries * _WIDTH)),
    }


def _seconds(work: Callable[[], object]) -> float:
    began = cpu_seconds()
    work()
    return cpu_seconds() - began


def _sampling_s(folder: Path, engine: str, hops: int) -> float:
    config = RingsConfig.model_validate({"hops": hops, "engine": engine, "rounds": 1})
    with LocalRunner(1) as runner:
        return _seconds(lambda: precompute(folder / "graph", folder / f"{engine}-{hops}", config, 1, runner, _QUIET))


def _product_s() -> float:
    left = torch.ones(_SIDE, _SIDE)

    def multiply() -> None:
        for _ in range(_PRODUCTS):
            left @ left

    return _seconds(multiply)


def _encode(folder: Path, graph: Graph) -> None:
    encoder = build_model(ModelConfig(width=_WIDTH, layers=1), graph.feature_blocks, seed=0).encoder
    scaling = Scaling.of(graph.features, "none")
    place = EncodingSettings(folder / "layers", "first weights", torch.device("cpu"), threads=1)
    with encode_nodes(encoder, graph, scaling, place, _QUIET):
        pass


def _writing_rate(path: Path) -> float:
    """Seconds of a byte that is on the disk; the fastest of some turns."""
    seconds, block = list[float](), os.urandom(1 << 20)
    for _ in range(_WRITES):
        began = time.monotonic()
        with path.open("wb") as file:
            file.writelines([block] * (_WRITTEN >> 20))
            file.flush()
            os.fsync(file.fileno())
        seconds.append(time.monotonic() - began)
    return min(seconds) / _WRITTEN
