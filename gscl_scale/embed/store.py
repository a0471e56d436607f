"""The folder of embeddings: vectors of all nodes in Parquet, keyed by the user's ids, and a manifest."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import TypedDict

from gscl_scale.embed.vector_file import CURE, Rows, VectorFile, rotated_blocks, write_csv, write_npy, write_parquet
from gscl_scale.errors import FolderError
from gscl_scale.io import atomic
from gscl_scale.io.arrow import arrow_of
from gscl_scale.io.atomic import explain_disk_errors
from gscl_scale.io.checksum import sha256_of
from gscl_scale.io.json import read_json, write_json
from gscl_scale.io.validate import Count, NameBelow
from gscl_scale.machine import available_memory

if TYPE_CHECKING:
    from gscl_scale.graph.graph import Graph
    from gscl_scale.runtime.runner import Runner

FILE, NPY = "embeddings.parquet", "embeddings.npy"
COPIES = (".npy", ".parquet", ".csv")
_MANIFEST = "manifest.json"
_SHARE_OF_MEMORY = 4  # embeddings above a quarter of the available memory are mapped
_BYTES_EXPORTED = 1 << 28  # at once: each part of nodes in any order is looked for in the whole file


class Manifest(TypedDict):
    """`fingerprint` of what the embeddings were made from, their shape, and the SHA-256 of each file."""

    fingerprint: str
    rows: Count
    width: Count
    files: NotRequired[dict[NameBelow, str]]


def write_embeddings(
    folder: Path,
    graph: "Graph",
    vectors: Rows,
    fingerprint: str,
    npy: bool,
    rotation: Rows | None = None,
    part_rows: int = 0,
    runner: "Runner | None" = None,
) -> None:
    """Publish `id` (the user's id, in its own type) and `embedding`, in the order of the user's nodes.

    `vectors` may be mapped from a file: a row group is in memory at a time. Mapped vectors with more rows than
    `part_rows` (0: never) become a folder of parts, which tasks of the runner write, or threads without one.
    `rotation` [d, d] is applied to every row.
    """
    for path in folder.glob(".*.tmp"):  # of a process that was killed
        path.unlink()
    mapped = vectors if isinstance(vectors, np.memmap) and 0 < part_rows < len(vectors) else None
    if mapped is not None or (folder / FILE).is_dir():
        _remove_rows(folder)
    if mapped is not None:
        from gscl_scale.embed.parts import write_parts  # with graphs and kernels, which readers of rows do not need

        parts = write_parts(folder / FILE, graph, mapped, rotation, part_rows, runner)
        files = {f"{FILE}/{name}": checksum for name, checksum in parts.items()}
    else:
        blocks = ((graph.ids[rows], block) for rows, block in rotated_blocks(vectors, rotation))
        write_parquet(folder / FILE, graph.ids.type, vectors.shape[1], blocks)
        files = {FILE: sha256_of(folder / FILE)}
    if npy:
        write_npy(folder / NPY, vectors.shape, (block for _, block in rotated_blocks(vectors, rotation)))
        files[NPY] = sha256_of(folder / NPY)
    manifest: Manifest = {
        "fingerprint": fingerprint, "rows": vectors.shape[0], "width": vectors.shape[1], "files": files
    }  # fmt: skip
    write_json(folder / _MANIFEST, manifest)


def _remove_rows(folder: Path) -> None:
    """Remove the file or folder of rows, its manifest first: parts of two embeddings must not be read as one."""
    (folder / _MANIFEST).unlink(missing_ok=True)
    if (folder / FILE).is_dir():
        shutil.rmtree(folder / FILE)
    else:
        (folder / FILE).unlink(missing_ok=True)


def is_complete(folder: Path, fingerprint: str, npy: bool) -> bool:
    """Whether the folder holds the embeddings of this checkpoint, with the content that was written."""
    if not ((folder / _MANIFEST).exists() and (folder / FILE).exists()):
        return False
    try:
        manifest = read_manifest(folder)
    except FolderError:  # damaged: they are written again
        return False
    files = manifest.get("files", {})
    if manifest["fingerprint"] != fingerprint or not _rows_in(files) or (npy and NPY not in files):
        return False
    return all(_is_intact(folder / name, checksum) for name, checksum in files.items())


def _rows_in(files: dict[str, str]) -> dict[str, str]:
    """The files of the rows among those of a manifest: one, or parts."""
    return {name: checksum for name, checksum in files.items() if name.split("/")[0] == FILE}


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
    return read_json(folder / _MANIFEST, Manifest, CURE)


class Embeddings(VectorFile):
    """The embeddings of a finished folder; `fingerprint` is that of what they were made from."""

    def __init__(self, folder: Path) -> None:
        self.fingerprint = fingerprint_in(folder)
        super().__init__(folder / FILE)
        if self.rows != (expected := read_manifest(folder)["rows"]):
            raise FolderError(f"{self.path} is damaged: expected {expected:,} rows, got {self.rows:,}; {CURE}")


def export(embeddings: Embeddings, path: Path, nodes: npt.NDArray[np.int64]) -> None:
    """Publish the rows of some nodes, in their order; the ending of the name, one of `COPIES`, decides on the kind."""
    size = max(1024, _BYTES_EXPORTED // (4 * embeddings.width))
    parts = (nodes[low : low + size] for low in range(0, nodes.size, size))
    if path.suffix == ".npy":
        write_npy(path, (nodes.size, embeddings.width), (embeddings.take(part) for part in parts))
    else:
        blocks = ((embeddings.ids.take(arrow_of(part)), embeddings.take(part)) for part in parts)
        write = write_csv if path.suffix == ".csv" else write_parquet
        write(path, embeddings.ids.type, embeddings.width, blocks)


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
    for name, checksum in _rows_in(recorded).items() if (folder / FILE).exists() else ():
        if not _is_intact(folder / name, checksum):
            raise FolderError(f"{folder / name} does not match its checksum; {CURE}")
