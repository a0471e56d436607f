"""A finished run as a user names it: a run folder, a URL of one, or a registry, whose current version is meant."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gscl_scale.registry.versions import Registry
from gscl_scale.run.folder import Run, no_run
from gscl_scale.run.record import config_in
from gscl_scale.storage.mirror import kept_files, small_files
from gscl_scale.storage.urls import cache_of, is_remote


@dataclass(frozen=True)
class LocatedRun:
    """A finished run on this machine.

    name   as the user would name it
    run    where it is; of a run with repeats the first one
    own    whether its folder may get more files; otherwise it is a copy, or a version, which never changes
    """

    name: str
    run: Run
    own: bool


def find_run(where: str, purpose: str, wanted: Callable[[str], bool] = bool) -> LocatedRun:
    """Find a run; of a URL the files that are wanted are copied here, and stored for the same purpose."""
    registry = Registry(where)
    if registry.ledger.numbers():
        folder = registry.current(wanted)
        return LocatedRun(f"version {folder.name} of {where}", Run.at(folder), own=False)
    name = where.rstrip("/")
    if not is_remote(where):
        part = _first_repeat(Path(where), where)
        return LocatedRun(f"{name}/{part}".rstrip("/"), _run_in(Path(where), part), own=True)
    with small_files(where) as folder:
        part = _first_repeat(folder, where)
    files = kept_files(where, purpose, lambda file: file == "run.json" or wanted(file.removeprefix(part)))
    return LocatedRun(f"{name}/{part}".rstrip("/"), _run_in(files, part), own=True)


def place_for(located: LocatedRun, name: str) -> Path:
    """A folder for what is made from a run: in the run itself, or among the copies on this machine."""
    return located.run.folder / name if located.own else cache_of(f"{located.name}/made") / name


def _run_in(folder: Path, part: str) -> Run:
    if part:
        return Run(folder / part, folder / "graph")
    inside = (folder / "graph").exists() or not (folder.parent / "graph").exists()
    return Run.at(folder) if inside else Run(folder, folder.parent / "graph")  # one of several repeats


def _first_repeat(folder: Path, where: str) -> str:
    """The folder of the first repeat, below that of a run with repeats; else ""."""
    if not (folder / "run.json").exists():
        raise no_run(where, "expected a run folder, the folder of a registry, or the URL of one")
    train = config_in(folder).train
    return f"seed-{train.seed}/" if train.repeats > 1 else ""
