"""Iterate over a run, or over each of its repeats."""

from collections.abc import Iterator
from pathlib import Path

from gscl_scale.config.config import Config
from gscl_scale.run.folder import Run
from gscl_scale.run.record import claim, open_run, repeat_config
from gscl_scale.runtime.console import Console
from gscl_scale.stages.ingest import ingest


def each_repeat(config: Config, folder: Path, console: Console) -> Iterator[tuple[Config, Run, Console]]:
    """Claim a run folder, ingest the graph, and yield the run, or each of its repeats."""
    whole = open_run(config, folder)
    ingest(config, whole, console)
    if config.train.repeats == 1:
        yield config, whole, console.with_log(whole.log)
        return
    for number in range(config.train.repeats):
        one = repeat_config(config, number)
        part = claim(one, whole.repeat(one.train.seed))
        yield one, part, console.with_log(part.log)
