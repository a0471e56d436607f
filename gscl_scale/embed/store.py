"""The folder of embeddings: vectors of all nodes in a Parquet file, keyed by the user's ids, and a manifest."""

import contextlib
import functools
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import TypedDict

from gscl_scale.errors import FolderError
from gscl_scale.io import atomic
from gscl_scale.io.arrow import as_rows
from gscl_scale.io.atomic import explain_disk_errors, publish_file
from gscl_scale.io.checksum import sha256_of
from gscl_scale.io.json import read_json, write_json
from gscl_scale.io.validate import Count, FileName, size_of
from gscl_scale.machine import available_memory
from gscl_scale.text import shortened

if TYPE_CHECKING:
    from gscl_scale.graph.graph import Graph

FILE, NPY = "embeddings.parquet", "embeddings.npy"
Rows = npt.NDArray[np.float32]
_CURE = "run gscl-scale embed again"
_MANIFEST = "manifest.json"
_MOST_WIDTH = 1 << 20
_SQUARES_UNDERFLOW = 1e-15  # of a shorter row some squares are lost in 32-bit numbers
_EXPANSION = 64  # the most that compressed numbers grow: a hundred equal rows reach it
_ROWS_PER_GROUP = 65536
_BYTES_PER_GROUP = 1 << 26
_SHARE_OF_MEMORY = 4  # embeddings above a quarter of the available memory are mapped
_BYTES_EXPORTED = 1 << 28  # at once: each part of nodes in any order is looked for in the whole file


class Manifest(TypedDict):
    """`fingerprint` of what the embeddings were made from, their shape, and the SHA-256 of each file."""

    fingerprint: str
    rows: Count
    width: Count
    files: NotRequired[dict[FileName, str]]


def unit_rows(rows: Rows) -> Rows:
    """Rows of length one; a row of zeros stays as it is."""
    with np.errstate(over="ignore"):
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
    found = (rows / np.where(norms > 0, norms, np.float32(1))).astype(np.float32, copy=False)
    odd = np.flatnonzero((norms < _SQUARES_UNDERFLOW) | np.isinf(norms))
    if odd.size:
        wide = rows[odd].astype(np.float64)
        norms = np.linalg.norm(wide, axis=1, keepdims=True)
        found[odd] = wide / np.where(norms > 0, norms, 1)
    return found


def write_embeddings(
    folder: Path, graph: "Graph", vectors: Rows, fingerprint: str, npy: bool, rotation: Rows | None = None
) -> None:
    """Publish `id` (the user's id, in its own type) and `embedding`, in the order of the user's nodes.

    `vectors` may be mapped from a file: a row group is in memory at a time. `rotation` [d, d] is applied to every row.
    """
    for path in folder.glob(".*.tmp"):  # of a process that was killed
        path.unlink()
    blocks = ((graph.ids[rows], block) for rows, block in rotated_blocks(vectors, rotation))
    write_parquet(folder / FILE, graph.ids.type, vectors.shape[1], blocks)
    if npy:
        write_npy(folder / NPY, vectors.shape, (block for _, block in rotated_blocks(vectors, rotation)))
    files = {name: sha256_of(folder / name) for name in ((FILE, NPY) if npy else (FILE,))}
    manifest: Manifest = {
        "fingerprint": fingerprint, "rows": vectors.shape[0], "width": vectors.shape[1], "files": files
    }  # fmt: skip
    write_json(folder / _MANIFEST, manifest)


def write_parquet(path: Path, kind: pa.DataType, width: int, blocks: Iterable[tuple[pa.Array, Rows]]) -> None:
    """Publish ids of type `kind` and vectors, a row group for each block."""
    schema = pa.schema([("id", kind), ("embedding", pa.list_(pa.float32(), width))])
    with (
        publish_file(path) as temporary,
        temporary.open("wb") as file,
        pq.ParquetWriter(file, schema, use_dictionary=False) as writer,
    ):
        for ids, rows in blocks:
            writer.write_table(pa.Table.from_arrays([ids, as_rows(rows)], schema=schema))


def write_npy(path: Path, shape: tuple[int, ...], blocks: Iterable[Rows]) -> None:
    """Publish vectors that come block by block as an .npy file."""
    with publish_file(path) as temporary, temporary.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
        for rows in blocks:
            file.write(np.ascontiguousarray(rows, "<f4").tobytes())


