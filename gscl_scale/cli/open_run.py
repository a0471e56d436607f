"""The configuration and the run folder of a command; a run on an object store is worked on in a local copy."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from gscl_scale.cli.graph_file import config_of_file, default_run, keep_config, kept_values, refuse_two_graphs
from gscl_scale.errors import FolderError, UserError
from gscl_scale.text import join_names

if TYPE_CHECKING:  # help texts wait for none of these
    from gscl_scale.config.config import Config
    from gscl_scale.runtime.console import Console

# One process runs one command: its locks and copies end with it, and its messages name the places that the user gave.
places = contextlib.ExitStack()
_given: dict[Path, str] = {}


def start(
    config_file: Path | None,
    settings: list[str] | None,
    run: str | None,
    file: Path | None = None,
    nodes: Path | None = None,
    overwrite: bool = False,
    check: "Callable[[Config, str], object]" = lambda config, where: None,
    stored: bool = False,
) -> "tuple[Config, Path, Console]":
    """Configuration, local run folder and console of a command; with `overwrite` without results of other settings.

    check    refuses a configuration for a run before anything is written
    stored   the command reads a run that is there, which may be a version of a registry
    """
    from gscl_scale.registry.places import refuse_version
    from gscl_scale.runtime.console import Console

    config, where = load_config(config_file, settings, run, file, nodes)
    if not (stored and (Path(where) / "graph/manifest.json").exists()):
        refuse_version(where)
    check(config, where)
    folder, console = enter(where), Console()
    if overwrite and _leads():
        from gscl_scale.stages.overwrite import overwrite as remove_other_results

        for path in remove_other_results(config, folder, console):
            console.say(f"removed {display(path)}, made with other settings or from other files")
    if file and _leads():
        keep_config(config, folder, where)
    return config, folder, console


def enter(where: str) -> Path:
    """The local folder of a run, locked for this process and kept up to date until the command ends."""
    from gscl_scale.run.lock import lock_run
    from gscl_scale.storage.mirror import working_copy
    from gscl_scale.storage.urls import folder_of

    if _leads():
        places.enter_context(lock_run(folder_of(where)))
    folder = places.enter_context(working_copy(where))
    _given[folder] = where
    return folder


def _leads() -> bool:
    """Whether this is the only process, or of those of torchrun the first one, which works for all."""
    return os.environ.get("RANK", "0") == "0"


def load_config(
    config_file: Path | None,
    settings: list[str] | None,
    run: str | None,
    file: Path | None = None,
    nodes: Path | None = None,
    named: bool = True,
) -> "tuple[Config, str]":
    """The configuration, and the folder or URL of the run.

    A run that exists keeps its own configuration, unless a config file or another graph source is given. `named`: a
    graph or a run must be named.
    """
    from gscl_scale.config.config import Config

    if file is not None:
        if config_file:
            refuse_two_graphs(file, config_file)
        where = run or default_run(file)
        kept = kept_values(Path(where)) or (_stored_values(where) if run else {})
        return config_of_file(file, nodes, settings or [], kept, where), where
    if nodes:
        raise UserError(f"--nodes {nodes}: name the edges too: gscl-scale run edges.csv --nodes {nodes}")
    other = _names_source(settings)
    stored = _stored_values(run) if run and not (config_file or other) else {}
    if run and named and not (config_file or other or stored):
        refuse_absent(run)
    config = Config.load(config_file, settings, stored)
    if named and not (run or config_file or other):
        raise UserError(
            "no graph is named: try the demo with gscl-scale demo, start with your edges by gscl-scale run edges.csv, "
            f"or name a config (--config) or a run (--run){_runs_here()}"
        )
    return config, run or _default_run(config_file, config)


def load_retrain_config(config_file: Path | None, settings: list[str] | None, where: str) -> "Config":
    """The configuration of a night in the registry `where`; both are refused where they cannot be meant.

    A configuration that names no graph would train on the digits of the demo.
    """
    from gscl_scale.config.config import Config
    from gscl_scale.config.read import read_yaml
    from gscl_scale.registry.places import refuse_other_use

    refuse_other_use(where)
    config = Config.load(config_file, settings)
    in_file = read_yaml(config_file).get("graph") if config_file else None
    if not (_names_source(settings) or "source" in (in_file or {})):
        missing = f"{config_file} has no graph.source" if config_file else "there is no --config"
        file = config_file or "mine.yaml"
        raise UserError(
            f"no graph is named: {missing}; write graph: {{source: tables, edges: edges.csv}} into {file}, then type "
            f"gscl-scale retrain --config {file} --registry {where}"
        )
    return config


def _names_source(settings: list[str] | None) -> bool:
    return any(setting.replace(" ", "").startswith("graph.source=") for setting in settings or [])


def _default_run(config_file: Path | None, config: "Config") -> str:
    if config_file and (config_file.parent / "run.json").exists():
        return str(config_file.parent)
    return f"runs/{config_file.stem if config_file else config.graph.name or config.graph.source}"


def refuse_absent(where: str) -> NoReturn:
    """Refuse a run that does not exist, with the names of those that do and are like it, and a registry."""
    from gscl_scale.registry.places import registry_sentence
    from gscl_scale.run.folder import similar_runs

    if sentence := registry_sentence(where):
        raise FolderError(sentence)
    near = [f"--run {one}" for one in similar_runs(where)]
    raise FolderError(
        f"{where} holds no run; "
        + (f"did you mean {' or '.join(near)}? To start one there: " if near else "to start one there: ")
        + f"gscl-scale run edges.csv --run {where}"
    )


def _runs_here() -> str:
    from gscl_scale.run.folder import runs_in

    runs = [str(run) for run in runs_in(Path("runs"))]
    return f"; there are {join_names(runs)}" if runs else ""


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
