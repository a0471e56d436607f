"""The rounds of samples that a training reads: from the disk, or sampled while it trains."""

import contextlib
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gscl_scale.config.config import Config
from gscl_scale.errors import ConfigError
from gscl_scale.io.verdicts import Verdicts
from gscl_scale.run.folder import Run
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.runner import Runner, start_runner
from gscl_scale.shards.checked_rounds import CheckedRounds
from gscl_scale.shards.precompute import rounds_asked
from gscl_scale.shards.prefetch import RoundsAhead
from gscl_scale.shards.reader import VERDICTS, RoundSource, Samples
from gscl_scale.train.process_group import World


@contextlib.contextmanager
def rounds_of_training(config: Config, run: Run, world: World) -> Iterator[RoundSource]:
    """The rounds on disk, or rounds that are sampled during the training."""
    if not config.rings.ahead:
        with (
            _verdicts(world) as verdicts,
            CheckedRounds(Samples.open(run.samples, verdicts), config.train.num_epochs) as on_disk,
        ):
            yield on_disk
        return
    if world.size > 1:
        raise ConfigError(
            f"rings.ahead: rounds are sampled during a training of one process only, this one has {world.size}; "
            "set rings.ahead to 0"
        )
    epochs = config.train.num_epochs
    asked = rounds_asked(config.rings, epochs)
    quiet = Console(run.log, quiet=True)

    def runner() -> contextlib.AbstractContextManager[Runner]:
        return start_runner(config.runtime.for_tasks(), config.runtime.worker_cpus)

    memory = config.runtime.precompute_memory
    with RoundsAhead(run.graph, run.samples, config.rings, asked, epochs, runner, quiet, memory) as rounds:
        yield rounds


@contextlib.contextmanager
def _verdicts(world: World) -> Iterator[Verdicts]:
    """What the processes of this machine find out about the files of rounds, each once among them."""
    if world.size == 1:
        yield VERDICTS
        return
    folder = Path(tempfile.gettempdir(), f"gscl-scale-{socket.gethostname()}-{world.draw():x}")
    try:
        yield Verdicts(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