def rotated_blocks(vectors: Rows, rotation: Rows | None) -> Iterator[tuple[slice, Rows]]:
    """Blocks of rows, turned by the rotation if there is one."""
    size = max(1024, min(_ROWS_PER_GROUP, _BYTES_PER_GROUP // (4 * vectors.shape[1])))
    for low in range(0, vectors.shape[0], size):
        rows = slice(low, low + size)
        yield rows, vectors[rows] if rotation is None else vectors[rows] @ rotation


def is_complete(folder: Path, fingerprint: str, npy: bool) -> bool:
    """Whether the folder holds the embeddings of this checkpoint, with the content that was written."""
    if not ((folder / _MANIFEST).exists() and (folder / FILE).exists()):
        return False
    try:
        manifest = read_manifest(folder)
    except FolderError:  # damaged: they are written again
        return False
    files = manifest.get("files", {})
    if manifest["fingerprint"] != fingerprint or FILE not in files or (npy and NPY not in files):
        return False
    return all(_is_intact(folder / name, checksum) for name, checksum in files.items())


def _is_intact(path: Path, checksum: str) -> bool:
    return path.exists() and sha256_of(path) == checksum


def layers_folder(folder: Path) -> Path:
    """Where the layers are while an embeddings folder is written."""
    return folder / "scratch"


def remove_scratch(folder: Path) -> None:
    """Remove scratch that a kill has left in a finished folder."""
    shutil.rmtree(layers_folder(folder), ignore_errors=True)


def refuse_foreign_folder(folder: Path) -> None:
    """FolderError for a file, or a folder that holds something other than embeddings."""
    if folder.exists() and not folder.is_dir():
        raise FolderError(f"{folder} is a file; give --out a folder")
    ours = layers_folder(folder).exists() or (folder / FILE).exists()
    if folder.exists() and not ours and any(folder.iterdir()):
        raise FolderError(f"{folder} is not empty and holds no embeddings; choose another --out")


def fingerprint_in(folder: Path) -> str:
    """The fingerprint of what the embeddings of a folder were made from."""
    if not (folder / _MANIFEST).exists():
        raise FolderError(f"{folder} holds no finished embeddings; run gscl-scale embed first")
    return read_manifest(folder)["fingerprint"]


def read_manifest(folder: Path) -> Manifest:
    """The manifest of an embeddings folder."""
    return read_json(folder / _MANIFEST, Manifest, _CURE)


class VectorFile:
    """A file of embeddings, of which a row group is in memory at a time.

    rows, width   of the vectors [N, d]
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with _opened(path) as file:
            self.rows: int = file.metadata.num_rows
            self.width = _width(file)
            groups = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
        self._starts = np.concatenate([[0], np.cumsum(groups, dtype=np.int64)])
        if self._starts[-1] != self.rows:
            raise _damaged(path, f"expected {self.rows:,} rows in all its row groups")

    @functools.cached_property
    def ids(self) -> pa.Array:
        """The user's ids, in their own type: a few bytes a node, all in memory."""
        with _opened(self.path) as file:
            column: pa.ChunkedArray = file.read(columns=["id"]).column(0)
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)

    def blocks(self) -> Iterator[tuple[int, Rows]]:
        """(number of the first row, rows) of one row group after the other: a column of Arrow holds 2^31 numbers."""
        with _opened(self.path) as file:
            for group, first in enumerate(self._starts[:-1]):
                yield int(first), self._group(file, group)

    def take(self, nodes: npt.NDArray[np.int64]) -> Rows:
        """The vectors of some nodes, in any order; row groups without one of them are not read."""
        if nodes.size and nodes.max() >= self.rows:
            raise _damaged(self.path, f"expected more than {nodes.max():,} rows, got {self.rows:,}")
        group_of = np.searchsorted(self._starts, nodes, "right") - 1
        out = np.empty((nodes.size, self.width), np.float32)
        with _opened(self.path) as file:
            for group in np.unique(group_of).tolist():
                wanted = np.flatnonzero(group_of == group)
                out[wanted] = self._group(file, group)[nodes[wanted] - self._starts[group]]
        return out

    def _group(self, file: pq.ParquetFile, group: int) -> Rows:
        count = int(self._starts[group + 1] - self._starts[group])
        column = file.read_row_group(group, columns=["embedding"]).column(0)
        values = column.combine_chunks().flatten()
        if column.null_count or values.null_count or len(values) != count * self.width:
            raise _damaged(self.path, f"expected {count:,} whole rows of {self.width:,} numbers")
        rows: Rows = values.to_numpy().reshape(count, self.width)
        if rows.size and not np.isfinite([rows.min(), rows.max()]).all():
            raise _damaged(self.path, f"not all rows from {self._starts[group]:,} on are finite")
        return rows


class Embeddings(VectorFile):
    """The embeddings of a finished folder; `fingerprint` is that of what they were made from."""

    def __init__(self, folder: Path) -> None:
        self.fingerprint = fingerprint_in(folder)
        super().__init__(folder / FILE)


def export(embeddings: Embeddings, path: Path, nodes: npt.NDArray[np.int64]) -> None:
    """Publish the rows of some nodes, in their order, as .npy or Parquet; the ending of the name decides."""
    size = max(1024, _BYTES_EXPORTED // (4 * embeddings.width))
    parts = (nodes[low : low + size] for low in range(0, nodes.size, size))
    if path.suffix == ".npy":
        write_npy(path, (nodes.size, embeddings.width), (embeddings.take(part) for part in parts))
    else:
        blocks = ((embeddings.ids.take(pa.array(part)), embeddings.take(part)) for part in parts)
        write_parquet(path, embeddings.ids.type, embeddings.width, blocks)


def take_rows(folder: Path, nodes: npt.NDArray[np.int64]) -> Rows:
    """Rows of an embeddings folder, in any order."""
    return Embeddings(folder).take(nodes)


def read_embeddings(folder: Path) -> tuple[pa.Array, Rows]:
    """(ids, vectors [N, d]) of an embeddings folder, with the content that was written."""
    _refuse_changed(folder)
    file = VectorFile(folder / FILE)
    vectors = np.empty((file.rows, file.width), np.float32)
    for at, block in file.blocks():
        vectors[at : at + len(block)] = block
    return file.ids, vectors


@contextlib.contextmanager
def open_embeddings(folder: Path, place: Path, name: str = "vectors") -> Iterator[Rows]:
    """The vectors [N, d] of an embeddings folder: in memory, or where they are large mapped from a file in `place`.

    The file is removed afterwards; files that are open together in one place need different names.
    """
    file = VectorFile(folder / FILE)
    if 4 * file.rows * file.width <= available_memory() // _SHARE_OF_MEMORY:
        yield read_embeddings(folder)[1]
        return
    _refuse_changed(folder)
    with atomic.scratch_folder(place, name) as scratch:
        rows = scratch / "rows.raw"
        with explain_disk_errors(rows):
            scratch.mkdir(parents=True)
            with rows.open("wb") as out:
                out.writelines(np.ascontiguousarray(block).data for _, block in file.blocks())
        yield np.memmap(rows, np.float32, "r", shape=(file.rows, file.width))


def _refuse_changed(folder: Path) -> None:
    recorded = read_manifest(folder).get("files", {}) if (folder / _MANIFEST).exists() else {}
    if FILE in recorded and (folder / FILE).exists() and not _is_intact(folder / FILE, recorded[FILE]):
        raise FolderError(f"{folder / FILE} does not match its checksum; {_CURE}")


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[pq.ParquetFile]:
    """The file of embeddings, if it has their columns and claims no more numbers than its bytes can hold."""
    if not path.exists():
        raise FolderError(f"{path} does not exist; run gscl-scale embed first")
    size = size_of(path)
    try:
        with pq.ParquetFile(path) as file:
            kinds = {field.name: field.type for field in file.schema_arrow}
            names = [name for name in file.schema_arrow.names if name in ("id", "embedding")]
            if sorted(names) != ["embedding", "id"] or not pa.types.is_fixed_size_list(kinds["embedding"]):
                raise _damaged(path, "expected the columns id and embedding")
            if kinds["embedding"].value_type != pa.float32() or not 0 < _width(file) <= _MOST_WIDTH:
                raise _damaged(path, f"expected rows of float32, got {shortened(kinds['embedding'], 80)}")
            numbers = file.metadata.num_rows * _width(file)
            if not file.metadata.num_rows >= 0 or 4 * numbers > _EXPANSION * size:
                raise _damaged(path, f"{file.metadata.num_rows:,} rows cannot be in {size:,} bytes")
            yield file
    except (pa.ArrowException, OSError, MemoryError, UnicodeDecodeError) as error:
        raise FolderError(f"{path} cannot be read: {shortened(error)}; {_CURE}") from None


def _width(file: pq.ParquetFile) -> int:
    return int(file.schema_arrow.field("embedding").type.list_size)


def _damaged(path: Path, what: str) -> FolderError:
    return FolderError(f"{path} is damaged: {what}; {_CURE}")
