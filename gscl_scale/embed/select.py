"""Selection of rows by the user's ids, which were typed or are read from a file."""

import difflib
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gscl_scale.errors import UnknownIdError, UserError
from gscl_scale.graph.sources import tablefiles
from gscl_scale.io.arrow import numpy_of, text_of
from gscl_scale.text import join_names

_COMPARED = 10_000  # ids that an unknown one is compared with, letter by letter
_SUGGESTED = 3
_USUAL = "id"  # the column of ids in a file of the user


def select_nodes(
    ids: pa.Array, texts: Sequence[str] | None, file: Path | None, where: str, id_column: str = ""
) -> npt.NDArray[np.int64]:
    """The rows of ids that were typed or are in a file; all rows without either.

    where       names the ids in messages
    id_column   the column of ids in the node table of the run, if it is known
    """
    if file is not None:
        return rows_of_ids(read_ids(file, ids, id_column), ids, where, file)
    return rows_of_ids(parse_ids(text_of(texts), ids.type, "--id"), ids, where) if texts else np.arange(len(ids))


def parse_ids(texts: pa.Array, kind: pa.DataType, origin: str) -> pa.Array:
    """Ids that were given as text, in the type of the ids of the embeddings."""
    try:
        return pc.cast(texts, kind)
    except pa.ArrowInvalid as error:
        raise UnknownIdError(f"{origin}: expected ids of type {kind}, as those of the run are: {error}") from None


def read_ids(path: Path, known: pa.Array, id_column: str) -> pa.Array:
    """The ids in a Parquet or CSV file: its column `id_column`, else `id`, else its only one."""
    if not path.is_file():
        raise UserError(f"--ids: {path} is no file; give a Parquet or CSV file with a column {id_column or _USUAL}")
    (file,) = tablefiles.files_of(path, "ids")
    name = _name_of_ids(path, tablefiles.schema_of(file, {}).names, id_column)
    if (
        file.is_csv
        and name not in (id_column, _USUAL)
        and pc.any(pc.equal(known.cast(pa.large_string()), name)).as_py()
    ):
        raise UserError(f"--ids: {path} begins with the id {name}, expected the name of its column; write id above it")
    tablefiles.schema_of(file, {name: None})
    columns = [part.text_or_numbers(name) for part in tablefiles.stream(file, [name])]
    if not columns:
        raise UserError(f"--ids: {path} holds no ids; give at least one")
    ids = pa.concat_arrays(columns)
    return ids if ids.type == known.type else parse_ids(ids.cast(pa.large_string()), known.type, str(path))


def _name_of_ids(path: Path, names: list[str], id_column: str) -> str:
    """The column of ids among those of a file."""
    usual = [name for name in (id_column, _USUAL) if name in names]
    if not usual and len(names) != 1:
        expected = " or ".join(dict.fromkeys(name for name in (id_column, _USUAL) if name))
        raise UserError(
            f"--ids: {path} has the columns {join_names(names)}; expected one named {expected}; rename the column of "
            "ids, or leave the others out"
        )
    return (usual or names)[0]


def rows_of_ids(asked: pa.Array, ids: pa.Array, where: str, file: Path | None = None) -> npt.NDArray[np.int64]:
    """The row of each id, which a file may have given; UnknownIdError for one that no node has."""
    distinct = asked.dictionary_encode(null_encoding="encode")
    found = pc.index_in(ids, distinct.dictionary)  # this way round the table in memory is that of the few
    row_of = np.full(len(distinct.dictionary), -1)
    row_of[numpy_of(found.drop_null())] = np.flatnonzero(numpy_of(found.is_valid()))
    places = row_of[numpy_of(distinct.indices)]
    if (places < 0).any():
        at = int(np.argmax(places < 0))
        unknown = asked[at].as_py()
        place = f"{tablefiles.Place(tablefiles.TableFile(file), at + 1)}: " if file else ""
        similar = ", ".join(str(one) for one in _similar(unknown, ids))
        nearest = f"; the nearest ids are {similar}" if similar else ""
        raise UnknownIdError(f"{place}{where} has no node {unknown!r}{nearest}")
    return places


def _similar(unknown: int | str | None, ids: pa.Array) -> list[int | str]:
    """A few ids that the user may have meant: the nearest numbers, or text of nearly the same spelling."""
    if unknown is None:
        return []
    if isinstance(unknown, int):
        numbers = numpy_of(ids)
        away = np.abs(numbers.astype(np.float64) - unknown)
        return [int(numbers[at]) for at in np.argsort(away, kind="stable")[:_SUGGESTED]]
    same = ids.filter(pc.match_substring_regex(ids, _but_for_zeros(unknown), ignore_case=True))
    if len(same):
        return same[:_SUGGESTED].to_pylist()
    holding = ids.filter(pc.match_substring(ids, unknown, ignore_case=True))
    compared = [*ids[:_COMPARED].to_pylist(), *holding[:_COMPARED].to_pylist()]
    written = {text.lower(): text for text in compared}
    return [written[text] for text in difflib.get_close_matches(unknown.lower(), written, _SUGGESTED)]


def _but_for_zeros(text: str) -> str:
    """A pattern of the ids that are the same but for leading zeros of their numbers.

    >>> _but_for_zeros("u2-007")
    '^u0*2\\\\-0*7$'
    """
    words = re.split("([0-9]+)", text)  # every second one is a number
    return (
        "^"
        + "".join(f"0*{word.lstrip('0') or '0'}" if at % 2 else re.escape(word) for at, word in enumerate(words))
        + "$"
    )
