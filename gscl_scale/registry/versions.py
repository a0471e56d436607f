"""A registry: versions that never change once they are there, and a pointer to the current one."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import TypedDict

from gscl_scale.errors import FolderError
from gscl_scale.io.validate import Count, checked, parse_json
from gscl_scale.registry.lease import Lease
from gscl_scale.registry.ledger import Ledger, State
from gscl_scale.storage.stores import LocalStore
from gscl_scale.storage.transfer import INDEX, Index, fetch_folder, index_of, upload_folder
from gscl_scale.storage.urls import cache_of, store_at

CURRENT = "current.json"
_VERSIONS = "versions"
_NO_CONTENT = ("run.json", "metrics.json", "checkpoints/manifest.json")  # they have times and places


class Check(TypedDict):
    """One condition of the gate: the figure, its limit, and whether the condition holds."""

    name: str
    figure: float
    limit: float
    holds: bool
    sentence: str


class Figures(TypedDict, total=False):
    """What the gate compares; None where it could not be measured."""

    probe: float | None  # mean validation accuracy
    ranking: float | None  # share of pairs in which the nearer node is more similar to the anchor
    alignment: float | None  # mean cosine with the current embeddings after the best rotation
    norm: float | None  # median length of the embeddings
    cosine: float | None  # mean cosine of random pairs of nodes
    rank: float | None  # effective rank of the embeddings
    links: float | None  # AUC on the held-out edges, against nodes drawn by degree


class LinkScore(TypedDict):
    """How well a version tells edges from pairs of an end and a node drawn by degree."""

    auc: float
    mrr: float


class LinkComparison(TypedDict):
    """Some edges, how many of them were measured, and the scores of both versions on the same pairs."""

    edges: Count
    measured: Count
    new: LinkScore
    current: LinkScore


class Links(TypedDict, total=False):
    """Edges that both versions held out; and those that came since the current one, which it has not seen."""

    held_out: LinkComparison
    since: LinkComparison


class Changes(TypedDict, total=False):
    """Nodes and rows that are new, gone or different, and the share of the anchors that were sampled again."""

    nodes_come: Count
    nodes_gone: Count
    rows_changed: Count
    sampled_again: float


class GraphSize(TypedDict, total=False):
    """The graph that a version was trained on."""

    nodes: Count
    entries: Count
    fingerprint: str


class About(TypedDict, total=False):
    """What the index of a version has besides its files; `warm`: how many versions in a row started warm."""

    made_from: str
    base: str
    warm: Count
    figures: Figures
    checks: list[Check]
    changes: Changes
    links: Links
    graph: GraphSize


class VersionIndex(Index, About):
    """The index of a version."""


@dataclass(frozen=True)
class Version:
    """A stored version: its name, what it was made from, its figures, and the checksums of its files."""

    name: str
    index: VersionIndex

    @property
    def files(self) -> dict[str, str]:
        """Checksums of the files that are the result, without logs, pages, and files that have times and places."""
        return {
            name: entry["sha256"]
            for name, entry in self.index["files"].items()
            if not name.endswith((".jsonl", ".html")) and name not in _NO_CONTENT
        }

    @property
    def refusal(self) -> str:
        """The conditions of the gate that did not hold, in words; "" where all did."""
        return refusal_of(self.index.get("checks", []))


def refusal_of(checks: list[Check]) -> str:
    """The conditions that do not hold, in words."""
    return "; ".join(check["sentence"] for check in checks if not check["holds"])


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
        """A stored version."""
        index = index_of(self.store, f"{_VERSIONS}/{name}")
        where = f"{self.store.where}/{_VERSIONS}/{name}/{INDEX}"
        return Version(name, checked(VersionIndex, index, where, "use another version"))

    def folder(self, name: str, wanted: Callable[[str], bool] = bool) -> Path:
        """The files of a version on this machine, copied here first where they are not and are wanted."""
        folder = self.place / _VERSIONS / name
        if not isinstance(self.store, LocalStore):
            fetch_folder(self.store, f"{_VERSIONS}/{name}", folder, wanted)
        return folder

    def keep(self, lease: Lease, run: Path, files: list[str], about: About) -> Version:
        """Put a finished run into the registry as a version; nobody reads it before the ledger names it."""
        name = _name(lease.token)
        upload_folder(run, self.store, f"{_VERSIONS}/{name}", files, {**about})
        return self.version(name)

    def point(self) -> State:
        """Write the pointer as the ledger has it; the state of the ledger."""
        while True:
            state = self.ledger.newest()
            if state.current and self._pointed() != state.current:
                pointer = {"version": state.current, "path": f"{_VERSIONS}/{state.current}", "record": state.number}
                self.store.write(CURRENT, (json.dumps(pointer) + "\n").encode())
            if self.ledger.newest().current == state.current:  # else somebody was faster: the newest is right
                return state

    def _pointed(self) -> str:
        """The version that the pointer names, "" where it names none."""
        try:
            pointer = parse_json(self.store.read(CURRENT) or b"{}", CURRENT, "")
        except FolderError:
            return ""  # the ledger knows
        return str(pointer.get("version")) if isinstance(pointer, dict) else ""

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
