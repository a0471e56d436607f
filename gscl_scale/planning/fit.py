"""The first stage that machines cannot run, and the settings that cure it: the same by whatever rates."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from gscl_scale.config.config import Config
from gscl_scale.config.section import Result, Section
from gscl_scale.errors import ConfigError
from gscl_scale.planning.graph_shape import GraphShape
from gscl_scale.planning.need import Machines, StageNeed
from gscl_scale.planning.rates import REFERENCE
from gscl_scale.planning.stages import stage_needs
from gscl_scale.text import format_bytes

_MOST_SETTINGS = 2  # that are changed together


@dataclass(frozen=True)
class Misfit:
    """A stage for which memory or disk are too small, in a sentence; `settings` cure it, if any do."""

    stage: str
    sentence: str
    settings: list[str]


def first_misfit(config: Config, shape: GraphShape, machines: Machines, free_disk: int | None = None) -> Misfit | None:
    """The first stage that does not fit; None where all do."""
    needs, kept = stage_needs(config, shape, machines, REFERENCE), 0
    for need in needs:
        kept += need.disk
        if not need.fits(machines.memory):
            settings = _cure(need.stage, config, shape, machines)
            return Misfit(need.stage, f"{_lack_of_memory(need, machines)}; {_cure_words(need, settings)}", settings)
        if free_disk is not None and kept + need.scratch > free_disk:
            sentence = (
                f"{need.stage} needs {format_bytes(kept + need.scratch)} of disk with what the stages before it keep, "
                f"and {format_bytes(free_disk)} are free; choose another --run on a larger disk"
            )
            return Misfit(need.stage, sentence, [])
    return None


def _lack_of_memory(need: StageNeed, machines: Machines) -> str:
    if need.refused:
        return f"{need.stage}: {need.refused.removesuffix('; raise it')}"
    parts = [f"{need.processes:,} process{'es' * (need.processes > 1)} of {format_bytes(need.allocated)}"]
    if need.random:
        parts.append(f"{format_bytes(need.random)} of mapped files that it reads at random")
    return (
        f"{need.stage} needs {format_bytes(need.least_bytes)} of memory on a machine ({' and '.join(parts)}) and "
        f"{format_bytes(machines.memory)} are there"
    )


def _cure_words(need: StageNeed, settings: list[str]) -> str:
    if settings:
        return "add " + " ".join(f"--set {setting}" for setting in settings)
    slow = " (with less it reads the disk again and again)" if need.random else ""
    return f"no setting cures that: use machines with {format_bytes(need.least_bytes)} of memory{slow}"


def _cure(stage: str, config: Config, shape: GraphShape, machines: Machines) -> list[str]:
    """The fewest settings with which a stage fits, of these the fastest; none where no settings do.

    Settings that change a result are named only where no others suffice.
    """
    candidates = list(_candidates(stage, config, machines))
    harmless = [setting for setting in candidates if _decides(config, setting) == "nothing"]
    for some, count in itertools.product((harmless, candidates), range(1, _MOST_SETTINGS + 1)):
        fitting = []
        for settings in itertools.combinations(some, count):
            need = _need_with(stage, config, list(settings), shape, machines)
            if need and need.fits(machines.memory):
                fitting.append((need.seconds, list(settings)))
        if fitting:
            return min(fitting, key=lambda found: found[0])[1]
    return []


def _decides(config: Config, setting: str) -> Result:
    """The result that a setting changes."""
    section, key = setting.partition("=")[0].split(".")
    of: Section = getattr(config, section)
    return of.decides(key)


def _need_with(
    stage: str, config: Config, settings: list[str], shape: GraphShape, machines: Machines
) -> StageNeed | None:
    """What a stage takes with other settings; None where these exclude each other."""
    if len({setting.partition("=")[0] for setting in settings}) < len(settings):
        return None
    try:
        changed = Config.load(None, settings, config.dump())
    except ConfigError:
        return None
    return next(need for need in stage_needs(changed, shape, machines, REFERENCE) if need.stage == stage)


def _candidates(stage: str, config: Config, machines: Machines) -> Iterator[str]:
    """Settings that take less memory, those with the least loss first."""
    if stage == "graph":
        yield from _lower("graph.memory_mb", config.graph.memory_mb, (512, 256, 128, 64, 16))
    elif stage == "precompute":
        now = config.runtime.precompute_memory_gb or 1e9
        yield from _lower("runtime.precompute_memory_gb", now, (4, 2, 1, 0.5, 0.25, 0.1))
        if machines.here and config.runtime.engine == "local":
            yield from _lower("runtime.workers", config.runtime.workers or machines.cores, (4, 2, 1))
        else:
            yield from (f"runtime.task_cpus={cpus}" for cpus in (2, 4, 8, 16) if config.runtime.task_cpus < cpus)
        yield from _lower("rings.width", config.rings.width, (32, 16))
    elif stage == "train":
        if config.model.propagation == "full" and config.train.reads_samples:
            yield "model.propagation=sampled"
        if config.model.propagation == "sampled":
            yield from (
                f"runtime.{key}=owned" for key in ("features", "edges") if getattr(config.runtime, key) == "mapped"
            )
        if config.runtime.for_training().workers[1] < machines.number:
            yield f"runtime.train_workers={machines.number}"
        yield from (f"train.accumulate={number}" for number in (2, 4, 8, 16) if config.train.accumulate < number)
        yield from _lower("train.batch_size", config.train.batch_size, (512, 256, 128, 64))
    elif stage in ("embed", "evaluate"):
        now = config.runtime.embed_memory_gb
        if config.runtime.embed_tiles is False:
            yield "runtime.embed_tiles=auto"
        yield from _lower("runtime.embed_memory_gb", now, (2, 1, 0.5))
        yield from (f"runtime.embed_memory_gb={more}" for more in (8, 16, 32, 64) if more > now)
        if stage == "evaluate":
            yield from _lower("evaluate.initialisations", config.evaluate.initialisations, (5, 2))
            fraction = max(config.evaluate.train_fractions)
            yield from (f"evaluate.train_fractions=[{one}]" for one in (0.05, 0.01, 0.001) if one < fraction)


def _lower(key: str, now: float, values: tuple[float, ...]) -> Iterator[str]:
    return (f"{key}={value:g}" for value in values if value < now)
