"""Arrays that the processes of a training send each other beside the steps."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist

from gscl_scale.train.process_group import World, peers

Array = npt.NDArray[Any]


class Exchange:
    """Sends each process an array and receives one from each; all processes call alike, as often as each other.

    It has a group of its own, so that one thread may exchange while another sums.
    """

    def __init__(self, world: World) -> None:
        self.rank, self.size = world.rank, world.size
        with peers():
            self._group = dist.new_group(backend="gloo", timeout=timedelta(seconds=world.timeout_s))

    def trade(self, parts: Sequence[Array]) -> list[Array]:
        """Send part p to process p; returns what each process has sent here. Parts differ in the first axis only."""
        sent = torch.from_numpy(np.concatenate(parts))
        counts = torch.tensor([len(part) for part in parts])
        with peers():
            coming = torch.empty_like(counts)
            dist.all_to_all_single(coming, counts, group=self._group)
            received = sent.new_empty(int(coming.sum()), *sent.shape[1:])
            dist.all_to_all_single(received, sent, coming.tolist(), counts.tolist(), group=self._group)
        return [part.numpy() for part in torch.split(received, coming.tolist())]
