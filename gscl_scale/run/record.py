"""run.json: the configuration, input files and versions of a run, and what they refuse."""

import json
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from gscl_scale.config.config import Config
from gscl_scale.config.graph_size import FeatureBlocks, GraphSize
from gscl_scale.config.identity import Sections, changed_settings, upgrade_settings
from gscl_scale.config.section import Result
from gscl_scale.errors import ConfigError, FolderError
from gscl_scale.io.json import read_json, write_json
from gscl_scale.io.validate import Count
from gscl_scale.run.folder import Run
from gscl_scale.run.lock import is_leftover, may_be_run
from gscl_scale.text import quoted

_PACKAGES = ("gscl-scale", "torch", "torch-geometric", "numpy", "numba", "pyarrow")


class RunRecord(TypedDict):
    """run.json, as far as it is read."""

    config: NotRequired[Sections]
    inputs: NotRequired[dict[str, Annotated[list[Any], Field(min_length=2)]]]
    versions: NotRequired[dict[str, object]]
    peer: NotRequired[str]  # whose embeddings these are; it has no stages


class _Checkpoint(TypedDict):
    epoch: Count
    finished: bool


class CheckpointList(TypedDict):
    """checkpoints/manifest.json, as far as others than the training read it."""

    checkpoints: Annotated[list[_Checkpoint], Field(min_length=1)]


def open_run(config: Config, folder: Path, claim_or_check: Callable[[Config, Run], object] | None = None) -> Run:
    """Claim a run folder for a configuration, or only check it; a folder with the results of another one is refused."""
    if folder.exists() and not folder.is_dir():
        raise FolderError(f"{folder} is a file; give --run a folder")
    if folder.exists() and not may_be_run(folder):
        if (folder / "graph/manifest.json").exists():
            raise FolderError(
                f"{folder} holds a run whose run.json is gone; delete {folder} to start again, or choose another --run"
            )
        raise FolderError(f"{folder} is not empty and holds no run; choose another --run")
    if (folder / "run.json").exists() and (peer := read_record(folder).get("peer")):
        raise FolderError(
            f"{folder} has the embeddings of {peer}, a method without stages; query them with gscl-scale neighbors "
            f"--run {folder}, or choose another --run"
        )
    run = Run.at(folder)
    (claim_or_check or claim)(config, run)
    return run


def claim(config: Config, run: Run, peer: str = "") -> Run:
    """Write run.json: the resolved configuration and the versions. Results of another configuration are refused.

    peer    the method of a comparison that embeds without stages
    """
    previous = refuse_other_work(config, run)
    versions = {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}
    record = {**previous, "config": config.dump(), "versions": versions} | ({"peer": peer} if peer else {})
    if record != previous:
        write_json(run.folder / "run.json", record)
    return run


def refuse_other_work(config: Config, run: Run, cure: str = "") -> RunRecord:
    """Refuse a folder with results of another configuration; returns its run.json as it is.

    cure   what to do besides using another folder; by default to overwrite the run
    """
    previous: RunRecord = read_record(run.folder) if (run.folder / "run.json").exists() else {}
    if found := other_work(config, run, previous, cure):
        raise FolderError(found.sentence)
    return previous


def read_record(folder: Path) -> RunRecord:
    """The run.json of a run folder."""
    cure = f"choose another --run, or delete {folder} to start again"
    return read_json(folder / "run.json", RunRecord, cure)


def config_in(folder: Path) -> Config:
    """The configuration of a run."""
    record = read_record(folder)
    if "config" not in record:
        raise FolderError(f"{folder / 'run.json'} is damaged: it holds no config; delete {folder} to start again")
    try:
        return Config.parse(upgrade_settings(record["config"]))
    except ConfigError as error:
        path = folder / "run.json"
        if newer := _newer_version(record):
            raise FolderError(
                f"{path}: {error}; gscl-scale {newer} wrote it, and this is {version('gscl-scale')}: upgrade gscl-scale"
            ) from None
        raise FolderError(f"{path} is damaged: {error}") from None


def _newer_version(record: RunRecord) -> str:
    """The version that wrote run.json where it is newer than this one, else ""."""
    from packaging.version import InvalidVersion, Version

    theirs = str(record.get("versions", {}).get("gscl-scale", ""))
    try:
        return theirs if Version(theirs) > Version(version("gscl-scale")) else ""
    except InvalidVersion:
        return ""


