"""The run folder: where everything lives, whose it is, and how far it is."""

import contextlib
import os
import platform
import shutil
import socket
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from gscl_scale.checked import Count, quoted
from gscl_scale.config import Config, ModelConfig, RingsConfig, TrainConfig
from gscl_scale.errors import ConfigError, FolderError, LeaseError
from gscl_scale.files import clear_away, is_temporary, locked, naming, read_json, write_json

_LOCK = ".lock"
_OURS: set[Path] = set()  # locks that this process has


class _Record(TypedDict):
    """run.json, as far as it is read."""

    config: NotRequired[dict[str, dict[str, Any]]]
    inputs: NotRequired[dict[str, Annotated[list[Any], Field(min_length=2)]]]
    versions: NotRequired[dict[str, Any]]


class _Trained(TypedDict):
    epoch: Count
    finished: bool


class _Checkpoints(TypedDict):
    checkpoints: Annotated[list[_Trained], Field(min_length=1)]


class _Rounds(TypedDict):
    rounds: list[Any]


class _Embedded(TypedDict):
    rows: Count
    width: Count


class _Counted(TypedDict):
    num_nodes: Count
    num_entries: Count


@dataclass(frozen=True)
class Run:
    """A run folder; repeats of a run share its graph, trials of a search its samples too."""

    folder: Path
    graph: Path
    sampled: Path | None = None

    @classmethod
    def at(cls, folder: Path) -> "Run":
        """The run in a folder, with a graph of its own."""
        return cls(folder, folder / "graph")

    @classmethod
    def found(cls, folder: Path) -> "Run":
        """The finished run in a folder, which may be a repeat of the run above it."""
        if not (folder / "run.json").exists():
            raise FolderError(f"{folder} holds no run; name the folder of a finished run")
        above = folder.absolute().parent / "graph"
        return cls(folder, above if not (folder / "graph").exists() and above.exists() else folder / "graph")

    def repeat(self, seed: int) -> "Run":
        """The repeat of this run with another seed."""
        return Run(self.folder / f"seed-{seed}", self.graph)

    def repeat_like(self, other: "Run") -> "Run":
        """This run, or that repeat of it which the other one is of its own."""
        if other.graph.parent == other.folder:
            return self
        return Run(self.folder / other.folder.name, self.graph)

    @property
    def samples(self) -> Path:
        """Ring samples."""
        return self.sampled or self.folder / "samples"

    @property
    def checkpoints(self) -> Path:
        """Checkpoints of the training."""
        return self.folder / "checkpoints"

    @property
    def embeddings(self) -> Path:
        """Embeddings of all nodes."""
        return self.folder / "embeddings"

    @property
    def start(self) -> Path:
        """Weights that the training begins with; where there are none, drawn by its seed."""
        return self.folder / "start.pt"

    @property
    def rotation(self) -> Path:
        """The rotation of the embeddings into the space of earlier ones, if they have one."""
        return self.folder / "rotation.npy"

    @property
    def metrics(self) -> Path:
        """Figures."""
        return self.folder / "metrics.json"

    @property
    def report(self) -> Path:
        """The page to look at."""
        return self.folder / "report.html"

    @property
    def map(self) -> Path:
        """Places of the nodes on the map of the page."""
        return self.folder / "map"

    @property
    def log(self) -> Path:
        """One object a line: everything that happened."""
        return self.folder / "log.jsonl"


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Be the only process that works in a run folder; LeaseError if there is another one, on any machine.

    The system lets go of the lock of a killed process, whose half-written files go, and a process may come in again. A
    folder that is no run, or cannot be written, is left as it is: whoever writes there is told.
    """
    path = (folder / _LOCK).absolute()
    if path in _OURS or (folder.exists() and not (_may_be_run(folder) and os.access(folder, os.W_OK))):
        yield
        return
    with locked(path, wait=False) as ours:
        if not ours:
            raise LeaseError(
                f"{folder} is being worked on by {path.read_text(encoding='utf-8').strip() or 'another process'}; "
                "wait until that has ended, or stop it, then run again"
            )
        with naming(path):
            path.write_text(f"process {os.getpid()} of {socket.gethostname()}", encoding="utf-8")
        clear_away(folder)
        _OURS.add(path)
        try:
            yield
        finally:
            _OURS.remove(path)
            if folder.exists() and _is_empty(folder):
                shutil.rmtree(folder)


def _may_be_run(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    return (folder / "run.json").exists() or _is_empty(folder)


def _is_empty(folder: Path) -> bool:
    """Whether nothing was published there: what killed attempts have left does not count."""
    return all(_is_nothing(path) for path in folder.iterdir())


def _is_nothing(path: Path) -> bool:
    return path.name == _LOCK or is_temporary(path)


def open_run(config: Config, folder: Path) -> Run:
    """Claim a run folder for a configuration; one that holds work of another is refused."""
    if folder.exists() and not folder.is_dir():
        raise FolderError(f"{folder} is a file; give --run a folder")
    if folder.exists() and not _may_be_run(folder):
        if (folder / "graph/manifest.json").exists():
            raise FolderError(
                f"{folder} holds a run whose run.json is gone; delete {folder} to start again, or choose another --run"
            )
        raise FolderError(f"{folder} is not empty and holds no run; choose another --run")
    return claim(config, Run.at(folder))


def claim(config: Config, run: Run) -> Run:
    """Write run.json, the resolved configuration and the versions; work of another configuration is refused."""
    previous = refuse_other_work(config, run)
    packages = ("gscl-scale", "torch", "torch-geometric", "numpy", "numba", "pyarrow")
    versions = {"python": platform.python_version(), **{name: version(name) for name in packages}}
    record = {**previous, "config": config.dump(), "versions": versions}
    if record != previous:
        write_json(run.folder / "run.json", record)
    return run


def refuse_other_work(config: Config, run: Run) -> dict[str, Any]:
    """Refuse a folder that holds work of another configuration; what the folder says of itself, as it is."""
    previous = read_record(run.folder) if (run.folder / "run.json").exists() else {}
    if "config" in previous:
        _refuse_other_config(config, run, previous["config"])
    return previous


def read_record(folder: Path) -> dict[str, Any]:
    """What a run folder says of itself."""
    return read_json(folder / "run.json", _Record, f"choose another --run, or delete {folder} to start again")


def config_in(folder: Path) -> Config:
    """The configuration that a run was made with."""
    record = read_record(folder)
    if "config" not in record:
        raise FolderError(f"{folder / 'run.json'} is damaged: it holds no config; delete {folder} to start again")
    try:
        return Config.parse(record["config"])
    except ConfigError as error:
        raise FolderError(f"{folder / 'run.json'} is damaged: {error}") from None


def forget(run: Run) -> None:
    """Take back the claim on a folder, if nothing was made in it."""
    claimed = (run.folder / "run.json", run.log)
    if any(path not in claimed and not _is_nothing(path) for path in run.folder.iterdir()):
        return
    for path in claimed:
        path.unlink(missing_ok=True)
    if _is_empty(run.folder):
        shutil.rmtree(run.folder)


OF_SPLITS = ("seed", "split", "train_fractions", "val_fraction")
_OF_PROBE = ("probe_scaling", "probe_weight_decay", "probe_learning_rate")


def _refuse_other_config(config: Config, run: Run, earlier: dict[str, Any]) -> None:
    """Compare the sections whose work is already on disk, and name the first key that differs."""
    started = {
        "graph": run.graph,
        "rings": run.samples,
        "model": run.checkpoints,
        "loss": run.checkpoints,
        "train": run.checkpoints,
        "baseline": run.checkpoints,
    }
    free: dict[str, Set[str]] = {
        "rings": RingsConfig.NO_EFFECT,
        "graph": {"memory_mb"},
        "train": TrainConfig.NO_EFFECT,
        "model": ModelConfig.NO_EFFECT,
    }
    now, default = config.dump(), Config().dump()
    for section, place in started.items():
        known = {} if section == "graph" else default[section]  # a key may be younger than the run
        before = {**known, **earlier.get(section, {})}
        for key in sorted({*before, *now[section]} - free.get(section, set())):
            if place.exists() and before.get(key) != now[section].get(key):
                raise FolderError(
                    f"{run.folder} was made with {section}.{key} = {quoted(before.get(key))}, now it is "
                    f"{quoted(now[section].get(key))}; choose another --run, or delete {place} and what was made "
                    "from it"
                )
    if config.train.validate_every and run.checkpoints.exists():
        before, after = ({**default["evaluate"], **one.get("evaluate", {})} for one in (earlier, now))
        for key in OF_SPLITS:
            if before[key] != after[key]:
                raise FolderError(
                    f"the epoch of {run.folder} was chosen on splits of evaluate.{key} = {quoted(before[key])}, now it "
                    f"is {quoted(after[key])}: their test nodes may have chosen it; choose another --run"
                )
        for key in _OF_PROBE:
            if before[key] != after[key] and _in_training(run):
                raise FolderError(
                    f"the training of {run.folder} compares its epochs by a probe with evaluate.{key} = "
                    f"{quoted(before[key])}, now it is {quoted(after[key])}; go on as before and measure with the "
                    "other when it is finished, or choose another --run"
                )


def _in_training(run: Run) -> bool:
    """Whether a training has begun, and is to go on at a checkpoint."""
    manifest = run.checkpoints / "manifest.json"
    return manifest.exists() and not read_json(manifest, _Checkpoints)["checkpoints"][-1]["finished"]


def with_seed(config: Config, number: int) -> Config:
    """The configuration of one repeat: every seed moved on by `number`, nothing else."""
    return config.model_copy(
        update={
            "rings": config.rings.model_copy(update={"seed": config.rings.seed + number}),
            "train": config.train.model_copy(update={"seed": config.train.seed + number, "repeats": 1}),
            "evaluate": config.evaluate.model_copy(update={"seed": config.evaluate.seed + number}),
        }
    )


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
        last = read_json(manifest, _Checkpoints)["checkpoints"][-1]
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
