"""Rows of nodes by their ids, and the ids of edges in the type of the nodes' ids."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gscl_scale import seeding
from gscl_scale.errors import GraphError
from gscl_scale.graph.sources.tablefiles import Part, TableFile
from gscl_scale.graph.sources.tableids import NumberRows, ids_of, is_integer_text, table_bytes
from gscl_scale.io.arrow import arrow_of
from gscl_scale.text import quoted

_KEY = 8  # bytes


class IdIndex:
    """Rows of nodes by id, as a hash table of 64-bit keys that several threads may use."""

    def __init__(self, ids: pa.Array) -> None:
        self._ids = ids
        self._text = not pa.types.is_integer(ids.type)
        keys = self._keys(ids)
        distinct = not self._text or np.unique(keys).size == keys.size  # else two texts share a key
        self._rows = NumberRows(keys) if distinct else None

    @property
    def distinct(self) -> bool:
        """Whether the ids are known to be distinct: the keys of texts are."""
        return self._text and self._rows is not None

    def find(self, wanted: pa.Array) -> npt.NDArray[np.int64]:
        """Row of each id, which is of the kind of the nodes' ids or missing; -1 for unknown ones."""
        rows: npt.NDArray[np.int64]
        if self._rows is None:
            found = pc.index_in(wanted, value_set=self._ids)
            return found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        missing = wanted.is_null().to_numpy(zero_copy_only=False)
        wanted = wanted.fill_null("" if self._text else 0)
        rows = self._rows.find(self._keys(wanted))
        if self._text and len(self._ids):
            same = pc.equal(pc.take(self._ids, arrow_of(np.maximum(rows, 0))), wanted)
            rows = np.where(same.to_numpy(zero_copy_only=False), rows, -1)
        rows[missing] = -1
        return rows

    def alike(self, name: object) -> str | None:
        """The first id that differs from a name by leading zeros, blanks around it or the case of letters alone."""
        if not self._text:
            return None
        plain = pc.utf8_ltrim(pc.utf8_lower(pc.utf8_trim_whitespace(self._ids)), "0")
        at = pc.index(plain, pa.scalar(str(name).strip().lower().lstrip("0"), plain.type)).as_py()
        return None if at < 0 else self._ids[at].as_py()

    def _keys(self, ids: pa.Array) -> npt.NDArray[np.int64]:
        if self._text:
            return seeding.identities_of(ids).view(np.int64)
        return ids.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)


def index_bytes(ids: pa.Array) -> int:
    """Memory of ids and their index while it is made."""
    if pa.types.is_integer(ids.type):
        ends = pc.min_max(ids)
        return int(ids.nbytes + table_bytes(len(ids), *(ends[name].as_py() or 0 for name in ("min", "max"))))
    return int(ids.nbytes + 2 * _KEY * len(ids) + table_bytes(len(ids)))


@dataclass(frozen=True)
class EdgeIds:
    """How ids of edges are read: in the type of the nodes' ids."""

    kind: pa.DataType

    def read(self, part: Part, column: str, strict: bool = True) -> pa.Array:
        """A column of ids in the type of the nodes' ids; with `strict`, one that cannot be is refused, else missing."""
        drops = f", or let {_setting(part.file, 'unknown_ids=drop')} do so"
        wanted, text = ids_of(part, column, strict, drops), not pa.types.is_integer(self.kind)
        number = pa.types.is_integer(wanted.type)
        if number != text:
            return wanted.cast(self.kind) if text else wanted
        if number or not part.file.is_csv:
            cure = "write" if part.file.table is None else "read (in pandas with dtype=str)"
            raise GraphError(
                f"{part.file}: ids in {column} are {kind_of(number)} and those of the node table are "
                f"{kind_of(not number)}; {cure} both tables with ids of one type"
            )
        whole = is_integer_text(wanted)
        if strict and (at := pc.index(whole, False).as_py()) >= 0:
            raise GraphError(
                f"{part.where(at)}: {column} is {quoted(wanted[at].as_py())} and the node table's ids are integers; "
                "correct the edge, or write both tables as Parquet with ids of one type"
            )
        return pc.if_else(whole, wanted, None).cast(pa.int64())


def unknown_id(part: Part, column: str, at: int, name: object, alike: str | None = None) -> GraphError:
    """The refusal of an edge's id that no node has; `alike` is a similar one that a node has."""
    if alike is not None:
        return GraphError(
            f"{part.where(at)}: {column} {quoted(name)} is not an id of the node table, which has {quoted(alike)}; "
            "write the ids of both tables alike"
        )
    return GraphError(
        f"{part.where(at)}: {column} {quoted(name)} is not an id of the node table; "
        f"add the node or drop the edge, or let {_setting(part.file, 'unknown_ids=add')} (or drop) do so"
    )


def _setting(file: TableFile, words: str) -> str:
    """A setting of the graph as it is typed: in a shell, or in Python for a table in memory."""
    if file.table is None:
        return f"--set graph.{words}"
    key, _, value = words.partition("=")
    return f'graph__{key}="{value}"'


def kind_of(number: bool) -> str:
    """The word for ids of a kind."""
    return "integers" if number else "text"


class IdKinds:
    """The types of ids that a table without nodes has; GraphError where some are integers and others text."""

    def __init__(self) -> None:
        self.types: set[pa.DataType] = set()
        self._first: tuple[TableFile, str, bool] | None = None

    def add(self, file: TableFile, column: str, kind: pa.DataType) -> None:
        """Note the type of a part's ids."""
        self.types.add(kind)
        number = pa.types.is_integer(kind)
        self._first = self._first or (file, column, number)
        if number != self._first[2]:
            raise GraphError(
                f"{file}: ids in {column} are {kind_of(number)} and those in {self._first[1]} of {self._first[0]} are "
                f"{kind_of(self._first[2])}; write both with ids of one type"
            )
