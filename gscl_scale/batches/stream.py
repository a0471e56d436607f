"""The batches of a run in their one order, from any step on."""

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding
from gscl_scale.batches.collate import Batch, collate
from gscl_scale.config import LossConfig, RingsConfig, TrainConfig
from gscl_scale.shards import RoundReader, SomeRounds


def epoch_order(num_anchors: int, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """The anchors of an epoch in the order in which they are used: a function of (seed, epoch) alone."""
    return seeding.generator("order", seed, epoch).permutation(num_anchors)


def steps_per_epoch(num_anchors: int, batch_size: int) -> int:
    """Batches per epoch; the last may be smaller."""
    return -(-num_anchors // batch_size)


class BatchStream:
    """Batches by their global step; only the current round is open, and it is mapped, not read."""

    def __init__(
        self, samples: SomeRounds, num_nodes: int, rings: RingsConfig, train: TrainConfig, loss: LossConfig
    ) -> None:
        self.steps_per_epoch = steps_per_epoch(num_nodes, train.batch_size)
        self._samples, self._num_nodes = samples, num_nodes
        self._rings, self._train, self._loss = rings, train, loss
        self._reader: tuple[int, RoundReader] | None = None
        self._order: tuple[int, npt.NDArray[np.int64]] | None = None

    def batch(self, step: int) -> Batch:
        """The batch of a step, counted from 0 over all epochs."""
        epoch, within = divmod(step, self.steps_per_epoch)
        size = self._train.batch_size
        reader = self._round(epoch % self._samples.num_rounds)
        sample = reader.take(self._epoch(epoch)[within * size : (within + 1) * size])
        return collate(sample, reader.priorities, self._num_nodes, self._rings, self._train, self._loss, epoch, step)

    def _round(self, number: int) -> RoundReader:
        if self._reader is None or self._reader[0] != number:
            self._reader = (number, self._samples.round(number))
        return self._reader[1]

    def _epoch(self, epoch: int) -> npt.NDArray[np.int64]:
        if self._order is None or self._order[0] != epoch:
            self._order = (epoch, epoch_order(self._num_nodes, self._train.seed, epoch))
        return self._order[1]
