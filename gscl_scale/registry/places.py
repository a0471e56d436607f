"""Whether a place is a registry: what is none is refused with the command to type, and nothing is created there.

Nothing is written into its versions either.
"""

import difflib
from pathlib import Path

from gscl_scale.errors import FolderError
from gscl_scale.registry.ledger import FOLDER
from gscl_scale.registry.versions import Registry, versions_folder
from gscl_scale.storage.stores import LocalStore
from gscl_scale.storage.urls import is_remote

_START = "gscl-scale retrain --config mine.yaml --registry"


def open_registry(where: str) -> Registry:
    """The registry at a place; FolderError where there is none."""
    registry = Registry(where)
    if registry.ledger.numbers():
        return registry
    _refuse_file(where, registry)
    if registry.store.size("run.json") is not None:
        raise _is_a_run(where)
    near = " or ".join(f"--registry {one}" for one in _similar_registries(where))
    question = f"did you mean {near}? To start one there: " if near else "to start one there: "
    raise FolderError(f"{where} holds no registry; {question}{_START} {where}")


def refuse_other_use(where: str) -> None:
    """Refuse a place for the nights of a registry that is a file, is below one, or is a run."""
    registry = Registry(where)
    _refuse_file(where, registry)
    local = isinstance(registry.store, LocalStore)
    if local and registry.store.size("run.json") is not None and not registry.ledger.numbers():
        raise _is_a_run(where)


def registry_sentence(where: str) -> str:
    """What to type where a registry is named in place of a run; "" where there is no registry."""
    ledger = Registry(where).ledger
    if not ledger.numbers():
        return ""
    current = ledger.newest().current
    run = f"; the run of its current version is {where.rstrip('/')}/versions/{current}" if current else ""
    return f"{where} is a registry, expected a run; gscl-scale registry list --registry {where} shows its versions{run}"


def is_in_version(where: str) -> bool:
    """Whether a run is, or would be, among the versions of a registry."""
    place = where if is_remote(where) else Path(where).resolve().as_posix()
    registry, below, _ = place.rpartition(f"/{versions_folder('')}")
    return bool(below) and bool(Registry(registry).ledger.numbers())


def refuse_version(where: str) -> None:
    """Refuse work that writes where the versions of a registry are."""
    if is_in_version(where):
        raise never_changes(where)


def never_changes(where: str) -> FolderError:
    """The refusal of work that would change a version."""
    return FolderError(
        f"{where} is among the versions of a registry, which never change, expected a run of your own; "
        f"choose another --run, such as runs/{Path(where).resolve().name}, and name its graph or config"
    )


def _refuse_file(where: str, registry: Registry) -> None:
    if not isinstance(registry.store, LocalStore):
        return
    for path in (Path(where), *Path(where).parents):
        if path.is_file():
            raise FolderError(f"--registry {where}: {path} is a file, expected a folder; type {_START} versions")


def _is_a_run(where: str) -> FolderError:
    return FolderError(
        f"--registry {where}: this is a run, expected a registry; gscl-scale status --run {where} shows the run, "
        f"{_START} versions starts a registry"
    )


def _similar_registries(where: str) -> list[str]:
    """Registries of similar names in the same folder."""
    path = Path(where)
    if not path.parent.is_dir():
        return []
    names = [one.parent.name for one in path.parent.glob(f"*/{FOLDER}") if any(one.glob("*.json"))]
    return [str(path.with_name(name)) for name in difflib.get_close_matches(path.name, names, 3)]
