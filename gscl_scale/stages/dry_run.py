"""What a run would do: the state of each stage, and about how much time, memory and disk the rest takes."""

from dataclasses import dataclass
from pathlib import Path

from gscl_scale.config.config import Config
from gscl_scale.graph.estimate import check_resources
from gscl_scale.planning.graph_shape import GraphShape, counted_source
from gscl_scale.planning.need import Machines
from gscl_scale.planning.rates import REFERENCE
from gscl_scale.planning.stages import stage_needs
from gscl_scale.run.folder import Run
from gscl_scale.run.overwrite import other_results
from gscl_scale.run.record import refuse_other_work
from gscl_scale.stages.status import StageState, states_of
from gscl_scale.text import format_bytes, format_duration

_START = 4.0  # seconds: imports, and code that is compiled or loaded


@dataclass(frozen=True)
class PlannedStage:
    """A stage, its state, and what is left of it: seconds, bytes of memory of its process, and bytes of disk."""

    stage: str
    state: str
    seconds: float
    memory: int
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
    if states[0].state == "complete":
        shape, words = GraphShape.of_folder(folder / "graph"), states[0].detail
    else:
        size = counted_source(config.graph)
        shape = GraphShape.of_size(size, config.graph)
        words = check_resources(size, config.graph, folder / "graph")
    needs = {need.stage: need for need in stage_needs(config, shape, Machines.this(), REFERENCE)}
    stages = []
    for state in states:
        need = needs[state.stage.rpartition(" ")[2]]
        left = (0.0, 0, 0) if state.state == "complete" else (need.seconds, need.process_bytes, need.disk)
        stages.append(PlannedStage(state.stage, state.state, *left))
    return Plan(stages, removed, words)


def _after(state: StageState, removed: list[Path]) -> StageState:
    gone = any(state.place == path or path in state.place.parents for path in removed)
    return StageState(state.stage, "missing", state.place, None, "") if gone else state


def words_of(stage: PlannedStage) -> tuple[str, ...]:
    """A stage as a row of a table."""
    if stage.state == "complete":
        return stage.stage, "finished", "", "", ""
    begun, disk = "resume" if stage.state == "begun" else "run", format_bytes(stage.disk) if stage.disk else ""
    return stage.stage, begun, f"about {format_duration(stage.seconds)}", format_bytes(stage.memory), disk


def total_of(plan: Plan) -> str:
    """The time and the disk of all that is left, in one sentence."""
    left = [stage for stage in plan.stages if stage.state != "complete"]
    if not left:
        return "Everything is finished; nothing would run."
    seconds, disk = sum(stage.seconds for stage in left) + _START, sum(stage.disk for stage in left)
    return (
        f"In all about {format_duration(seconds)} and {format_bytes(disk)} of disk; times are rough, by the rates of "
        f"{REFERENCE.origin}."
    )
