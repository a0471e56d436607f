"""Curves of a training for TensorBoard."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from gscl_scale.runtime.extras import need_package

Scalars = Callable[[int, Mapping[str, float]], None]
"""Adds the figures of a step to the curves of their names."""


@contextlib.contextmanager
def scalar_writer(folder: Path | None, begin: int) -> Iterator[Scalars]:
    """Yield a function that draws curves in a folder (None: nowhere).

    Curves after the step `begin` are drawn anew: they are of an attempt that was lost before its next checkpoint.
    """
    if folder is None:
        yield lambda step, figures: None
        return
    need_package("tensorboardX", "tensorboard", "runtime.tensorboard")
    from tensorboardX import SummaryWriter

    def add(step: int, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            writer.add_scalar(name, value, step)

    with SummaryWriter(str(folder), purge_step=begin) as writer:
        yield add
