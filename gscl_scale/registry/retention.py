"""Which versions stay complete, and removing samples and checkpoints of the others."""

import json

from gscl_scale.registry.ledger import State
from gscl_scale.registry.versions import Registry, versions_folder
from gscl_scale.storage.stores import LocalStore
from gscl_scale.storage.transfer import INDEX

PARTS = ("samples", "checkpoints")


def complete_versions(state: State, number: int) -> set[str]:
    """The newest promoted versions, the current one included, one fewer of the refused ones, and all candidates."""
    return {*state.promoted[-number:], *state.refused[::-1][: number - 1], *state.candidates}


def remove_parts(registry: Registry, number: int) -> list[str]:
    """Remove samples and checkpoints of all versions but the newest so many; their names. 0: of none."""
    gone = []
    for name in registry.ledger.newest().kept() if number else ():
        if name not in complete_versions(registry.ledger.newest(), number):  # now: people promote at any time
            _remove_from(registry, name)
            gone.append(name)
    return gone


def _remove_from(registry: Registry, name: str) -> None:
    folder, index = versions_folder(name), registry.version(name).index
    files = {file: entry for file, entry in index["files"].items() if file.partition("/")[0] not in PARTS}
    if len(files) < len(index["files"]):  # the index first: a reader finds all files that it names
        content = json.dumps({**index, "removed": [*PARTS], "files": files}, indent=2) + "\n"
        registry.store.write(f"{folder}/{INDEX}", content.encode())
    for store in {registry.store, LocalStore(registry.place)}:
        for part in PARTS:
            store.remove(f"{folder}/{part}")
