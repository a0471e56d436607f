"""Answers to a search: the nearest nodes with ids, cosines and classes, for the screen or in a file."""

from collections.abc import Callable
from pathlib import Path
from typing import NotRequired

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from typing_extensions import TypedDict

from gscl_scale.embed.store import Embeddings
from gscl_scale.embed.vector_file import unit_rows
from gscl_scale.io.arrow import arrow_of
from gscl_scale.io.atomic import publish_file
from gscl_scale.neighbors.exact import Nearest, exact_search
from gscl_scale.neighbors.index import open_index
from gscl_scale.neighbors.places import EmbeddingSource
from gscl_scale.runtime.console import Console

Search = Callable[[npt.NDArray[np.int64]], Nearest]
WRITERS = {".parquet": pq.ParquetWriter, ".csv": pa.csv.CSVWriter}  # by the ending of the file's name
_AT_ONCE = 65536  # queries

Neighbor = TypedDict(
    "Neighbor", {"rank": int, "id": int | str, "cosine": float, "class": NotRequired[str | None]}
)  # with `class` where the graph has labels; of many labels of a node all, with commas between
Answer = TypedDict("Answer", {"id": int | str, "class": str | None, "neighbors": list[Neighbor]})


def searcher(
    embeddings: Embeddings, place: EmbeddingSource, count: int, approximate: bool, console: Console
) -> tuple[Search, str]:
    """A function from nodes to their `count` nearest, each without itself, and a description of the search."""
    count = min(count, embeddings.rows - 1)
    index = open_index(embeddings, place.index, console) if approximate else None

    def search(nodes: npt.NDArray[np.int64]) -> Nearest:
        queries = unit_rows(embeddings.take(nodes))
        return index.search(queries, nodes, count) if index else exact_search(embeddings, queries, nodes, count)

    return search, index.description() if index else "exact"


def answers(
    place: EmbeddingSource, embeddings: Embeddings, nodes: npt.NDArray[np.int64], search: Search
) -> list[Answer]:
    """The nearest nodes of some nodes, as plain values."""
    found, class_of = search(nodes), place.class_of(embeddings.rows)

    def name(row: int) -> int | str:
        return embeddings.ids[int(row)].as_py()

    def label(row: int) -> str | None:
        return class_of(int(row)) if class_of else None

    def neighbor(rank: int, row: int, cosine: float) -> Neighbor:
        plain: Neighbor = {"rank": rank, "id": name(row), "cosine": float(cosine)}
        return {**plain, "class": label(row)} if class_of else plain

    def answer(node: int, rows: npt.NDArray[np.int64], cosines: npt.NDArray[np.float32]) -> Answer:
        ranked = enumerate(zip(rows[rows >= 0], cosines[rows >= 0], strict=True), start=1)
        return {"id": name(node), "class": label(node), "neighbors": [neighbor(rank, *one) for rank, one in ranked]}

    return [answer(*one) for one in zip(nodes, found.rows, found.cosines, strict=True)]


def nearest_of(
    place: EmbeddingSource, embeddings: Embeddings, nodes: npt.NDArray[np.int64], count: int
) -> list[list[Neighbor]]:
    """The `count` nearest nodes of each node, by an exact search of some nodes at a time."""
    search, _ = searcher(embeddings, place, count, False, Console(quiet=True))
    parts = (nodes[low : low + _AT_ONCE] for low in range(0, nodes.size, _AT_ONCE))
    return [answer["neighbors"] for part in parts for answer in answers(place, embeddings, part, search)]


def write_answers(
    path: Path, embeddings: Embeddings, nodes: npt.NDArray[np.int64], search: Search, console: Console
) -> int:
    """Publish a file with a row per node and neighbour: `id`, `rank`, `neighbor`, `cosine`; returns their number."""
    ids, written = embeddings.ids, 0
    schema = pa.schema([("id", ids.type), ("rank", pa.int32()), ("neighbor", ids.type), ("cosine", pa.float32())])
    with (
        publish_file(path) as temporary,
        temporary.open("wb") as file,
        WRITERS[path.suffix](file, schema) as writer,
        console.progress("neighbors", nodes.size, "nodes") as advance,
    ):
        for low in range(0, nodes.size, _AT_ONCE):
            some = nodes[low : low + _AT_ONCE]
            found = search(some)
            query, rank = np.nonzero(found.rows >= 0)
            columns = [
                ids.take(arrow_of(some[query])),
                arrow_of((rank + 1).astype(np.int32)),
                ids.take(arrow_of(found.rows[query, rank])),
                arrow_of(found.cosines[query, rank]),
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
            written += query.size
            advance(some.size)
    return written
