"""A search for settings: trials on Ray Tune, chosen on validation nodes, or on held-out edges or nodes, alone."""

from collections.abc import Collection
from pathlib import Path

from gscl_scale.config.config import Config
from gscl_scale.errors import ConfigError, RunError
from gscl_scale.graph.graph import Graph
from gscl_scale.run.record import open_run
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.extras import need_package
from gscl_scale.stages.ingest import ingest
from gscl_scale.stages.selection import cure_of_selection, selection_for_search
from gscl_scale.studies.tune.leaderboard import best_of, measure_of, write_leaderboard
from gscl_scale.studies.tune.records import Book, claim_search, stored_space
from gscl_scale.studies.tune.space import Space, points_of, read_space, space_of, untried
from gscl_scale.studies.tune.trial import base_config
from gscl_scale.text import counted


def tune(
    config: Config,
    space_file: Path | None,
    folder: Path,
    trials: int,
    minutes: float | None,
    console: Console,
    fixed: Collection[str] | None = None,
) -> Book:
    """Search for the best settings of a space, up to so many trials in all; returns their records.

    Writes trials/NNN, leaderboard.json, leaderboard.md and best.yaml into the folder; the same command resumes, also
    without its space file.
    `fixed` has keys that are not searched (`read_space`).
    """
    for package in ("optuna", "ray"):
        need_package(package, "tune", "tune")
    from gscl_scale.studies.tune.search import Search, search_on_ray

    stored = None if space_file else stored_space(folder)
    space = space_of(stored, config) if stored else read_space(space_file, config, fixed)
    run = open_run(config, folder)
    console = console.with_log(run.log)
    graph = ingest(config, run, console)
    base = _with_selection(base_config(config.sized(graph.size)), graph, space)
    claim_search(run.folder, base, {key: domain.plain() for key, domain in space.items()})
    book = Book(run.folder, measure_of(base, graph))
    if points_of(space):
        begun = [trial.settings for trial in book.all()]
        most = len(begun) + len(untried(space, begun))
        if most < trials:
            only = counted(most, "combination", "combinations")
            console.say(f"tune: the space has only {only}, so {most} of {trials} trials run")
            trials = most
    search_on_ray(Search(base, space, trials, minutes), book, console)
    ended = book.ended()
    if ended:
        write_leaderboard(base, space, book)
    if ended and all(trial.ended == "failed" for trial in ended):
        raise RunError(f"tune: all of {len(ended)} trials failed, the first because {ended[0].reason}")
    if best_of(ended) is None:
        raise RunError("tune: no trial has finished; run the same command again with more --minutes to resume")
    return book


def _with_selection(config: Config, graph: Graph, space: Space) -> Config:
    """The configuration with the figure that chooses, where it is not the probe; ConfigError where none can."""
    kind = selection_for_search(config, graph)
    if kind == "probe":
        return config
    if kind == "ranking" and (rings := [key for key in space if key.startswith("rings.")]):
        raise ConfigError(
            f"tune: trials would be compared by the ranking of rings, and {rings[0]} changes the rings; leave it out "
            f"of the space (--space), or {cure_of_selection(config, graph)}"
        )
    return config.model_copy(update={"evaluate": config.evaluate.model_copy(update={"select_by": kind})})
