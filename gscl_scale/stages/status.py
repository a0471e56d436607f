"""The state of every stage of a run."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from gscl_scale.config.config import Config
from gscl_scale.errors import FolderError
from gscl_scale.io.json import read_json
from gscl_scale.io.validate import Count
from gscl_scale.run.folder import Run
from gscl_scale.run.record import CheckpointList, Counts, config_in, repeat_config, size_in


class _Rounds(TypedDict):
    rounds: list[Any]


class _Embedded(TypedDict):
    rows: Count
    width: Count


class _Counted(TypedDict):
    num_nodes: Count
    num_entries: Count


@dataclass(frozen=True)
class StageState:
    """A stage: complete, begun or missing; its folder or file, the time of its last change, and a detail."""

    stage: str
    state: str
    place: Path
    since: float | None
    detail: str


def status(folder: Path) -> list[StageState]:
    """The state of every stage of a run, or of each of its repeats."""
    if not (folder / "run.json").exists():
        raise FolderError(f"{folder} holds no run; name one with --run or --config")
    return states_of(config_in(folder), folder)


def states_of(config: Config, folder: Path) -> list[StageState]:
    """The state of every stage of a run with this configuration, which may not have begun."""
    whole = Run.at(folder)
    states = [_state("graph", whole.graph, whole.graph / "manifest.json", _graph_detail)]
    if config.train.repeats == 1:
        return states + _stage_states(config, whole, "")
    for number in range(config.train.repeats):
        one = repeat_config(config, number)
        states += _stage_states(one, whole.repeat(one.train.seed), f"seed {one.train.seed}: ")
    figures = _state("evaluate", whole.metrics, whole.metrics, lambda _: f"{config.train.repeats} repeats")
    return [*states, figures, _state("report", whole.report, whole.report)]


def _stage_states(config: Config, run: Run, prefix: str) -> list[StageState]:
    def train_detail(manifest: Path) -> str:
        last = read_json(manifest, CheckpointList)["checkpoints"][-1]
        epochs = config.train.epochs_for(size_in(read_json(run.graph / "manifest.json", Counts)))
        return f"epoch {last['epoch']} of {epochs}" + ("" if last["finished"] else ", unfinished")

    def samples_detail(manifest: Path) -> str:
        return f"{sum(entry is not None for entry in read_json(manifest, _Rounds)['rounds'])} rounds"

    def rows_detail(manifest: Path) -> str:
        values = read_json(manifest, _Embedded)
        return f"{values['rows']:,} x {values['width']}"

    states = [
        _state("precompute", run.samples, run.samples / "manifest.json", samples_detail),
        _state("train", run.checkpoints, run.checkpoints / "manifest.json", train_detail),
        _state("embed", run.embeddings, run.embeddings / "manifest.json", rows_detail),
        _state("evaluate", run.metrics, run.metrics),
        _state("report", run.report, run.report),
    ]
    skipped = () if config.train.reads_samples else ("precompute",)
    return [replace(state, stage=prefix + state.stage) for state in states if state.stage not in skipped]


def _graph_detail(manifest: Path) -> str:
    values = read_json(manifest, _Counted)
    return f"{values['num_nodes']:,} nodes, {values['num_entries']:,} entries"


def _state(stage: str, place: Path, marker: Path, detail: Callable[[Path], str] = lambda _: "") -> StageState:
    if marker.exists():
        text = detail(marker)
        state = "begun" if text.endswith("unfinished") else "complete"
        return StageState(stage, state, place, marker.stat().st_mtime, text)
    if place.exists():
        return StageState(stage, "begun", place, place.stat().st_mtime, "rerun the command to resume")
    return StageState(stage, "missing", place, None, "")
