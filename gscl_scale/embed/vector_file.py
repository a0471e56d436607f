"""Vectors keyed by the user's ids in Parquet: one file, or a folder of parts in the order of the nodes."""

import contextlib
import functools
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from gscl_scale.errors import DivergedError, FolderError
from gscl_scale.io.arrow import as_rows, numpy_of
from gscl_scale.io.atomic import publish_file
from gscl_scale.io.validate import size_of
from gscl_scale.text import shortened

Rows = npt.NDArray[np.float32]
CURE = "run gscl-scale embed again"
PARTS = "part-*.parquet"
_MOST_WIDTH = 1 << 20
_SQUARES_UNDERFLOW = 1e-15  # of a shorter row some squares are lost in 32-bit numbers
_EXPANSION = 64  # the most that compressed numbers grow: a hundred equal rows reach it
_ROWS_PER_GROUP = 65536
_BYTES_PER_GROUP = 1 << 26


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


def write_csv(path: Path, kind: pa.DataType, width: int, blocks: Iterable[tuple[pa.Array, Rows]]) -> None:
    """Publish ids of type `kind` and vectors as text, a column for each number: id, x0, x1, ..."""
    from pyarrow import csv

    schema = pa.schema([("id", kind), *((f"x{at}", pa.float32()) for at in range(width))])
    with publish_file(path) as temporary, temporary.open("wb") as file, csv.CSVWriter(file, schema) as writer:
        for ids, rows in blocks:
            writer.write_table(pa.Table.from_arrays([ids, *map(pa.array, np.asarray(rows).T)], schema=schema))


def refuse_infinite(rows: Rows) -> None:
    """Refuse embeddings of an encoder whose training diverged."""
    if not _are_finite(rows):
        raise DivergedError(
            "the embeddings are not finite, because the training diverged; lower train.learning_rate, raise the "
            "temperature, or set train.clip to 1"
        )


def _are_finite(rows: Rows) -> bool:
    return not rows.size or bool(np.isfinite([rows.min(), rows.max()]).all())


def rotated_blocks(vectors: Rows, rotation: Rows | None) -> Iterator[tuple[slice, Rows]]:
    """Blocks of rows, all finite, turned by the rotation if there is one."""
    size = max(1024, min(_ROWS_PER_GROUP, _BYTES_PER_GROUP // (4 * vectors.shape[1])))
    for low in range(0, vectors.shape[0], size):
        rows = slice(low, low + size)
        refuse_infinite(vectors[rows])
        yield rows, vectors[rows] if rotation is None else vectors[rows] @ rotation


class VectorFile:
    """A file of embeddings, or a folder of parts in the order of their names; a row group is in memory at a time.

    rows, width   of the vectors [N, d]
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._parts = sorted(path.glob(PARTS)) if path.is_dir() else [path]
        if not self._parts:
            raise _damaged(path, f"expected files {PARTS}")
        self._groups: list[tuple[Path, int]] = []
        sizes: list[int] = [0]
        kinds = []
        for part in self._parts:
            with _opened(part) as file:
                groups = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
                if sum(groups) != file.metadata.num_rows:
                    raise _damaged(part, f"expected {file.metadata.num_rows:,} rows in all its row groups")
                kinds.append((_width(file), file.schema_arrow.field("id").type))
            if kinds[-1] != kinds[0]:
                raise _damaged(part, f"expected the columns of {self._parts[0].name}")
            self._groups += [(part, number) for number in range(len(groups))]
            sizes += groups
        self.width, self._kind = kinds[0]
        self._starts = np.cumsum(sizes, dtype=np.int64)
        self.rows = int(self._starts[-1])

    @functools.cached_property
    def ids(self) -> pa.Array:
        """The user's ids, in their own type: a few bytes a node, all in memory."""
        chunks: list[pa.Array] = []
        for part in self._parts:
            with _opened(part) as file:
                chunks += file.read(columns=["id"]).column(0).chunks
        return chunks[0] if len(chunks) == 1 else pa.chunked_array(chunks, self._kind).combine_chunks()

    def blocks(self) -> Iterator[tuple[int, Rows]]:
        """(number of the first row, rows) of one row group after the other: a column of Arrow holds 2^31 numbers."""
        for part, groups in itertools.groupby(range(len(self._groups)), lambda group: self._groups[group][0]):
            with _opened(part) as file:
                for group in groups:
                    yield int(self._starts[group]), self._group(file, group)

    def take(self, nodes: npt.NDArray[np.int64]) -> Rows:
        """The vectors of some nodes, in any order; row groups without one of them are not read."""
        if nodes.size and nodes.max() >= self.rows:
            raise _damaged(self.path, f"expected more than {nodes.max():,} rows, got {self.rows:,}")
        group_of = np.searchsorted(self._starts, nodes, "right") - 1
        out = np.empty((nodes.size, self.width), np.float32)
        for part, groups in itertools.groupby(np.unique(group_of).tolist(), lambda group: self._groups[group][0]):
            with _opened(part) as file:
                for group in groups:
                    wanted = np.flatnonzero(group_of == group)
                    out[wanted] = self._group(file, group)[nodes[wanted] - self._starts[group]]
        return out

    def _group(self, file: pq.ParquetFile, group: int) -> Rows:
        """The rows of one of all row groups; `file` is the part that it is in."""
        part, number = self._groups[group]
        count = int(self._starts[group + 1] - self._starts[group])
        column = file.read_row_group(number, columns=["embedding"]).column(0)
        values = column.combine_chunks().flatten()
        if column.null_count or values.null_count or len(values) != count * self.width:
            raise _damaged(part, f"expected {count:,} whole rows of {self.width:,} numbers")
        rows: Rows = numpy_of(values).reshape(count, self.width)
        if not _are_finite(rows):
            raise _damaged(part, f"not all rows from {self._starts[group]:,} on are finite")
        return rows


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
        raise FolderError(f"{path} cannot be read: {shortened(error)}; {CURE}") from None


def _width(file: pq.ParquetFile) -> int:
    return int(file.schema_arrow.field("embedding").type.list_size)


def _damaged(path: Path, what: str) -> FolderError:
    return FolderError(f"{path} is damaged: {what}; {CURE}")
