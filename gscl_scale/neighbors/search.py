"""How nodes are searched: exactly, or by an index."""

from functools import partial

import numpy as np
import numpy.typing as npt

from gscl_scale.embed.store import Embeddings, unit
from gscl_scale.neighbors.answers import Search
from gscl_scale.neighbors.exact import Nearest, exact
from gscl_scale.neighbors.index import Index, open_index
from gscl_scale.neighbors.places import Place
from gscl_scale.runtime.console import Console


def searcher(
    embeddings: Embeddings, place: Place, count: int, approximate: bool, console: Console
) -> tuple[Search, str]:
    """A function from nodes to their nearest, each without itself, and in words how it finds them."""
    count = min(count, embeddings.rows - 1)
    index = open_index(embeddings, place.index, console) if approximate else None
    return partial(_nearest, embeddings, index, count), index.told() if index else "exact"


def _nearest(embeddings: Embeddings, index: Index | None, count: int, nodes: npt.NDArray[np.int64]) -> Nearest:
    queries = unit(embeddings.take(nodes))
    return index.search(queries, nodes, count) if index else exact(embeddings, queries, nodes, count)
