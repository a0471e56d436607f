"""A finished run as a user names it: a run folder, a URL of one, or a registry, whose current version is meant."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gscl_scale.errors import FolderError
from gscl_scale.registry.versions import Registry
from gscl_scale.run.folder import Run
from gscl_scale.run.record import config_in
from gscl_scale.storage.mirror import kept_files, small_files
from gscl_scale.storage.urls import cache_of, is_remote

Wanted = Callable[[str], bool]


@dataclass(frozen=True)
class Found:
    """A finished run on this machine.

    told   as the user would name it
    run    where it is; of a run with repeats the first one
    own    whether more may be kept in its folder; otherwise it is a copy, or a version, which never changes
    """

    told: str
    run: Run
    own: bool


def find_run(where: str, purpose: str, wanted: Wanted = bool) -> Found:
    """Find a run; of a URL those of its files are brought here that are wanted, and kept for the same purpose."""
    registry = Registry(where)
    if registry.ledger.numbers():
        folder = registry.current(wanted)
        return Found(f"version {folder.name} of {where}", Run.at(folder), own=False)
    if not is_remote(where):
        part = _part_of(Path(where), where)
        return Found(_told(where, part), _run_in(Path(where), part), own=True)
    with small_files(where) as folder:
        part = _part_of(folder, where)
    files = kept_files(where, purpose, lambda name: name == "run.json" or wanted(name.removeprefix(part)))
    return Found(_told(where, part), _run_in(files, part), own=False)


def place_for(found: Found, name: str) -> Path:
    """A folder for what is made from a run: in the run itself, or among the copies on this machine."""
    return found.run.folder / name if found.own else cache_of(f"{found.told}/made") / name


def _run_in(folder: Path, part: str) -> Run:
    if part:
        return Run(folder / part, folder / "graph")
    inside = (folder / "graph").exists() or not (folder.parent / "graph").exists()
    return Run.at(folder) if inside else Run(folder, folder.parent / "graph")  # one of several repeats


def _part_of(folder: Path, where: str) -> str:
    """Of a run with repeats the name of the folder of its first one, else nothing."""
    if not (folder / "run.json").exists():
        raise FolderError(f"{where} holds no run; expected a run folder, the folder of a registry, or the URL of one")
    train = config_in(folder).train
    return f"seed-{train.seed}/" if train.repeats > 1 else ""


def _told(where: str, part: str) -> str:
    return f"{where.rstrip('/')}/{part}".rstrip("/")
