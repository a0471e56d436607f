"""`bench train`: anchors per second of a step, of the same step in torch-geometric, and of ours without each idea."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from gscl_scale.batches.schedule import steps_per_epoch
from gscl_scale.bench.engines import sample
from gscl_scale.bench.graphs import config_graph, describe, describe_lists, graph_setting
from gscl_scale.bench.harness import Columns, Line, table_of
from gscl_scale.bench.host_work import measure_host_work
from gscl_scale.bench.options import Device, Train
from gscl_scale.bench.steps import FORMS, WITHOUT, Competitor, Measured, measure
from gscl_scale.bench.train_on_gpu import bench_train_on_gpu, host_sentence
from gscl_scale.config.config import Config
from gscl_scale.errors import UserError
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.types import SparseFeatures

_PACKAGES = ("torch", "torch-geometric", "numba")
_OURS = (Competitor("gscl-scale", "ours"), Competitor("gscl-scale, bfloat16", "ours", precision="bfloat16"))
_IDEAS = tuple(Competitor(f"without: {idea}", "idea", without=idea) for idea in WITHOUT)
_PEERS = tuple(Competitor(f"torch-geometric, {form}", "peer", form=form) for form in FORMS)


@dataclass(frozen=True)
class StepRow(Line):
    """The medians of one competitor over the turns."""

    name: str
    kind: str
    step_s: float
    anchors_per_s: float
    times_edge_index: float
    times_csr: float
    waiting: float
    nodes_per_batch: float
    loss: float
    unseen_loss: float
    peak_bytes: int


def bench_train(bench: Train) -> str:
    """Measure, write train.json and train.md, and return the page."""
    if bench.device == Device.CUDA:
        return bench_train_on_gpu(bench)
    config, steps = bench.config, bench.steps
    competitors = [*_OURS, *(_IDEAS if bench.ideas else ()), *_PEERS]
    with bench.scratch() as folder:
        graph = config_graph(bench, config, folder)
        _refuse_what_peers_cannot(config, graph, steps)
        sample(folder / "graph", folder / "samples", config.rings, len(bench.core_ids))
        ways = {one.name: partial(bench.alone, measure, folder, config, one, steps) for one in competitors}
        measured = bench.in_turns(ways, lambda name, result: f"{name}: {result.step_s:.2f} s a step")
        host = bench.alone(measure_host_work, folder, config)
    rows = _rows(competitors, measured, config.train.batch_size)
    page = "\n\n".join([_sentence(bench, graph), _table(rows, steps), _notes(bench), host_sentence(host)])
    setting = {**graph_setting(graph), "steps": steps, "config": config.dump()}
    return bench.write(page, rows, setting, _PACKAGES, host_work=vars(host))


def _refuse_what_peers_cannot(config: Config, graph: Graph, steps: int) -> None:
    """UserError if torch-geometric cannot take the same step, or an epoch is too short."""
    if config.model.encoder != "gcn" or isinstance(graph.features, SparseFeatures):
        raise UserError("bench train: the same step in torch-geometric takes model.encoder gcn and dense features")
    if not isinstance(config.rings.per_ring, int):
        raise UserError(f"bench train: expected a number as rings.per_ring, got {config.rings.per_ring}; set one")
    batches, size = steps_per_epoch(graph.num_nodes, config.train.batch_size), config.train.batch_size
    if batches < steps + 2:
        raise UserError(
            f"bench train: {steps} steps, a first one and a batch without training need {steps + 2} batches, "
            f"an epoch has {batches} of {size:,} anchors; lower train.batch_size or --steps, or name a larger graph"
        )


def _rows(competitors: Sequence[Competitor], measured: dict[str, list[Measured]], batch_size: int) -> list[StepRow]:
    step_s = {name: statistics.median(turn.step_s for turn in turns) for name, turns in measured.items()}
    slow, fast = (step_s[peer.name] for peer in _PEERS)
    return [
        StepRow(
            name=one.name, kind=one.kind, step_s=step_s[one.name], anchors_per_s=batch_size / step_s[one.name],
            times_edge_index=slow / step_s[one.name], times_csr=fast / step_s[one.name],
            waiting=statistics.median(turn.waiting for turn in measured[one.name]),
            nodes_per_batch=statistics.mean(turn.nodes for turn in measured[one.name]),
            loss=statistics.mean(turn.loss for turn in measured[one.name]),
            unseen_loss=statistics.mean(turn.unseen_loss for turn in measured[one.name]),
            peak_bytes=max(turn.peak_bytes for turn in measured[one.name]),
        )
        for one in competitors
    ]  # fmt: skip


def _sentence(bench: Train, graph: Graph) -> str:
    rings, model, train = bench.config.rings, bench.config.model, bench.config.train
    return (
        f"A step of training on {describe(graph, f'{graph.num_features} features')}: {model.layers} {model.encoder} "
        f"layers of width {model.width}, k = {rings.hops}, {describe_lists(rings)}, {train.batch_size:,} anchors, "
        f"{train.negatives} candidates shared by the batch. {bench.steps} steps after a first one on {bench.machine}. "
        f"`{bench.command}` makes this table:"
    )


def _table(rows: Sequence[StepRow], steps: int) -> str:
    ours = rows[0]
    columns: Columns[StepRow] = {
        "step": lambda row: f"**{row.name}**" if row.kind == "ours" else row.name,
        "anchors/s": lambda row: f"{row.anchors_per_s:,.0f}",
        "time": lambda row: f"{row.step_s:.2f} s",
        "x edge_index": lambda row: f"{row.times_edge_index:.1f} x",
        "x CSR": lambda row: f"{row.times_csr:.1f} x",
        "the idea gives": lambda row: f"{row.step_s / ours.step_s:.2f} x" if row.kind == "idea" else "-",
        "distinct nodes": lambda row: f"{row.nodes_per_batch:,.0f}",
        "waiting": lambda row: f"{row.waiting:.0%}",
        f"loss after {steps + 1} steps": lambda row: f"{row.unseen_loss:.3f}",
        "peak memory": lambda row: f"{row.peak_bytes / 1e9:.1f} GB",
    }
    return table_of(rows, columns, left=[0])


def _notes(bench: Train) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in bench.versions(_PACKAGES).items())
    return (
        "- All begin with the same weights and see the same anchors in the same order. The peers draw the samples of "
        "every anchor on its own, before the clock starts; ours are read and collated while the clock runs. Both peers "
        "normalise the graph once and project only the distinct nodes of the batch. The loss is that of a batch on "
        "which none was trained, with samples drawn per anchor.\n"
        "- `without` leaves one idea out of the first row; the idea gives what the step is slower then.\n"
        f"- versions: {versions}"
    )
