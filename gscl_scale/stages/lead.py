"""Which of the processes that torchrun started leads the command."""

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gscl_scale.config.config import Config
from gscl_scale.errors import DivergedError, PeerError, StoppedError

if TYPE_CHECKING:
    from gscl_scale.train.process_group import World


@contextlib.contextmanager
def lead_command(config: Config) -> Iterator[bool]:
    """Whether this process leads the command: it is the only one, or the first of those that torchrun started.

    The others train whenever the first does, and do nothing else.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:  # nobody to ask for, and torch takes seconds to import
        yield True
        return
    from gscl_scale.train.process_group import join_world

    with join_world(config.runtime.timeout_s, config.runtime.device) as world:
        if not world.first:
            _follow(world)
        try:
            yield world.first
            if world.first:
                world.call(None)
        finally:
            if world.first:
                world.mark_end()


def _follow(world: "World") -> None:
    from gscl_scale.stages.train import train_process

    try:
        for values in world.calls():
            train_process(values)
    except (StoppedError, DivergedError):
        raise SystemExit(1) from None  # the first process prints the error
    except PeerError:
        if world.first_ended():
            raise SystemExit(1) from None
        raise
