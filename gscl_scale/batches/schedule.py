"""Which anchors of which epoch each step of a training takes."""

from dataclasses import dataclass


def steps_per_epoch(num_anchors: int, batch_size: int) -> int:
    """Batches per epoch; the last may be smaller."""
    return -(-num_anchors // batch_size)


@dataclass(frozen=True)
class Schedule:
    """The steps of a training, whose batches may have had another size before a restart.

    batch_size   anchors of a step; the last one of an epoch may have fewer
    step         steps taken before batches had this size
    epoch, seen  epochs finished by then, and anchors taken of the one that had begun
    """

    num_anchors: int
    batch_size: int
    step: int = 0
    epoch: int = 0
    seen: int = 0

    @property
    def steps_per_epoch(self) -> int:
        """Steps of a whole epoch."""
        return steps_per_epoch(self.num_anchors, self.batch_size)

    def at(self, step: int) -> tuple[int, int]:
        """The epoch of a step, and how many of its anchors the steps before have taken."""
        after, left = step - self.step, self._steps_left()
        if after < left:
            return self.epoch, self.seen + after * self.batch_size
        epochs, within = divmod(after - left, self.steps_per_epoch)
        return self.epoch + 1 + epochs, within * self.batch_size

    def end_of(self, epochs: int) -> int:
        """The number of steps after which so many epochs are finished; it lies ahead."""
        return self.step + self._steps_left() + (epochs - self.epoch - 1) * self.steps_per_epoch

    def _steps_left(self) -> int:
        """Steps of the epoch that had begun."""
        return steps_per_epoch(self.num_anchors - self.seen, self.batch_size)
