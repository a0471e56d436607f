"""A registry: versions that never change once they are there, and a pointer to the current one."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired

from typing_extensions import TypedDict

from gscl_scale.errors import FolderError
from gscl_scale.io.checksum import fingerprint_of
from gscl_scale.io.validate import Count, checked, parse_json
from gscl_scale.registry.lease import Lease
from gscl_scale.registry.ledger import Ledger, State
from gscl_scale.storage.stores import LocalStore
from gscl_scale.storage.transfer import INDEX, Index, fetch_folder, index_of, keep_folder
from gscl_scale.storage.urls import cache_of, store_at

CURRENT = "current.json"
_VERSIONS = "versions"


class _Check(TypedDict):
    name: str
    figure: float
    limit: float
    holds: bool
    sentence: str


class _Graph(TypedDict):
    nodes: NotRequired[Count]


class _Index(Index):
    made_from: NotRequired[str]
    warm: NotRequired[Count]
    figures: NotRequired[dict[str, float | None]]
    checks: NotRequired[list[_Check]]
    graph: NotRequired[_Graph]


@dataclass(frozen=True)
class Version:
    """A version as it is kept: its name, what it was made from, its figures, and the checksum of all its content."""

    name: str
    index: dict[str, Any]

    @property
    def files(self) -> dict[str, str]:
        """Checksums of the files that are the result: logs, pages and what tells of times do not count."""
        return {name: entry["sha256"] for name, entry in self.index["files"].items() if _is_content(name)}

    @property
    def content(self) -> str:
        """The same for versions with the same result."""
        return fingerprint_of(self.files)


class Registry:
    """The registry in a folder, or below a URL."""

    def __init__(self, where: str | Path) -> None:
        self.store = store_at(where)
        self.ledger = Ledger(self.store)

    @property
    def place(self) -> Path:
        """A folder of this machine: of the registry itself, or where copies of it are."""
        return self.store.folder if isinstance(self.store, LocalStore) else cache_of(self.store.where)

    def version(self, name: str) -> Version:
        """A version that is kept."""
        index = index_of(self.store, f"{_VERSIONS}/{name}")
        where = f"{self.store.where}/{_VERSIONS}/{name}/{INDEX}"
        return Version(name, checked(_Index, index, where, "use another version"))

    def folder(self, name: str, wanted: Callable[[str], bool] = bool) -> Path:
        """The files of a version on this machine, brought here first where they are not and are wanted."""
        folder = self.place / _VERSIONS / name
        if not isinstance(self.store, LocalStore):
            fetch_folder(self.store, f"{_VERSIONS}/{name}", folder, wanted)
        return folder

    def keep(self, lease: Lease, run: Path, files: list[str], about: dict[str, Any]) -> Version:
        """Put a finished run into the registry as a version; nobody reads it before it is named in the ledger."""
        name = _name(lease.token)
        return Version(name, keep_folder(run, self.store, f"{_VERSIONS}/{name}", files, about))

    def point(self) -> State:
        """Let the pointer say what the ledger says; the state of the ledger."""
        while True:
            state = self.ledger.newest()
            if state.current:
                told = {"version": state.current, "path": f"{_VERSIONS}/{state.current}", "record": state.number}
                if self._pointed() != state.current:
                    self.store.write(CURRENT, (json.dumps(told) + "\n").encode())
            if self.ledger.newest().current == state.current:  # else somebody was faster: the newest is right
                return state

    def _pointed(self) -> str:
        """What the pointer says; "" where it says nothing."""
        try:
            known = parse_json(self.store.read(CURRENT) or b"{}", CURRENT, "")
        except FolderError:
            return ""  # the ledger knows
        return str(known.get("version")) if isinstance(known, dict) else ""

    def clear(self, lease: Lease) -> list[str]:
        """Remove versions that the ledger does not name, here and among the copies on this machine; their names.

        None of a later lease: whoever has that may be about to name it.
        """
        stores = {self.store, LocalStore(self.place)}
        names = {name.split("/")[1] for store in stores for name in store.sizes(_VERSIONS) if name.count("/") > 1}
        gone = sorted(name for name in names - set(lease.state.kept()) if name <= _name(lease.token))
        for name in gone:
            for store in stores:
                store.remove(f"{_VERSIONS}/{name}/{INDEX}")  # first: half a folder is nothing
                store.remove(f"{_VERSIONS}/{name}")
        return gone

    def current(self, wanted: Callable[[str], bool] = bool) -> Path:
        """The files of the current version on this machine, or those that are wanted."""
        state = self.ledger.newest()
        if not state.current:
            raise FolderError(f"{self.store.where} has no current version; run gscl-scale retrain first")
        return self.folder(state.current, wanted)


def _name(token: int) -> str:
    return f"v{token:06d}"


def _is_content(name: str) -> bool:
    """Whether a file is the result; others tell of times and places."""
    return not name.endswith((".jsonl", ".html")) and name not in (
        "run.json",
        "metrics.json",
        "checkpoints/manifest.json",
    )
