"""Rows become what a user asked for: ids, cosines and classes, on the screen or in a file."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from gscl_scale.embed.store import Embeddings
from gscl_scale.io.atomic import publish
from gscl_scale.neighbors.exact import Nearest
from gscl_scale.neighbors.places import Place
from gscl_scale.runtime.console import Console

Search = Callable[[npt.NDArray[np.int64]], Nearest]
WRITERS = {".parquet": pq.ParquetWriter, ".csv": pa.csv.CSVWriter}  # as the name of the file ends
_AT_ONCE = 65536  # queries


@dataclass(frozen=True)
class Answer:
    """A node and its nearest: each with `rank`, `id`, `cosine`, and `class` where the graph has labels."""

    id: Any
    label: str | None
    neighbors: list[dict[str, Any]]

    def dump(self) -> dict[str, Any]:
        """Plain values."""
        return {"id": self.id, "class": self.label, "neighbors": self.neighbors}


def answers(place: Place, embeddings: Embeddings, nodes: npt.NDArray[np.int64], search: Search) -> list[Answer]:
    """The nearest of some nodes, for a reader."""
    found, known = search(nodes), place.classes(embeddings.rows)

    def label(row: int) -> str | None:
        return known[1][known[0][row]] if known and known[0][row] >= 0 else None

    def neighbor(rank: int, row: int, cosine: float) -> dict[str, Any]:
        told = {"rank": rank, "id": embeddings.ids[row].as_py(), "cosine": cosine}
        return {**told, "class": label(row)} if known else told

    return [
        Answer(
            embeddings.ids[int(node)].as_py(),
            label(node),
            [neighbor(rank, int(row), float(cosine)) for rank, (row, cosine) in _ranked(rows, cosines)],
        )
        for node, rows, cosines in zip(nodes, found.rows, found.cosines, strict=True)
    ]


def _ranked(rows: Any, cosines: Any) -> Any:
    return enumerate(((row, cosine) for row, cosine in zip(rows, cosines, strict=True) if row >= 0), start=1)


def write_answers(
    path: Path, embeddings: Embeddings, nodes: npt.NDArray[np.int64], search: Search, console: Console
) -> int:
    """Publish a file with a row per node and neighbour: `id`, `rank`, `neighbor`, `cosine`; returns their number."""
    ids, written = embeddings.ids, 0
    schema = pa.schema([("id", ids.type), ("rank", pa.int32()), ("neighbor", ids.type), ("cosine", pa.float32())])
    with (
        publish(path) as temporary,
        temporary.open("wb") as file,
        WRITERS[path.suffix](file, schema) as writer,
        console.progress("neighbors", nodes.size, "nodes") as advance,
    ):
        for low in range(0, nodes.size, _AT_ONCE):
            some = nodes[low : low + _AT_ONCE]
            found = search(some)
            query, rank = np.nonzero(found.rows >= 0)
            columns = [
                ids.take(pa.array(some[query])),
                pa.array(rank + 1, pa.int32()),
                ids.take(pa.array(found.rows[query, rank])),
                pa.array(found.cosines[query, rank]),
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
            written += query.size
            advance(some.size)
    return written
