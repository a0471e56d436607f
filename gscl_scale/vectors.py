"""The embeddings of all nodes in files, keyed by the user's ids."""

import contextlib
import functools
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from gscl_scale.errors import FolderError
from gscl_scale.files import as_rows, publish, read_json, sha256_of, write_json

if TYPE_CHECKING:
    from gscl_scale.graph import Graph

FILE, NPY = "embeddings.parquet", "embeddings.npy"
Rows = npt.NDArray[np.float32]
_MANIFEST = "manifest.json"
_ROWS_PER_GROUP = 65536
_BYTES_PER_GROUP = 1 << 26
_BYTES_EXPORTED = 1 << 28  # at once: of nodes in any order, each part is looked for in the whole file


def write_embeddings(
    folder: Path,
    graph: "Graph",
    vectors: Rows,
    fingerprint: str,
    npy: bool,
    rotation: Rows | None = None,
) -> None:
    """Publish `id` (the user's id, in its own type) and `embedding`, in the order of the user's nodes.

    `vectors` may be mapped from a file: a row group is in memory at a time. `rotation` [d, d] is applied to every row.
    """
    for path in folder.glob(".*.tmp"):  # of a process that was killed
        path.unlink()
    blocks = ((graph.ids[rows], block) for rows, block in turned(vectors, rotation))
    write_parquet(folder / FILE, graph.ids.type, vectors.shape[1], blocks)
    if npy:
        write_npy(folder / NPY, vectors.shape, (block for _, block in turned(vectors, rotation)))
    files = {name: sha256_of(folder / name) for name in (FILE, *([NPY] if npy else []))}
    manifest = {"fingerprint": fingerprint, "rows": vectors.shape[0], "width": vectors.shape[1], "files": files}
    write_json(folder / _MANIFEST, manifest)


def write_parquet(path: Path, kind: pa.DataType, width: int, blocks: Iterable[tuple[pa.Array, Rows]]) -> None:
    """Publish ids of a type and vectors, a row group for each block."""
    schema = pa.schema([("id", kind), ("embedding", pa.list_(pa.float32(), width))])
    with publish(path) as temporary, pq.ParquetWriter(temporary, schema, use_dictionary=False) as writer:
        for ids, rows in blocks:
            writer.write_table(pa.Table.from_arrays([ids, as_rows(rows)], schema=schema))


def write_npy(path: Path, shape: tuple[int, ...], blocks: Iterable[Rows]) -> None:
    """Publish vectors that come block by block as a file of numpy."""
    with publish(path) as temporary, temporary.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
        for rows in blocks:
            file.write(np.ascontiguousarray(rows, "<f4").tobytes())


