"""Arrays that the processes of a training send each other beside the steps."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist

from gscl_scale.train.process_group import World, peers

Array = npt.NDArray[Any]
Nodes = npt.NDArray[np.int64]

_AS_THERE = {"u8": np.int64, "b1": np.uint8}  # types that gloo cannot send travel as others of their size


class Exchange:
    """Sends each process an array and receives one from each; all processes call alike, as often as each other.

    It has a group of its own, so that one thread may exchange while another sums.
    """

    def __init__(self, world: World) -> None:
        self.rank, self.size = world.rank, world.size
        with peers():
            self._group = dist.new_group(backend="gloo", timeout=timedelta(seconds=world.timeout_s))

    def trade(self, rows: Array, counts: Nodes) -> tuple[Array, Nodes]:
        """Send so many rows to each process, in their order; returns what the processes have sent here, and how many.

        Rows differ in the first axis only.
        """
        there = _AS_THERE.get(rows.dtype.str[1:], rows.dtype)
        sent, going = torch.from_numpy(rows.view(there)), torch.from_numpy(counts)
        with peers():
            coming = torch.empty_like(going)
            dist.all_to_all_single(coming, going, group=self._group)
            received = sent.new_empty(int(coming.sum()), *sent.shape[1:])
            dist.all_to_all_single(received, sent, coming.tolist(), going.tolist(), group=self._group)
        return received.numpy().view(rows.dtype), coming.numpy()

    def agree(self, answer: bool) -> bool:
        """Whether all processes say yes."""
        answers, _ = self.trade(np.full(self.size, answer), np.ones(self.size, np.int64))
        return bool(answers.all())

    def trade_lists(self, offsets: Array, columns: Iterable[Array], counts: Nodes) -> tuple[Nodes, list[Array]]:
        """Send so many lists to each process, whose members have some columns; returns the lists that are sent here."""
        lengths, _ = self.trade(np.diff(offsets), counts)
        members = np.diff(offsets[np.concatenate([[0], np.cumsum(counts)])]).astype(np.int64)
        received = [self.trade(column, members)[0] for column in columns]
        return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]), received


def owners(starts: Nodes, numbers: Nodes) -> Nodes:
    """Who owns each number: range r goes from starts[r] to starts[r + 1]."""
    return np.searchsorted(starts[1:-1], numbers, side="right")
