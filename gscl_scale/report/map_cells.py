"""The user's own columns on the map: each as data of its own, which the page unpacks when it is wanted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gscl_scale.graph.sources.node_cells import NodeCells
from gscl_scale.io.arrow import arrow_of
from gscl_scale.report.html import Html
from gscl_scale.report.packed import packed, texts
from gscl_scale.text import join_names

_MOST_BYTES = 4_000_000  # of all columns in a page
_LONGEST = 120  # characters of a cell
_MOST_COLOURS = 20
_SKEWED = 50  # times that the largest number is the median, from which colours follow the logarithm


@dataclass(frozen=True)
class MapCells:
    """The columns that a page has room for.

    cells    name and kind of each, for the script
    modes    colours by each
    data     what the script unpacks
    notes    what was left out
    """

    cells: list[dict[str, str]]
    modes: list[dict[str, object]]
    data: Html
    notes: list[str]


def map_cells(columns: Sequence[NodeCells]) -> MapCells:
    """Columns in their order as long as there is room for them."""
    found, left_out, size = MapCells([], [], Html(), []), list[str](), 0
    data = []
    for column in filter(_has_values, columns):
        arrays, kind, mode = _text(column.text) if column.text is not None else _numbers(column)
        number = len(found.cells)
        element = packed(f"map-cells-{number}", arrays)
        if size + len(element) > _MOST_BYTES:
            left_out.append(column.name)
            continue
        size += len(element)
        data.append(element)
        found.cells.append({"name": column.name, "kind": kind})
        found.modes.append({"name": column.name, "cell": number, **mode})
    notes = [f"Columns of the node table without room in this page: {join_names(left_out)}"] if left_out else []
    return MapCells(found.cells, found.modes, Html("\n".join(data)), notes)


Column = tuple[dict[str, npt.NDArray[Any]], str, dict[str, object]]  # arrays, kind of the cells, how they give colours


def _has_values(column: NodeCells) -> bool:
    """Whether any node has a cell; where none has, there is nothing to show and no range to colour by."""
    if column.text is not None:
        return column.text.null_count < len(column.text)
    return column.numbers is not None and bool(np.isfinite(column.numbers).any())


def _text(text: pa.Array) -> Column:
    """Cells as numbers of the distinct texts, the most frequent first; a missing one has the number after the last."""
    coded = pc.dictionary_encode(pc.utf8_slice_codeunits(text, 0, _LONGEST))
    codes = coded.indices.fill_null(len(coded.dictionary)).to_numpy(zero_copy_only=False)
    counts = np.bincount(codes, minlength=len(coded.dictionary) + 1)
    order = np.argsort(-counts[:-1], kind="stable")
    place = np.append(np.argsort(order), order.size)
    names = coded.dictionary.take(arrow_of(order))
    arrays = {"cell": place[codes].astype(_smallest(order.size)), **texts(names)}
    groups, shown = names[:_MOST_COLOURS].to_pylist(), counts[order][:_MOST_COLOURS].tolist()
    others = [int(counts.sum()) - sum(shown)] if sum(shown) < counts.sum() else []
    rest = "missing" if order.size <= _MOST_COLOURS else "all others"
    return arrays, "text", {"kind": "groups", "groups": groups, "counts": [*shown, *others], "rest": rest}


def _numbers(column: NodeCells) -> Column:
    values = column.numbers
    assert values is not None
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    skewed = known.size and low >= 0 and high > _SKEWED * max(float(np.median(known)), 1e-9)
    kind = "days" if column.dated else "number"
    colour = kind if column.dated or not skewed else "log"
    return {"cell": _compact(values)}, kind, {"kind": colour, "low": low, "high": high}


def _compact(values: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
    """The same numbers in the fewest bytes that hold them."""
    whole = np.isfinite(values).all() and bool((values == np.rint(values)).all())
    if whole and values.min(initial=0) >= 0 and (most := values.max(initial=0)) < 2**32:
        return values.astype(_smallest(int(most)))
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    return single if np.array_equal(single.astype(np.float64), values, equal_nan=True) else values


def _smallest(most: int) -> type[np.unsignedinteger[Any]]:
    return np.uint8 if most < 2**8 else np.uint16 if most < 2**16 else np.uint32
