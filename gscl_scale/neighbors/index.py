"""Approximate search: inverted lists of faiss in a mapped file, with their measured recall."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import TypedDict

from gscl_scale import seeding
from gscl_scale.embed.store import Embeddings
from gscl_scale.embed.vector_file import Rows, unit_rows
from gscl_scale.errors import FolderError, RunError, UserError
from gscl_scale.io.atomic import hold_file_lock, publish_file
from gscl_scale.io.checksum import sha256_of
from gscl_scale.io.json import read_json, write_json
from gscl_scale.io.validate import Count
from gscl_scale.machine import available_memory
from gscl_scale.neighbors.exact import Nearest, exact_search, highest
from gscl_scale.runtime.console import Console
from gscl_scale.text import format_bytes

FORMAT = 1
RECALL = 0.99  # as few lists are searched as find this share of the nearest
AT = 10
_FILE, _MANIFEST = "index.faiss", "manifest.json"
_QUERIES = 500
_ROWS_PER_LIST = 39  # the fewest that faiss trains a list on without a warning
_TRAINED_PER_LIST = 64
_TURNS = 10


class Source(TypedDict):
    """The embeddings of an index: their fingerprint, and the bytes of their file."""

    embeddings: str
    bytes: Count


class Manifest(TypedDict):
    """The manifest of an index.

    lists    lists that the rows are sorted into; `probes` of them are searched for a query
    recall   share of the 10 nearest that are found, measured on this many `queries`
    """

    format: int
    made_from: Source
    lists: int
    probes: int
    recall: float
    queries: int
    seconds: float
    bytes: int
    sha256: str


class Index:
    """An open index."""

    def __init__(self, lists: Any, about: Manifest) -> None:
        self._lists, self.about = lists, about

    def search(self, queries: Rows, own: npt.NDArray[np.int64], count: int) -> Nearest:
        """Like `exact_search`, but a few of the nearest may be missing."""
        return _search(self._lists, self.about["probes"], queries, own, count)

    def description(self) -> str:
        """One line on its recall."""
        share, queries = self.about["recall"], self.about["queries"]
        return f"approximate: {share:.1%} of the {AT} nearest are found, measured on {queries:,} nodes"


def open_index(embeddings: Embeddings, folder: Path, console: Console) -> Index:
    """Open the index in a folder; build it where it is missing, damaged, or of other embeddings."""
    _faiss()
    with hold_file_lock(folder / ".lock"):
        if (folder / _MANIFEST).exists():
            index, reason = _read(folder, _made_from(embeddings))
            if index:
                return index
            console.say(f"the index in {folder} {reason}: building it again")
        return build_index(embeddings, folder, console)


def build_index(embeddings: Embeddings, folder: Path, console: Console) -> Index:
    """Sort all rows into lists, find how many of these must be searched, and publish the index with its recall."""
    faiss, began = _faiss(), time.monotonic()
    _refuse_without_memory(embeddings)
    number = _lists_of(embeddings)
    lists = faiss.IndexIVFFlat(
        faiss.IndexFlatIP(embeddings.width), embeddings.width, number, faiss.METRIC_INNER_PRODUCT
    )
    lists.cp.seed, lists.cp.niter, lists.cp.spherical = seeding.integer("index") % (1 << 31), _TURNS, True
    lists.train(unit_rows(embeddings.take(_sample("index places", embeddings.rows, _TRAINED_PER_LIST * number))))
    with console.progress("index", embeddings.rows, "rows") as advance:
        for _, rows in embeddings.blocks():
            lists.add(unit_rows(rows))
            advance(len(rows))
    probes, recall, queries = _measure(embeddings, lists)
    with publish_file(folder / _FILE) as temporary:
        faiss.write_index(lists, str(temporary))
    path = folder / _FILE
    about: Manifest = {
        "format": FORMAT, "made_from": _made_from(embeddings), "lists": number, "probes": probes, "recall": recall,
        "queries": queries, "seconds": round(time.monotonic() - began, 1), "bytes": path.stat().st_size,
        "sha256": sha256_of(path),
    }  # fmt: skip
    write_json(folder / _MANIFEST, about)
    console.say(
        f"built an index of {embeddings.rows:,} rows in {about['seconds']:,.0f} s, {format_bytes(about['bytes'])}"
    )
    return Index(lists, about)


def _read(folder: Path, made_from: Source) -> tuple[Index | None, str]:
    """The index, or the reason against it; a file is opened only if its bytes are those that were recorded."""
    path = folder / _FILE
    about: Any
    try:
        about = read_json(folder / _MANIFEST, Manifest)
    except FolderError:
        return None, "is damaged"
    if about["format"] != FORMAT or about["made_from"] != made_from:
        return None, "was made from other embeddings"
    if not path.exists() or path.stat().st_size != about["bytes"] or sha256_of(path) != about["sha256"]:
        return None, "is damaged"
    faiss = _faiss()
    return Index(faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY), about), ""


def _measure(embeddings: Embeddings, lists: Any) -> tuple[int, float, int]:
    """(lists to search, recall with these, number of queries that measured it)."""
    nodes = _sample("index queries", embeddings.rows, _QUERIES)
    queries = unit_rows(embeddings.take(nodes))
    right = exact_search(embeddings, queries, nodes, AT)
    probes = 1
    while True:
        recall = recall_of(_search(lists, probes, queries, nodes, AT), right)
        if recall >= RECALL or probes >= lists.nlist:
            return probes, recall, nodes.size
        probes *= 2


def recall_of(found: Nearest, right: Nearest) -> float:
    """Share of the right neighbours that were found; one as near as the last right one counts too."""
    wanted = np.isfinite(right.cosines)
    last = np.where(wanted, right.cosines, np.inf).min(axis=1, keepdims=True)
    hits = (found.cosines >= last - 1e-6).sum(axis=1)
    return float(hits.sum() / max(1, wanted.sum()))


def _search(lists: Any, probes: int, queries: Rows, own: npt.NDArray[np.int64], count: int) -> Nearest:
    lists.nprobe = min(probes, lists.nlist)
    cosines, rows = lists.search(queries, count + 1)
    cosines = np.where((rows == own[:, None]) | (rows < 0), -np.inf, cosines)
    return Nearest(*highest(rows, cosines, count))


def _sample(purpose: str, rows: int, most: int) -> npt.NDArray[np.int64]:
    if rows <= most:
        return np.arange(rows)
    return np.sort(seeding.generator(purpose, rows).choice(rows, most, replace=False))


def _lists_of(embeddings: Embeddings) -> int:
    return max(1, min(int(4 * embeddings.rows**0.5), embeddings.rows // _ROWS_PER_LIST))


def _made_from(embeddings: Embeddings) -> Source:
    return {"embeddings": embeddings.fingerprint, "bytes": embeddings.path.stat().st_size}


def _refuse_without_memory(embeddings: Embeddings) -> None:
    row, trained = 4 * embeddings.width, _TRAINED_PER_LIST * _lists_of(embeddings)
    need, free = 2 * embeddings.rows * (row + 8) + 3 * trained * row, available_memory()
    if need > free:
        raise RunError(
            f"{embeddings.path}: an index of {embeddings.rows:,} rows takes {format_bytes(need)} of memory while it is "
            f"built, and {format_bytes(free)} are available; leave --index out for an exact search"
        )


def _faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise UserError(
            "--index: the package faiss is not installed; pip install 'gscl-scale[index]', "
            "or leave --index out for an exact search"
        ) from None
    return faiss
