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
from gscl_scale.run.record import CheckpointList, config_in, with_seed


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
    """What is known of one stage: complete, begun or missing, where it lives, since when, and a word about it."""

    stage: str
    state: str
    place: Path
    since: float | None
    detail: str


def status(folder: Path) -> list[StageState]:
    """The state of every stage of a run, and of its repeats."""
    if not (folder / "run.json").exists():
        raise FolderError(f"{folder} holds no run; give --run or --config the run to look at")
    config = config_in(folder)
    whole = Run.at(folder)
    states = [_state("graph", whole.graph, whole.graph / "manifest.json", _graph_detail)]
    repeats = range(config.train.repeats)
    for number in repeats if config.train.repeats > 1 else ():
        one = with_seed(config, number)
        states += _stage_states(one, whole.repeat(one.train.seed), f"seed {one.train.seed}: ")
    if config.train.repeats == 1:
        return states + _stage_states(config, whole, "")
    figures = _state("evaluate", whole.metrics, whole.metrics, lambda _: f"{config.train.repeats} repeats")
    return [*states, figures, _state("report", whole.report, whole.report, lambda _: "")]


def _stage_states(config: Config, run: Run, prefix: str) -> list[StageState]:
    def train_detail(manifest: Path) -> str:
        last = read_json(manifest, CheckpointList)["checkpoints"][-1]
        return f"epoch {last['epoch']} of {config.train.epochs}" + ("" if last["finished"] else ", unfinished")

    def samples_detail(manifest: Path) -> str:
        return f"{sum(entry is not None for entry in read_json(manifest, _Rounds)['rounds'])} rounds"

    def rows_detail(manifest: Path) -> str:
        values = read_json(manifest, _Embedded)
        return f"{values['rows']:,} x {values['width']}"

    states = [
        _state("precompute", run.samples, run.samples / "manifest.json", samples_detail),
        _state("train", run.checkpoints, run.checkpoints / "manifest.json", train_detail),
        _state("embed", run.embeddings, run.embeddings / "manifest.json", rows_detail),
        _state("evaluate", run.metrics, run.metrics, lambda _: ""),
        _state("report", run.report, run.report, lambda _: ""),
    ]
    skipped = () if config.train.reads_samples else ("precompute",)
    return [replace(state, stage=prefix + state.stage) for state in states if state.stage not in skipped]


def _graph_detail(manifest: Path) -> str:
    values = read_json(manifest, _Counted)
    return f"{values['num_nodes']:,} nodes, {values['num_entries']:,} entries"


def _state(stage: str, place: Path, marker: Path, detail: Callable[[Path], str]) -> StageState:
    if marker.exists():
        text = detail(marker)
        state = "begun" if text.endswith("unfinished") else "complete"
        return StageState(stage, state, place, marker.stat().st_mtime, text)
    if place.exists():
        return StageState(stage, "begun", place, place.stat().st_mtime, "run the same command again to go on")
    return StageState(stage, "missing", place, None, "")
