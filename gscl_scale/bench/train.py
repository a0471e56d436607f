"""`bench train`: anchors per second of a step beside the same step in torch-geometric, and what each idea gives."""

import platform
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gscl_scale.batches.stream import steps_per_epoch
from gscl_scale.bench.processes import in_process
from gscl_scale.bench.steps import FORMS, WITHOUT, Measured, measure_ours, measure_peer
from gscl_scale.config.config import Config
from gscl_scale.errors import UserError
from gscl_scale.graph.draft import write_graph
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.sources.read import read
from gscl_scale.graph.types import SparseFeatures
from gscl_scale.io.atomic import write_text
from gscl_scale.io.json import write_json
from gscl_scale.machine import processor_name, usable_cores
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.runner import start_runner
from gscl_scale.runtime.settings import RunnerSettings
from gscl_scale.shards.precompute import precompute
from gscl_scale.text import cores_of, table, turns_of
from gscl_scale.version import __version__


@dataclass(frozen=True)
class Competitor:
    """A way to take a step: ours, ours without one idea, or a form of torch-geometric's."""

    name: str
    kind: str
    settings: dict[str, Any]


@dataclass(frozen=True)
class TrainBench:
    """What is asked for: steps that are timed, after one that is not, and how often all is measured."""

    steps: int
    turns: int
    ideas: bool
    command: str


@dataclass(frozen=True)
class StepRow:
    """Middle of the turns of one competitor."""

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


def bench_train(config: Config, asked: TrainBench, out: Path, console: Console) -> str:
    """Measure, write train.json and train.md into `out`, and return the Markdown."""
    out.mkdir(parents=True, exist_ok=True)
    competitors = _competitors(asked.ideas)
    found: dict[str, list[Measured]] = {competitor.name: [] for competitor in competitors}
    with tempfile.TemporaryDirectory(dir=out, prefix=".bench-") as place:
        folder = Path(place)
        graph = write_graph(read(config.graph), config.graph, folder / "graph")
        _refuse_what_peers_cannot(config, graph, asked.steps)
        rings = config.rings.model_copy(update={"rounds": 1})
        with start_runner(RunnerSettings(workers=len(usable_cores()))) as runner:
            precompute(folder / "graph", folder / "samples", rings, 1, runner, Console(quiet=True))
        for turn in range(asked.turns):
            for competitor in competitors:
                console.say(f"bench train: turn {turn + 1} of {asked.turns}, {competitor.name}")
                measure = measure_peer if competitor.kind == "peer" else measure_ours
                values = config.dump()
                found[competitor.name].append(
                    in_process(usable_cores(), measure, folder, values, competitor.settings, asked.steps)
                )
    rows = _rows(competitors, found, config.train.batch_size)
    setting = {
        "command": asked.command, "graph": graph.name, "nodes": graph.num_nodes, "entries": int(graph.indices.size),
        "features": graph.num_features, "steps": asked.steps, "turns": asked.turns, "cores": len(usable_cores()),
        "processor": processor_name(), "config": config.dump(),
        "versions": {"gscl_scale": __version__, "python": platform.python_version(),
                     **{name: version(name) for name in ("torch", "torch-geometric", "numba")}},
    }  # fmt: skip
    page = _page(setting, rows)
    write_json(out / "train.json", {"setting": setting, "rows": [asdict(row) for row in rows]})
    write_text(out / "train.md", page + "\n")
    return page


def _refuse_what_peers_cannot(config: Config, graph: Graph, steps: int) -> None:
    """UserError where the step cannot be measured in torch-geometric as well, or an epoch is too short."""
    if config.model.encoder != "gcn" or isinstance(graph.features, SparseFeatures):
        raise UserError("bench train: the same step in torch-geometric takes model.encoder gcn and dense features")
    if not isinstance(config.rings.per_ring, int):
        raise UserError(f"bench train: expected a number as rings.per_ring, got {config.rings.per_ring}; set one")
    batches, size = steps_per_epoch(graph.num_nodes, config.train.batch_size), config.train.batch_size
    if batches < steps + 2:
        raise UserError(
            f"bench train: {steps} steps, a first one and a batch on which none is trained need {steps + 2} batches, "
            f"an epoch has {batches} of {size:,} anchors; lower train.batch_size or --steps, or name a larger graph"
        )


