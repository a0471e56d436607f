"""THE STORY: graph -> rings -> shards -> batches -> model -> train -> embed -> evaluate -> report.

Every stage reads the run folder, does its part, and records that it is finished; a finished stage is skipped.
"""

from collections.abc import Sequence
from pathlib import Path

from gscl_scale.config.config import Config
from gscl_scale.evaluate.repeats import combine_repeats
from gscl_scale.evaluate.schema import METHODS, Method, Metrics
from gscl_scale.io.json import write_json
from gscl_scale.run.folder import Run
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.runner import stay_joined
from gscl_scale.stages.finished import is_finished, known_figures, page_is_stale
from gscl_scale.stages.precompute import precompute
from gscl_scale.stages.repeats import each_repeat


def run(
    config: Config, folder: Path, console: Console, pages: bool = True, measured: Sequence[Method] = METHODS
) -> Metrics:
    """The whole story, once or once per repeat, with pages to look at or without; returns the figures."""
    for one, part, told in each_repeat(config, folder, console):
        if config.train.repeats > 1:
            console.say(f"seed {one.train.seed} (of {config.train.repeats} repeats)")
        if not is_finished(one, part, pages):
            _run_stages(one, part, told, pages, measured)
    metrics = evaluate_all(config, folder, console, measured)
    if pages and config.train.repeats > 1 and page_is_stale(Run.at(folder)):
        report_repeats(config, folder, console)
    return metrics


def _run_stages(config: Config, run: Run, console: Console, pages: bool, measured: Sequence[Method]) -> None:
    """All stages after the graph; they are imported here, because a finished run waits neither for torch nor plots."""
    from gscl_scale.stages.embed import embed
    from gscl_scale.stages.evaluate import evaluate
    from gscl_scale.stages.report import report
    from gscl_scale.stages.train import refuse_untrainable, train

    refuse_untrainable(config, run)
    with stay_joined(config.runtime.for_tasks()):
        precompute(config, run, console)
        train(config, run, console)
        embed(config, run, console)
        evaluate(config, run, console, measured)
        if pages:
            report(config, run, console)


def evaluate_all(config: Config, folder: Path, console: Console, measured: Sequence[Method] = METHODS) -> Metrics:
    """The figures of a run; of one with repeats their means."""
    figures = [
        known_figures(one, part) or _evaluate(one, part, told, measured)
        for one, part, told in each_repeat(config, folder, console)
    ]
    if len(figures) == 1:
        return figures[0]
    whole = Run.at(folder)
    metrics = combine_repeats(figures)
    write_json(whole.metrics, metrics)
    return metrics


def _evaluate(config: Config, run: Run, console: Console, measured: Sequence[Method]) -> Metrics:
    from gscl_scale.stages.evaluate import evaluate

    return evaluate(config, run, console, measured)


def report_repeats(config: Config, folder: Path, console: Console) -> Path:
    """The page of a run with repeats: means of all, and the curves and the map of the first."""
    from gscl_scale.stages.report import report

    whole = Run.at(folder)
    return report(config, whole, console.with_log(whole.log))
