"""What each result of a run is made from, and whether all are there; known without torch, a slow import.

Every stage skips its work where its result is complete. A run whose results are all complete imports none of them.
"""

from gscl_scale.config.config import Config
from gscl_scale.config.identity import deciding_settings, deciding_values
from gscl_scale.config.section import RESULTS
from gscl_scale.embed.store import fingerprint_in, is_complete
from gscl_scale.errors import FolderError
from gscl_scale.evaluate.schema import MadeFrom, Metrics, read_metrics
from gscl_scale.graph.graph import Graph
from gscl_scale.io.checksum import fingerprint_of, sha256_of
from gscl_scale.run.folder import Run
from gscl_scale.run.record import read_record
from gscl_scale.shards.precompute import is_complete as has_samples
from gscl_scale.shards.precompute import rounds_asked
from gscl_scale.shards.reader import Samples
from gscl_scale.train.checkpoint import Checkpoints
from gscl_scale.version import __version__

_MARK = "<!-- made from {} -->\n"  # the last line of a page


def is_finished(config: Config, run: Run, pages: bool) -> bool:
    """Whether the results of all stages are there, each made from those before it; a damaged one is not there."""
    graph = Graph.open(run.graph)
    if config.train.reads_samples and not has_samples(
        run.samples, graph, config.rings, config.train.epochs_for(graph.size)
    ):
        return False
    if not checkpoints_of(config, run).is_finished():
        return False
    try:
        complete = is_embedded(config, run)
    except FolderError:  # its stage names the damaged checkpoint
        return False
    return complete and known_figures(config, run) is not None and not (pages and page_is_stale(run))


def is_embedded(config: Config, run: Run) -> bool:
    """Whether the embeddings of a run are there, made from its checkpoint."""
    fingerprint = embeddings_fingerprint(checkpoints_of(config, run), run)
    return is_complete(run.embeddings, fingerprint, config.runtime.npy)


def checkpoints_of(config: Config, run: Run) -> Checkpoints:
    """The checkpoints of a run; those of other samples or settings are refused."""
    graph = Graph.open(run.graph)
    config = config.sized(graph.size)
    settings = deciding_settings(config, "training", first_revision=0)
    made_from: dict[str, object] = {"model": settings["model"], "train": settings["train"]}
    settings["train"].pop("objective", None)  # stands among what follows
    if config.train.reads_samples:
        samples, asked = Samples.open(run.samples), rounds_asked(config.rings, config.train.num_epochs)
        rounds = asked if config.rings.ahead else samples.num_rounds
        made_from |= {"loss": settings["loss"], "samples": samples.identity(), "rounds": rounds}
    else:
        from gscl_scale.train.objectives.installed import installed_package
        from gscl_scale.train.objectives.methods import settings_of

        splits = {
            **deciding_values(config.evaluate, "splits", first_revision=0),
            "random_splits": config.evaluate.random_splits,
        }
        made_from |= {
            "graph": graph.fingerprint,
            "objective": config.train.objective,
            "settings": settings_of(config),
            "labels": splits if config.train.objective == "supervised" else None,
        }
        if package := installed_package(config.train.objective):
            made_from["package"] = package
    if run.start.exists():
        made_from["start"] = sha256_of(run.start)
    return Checkpoints(run.checkpoints, fingerprint_of(made_from))


def embeddings_fingerprint(checkpoints: Checkpoints, run: Run, other: Graph | None = None) -> str:
    """A fingerprint of what embeddings are made from: the checkpoint, another graph, and the run's rotation if any."""
    made_from: list[object] = [checkpoints.fingerprint, checkpoints.chosen_position().step]
    made_from += [other.fingerprint] if other else []
    return fingerprint_of([*made_from, *([sha256_of(run.rotation)] if run.rotation.exists() else [])])


def figures_made_from(config: Config, run: Run) -> MadeFrom:
    """What the figures of a run are made from."""
    made_from: MadeFrom = {
        "embeddings": fingerprint_in(run.embeddings),
        "evaluate": deciding_values(config.evaluate, *RESULTS, first_revision=2),
    }
    if config.train.validate_every or config.evaluate.tuned_on:  # older figures are with nodes that made a choice
        made_from["selection"] = "left out"
    return made_from


def known_figures(config: Config, run: Run) -> Metrics | None:
    """The figures of a run's embeddings, if they are measured."""
    if run.metrics.exists() and (metrics := read_metrics(run.metrics)).get("made_from") == figures_made_from(
        config, run
    ):
        return metrics
    return None


def page_mark(run: Run) -> str:
    """The last line of a run's page: a fingerprint of the figures, the record and the version that it was made from.

    How the work runs decides nothing, and differs between two commands that have the same result.
    """
    record = read_record(run.folder)
    settings = {name: values for name, values in record.get("config", {}).items() if name != "runtime"}
    return _MARK.format(fingerprint_of([sha256_of(run.metrics), {**record, "config": settings}, __version__]))


def page_is_stale(run: Run) -> bool:
    """Whether the page of a run is missing, or was made from other figures or settings."""
    mark = page_mark(run).encode()
    if not run.report.exists() or run.report.stat().st_size < len(mark):
        return True
    with run.report.open("rb") as file:
        file.seek(-len(mark), 2)
        return file.read() != mark