def turned(vectors: Rows, rotation: Rows | None) -> Iterator[tuple[slice, Rows]]:
    """Some rows after the other, turned where they are to be."""
    size = max(1024, min(_ROWS_PER_GROUP, _BYTES_PER_GROUP // (4 * vectors.shape[1])))
    for low in range(0, vectors.shape[0], size):
        rows = slice(low, low + size)
        yield rows, vectors[rows] if rotation is None else vectors[rows] @ rotation


def is_complete(folder: Path, fingerprint: str, npy: bool) -> bool:
    """Whether the folder holds the embeddings of this checkpoint, with the content that was written."""
    if not (folder / _MANIFEST).exists():
        return False
    manifest = read_json(folder / _MANIFEST)
    files = manifest.get("files", {})
    if manifest.get("fingerprint") != fingerprint or not {FILE, *([NPY] if npy else [])} <= files.keys():
        return False
    return all(_is_whole(folder / name, checksum) for name, checksum in files.items())


def _is_whole(path: Path, checksum: str) -> bool:
    return path.exists() and sha256_of(path) == checksum


def scratch_folder(folder: Path) -> Path:
    """Where the layers are while an embeddings folder is made."""
    return folder / "scratch"


def clear_away(folder: Path) -> None:
    """Remove scratch that a kill has left in a finished folder."""
    shutil.rmtree(scratch_folder(folder), ignore_errors=True)


def refuse_taken(folder: Path) -> None:
    """FolderError for a place that holds something other than embeddings."""
    if folder.exists() and not folder.is_dir():
        raise FolderError(f"{folder} is a file; give --out a folder")
    ours = scratch_folder(folder).exists() or (folder / FILE).exists()
    if folder.exists() and not ours and any(folder.iterdir()):
        raise FolderError(f"{folder} is not empty and holds no embeddings; choose another --out")


def fingerprint_in(folder: Path) -> str:
    """What the embeddings of a folder were made from."""
    if not (folder / _MANIFEST).exists():
        raise FolderError(f"{folder} holds no finished embeddings; run gscl-scale embed first")
    return str(read_json(folder / _MANIFEST)["fingerprint"])


class Embeddings:
    """The embeddings of a finished folder, of which a row group is in memory at a time.

    rows, width   of the vectors [N, d]
    fingerprint   what they were made from
    """

    def __init__(self, folder: Path) -> None:
        self.fingerprint = fingerprint_in(folder)
        self.path = folder / FILE
        with self._opened() as file:
            self.rows: int = file.metadata.num_rows
            self.width: int = file.schema_arrow.field("embedding").type.list_size
            groups = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
        self._starts = np.concatenate([[0], np.cumsum(groups, dtype=np.int64)])

    @functools.cached_property
    def ids(self) -> pa.Array:
        """The user's ids, in their own type: a few bytes a node, all in memory."""
        with self._opened() as file:
            column: pa.ChunkedArray = file.read(columns=["id"]).column(0)
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)

    def blocks(self) -> Iterator[tuple[int, Rows]]:
        """(number of the first row, rows) of one row group after the other."""
        with self._opened() as file:
            for group, first in enumerate(self._starts[:-1]):
                yield int(first), self._group(file, group)

    def take(self, nodes: npt.NDArray[np.int64]) -> Rows:
        """The vectors of some nodes, in any order; row groups without one of them are not read."""
        out, group_of = np.empty((nodes.size, self.width), np.float32), self._groups_of(nodes)
        with self._opened() as file:
            for group in np.unique(group_of):
                wanted = np.flatnonzero(group_of == group)
                out[wanted] = self._group(file, group)[nodes[wanted] - self._starts[group]]
        return out

    def _groups_of(self, nodes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.searchsorted(self._starts, nodes, "right") - 1

    def _group(self, file: pq.ParquetFile, group: int) -> Rows:
        column = file.read_row_group(int(group), columns=["embedding"]).column(0).combine_chunks()
        return column.flatten().to_numpy().reshape(-1, self.width)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[pq.ParquetFile]:
        try:
            with pq.ParquetFile(self.path) as file:
                yield file
        except FileNotFoundError:
            raise FolderError(f"{self.path} does not exist; run gscl-scale embed first") from None
        except (pa.ArrowException, OSError) as error:
            raise FolderError(f"{self.path} cannot be read: {error}; run gscl-scale embed again") from None


def export(embeddings: Embeddings, path: Path, nodes: npt.NDArray[np.int64]) -> None:
    """Publish the rows of some nodes, in their order, as a file of numpy or Parquet, as its name ends."""
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
    recorded = read_json(folder / _MANIFEST).get("files", {}) if (folder / _MANIFEST).exists() else {}
    if FILE in recorded and (folder / FILE).exists() and not _is_whole(folder / FILE, recorded[FILE]):
        raise FolderError(
            f"{folder / FILE}: expected the content that was written, got other bytes; run gscl-scale embed again"
        )
    try:
        table: Any = pq.read_table(folder / FILE)
    except FileNotFoundError:
        raise FolderError(f"{folder / FILE} does not exist; run gscl-scale embed first") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise FolderError(f"{folder / FILE} cannot be read: {error}; run gscl-scale embed again") from None
    column = table.column("embedding").combine_chunks()
    vectors = column.flatten().to_numpy().reshape(len(column), column.type.list_size)
    return table.column("id").combine_chunks(), vectors
