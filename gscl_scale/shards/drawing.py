"""The priorities of a round, drawn in one piece or in bounded memory: files have the same bytes."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from gscl_scale.graph.graph import Graph
from gscl_scale.io.atomic import explain_disk_errors, publish_file
from gscl_scale.kernels.kernel import kernel
from gscl_scale.rings.priorities import BYTES_PER_NODE, Priorities, order_draws, sorted_ranges
from gscl_scale.shards.format import write_priorities
from gscl_scale.shards.levels import levels_folder

_LEAST = 1 << 16  # nodes of a range


def draw(path: Path, graph: Graph, key: np.uint64, weights: npt.NDArray[np.float64] | None) -> None:
    """Write the priorities of a round: functions of the key and of the users' ids alone, divided by the weights."""
    write_priorities(path, order_draws(graph.draws(key), weights, graph.indices.dtype.type))


def draw_bounded(
    path: Path, graph: Graph, key: np.uint64, weights: npt.NDArray[np.float64] | None, ranks: Path, memory: int
) -> None:
    """The same in so many bytes, and the rank of each node into a file: no process holds an entry for each node.

    Draws are made again for each range of values that is sorted, and ranks are written a range of nodes at a time.
    """
    num_nodes, dtype = graph.num_nodes, np.dtype(graph.indices.dtype)

    def draws_of(first: int, end: int) -> npt.NDArray[np.float64]:
        drawn = graph.draws(key, first, end)
        return drawn if weights is None else drawn / weights[first:end]

    ranges = -(-num_nodes * BYTES_PER_NODE // max(memory, BYTES_PER_NODE * _LEAST))
    ranks.parent.mkdir(parents=True, exist_ok=True)
    nodes, values = ranks.with_name("order.raw"), ranks.with_name("priority.raw")
    with explain_disk_errors(nodes), nodes.open("wb") as of_nodes, values.open("wb") as of_values:
        for part in sorted_ranges(draws_of, num_nodes, dtype.type, ranges):
            of_nodes.write(part.order.data)
            of_values.write(part.priority.data)
    order = np.memmap(nodes, dtype, "r")
    write_priorities(path, Priorities(order, np.memmap(values, np.float64, "r")))
    at_once = max(_LEAST, memory // dtype.itemsize)
    with publish_file(ranks) as temporary, explain_disk_errors(ranks), temporary.open("wb") as file:
        for low in range(0, num_nodes, at_once):
            rank = np.empty(min(at_once, num_nodes - low), dtype)
            _ranks_of(order, low, rank)
            file.write(rank.data)
    nodes.unlink()
    values.unlink()


def ranks_path(samples: Path, round_number: int) -> Path:
    """The file of the ranks of a round that is made in bounded memory."""
    return levels_folder(samples, round_number) / "ranks.raw"


@kernel
def _ranks_of(order, low, rank):
    """The ranks of the nodes from `low` on."""
    for r in range(order.size):
        node = order[r] - low
        if 0 <= node < rank.size:
            rank[node] = r
