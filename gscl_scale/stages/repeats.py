"""Iterate over a run, or over each of its repeats."""

from collections.abc import Iterator
from pathlib import Path

from gscl_scale.config.config import Config
from gscl_scale.graph.graph import Graph
from gscl_scale.run.folder import Run
from gscl_scale.run.record import claim, open_run, refuse_other_work, repeat_config
from gscl_scale.runtime.console import Console
from gscl_scale.stages.ingest import ingest


def each_repeat(
    config: Config, folder: Path, console: Console, stored: bool = False
) -> Iterator[tuple[Config, Run, Console]]:
    """Claim a run folder, ingest the graph, and yield the run, or each of its repeats.

    stored    a graph that is there is taken as it is, whatever became of the files that it was read from, and the
              run is checked in place of claimed
    """
    stored = stored and (folder / "graph/manifest.json").exists()
    claim_or_check = refuse_other_work if stored else claim
    whole = open_run(config, folder, claim_or_check)
    if stored:
        Graph.open(whole.graph).verify()
    else:
        ingest(config, whole, console)
    if config.train.repeats == 1:
        yield config, whole, console.with_log(whole.log)
        return
    for number in range(config.train.repeats):
        one = repeat_config(config, number)
        part = whole.repeat(one.train.seed)
        claim_or_check(one, part)
        yield one, part, console.with_log(part.log)