def _competitors(ideas: bool) -> list[Competitor]:
    ours = [
        Competitor("gscl-scale", "ours", {"precision": "float32"}),
        Competitor("gscl-scale, bfloat16", "ours", {"precision": "bfloat16"}),
    ]
    without = [Competitor(f"without: {idea}", "idea", {"precision": "float32", "without": idea}) for idea in WITHOUT]
    peers = [Competitor(f"torch-geometric, {form}", "peer", {"form": form}) for form in FORMS]
    return [*ours, *(without if ideas else []), *peers]


def _rows(competitors: Sequence[Competitor], found: dict[str, list[Measured]], batch_size: int) -> list[StepRow]:
    step_s = {name: statistics.median(one.step_s for one in turns) for name, turns in found.items()}
    slow, fast = (step_s[f"torch-geometric, {form}"] for form in FORMS)
    return [
        StepRow(
            name=competitor.name, kind=competitor.kind, step_s=mine, anchors_per_s=batch_size / mine,
            times_edge_index=slow / mine, times_csr=fast / mine,
            waiting=statistics.median(one.waiting for one in found[competitor.name]),
            nodes_per_batch=statistics.mean(one.nodes for one in found[competitor.name]),
            loss=statistics.mean(one.loss for one in found[competitor.name]),
            unseen_loss=statistics.mean(one.unseen_loss for one in found[competitor.name]),
            peak_bytes=max(one.peak_bytes for one in found[competitor.name]),
        )
        for competitor in competitors
        for mine in [step_s[competitor.name]]
    ]  # fmt: skip


def _page(setting: dict[str, Any], rows: Sequence[StepRow]) -> str:
    values = setting["config"]
    rings, model, train = values["rings"], values["model"], values["train"]
    ours = rows[0]
    cells = [
        [
            f"**{row.name}**" if row.kind == "ours" else row.name, f"{row.anchors_per_s:,.0f}", f"{row.step_s:.2f} s",
            f"{row.times_edge_index:.1f} x", f"{row.times_csr:.1f} x",
            f"{ours.anchors_per_s / row.anchors_per_s:.2f} x" if row.kind == "idea" else "-",
            f"{row.nodes_per_batch:,.0f}", f"{row.waiting:.0%}", f"{row.unseen_loss:.3f}",
            f"{row.peak_bytes / 1e9:.1f} GB",
        ]
        for row in rows
    ]  # fmt: skip
    lines = [
        f"A step of training on `{setting['graph']}` ({setting['nodes']:,} nodes, {setting['entries']:,} directed "
        f"entries, {setting['features']} features): {model['layers']} {model['encoder']} layers of width "
        f"{model['width']}, k = {rings['hops']}, {rings['per_ring']} per ring, {rings['beyond']} beyond, "
        f"{train['batch_size']:,} anchors, {train['negatives']} candidates shared by the batch. On "
        f"{cores_of(setting['cores'])} of {setting['processor']}, {setting['steps']} steps after a first one, "
        f"{turns_of(setting['turns'])}. `{setting['command']}` makes this table:",
        "",
        table(
            ["step", "anchors/s", "time", "x edge_index", "x CSR", "the idea gives", "distinct nodes", "waiting",
             f"loss after {setting['steps'] + 1} steps", "peak memory"],
            cells, left=[0],
        ),
        "",
        "- All begin with the same weights and see the same anchors in the same order. The peers draw the samples of "
        "every anchor on its own, before the clock starts; ours are read and collated while the clock runs. Both peers "
        "normalise the graph once and project only the distinct nodes of the batch. The loss is that of a batch on "
        "which none was trained, with samples drawn per anchor.",
        "- `without` takes one idea out of the first row: what it gives is how much slower the step is then.",
        "- versions: " + ", ".join(f"{name} {number}" for name, number in setting["versions"].items()),
    ]  # fmt: skip
    return "\n".join(lines)
