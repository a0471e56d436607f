"""What searches that share a traversal mark at the nodes: kept for the next, for making it can cost as much."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_LOCK = threading.Lock()
_FREE: list["SearchBuffers"] = []


@dataclass(frozen=True)
class SearchBuffers:
    """Entries for each of N nodes; a search leaves them as it found them.

    bits [4, N]   zeros
    row [N]       -1
    """

    bits: npt.NDArray[np.uint64]
    row: npt.NDArray[np.int32]


@contextlib.contextmanager
def borrow_buffers(num_nodes: int) -> Iterator[SearchBuffers]:
    """Buffers that nobody else uses at the moment; after an error they are not used again."""
    with _LOCK:
        mine = _FREE.pop() if _FREE else None
    if mine is None or mine.row.size != num_nodes:
        mine = SearchBuffers(np.zeros((4, num_nodes), np.uint64), np.full(num_nodes, -1, np.int32))
    yield mine
    with _LOCK:
        _FREE.append(mine)


def free_buffers() -> None:
    """Let go of the memory of marks that nobody has."""
    with _LOCK:
        _FREE.clear()