def delete_claimed(run: Run) -> None:
    """Delete a claimed folder without results."""
    claimed = (run.folder / "run.json", run.log, run.config)
    if all(path in claimed or is_leftover(path) for path in run.folder.iterdir()):
        shutil.rmtree(run.folder)


@dataclass(frozen=True)
class OtherWork:
    """The first result on disk that the settings of now would not make, and a sentence that refuses it."""

    result: Result
    sentence: str


class Counts(TypedDict):
    """graph/manifest.json, as far as it counts."""

    num_nodes: Count
    num_features: Count
    structural_features: NotRequired[Count]
    neighbour_means: NotRequired[Count]
    nonzero_features: NotRequired[Count]


def size_in(counts: Counts) -> GraphSize:
    """The size of a graph by its manifest."""
    means, structural = counts.get("neighbour_means", 0), counts.get("structural_features", 0)
    blocks = FeatureBlocks(counts["num_features"] - means - structural, means, structural)
    return GraphSize.of(counts["num_nodes"], blocks, counts.get("nonzero_features"))


def _sized(record: Sections, config: Config, size: GraphSize) -> Sections:
    """Recorded settings with the numbers that `auto` left to the size of the graph."""
    epochs = config.train.model_copy(update={"epochs": "auto"}).epochs_for(size)
    dropout = config.model.model_copy(update={"feature_dropout": "auto"}).feature_dropout_for(
        size.rare and config.train.reads_samples
    )
    sized = dict(record)
    for section, key, number in (("train", "epochs", epochs), ("model", "feature_dropout", dropout)):
        if record.get(section, {}).get(key) == "auto":
            sized[section] = {**record[section], key: number}
    return sized


def other_work(config: Config, run: Run, record: RunRecord, cure: str = "") -> OtherWork | None:
    """Compare the settings of the results on disk with those of now; the first one that differs decides."""
    if "config" not in record:
        return None
    earlier = record["config"]
    if (run.graph / "manifest.json").exists():
        size = size_in(read_json(run.graph / "manifest.json", Counts))
        config, earlier = config.sized(size), _sized(earlier, config, size)
    places: dict[Result, Path] = {"graph": run.graph, "samples": run.samples, "training": run.checkpoints}
    for result, place in places.items():
        overwrite = f"gscl-scale run with --overwrite, which removes {place} and everything made from it"
        for section, key, before, now in changed_settings(earlier, config, result) if place.exists() else ():
            return OtherWork(
                result,
                f"{run.folder} was made with {section}.{key}={_typed(before)}, but the config now says {_typed(now)}; "
                f"use a new folder (--run), or {cure or overwrite}",
            )
    if not config.train.validate_every or not run.checkpoints.exists():
        return None
    for _, key, before, now in changed_settings(earlier, config, "splits"):
        return OtherWork(
            "training",
            f"the best epoch of {run.folder} was chosen with evaluate.{key}={_typed(before)}, but the config now says "
            f"{_typed(now)}: its test nodes may have been used in that choice; use a new folder (--run)",
        )
    for _, key, before, now in changed_settings(earlier, config, "probe"):
        if _in_training(run):
            return OtherWork(
                "training",
                f"the training of {run.folder} compares its epochs with evaluate.{key}={_typed(before)}, but the "
                f"config now says {_typed(now)}; finish the training as before and change it then, or use a new folder "
                "(--run)",
            )
    return None


def _typed(value: object) -> str:
    """A value of a setting as a user types it.

    >>> _typed(None), _typed("auto"), _typed(True)
    ('null', "'auto'", 'true')
    """
    return json.dumps(value) if value is None or isinstance(value, bool) else quoted(value)


def _in_training(run: Run) -> bool:
    """Whether a training has a checkpoint and is not finished."""
    manifest = run.checkpoints / "manifest.json"
    return manifest.exists() and not read_json(manifest, CheckpointList)["checkpoints"][-1]["finished"]


def repeat_config(config: Config, number: int) -> Config:
    """The configuration of one repeat."""
    one = config.model_copy(update={"train": config.train.model_copy(update={"repeats": 1})})
    return shift_seeds(one, number)


def shift_seeds(config: Config, number: int) -> Config:
    """The same with every seed higher by `number`."""
    return config.model_copy(
        update={
            name: section.model_copy(update={"seed": section.seed + number})
            for name, section in (("rings", config.rings), ("train", config.train), ("evaluate", config.evaluate))
        }
    )
