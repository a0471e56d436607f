"""What commands begin with: the configuration, and the run folder, here or as a copy of one on an object store."""

import contextlib
import os
from pathlib import Path
from typing import Any

from gscl_scale.config.config import Config
from gscl_scale.run.lock import alone
from gscl_scale.run.record import config_in
from gscl_scale.runtime.console import Console
from gscl_scale.storage.mirror import small_files, working_copy
from gscl_scale.storage.urls import folder_of

places = contextlib.ExitStack()  # keeps copies up to date until the command has ended
_named_by: dict[Path, str] = {}


def start(config_file: Path | None, settings: list[str] | None, run: str | None) -> tuple[Config, Path, Console]:
    """What a verb begins with; of a run on an object store the copy on this machine, which is pushed until the end."""
    config, where = named(config_file, settings, run)
    return config, opened(where), Console()


def opened(where: str) -> Path:
    """The folder of this machine to work in, for the rest of the command, and alone."""
    if os.environ.get("RANK", "0") == "0":  # of the processes of torchrun the first one works for all
        places.enter_context(alone(folder_of(where)))
    folder = places.enter_context(working_copy(where))
    _named_by[folder] = where
    return folder


def shown(path: Path) -> str:
    """A path as the user would name it, who may know of no copy."""
    for folder, where in _named_by.items():
        if path.is_relative_to(folder):
            return f"{where.rstrip('/')}/{path.relative_to(folder)}".removesuffix("/.")
    return str(path)


def named(config_file: Path | None, settings: list[str] | None, run: str | None) -> tuple[Config, str]:
    """The configuration, and where the run is: the folder or URL that was given, or the one of its name.

    A run that is there and named without a file goes on with its own configuration.
    """
    other = any(setting.replace(" ", "").startswith("graph.source=") for setting in settings or [])
    config = Config.load(config_file, settings, _own_values(run) if run and not (config_file or other) else None)
    name = config_file.stem if config_file else config.graph.name or config.graph.source
    return config, run or f"runs/{name}"


def _own_values(where: str) -> dict[str, Any]:
    """What a run was made with; how the work runs is decided anew. Nothing where there is no run."""
    with small_files(where) as folder:
        values = config_in(folder).dump() if (folder / "run.json").exists() else {}
    return {section: value for section, value in values.items() if section != "runtime"}


def in_user_words(sentence: str) -> str:
    """A sentence with the places as the user would name them."""
    for folder, where in _named_by.items():
        sentence = sentence.replace(str(folder), where)
    return sentence
