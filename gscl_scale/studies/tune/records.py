"""The folder of a search: the shared graph and ring samples, and a file for each trial."""

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from gscl_scale.config.config import Config
from gscl_scale.config.identity import Sections, changed_settings
from gscl_scale.config.section import RESULTS
from gscl_scale.errors import FolderError
from gscl_scale.io.json import read_json, write_json
from gscl_scale.io.validate import Count
from gscl_scale.run.folder import Run
from gscl_scale.shards.precompute import name_of_samples
from gscl_scale.studies.tune.space import Value
from gscl_scale.text import shortened
from gscl_scale.version import __version__

Ended = Literal["", "finished", "stopped", "failed"]


@dataclass(frozen=True)
class Trial:
    """One setting of the keys of a space, and what came of it.

    ended        stopped: early, it fell behind; "": not yet
    accuracy     validation accuracy: of the protocol if finished, else the last of `validations`
    epoch        the one whose encoder was measured
    validations  (per cent of the epochs that are done, accuracy of the quick probe), in order
    """

    number: int
    settings: dict[str, Value]
    ended: Ended = ""
    accuracy: float | None = None
    epoch: int = 0
    seconds: float = 0.0
    reason: str = ""
    validations: list[tuple[float, float]] = field(default_factory=list)


class _Record(TypedDict):
    """trial.json."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # read by pydantic

    number: Count
    settings: dict[str, Value]
    ended: Ended
    accuracy: float | None
    epoch: Count
    seconds: float
    reason: str
    validations: list[Annotated[list[float], Field(min_length=2, max_length=2)]]


class Suggestion(TypedDict):
    """What Ray Tune passes to a trial."""

    number: int
    settings: dict[str, Value]


class Result(TypedDict, total=False):
    """What a trial reports to Ray Tune after each validation and at its end; the last key is Ray's."""

    progress: float  # per cent of the epochs
    epoch: int
    accuracy: float
    ended: Ended
    reason: str
    time_total_s: float


class Book:
    """The records of the trials of a search, in memory and on disk.

    measure   the name of the figure that the trials are compared by
    """

    def __init__(self, folder: Path, measure: str = "accuracy") -> None:
        self.folder, self.measure = folder.absolute(), measure
        self._trials: dict[int, Trial] = {}
        for path in sorted((self.folder / "trials").glob("*/trial.json")):
            values: Any = read_json(path, _Record, f"delete {path.parent} to try it again")
            trial = Trial(**{**values, "validations": [(at, accuracy) for at, accuracy in values["validations"]]})
            self._trials[trial.number] = trial

    def note(self, trial: Trial) -> None:
        """Write that a trial begins, or how it goes."""
        self._trials[trial.number] = trial
        write_json(trial_run(self.folder, trial.number).folder / "trial.json", asdict(trial))

    def end(self, trial: Trial) -> None:
        """Write how a trial has ended, and delete its checkpoints: nothing resumes it any more."""
        self.note(trial)
        shutil.rmtree(trial_run(self.folder, trial.number).checkpoints, ignore_errors=True)

    def all(self) -> list[Trial]:
        """Every trial, by its number."""
        return [self._trials[number] for number in sorted(self._trials)]

    def ended(self) -> list[Trial]:
        """Trials that need no more work, by their numbers."""
        return [trial for trial in self.all() if trial.ended]

    def unfinished(self) -> list[Trial]:
        """Trials that were begun, and interrupted from outside."""
        return [trial for trial in self.all() if not trial.ended]


def trial_run(folder: Path, number: int) -> Run:
    """The run of a trial, without samples."""
    return Run(folder / "trials" / f"{number:03d}", folder / "graph")


def rings_run(config: Config, run: Run) -> Run:
    """The run that has the ring samples of a trial, and of all with the same section `rings`."""
    return Run(run.graph.parent / "rings" / name_of_samples(config.rings, config.train.num_epochs), run.graph)


class _Search(TypedDict):
    """search.json: what all trials of a search have in common."""

    version: str
    config: Sections
    space: dict[str, object]


def stored_space(folder: Path) -> dict[str, object] | None:
    """The space of the search in a folder; None where there is none."""
    return _read_search(folder)["space"] if (folder / "search.json").exists() else None


def claim_search(folder: Path, config: Config, space: Mapping[str, object]) -> None:
    """Write search.json; a folder with the trials of another search is refused."""
    path = folder / "search.json"
    if path.exists():
        earlier = _read_search(folder)
        differing = [f"{section}.{key}" for section, key, _, _ in changed_settings(earlier["config"], config, *RESULTS)]
        before = earlier["space"]
        differing += [f"space.{key}" for key in {**before, **space} if before.get(key) != space.get(key)]
        if differing:
            raise FolderError(
                f"{folder} holds the trials of a search with another {shortened(differing[0])}; {_cure(folder)}"
            )
    write_json(path, {"version": __version__, "config": config.dump(), "space": space})


def _read_search(folder: Path) -> _Search:
    return read_json(folder / "search.json", _Search, _cure(folder))


def _cure(folder: Path) -> str:
    return f"choose another --run, or delete {folder / 'trials'} and {folder / 'search.json'} to search again"


def ranked(trials: Iterable[Trial]) -> list[Trial]:
    """The best first: finished ones by accuracy, stopped ones by how far they came, failed ones."""
    order = ("finished", "stopped", "failed")

    def place(trial: Trial) -> tuple[float, ...]:
        far = trial.validations[-1][0] if trial.ended == "stopped" and trial.validations else 0.0
        return order.index(trial.ended), -far, -(trial.accuracy or 0.0), trial.number

    return sorted((trial for trial in trials if trial.ended), key=place)
