"""What a run would do: the state of each stage, and about how much time, memory and disk the rest takes."""

from dataclasses import dataclass
from pathlib import Path

from gscl_scale.config.config import Config
from gscl_scale.config.graph_size import GraphSize
from gscl_scale.graph.estimate import check_resources
from gscl_scale.graph.features import feature_blocks
from gscl_scale.graph.sources.read import read, source_size
from gscl_scale.graph.types import SourceSize
from gscl_scale.io.json import read_json
from gscl_scale.io.validate import Count
from gscl_scale.machine import num_cores
from gscl_scale.run.folder import Run
from gscl_scale.run.overwrite import other_results
from gscl_scale.run.record import Counts, refuse_other_work, size_in
from gscl_scale.stages.status import StageState, states_of
from gscl_scale.text import format_bytes

# Seconds of a core, measured on 2 cores of an AMD EPYC; other machines differ by a factor of two or three.
_PER_EDGE = 3e-7  # reading and sorting
_PER_ENTRY_COLUMN = 1e-9  # a step of the structural features
_STRUCTURE_STEPS = 28
_PER_ENTRY = 1.8e-7  # a pass of the sketch
_PER_ANCHOR = 1e-5  # writing and checking its rings
_PER_FLOP = 1 / 9e9
_PER_STEP = 0.03
_DISTINCT = 10  # nodes that a batch reads, for each of its anchors
_PROBE_STEP = 1.7e-9  # of a row, a column and a class
_START = 4.0  # imports, and code that is compiled or loaded
_ANCHOR_BYTES = 40
_FLOAT = 4


class _Counts(Counts):
    num_entries: Count


@dataclass(frozen=True)
class PlannedStage:
    """A stage, its state, and what is left of it: seconds, and bytes of disk."""

    stage: str
    state: str
    seconds: float
    disk: int


@dataclass(frozen=True)
class Plan:
    """The stages of a run; what would be removed before; memory and size of the graph in words."""

    stages: list[PlannedStage]
    removed: list[Path]
    graph: str


def plan_run(config: Config, folder: Path, overwrite: bool) -> Plan:
    """Look at a run folder and at the source of the graph; nothing is written."""
    if overwrite:
        removed = other_results(config, folder)
    else:
        removed = []
        refuse_other_work(config, Run.at(folder))
    states = [_after(state, removed) for state in states_of(config, folder)]
    manifest = folder / "graph" / "manifest.json"
    if states[0].state == "complete":
        counts = read_json(manifest, _Counts)
        nodes, entries, features = counts["num_nodes"], counts["num_entries"], counts["num_features"]
        rare = size_in(counts).rare
        words = states[0].detail
    else:
        size = _counted(config)
        nodes, edges = size.num_nodes or 0, size.num_edges or 0
        entries = edges * (2 if config.graph.undirected else 1)
        features, rare = sum(feature_blocks(size.num_features, config.graph)), False
        words = check_resources(size, config.graph, folder / "graph")
    needs = _needs(config, GraphSize(nodes, rare), entries, features)
    stages = [
        PlannedStage(state.stage, state.state, *(needs[state.stage.rpartition(" ")[2]] if _is_left(state) else (0, 0)))
        for state in states
    ]
    return Plan(stages, removed, words)


def _after(state: StageState, removed: list[Path]) -> StageState:
    gone = any(state.place == path or path in state.place.parents for path in removed)
    return StageState(state.stage, "missing", state.place, None, "") if gone else state


def _is_left(state: StageState) -> bool:
    return state.state != "complete"


def _counted(config: Config) -> SourceSize:
    """The size of the source; of text files once they are counted."""
    size = source_size(config.graph)
    if size.num_nodes is None or size.num_edges is None:
        draft = read(config.graph)
        edges = sum(ends[0].size for ends in draft.edges)
        size = SourceSize(**{**vars(size), "num_nodes": draft.num_nodes, "num_edges": edges})
    return size


def _needs(config: Config, size: GraphSize, entries: int, features: int) -> dict[str, tuple[float, int]]:
    """Seconds and bytes of disk of each stage."""
    cores, rings, model = max(1, num_cores()), config.rings, config.model
    structural = min(features, config.graph.structural_features if config.graph.structure != "none" else 0)
    nodes, epochs = size.num_nodes, config.train.epochs_for(size)
    rounds = epochs if rings.rounds == "epoch" else int(rings.rounds)
    layers = model.width * features + (model.layers - 1) * model.width**2
    batch_size = config.train.among(config.runtime.for_training().workers[0]).batch_size
    batch = min(nodes, _DISTINCT * batch_size)
    steps = epochs * (-(-nodes // batch_size) if config.train.reads_samples else 1)
    columns = model.width + structural
    probes = config.evaluate.random_splits * config.evaluate.initialisations * config.evaluate.probe_epochs
    anchor = _ANCHOR_BYTES + _FLOAT * (rings.hops * rings.width + rings.beyond)
    structure = _STRUCTURE_STEPS * entries * structural * _PER_ENTRY_COLUMN
    sampling = rounds * (entries * max(1, rings.hops - 1) * _PER_ENTRY + nodes * _PER_ANCHOR)
    return {
        "graph": ((entries * _PER_EDGE + structure) / cores, _FLOAT * (entries + nodes * (features + 4))),
        "precompute": (sampling / cores, rounds * nodes * anchor),
        "train": (steps * (_PER_STEP + 6 * batch * layers * _PER_FLOP / cores), 12 * layers),
        "embed": (
            2 * nodes * layers * _PER_FLOP / cores + entries * columns * _PER_ENTRY_COLUMN,
            nodes * columns * _FLOAT,
        ),
        "evaluate": (probes * nodes * columns * _PROBE_STEP / cores, 0),
        "report": (5.0, 4 << 20),
    }


def words_of(stage: PlannedStage) -> tuple[str, str, str, str]:
    """A stage as a row of a table."""
    if stage.state == "complete":
        return stage.stage, "finished", "", ""
    begun = "resume" if stage.state == "begun" else "run"
    return stage.stage, begun, _duration(stage.seconds), format_bytes(stage.disk) if stage.disk else ""


def total_of(plan: Plan) -> str:
    """The time and the disk of all that is left, in one sentence."""
    left = [stage for stage in plan.stages if stage.state != "complete"]
    if not left:
        return "Everything is finished; nothing would run."
    seconds, disk = sum(stage.seconds for stage in left) + _START, sum(stage.disk for stage in left)
    return f"In all {_duration(seconds)} and {format_bytes(disk)} of disk; times are rough, for an idle machine."


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"
