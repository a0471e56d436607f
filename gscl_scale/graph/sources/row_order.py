"""Rows that a pandas index or a dict names, in the order of the nodes or edges of a graph."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gscl_scale.errors import GraphError
from gscl_scale.text import quoted


def has_index(value: object) -> bool:
    """Whether a value is a pandas Series or DataFrame whose index does not just count the rows."""
    index = _index_of(value)
    return index is not None and not (type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1)


def _index_of(value: object) -> Any:
    return getattr(value, "index", None) if hasattr(value, "iloc") else None


def in_order_of_nodes(value: Any, key: str, ids: Callable[[], Sequence[Any]], table: object = None) -> Any:
    """Rows in the order of the nodes; those without an index are in it already.

    ids     of the nodes in their order
    table   of the nodes, whose index that of the rows may equal
    """
    if isinstance(value, Mapping):
        return _values_by_id(value, key, ids())
    if not has_index(value) or _same_index(value, table):
        return value
    orders = [_order(value.index, ids())]
    if (index := _index_of(table)) is not None:
        orders.append(_order(value.index, index))
    found = [order for order in orders if order is not None]
    if len(found) == 2 and (found[0] != found[1]).any():
        raise GraphError(
            f"{key}: its index may hold the ids of the nodes or the rows of nodes, which differ; "
            f"name a column of nodes ({key}=NAME), or give rows in the order of nodes with .to_numpy()"
        )
    if not found and list(value.index) != list(range(len(value))):
        raise _other_index(value.index, key, ids(), "nodes", "give the ids of the nodes as its index, or ")
    return value.iloc[found[0]] if found else value


def in_order_of_edges(value: Any, key: str, table: object = None) -> Any:
    """Rows in the order of the edges of a table; an index that is not that of the table is refused."""
    if not has_index(value) or _same_index(value, table):
        return value
    index = _index_of(table)
    order = None if index is None else _order(value.index, index)
    if order is None:
        cure = "" if index is None else "give the index of the table of edges, or "
        raise _other_index(value.index, key, [] if index is None else index, "edges", cure)
    return value.iloc[order]


def _same_index(value: Any, table: object) -> bool:
    index = _index_of(table)
    return index is not None and bool(value.index.equals(index))


def _order(index: Any, ids: Sequence[Any]) -> Any:
    """The row of each id, where the index holds these ids, each once; else None."""
    row = {one: number for number, one in enumerate(_like(index, ids))}
    order = np.array([row.get(one, -1) for one in ids], np.int64)
    return order if len(row) == len(index) == len(ids) and (order >= 0).all() else None


def _like(index: Any, ids: Sequence[Any]) -> list[Any]:
    """What the index holds, as text where the ids are text: those of a graph with ids of many kinds are."""
    return [str(one) for one in index] if _are_text(ids) else list(index)


def _are_text(ids: Sequence[Any]) -> bool:
    return len(ids) > 0 and isinstance(ids[0], str)


def _other_index(index: Any, key: str, ids: Sequence[Any], what: str, cure: str) -> GraphError:
    known = set(ids)
    unknown = next((one for one in _like(index, ids) if one not in known), None)
    why = f"has {quoted(unknown)}, which is none of them" if unknown is not None else "does not have each of them once"
    return GraphError(
        f"{key}: expected rows in the order of the {what} or indexed like them, and the index {why}; {cure}give "
        f"rows in the order of the {what} with .to_numpy()"
    )


def _values_by_id(values: Mapping[Any, Any], key: str, ids: Sequence[Any]) -> list[Any]:
    """The value of each node, None or NaN for a node without one."""
    by_id = {str(node): value for node, value in values.items()} if _are_text(ids) else values
    if unknown := by_id.keys() - set(ids):
        raise GraphError(
            f"{key}: {quoted(min(unknown, key=str))} is a key of the dict and no node of the graph; expected ids of "
            f"nodes, such as {quoted(ids[0])}"
        )
    known = [value for value in by_id.values() if value is not None]
    gap = math.nan if all(isinstance(value, (int, float, np.number)) for value in known) else None
    found = (by_id.get(node) for node in ids)
    return [gap if value is None else value for value in found]
