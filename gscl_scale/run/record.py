"""The run folder: where everything lives, whose it is, and how far it is."""

import platform
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from gscl_scale.config.config import Config
from gscl_scale.config.identity import as_of_today, differences
from gscl_scale.config.section import Result
from gscl_scale.errors import ConfigError, FolderError
from gscl_scale.io.json import read_json, write_json
from gscl_scale.io.validate import Count
from gscl_scale.run.folder import Run
from gscl_scale.run.lock import _is_empty, _is_nothing, _may_be_run
from gscl_scale.text import quoted


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
    record: Any = read_json(folder / "run.json", _Record, f"choose another --run, or delete {folder} to start again")
    return record


def config_in(folder: Path) -> Config:
    """The configuration that a run was made with."""
    record = read_record(folder)
    if "config" not in record:
        raise FolderError(f"{folder / 'run.json'} is damaged: it holds no config; delete {folder} to start again")
    try:
        return Config.parse(as_of_today(record["config"]))
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


def _refuse_other_config(config: Config, run: Run, earlier: dict[str, dict[str, Any]]) -> None:
    """Compare the settings whose work is already on disk, and name the first one that differs."""
    places: dict[Result, Path] = {"graph": run.graph, "samples": run.samples, "training": run.checkpoints}
    for result, place in places.items():
        for section, key, before, now in differences(earlier, config, result) if place.exists() else ():
            raise FolderError(
                f"{run.folder} was made with {section}.{key} = {quoted(before)}, now it is {quoted(now)}; "
                f"choose another --run, or delete {place} and what was made from it"
            )
    if not config.train.validate_every or not run.checkpoints.exists():
        return
    for _, key, before, now in differences(earlier, config, "splits"):
        raise FolderError(
            f"the epoch of {run.folder} was chosen on splits of evaluate.{key} = {quoted(before)}, now it "
            f"is {quoted(now)}: their test nodes may have chosen it; choose another --run"
        )
    for _, key, before, now in differences(earlier, config, "probe"):
        if _in_training(run):
            raise FolderError(
                f"the training of {run.folder} compares its epochs by a probe with evaluate.{key} = "
                f"{quoted(before)}, now it is {quoted(now)}; go on as before and measure with the "
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
