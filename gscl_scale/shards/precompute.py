"""The samples folder of a graph: plan the work, skip what is recorded, run the rest, write the manifest last."""

from pathlib import Path

from gscl_scale import machine
from gscl_scale.config.identity import naming_values
from gscl_scale.config.section import RESULTS
from gscl_scale.config.sections import RingsConfig
from gscl_scale.errors import ConfigError, RunError
from gscl_scale.graph.graph import Graph
from gscl_scale.io.checksum import fingerprint_of
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.local import LocalRunner
from gscl_scale.runtime.runner import Runner
from gscl_scale.runtime.settings import NOTHING
from gscl_scale.shards.estimate import check_resources, memory_on_machine
from gscl_scale.shards.incremental import EarlierSamples
from gscl_scale.shards.journal import Journal
from gscl_scale.shards.plan import MANIFEST, make_plan, read_manifest
from gscl_scale.shards.process_cache import open_graph
from gscl_scale.shards.rounds import Rounds
from gscl_scale.text import format_bytes


def precompute(
    graph_folder: Path,
    folder: Path,
    config: RingsConfig,
    epochs: int,
    runner: Runner,
    console: Console,
    since: tuple[Path, Path] | None = None,
    memory: int = 0,
) -> None:
    """Write the samples folder of a graph; keep the finished parts of an earlier attempt, and add missing rounds.

    since    graph and samples folder of an earlier run: what did not change is taken from there, with the same result
    memory   bytes that a task may take for levels of the sketch; 0: it reads the level before whole, as with `since`
    """
    graph_folder, folder = graph_folder.absolute(), folder.absolute()  # tasks may run elsewhere
    graph = open_graph(graph_folder)
    plan, choice = make_plan(graph, folder, config, since[1] if since else None, 0 if since else memory)
    if choice.is_long:
        console.say(f"Sampling rings with the engine {choice.engine} ({choice.reason}).")
    earlier = EarlierSamples.open(since[0].absolute(), since[1].absolute(), graph, plan) if since else None
    rounds = Rounds(graph, graph_folder, folder, plan, Journal(folder, plan), runner, console, earlier)
    asked, need = rounds_asked(config, epochs), NOTHING
    if rounds.missing(asked):
        local = isinstance(runner, LocalRunner)
        takes = check_resources(graph, plan, runner.workers, folder, local, rounds.missing(1))
        if choice.is_long:
            console.say(takes)
        need = NOTHING if local else memory_on_machine(graph, plan)
    rounds.begin(need)
    rounds.make_rounds(1)  # alone: its size says how many rounds the disk affords
    number = _affordable(config, asked, rounds, folder)
    if number < asked and not config.ahead:
        console.say(
            f"rings.disk_gb = {config.disk_gb:g} has room for {number} of {asked} rounds, which are used in turn"
        )
    rounds.make_rounds(number)
    rounds.finish(asked, number)


def is_complete(folder: Path, graph: Graph, config: RingsConfig, epochs: int) -> bool:
    """Whether the folder holds all rounds asked for; samples of another graph or configuration are refused.

    With `rings.ahead` the first round is enough: the training makes the others.
    """
    if not (folder / MANIFEST).exists():
        return False
    plan, _ = make_plan(graph, folder, config)
    manifest = read_manifest(folder)
    plan.refuse_other(manifest, folder)
    asked = rounds_asked(config, epochs)
    if manifest["rounds_asked"] < asked or config.ahead:
        return manifest["rounds_asked"] >= asked
    rounds = [entry for entry in manifest["rounds"] if entry]
    round_bytes = sum(part["bytes"] for part in rounds[0]["parts"])
    number = len(manifest["rounds"])
    return len(rounds) == number >= min(asked, _most_rounds(config, round_bytes))


def rounds_asked(config: RingsConfig, epochs: int) -> int:
    """How many rounds the configuration asks for."""
    return epochs if config.rounds == "epoch" else int(config.rounds)


def name_of_samples(config: RingsConfig, epochs: int) -> str:
    """A name for a folder of samples that trainings share: the same for all that ask for the same samples."""
    return fingerprint_of([naming_values(config, *RESULTS, first_revision=0), rounds_asked(config, epochs)])[:12]


def _most_rounds(config: RingsConfig, round_bytes: int) -> int:
    """How many rounds `rings.disk_gb` allows."""
    return max(1, int(config.disk_gb * 1e9) // max(1, round_bytes))


def _affordable(config: RingsConfig, asked: int, made: Rounds, folder: Path) -> int:
    """How many rounds are made before the training: those that fit `rings.disk_gb` and the disk, or only the first."""
    round_bytes = made.round_bytes()
    limit = _most_rounds(config, round_bytes)
    if config.ahead and asked > 1:
        if config.ahead + 2 > limit:
            raise ConfigError(
                f"rings.ahead: the first round, the one in use and {config.ahead} ahead take "
                f"{(config.ahead + 2) * round_bytes / 1e9:.2f} GB and rings.disk_gb is {config.disk_gb:g}; "
                "lower rings.ahead, or allow more disk"
            )
        return 1
    if config.rounds != "epoch" and asked > limit:
        raise ConfigError(
            f"rings.rounds: {asked} rounds of {round_bytes / 1e9:.2f} GB exceed rings.disk_gb = {config.disk_gb:g}; "
            f"ask for at most {limit} rounds, or allow more disk"
        )
    rounds = min(asked, limit)
    more, free = int(made.missing(rounds) * round_bytes), machine.free_disk(folder)
    if more > free:
        raise RunError(
            f"{folder}: {rounds} rounds need {format_bytes(more)} more and {format_bytes(free)} are free; "
            "lower rings.disk_gb or rings.rounds, or free some disk"
        )
    return rounds
