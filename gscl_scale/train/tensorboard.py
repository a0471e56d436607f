"""What a training tells to TensorBoard."""

import contextlib
from collections.abc import Iterator
from pathlib import Path


class Scalars:
    """Curves by step; those after `begin`, of an attempt that did not come to a checkpoint, are drawn anew."""

    def __init__(self, folder: Path | None, begin: int) -> None:
        self._writer = None
        if folder is not None:
            from tensorboardX import SummaryWriter

            self._writer = SummaryWriter(str(folder), purge_step=begin)

    def step(self, step: int, figures: dict[str, float]) -> None:
        """The figures of a step."""
        if self._writer is not None:
            for name, value in figures.items():
                self._writer.add_scalar(f"train/{name}", value, step)

    def validation(self, step: int, accuracy: float) -> None:
        """A validation."""
        if self._writer is not None:
            self._writer.add_scalar("validation/accuracy", accuracy, step)

    def close(self) -> None:
        """Write what is left."""
        if self._writer is not None:
            self._writer.close()


@contextlib.contextmanager
def scalars_to(folder: Path | None, begin: int) -> Iterator[Scalars]:
    """Curves in a folder, or nowhere."""
    scalars = Scalars(folder, begin)
    try:
        yield scalars
    finally:
        scalars.close()
