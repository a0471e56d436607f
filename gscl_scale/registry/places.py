"""Whether a place is a registry: what is none is refused with the command to type, and nothing is created there."""

import difflib
from pathlib import Path

from gscl_scale.errors import FolderError
from gscl_scale.registry.ledger import FOLDER
from gscl_scale.registry.versions import Registry
from gscl_scale.storage.stores import LocalStore

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
