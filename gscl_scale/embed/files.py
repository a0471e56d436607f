"""The embeddings of all nodes in files, keyed by the user's ids."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from gscl_scale.errors import FolderError
from gscl_scale.files import as_rows, publish, read_json, sha256_of, write_json
from gscl_scale.graph import Graph

FILE, NPY = "embeddings.parquet", "embeddings.npy"
_MANIFEST = "manifest.json"
_ROWS_PER_GROUP = 65536
_BYTES_PER_GROUP = 1 << 26


def write_embeddings(
    folder: Path,
    graph: Graph,
    vectors: npt.NDArray[np.float32],
    fingerprint: str,
    npy: bool,
    rotation: npt.NDArray[np.float32] | None = None,
) -> None:
    """Publish `id` (the user's id, in its own type) and `embedding`, in the order of the user's nodes.

    `vectors` may be mapped from a file: a row group is in memory at a time. `rotation` [d, d] is applied to every row.
    """
    for path in folder.glob(".*.tmp"):  # of a process that was killed
        path.unlink()
    schema = pa.schema([("id", graph.ids.type), ("embedding", pa.list_(pa.float32(), vectors.shape[1]))])
    with publish(folder / FILE) as temporary, pq.ParquetWriter(temporary, schema, use_dictionary=False) as writer:
        for rows, block in _turned(vectors, rotation):
            writer.write_table(pa.Table.from_arrays([graph.ids[rows], as_rows(block)], schema=schema))
    if npy:
        with publish(folder / NPY) as temporary, temporary.open("wb") as file:
            header = {"descr": "<f4", "fortran_order": False, "shape": vectors.shape}
            np.lib.format.write_array_header_1_0(file, header)
            for _, block in _turned(vectors, rotation):
                file.write(np.ascontiguousarray(block, "<f4").tobytes())
    files = {name: sha256_of(folder / name) for name in (FILE, *([NPY] if npy else []))}
    manifest = {"fingerprint": fingerprint, "rows": vectors.shape[0], "width": vectors.shape[1], "files": files}
    write_json(folder / _MANIFEST, manifest)


def _turned(
    vectors: npt.NDArray[np.float32], rotation: npt.NDArray[np.float32] | None
) -> Iterator[tuple[slice, npt.NDArray[np.float32]]]:
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


def read_rows(folder: Path, nodes: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """The vectors of some nodes, ascending, of an embeddings folder: a row group is in memory at a time."""
    fingerprint_in(folder)  # refuses a folder that is not finished
    with pq.ParquetFile(folder / FILE) as file:
        width = file.schema_arrow.field("embedding").type.list_size
        out, low = np.empty((nodes.size, width), np.float32), 0
        for group in range(file.num_row_groups):
            high = low + file.metadata.row_group(group).num_rows
            first, end = np.searchsorted(nodes, (low, high))
            if end > first:
                column = file.read_row_group(group, columns=["embedding"]).column(0).combine_chunks()
                out[first:end] = column.flatten().to_numpy().reshape(-1, width)[nodes[first:end] - low]
            low = high
    return out


def read_embeddings(folder: Path) -> tuple[pa.Array, npt.NDArray[np.float32]]:
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
