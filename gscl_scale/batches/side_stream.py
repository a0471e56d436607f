"""Batches that a device makes beside the steps: in a queue of its own, so that making one waits for no step."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gscl_scale.batches.collate import Batch


class Made(NamedTuple):
    """A batch, and what happens on the device when it is ready there; None where it is ready already."""

    batch: Batch
    ready: torch.cuda.Event | None = None

    def here(self) -> Batch:
        """The batch for the steps of this thread, whose queue waits until it is ready."""
        if self.ready is not None:
            steps = torch.cuda.current_stream()
            steps.wait_event(self.ready)
            for one in _tensors(self.batch):
                one.record_stream(steps)  # its memory stays taken until the steps that read it are done
        return self.batch


class SideStream:
    """Where batches are made: on a GPU in a queue that goes before that of the steps; elsewhere at once."""

    def __init__(self, device: torch.device | None) -> None:
        on_gpu = device is not None and device.type == "cuda"
        self._queue = torch.cuda.Stream(device, priority=-1) if on_gpu else None

    def make(self, batch: Callable[[], Batch]) -> Made:
        """Make a batch; on a GPU it may not be ready yet."""
        if self._queue is None:
            return Made(batch())
        with torch.cuda.stream(self._queue):
            return Made(batch(), self._queue.record_event())


def _tensors(part: Any) -> Iterator[Tensor]:
    if isinstance(part, Tensor):
        if part.is_cuda:
            yield part
    elif isinstance(part, (list, tuple)):
        for one in part:
            yield from _tensors(one)
    elif hasattr(part, "__dataclass_fields__"):
        yield from _tensors(list(vars(part).values()))
