"""The configuration and the run folder of a command; a run on an object store is worked on in a local copy."""

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # help texts wait for none of these
    from gscl_scale.config.config import Config
    from gscl_scale.runtime.console import Console

# One process runs one command: its locks and copies end with it, and its messages name the places that the user gave.
places = contextlib.ExitStack()
_given: dict[Path, str] = {}


def start(config_file: Path | None, settings: list[str] | None, run: str | None) -> "tuple[Config, Path, Console]":
    """Configuration, local run folder and console of a command."""
    from gscl_scale.runtime.console import Console

    config, where = load_config(config_file, settings, run)
    return config, enter(where), Console()


def enter(where: str) -> Path:
    """The local folder of a run, locked for this process and kept up to date until the command ends."""
    from gscl_scale.run.lock import lock_run
    from gscl_scale.storage.mirror import working_copy
    from gscl_scale.storage.urls import folder_of

    if os.environ.get("RANK", "0") == "0":  # of the processes of torchrun the first one works for all
        places.enter_context(lock_run(folder_of(where)))
    folder = places.enter_context(working_copy(where))
    _given[folder] = where
    return folder


def load_config(config_file: Path | None, settings: list[str] | None, run: str | None) -> "tuple[Config, str]":
    """The configuration, and the folder or URL of the run.

    A run that exists keeps its own configuration, unless a file or another graph source is given.
    """
    from gscl_scale.config.config import Config

    other = any(setting.replace(" ", "").startswith("graph.source=") for setting in settings or [])
    config = Config.load(config_file, settings, _stored_values(run) if run and not (config_file or other) else None)
    name = config_file.stem if config_file else config.graph.name or config.graph.source
    return config, run or f"runs/{name}"


def _stored_values(where: str) -> dict[str, Any]:
    """The stored configuration of a run, without `runtime`, which each command decides anew."""
    from gscl_scale.run.record import config_in
    from gscl_scale.storage.mirror import small_files

    with small_files(where) as folder:
        values = config_in(folder).dump() if (folder / "run.json").exists() else {}
    return {section: value for section, value in values.items() if section != "runtime"}


def display(text: str | Path) -> str:
    """A path or sentence in which each run goes by the place that the user gave, and not by its local copy."""
    shown = str(text)
    for folder, where in _given.items():
        shown = shown.replace(str(folder), where.rstrip("/"))
    return shown
