"""`gscl-scale compare`: all methods on a user's graph, under one protocol, with one encoder and the same seeds."""

import contextlib
import itertools
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from typing_extensions import TypedDict

from gscl_scale import machine
from gscl_scale.config.baselines import BaselineConfig
from gscl_scale.config.config import Config
from gscl_scale.errors import ConfigError, StoppedError, UserError
from gscl_scale.evaluate.chance import chance_of
from gscl_scale.evaluate.repeats import combine_repeats
from gscl_scale.evaluate.run import measured_graph
from gscl_scale.evaluate.schema import TITLES, Method, Metrics
from gscl_scale.graph.graph import Graph
from gscl_scale.io.atomic import write_text
from gscl_scale.io.json import read_json, write_json
from gscl_scale.report.compare_methods import Comparison, MethodCost, MethodRow, comparison_page
from gscl_scale.report.plots import plot_comparison
from gscl_scale.run.folder import Run
from gscl_scale.run.log import read_curve, read_events
from gscl_scale.run.record import claim, open_run, refuse_other_work, repeat_config
from gscl_scale.runtime.console import Console
from gscl_scale.shards.precompute import name_of_samples
from gscl_scale.stages.embed import embed
from gscl_scale.stages.evaluate import evaluate
from gscl_scale.stages.ingest import ingest
from gscl_scale.stages.precompute import precompute
from gscl_scale.stages.train import refuse_untrainable, train
from gscl_scale.studies.budget import Budget, Searched, search_methods
from gscl_scale.studies.figures import figures_of, free_rows, ground_of, refuse_unmeasured
from gscl_scale.studies.paired import EdgePairing, Pairing, best_row, figures_by_part, figures_by_split, with_intervals
from gscl_scale.studies.peers.measure import chosen_settings, is_measured, measure_peer, peer_cost, peer_note
from gscl_scale.studies.peers.table import PEERS, peer_settings, plain_settings
from gscl_scale.text import shortened
from gscl_scale.train.objectives.methods import USUAL, all_methods, configured, method_of, settings_of
from gscl_scale.train.process_group import join_world

ALL = "all"
FREE: dict[Method, str] = {
    name: title for name, title in TITLES.items() if name != "trained"
}  # measured with every trained method
Seeds = list[tuple[Config, Run]]  # of one method, a run for each seed


def measured_methods() -> list[str]:
    """The methods with runs of their own, in the order of the table."""
    return [*PEERS, *all_methods()]


def named_methods(names: Sequence[str]) -> list[str]:
    """The methods that names ask for: all by `ALL`, and the usual ones by none."""
    if ALL in names:
        return [*(name for name in names if name != ALL), *measured_methods()]
    return list(names) or [*PEERS, *USUAL]


class _Earlier(TypedDict):
    """compare.json of an earlier comparison, as far as it is read."""

    methods: list[MethodRow]


class _Cost(NamedTuple):
    """Seconds of some work; those of all cores are None where they are not known."""

    seconds: float
    cpu_s: float | None


def compare(
    config: Config, folder: Path, names: Sequence[str], console: Console, budget: Budget | None = None
) -> Comparison:
    """Run the methods named (see `named_methods`), and write compare.json, .md and .png into the run folder.

    A method that fails has its reason in place of figures. Finished runs are skipped, and methods of an earlier
    comparison keep their rows; a row is of fewer seeds where its method has finished only these. With a budget the
    settings of each trained method are searched first.
    """
    asked = _asked_for(config, names)
    unsettled: dict[str, str] = {}
    if budget is not None:
        config, unsettled = _searched(config, asked, folder, budget, console)
    begun = [name for name in measured_methods() if name in asked or (folder / "compare" / name).exists()]
    seeds = {name: _seeds(config, name, Run.at(folder)) for name in begun}
    for one, run in itertools.chain(*seeds.values()):
        refuse_other_work(one, run, cure=f"delete {run.folder}")
    for name in set(begun).difference(asked):
        seeds[name] = [(one, run) for one, run in seeds[name] if _is_measured(name, one, run)]
    unfinished = [name for name in begun if name not in asked and len(seeds[name]) < config.train.repeats]
    failed = _earlier_failures(config, unfinished, folder / "compare.json")
    failed |= {name: {**_head(config, name), "error": reason} for name, reason in unsettled.items()}
    study = open_run(config, folder)
    graph = ingest(config, study, console)
    if ground_of(graph, config.evaluate) == "links" and (not names or ALL in names):
        begun = [name for name in begun if not _learns_labels(config, name)]
    for name in begun:
        for one, _ in seeds[name] if name in asked and name not in PEERS else ():
            refuse_untrainable(one, study)
    runs: dict[str, dict[int, Metrics]] = {}
    rows = [
        failed.get(name) or _method(config, name, seeds[name], study, runs, console)
        for name in begun
        if name in failed or seeds[name]
    ]
    result = _comparison(config, graph, rows, runs, budget)
    if best := best_row([row for row in rows if not _learns_labels(config, row["method"])]):
        place = seeds[best["method"]][0][1].folder.relative_to(folder)
        result["best"] = {"method": best["method"], "title": best["title"], "run": str(place)}
    write_json(folder / "compare.json", result)
    write_text(folder / "compare.md", comparison_page(result))
    plot_comparison(result, folder / "compare.png")
    return result


def _comparison(
    config: Config, graph: Graph, rows: list[MethodRow], runs: Mapping[str, dict[int, Metrics]], budget: Budget | None
) -> Comparison:
    """The rows with what belongs to all of them: protocol, intervals, and the rows that every run measures too."""
    beside = _reference(config, runs)
    reference = _over_seeds(runs[beside]) if beside else None
    measured = [one for one in (reference, *map(_over_seeds, runs.values())) if one]
    probes = [one["probe"] for one in measured if "probe" in one]
    result: Comparison = {
        "graph": measured_graph(graph),
        "seeds": [repeat_config(config, number).train.seed for number in range(config.train.repeats)],
        "protocol": probes[0]["protocol"] if probes else None,
        "config": config.dump(),
        "methods": [*free_rows(reference, measured[0] if measured else None, FREE), *rows],
    }
    if budget is not None:
        result["trials"] = budget.trials
    if probes:
        by_split = {name: figures_by_split(of, "trained") for name, of in runs.items()}
        by_split |= {name: figures_by_split(runs[beside], name) for name in FREE} if beside else {}
        pairing = Pairing.of(probes[0]["protocol"])
        result["methods"] = with_intervals(result["methods"], by_split, pairing)
        result["intervals"] = pairing.protocol()
        if "shuffled_labels" in result["graph"]:
            result["chance"] = chance_of(graph, probes[0]["protocol"]["counts"]["test"], config.evaluate.measure)
    if measured and "links" in measured[0]:
        result["links_protocol"] = measured[0]["links"]["protocol"]
        if not probes:
            by_part = figures_by_part(runs, runs[beside] if beside else {}, FREE)
            result["methods"] = with_intervals(result["methods"], by_part, EdgePairing())
            result["intervals"] = EdgePairing().protocol()
    return result


def _asked_for(config: Config, names: Sequence[str]) -> list[str]:
    """The methods in the order of the table; ConfigError where a name or a setting is wrong."""
    measured, names = measured_methods(), named_methods(names)
    for source, given in (("--methods", names), ("compare.settings", config.compare.settings)):
        for name in given:
            if name not in measured and (name not in FREE or source == "compare.settings"):
                near = [one for one in measured if one.startswith(f"{name}-")] or get_close_matches(name, measured)
                known = f"known ones are {', '.join([*FREE, *measured])}"
                meant = f"did you mean {' or '.join(near)}?" if near else known
                raise ConfigError(f"{source}: there is no method {name!r}; {meant}")
    methods = [name for name in measured if name in names]
    if not methods:
        raise ConfigError("--methods: raw and untrained are measured with a trained method; name one of those too")
    if config.baseline != BaselineConfig() or not config.train.reads_samples:
        raise ConfigError(
            "compare: train.objective and baseline are set for each method; "
            "put settings of one method into compare.settings, such as {grace: [baseline.temperature=0.5]}"
        )
    for name in methods:
        if name in PEERS:
            peer_settings(config, name)
        elif not (one := configured(config, name)).train.reads_samples:
            settings_of(one)
    return methods


def _searched(config: Config, asked: Sequence[str], folder: Path, budget: Budget, console: Console) -> Searched:
    """Search for the settings of the trained methods that are asked for, and read those that were found earlier."""
    graph, searches = ingest(config, open_run(config, folder), console), folder / "searches"
    by_links = ground_of(graph, config.evaluate) == "links"
    names = [
        name
        for name in all_methods()
        if (name in asked or (searches / name).exists()) and not (by_links and _learns_labels(config, name))
    ]
    return search_methods(config, names, graph.size, searches, budget, console)


def _learns_labels(config: Config, name: str) -> bool:
    return name not in PEERS and configured(config, name).train.label_seed is not None


def _seeds(config: Config, name: str, study: Run) -> Seeds:
    method = Run(study.folder / "compare" / name, study.graph)
    own = config if name in PEERS else configured(config, name)
    seeded = [repeat_config(own, number) for number in range(config.train.repeats)]
    return [(one, method.repeat(one.train.seed)) for one in seeded]


def _is_measured(name: str, config: Config, run: Run) -> bool:
    return is_measured(config, name, run) if name in PEERS else run.metrics.exists()


def _earlier_failures(config: Config, names: Sequence[str], path: Path) -> dict[str, MethodRow]:
    """The rows of methods that failed in an earlier comparison with the settings that they have now."""
    earlier = read_json(path, _Earlier, "delete it, and compare again")["methods"] if path.exists() else []
    failed = {row["method"]: row for row in earlier if "error" in row}
    rows = [_head(config, name) for name in names if name in failed]
    return {
        row["method"]: {**row, "error": failed[row["method"]]["error"]}
        for row in rows
        if failed[row["method"]].get("settings") == row["settings"]
    }


def _head(config: Config, name: str) -> MethodRow:
    """The name of a method and the settings that differ from the user's configuration; of a peer all that it reads."""
    if name in PEERS:
        return {"method": name, "title": PEERS[name].title, "settings": plain_settings(peer_settings(config, name))}
    ours, its = config.dump(), configured(config, name).dump()
    settings = {
        f"{section}.{key}": value
        for section in its
        if section != "compare"
        for key, value in its[section].items()
        if value != ours[section].get(key)
    }
    return {"method": name, "title": method_of(name).title, "settings": settings}


def _method(
    config: Config, name: str, seeds: Seeds, study: Run, done: dict[str, dict[int, Metrics]], console: Console
) -> MethodRow:
    """The row of a method: its figures over these seeds, whose metrics are added to `done`, or why there are none."""
    row = _head(config, name)
    title = row["title"]
    if len(seeds) < config.train.repeats:
        row["title"] += f" ({len(seeds)} of {config.train.repeats} seeds)"
    measured, sampled = [], []
    for one, run in seeds:
        console.say(f"{title}, seed {one.train.seed}")
        try:
            claim(one, run, name if name in PEERS else "")
            if name in PEERS:
                measured.append(measure_peer(one, name, run, console.with_log(run.log)))
                continue
            sampled.append(_sample(one, run, study, console))
            measured.append(_measure(one, run, console.with_log(run.log)))
        except StoppedError:
            raise
        except (UserError, RuntimeError, MemoryError) as error:  # torch reports a lack of memory as a RuntimeError
            reason = shortened(error) or "there is not enough memory"
            console.say(f"{title} failed: {reason}")
            return {**row, "error": f"seed {one.train.seed}: {reason}"}
    done[name] = {one.train.seed: found for (one, _), found in zip(seeds, measured, strict=True)}
    row, runs = {**row, **figures_of(_over_seeds(done[name]), "trained")}, [run for _, run in seeds]
    if name in PEERS:
        row = {**row, **peer_cost(runs), "note": peer_note(Graph.open(study.graph))}
        return {**row, "chosen": chosen} if (chosen := chosen_settings(runs)) else row
    return {**row, **_cost(runs, sampled)}


def _over_seeds(runs: Mapping[int, Metrics]) -> Metrics:
    first, *others = runs.values()
    return combine_repeats([first, *others]) if others else first


def _sample(config: Config, run: Run, study: Run, console: Console) -> _Cost:
    """Sample the rings of a run, once for all methods that read the same samples; what that took."""
    if not config.train.reads_samples:
        return _Cost(0.0, 0.0)
    epochs = config.train.epochs_for(Graph.open(study.graph).size)
    name = name_of_samples(config.rings, epochs)
    shared = run if config.rings.ahead else Run(study.folder / "compare" / "samples" / name, study.graph)
    console = console.with_log(shared.log)
    if not (shared.samples / "manifest.json").exists():
        with _logged("sampled", config, console):
            precompute(config, shared, console)
    if not run.samples.exists():
        run.samples.symlink_to(os.path.relpath(shared.samples, run.folder))
    return _logged_cost("sampled", shared)


def _measure(config: Config, run: Run, console: Console) -> Metrics:
    """Train, embed and evaluate; finished stages are skipped."""
    machine.reset_peak_memory()
    with contextlib.nullcontext() if run.metrics.exists() else _logged("trained", config, console):
        train(config, run, console)
        embed(config, run, console)
    metrics = evaluate(config, run, console)
    refuse_unmeasured(metrics, Graph.open(run.graph), config.evaluate)
    return metrics


def _reference(config: Config, metrics: Mapping[str, object]) -> str | None:
    """The method with an encoder whose run gives the figures of input features and the untrained encoder.

    If any has the user's protocol on all splits, and the user's encoder, it is one of these; of equal ones the last.
    """
    ones = {name: configured(config, name) for name in all_methods() if name in metrics}

    def has_what_is_asked_for(name: str) -> tuple[bool, ...]:
        one = ones[name]
        return one.train.label_seed is None, one.evaluate == config.evaluate, one.model == config.model

    return max(reversed(ones), key=has_what_is_asked_for, default=None)


@contextlib.contextmanager
def _logged(work: str, config: Config, console: Console) -> Iterator[None]:
    """Log what an attempt at some work takes; processes other than this one and its children are not seen."""
    with join_world(config.runtime.timeout_s, config.runtime.device) as world:
        elsewhere = config.runtime.engine == "ray" or world.size > 1
    console.event("compare", f"{work}: begun")
    began, cpu_began = time.monotonic(), machine.cpu_seconds()
    try:
        yield
    finally:
        cpu_s = None if elsewhere else machine.cpu_seconds() - cpu_began
        console.event("compare", work, seconds=time.monotonic() - began, cpu_s=cpu_s)


def _logged_cost(work: str, run: Run) -> _Cost:
    """What all attempts have taken; the cores' seconds of an attempt that was killed, or is older, are not known."""
    events = read_events(run.log)
    ended = [event for event in events if event["event"] == work]
    begun = sum(event["event"] == f"{work}: begun" for event in events)
    cpu_s = [event["cpu_s"] for event in ended if event.get("cpu_s") is not None]
    known = 0 < len(cpu_s) == begun
    return _Cost(sum(event["seconds"] for event in ended), sum(cpu_s) if known else None)


def _cost(runs: list[Run], sampled: list[_Cost]) -> MethodCost:
    """Mean seconds over the seeds, and the most memory of any, by their logs."""
    curves = [read_curve(run.log) for run in runs]
    steps = [step for curve in curves for step in curve]
    cpu_s = [cost.cpu_s for cost in (*sampled, *(_logged_cost("trained", run) for run in runs))]
    return {
        "steps": max(map(len, curves)),
        "training_s": sum(step.get("step_s") or 0.0 for step in steps) / len(curves),
        "cpu_s": None if None in cpu_s else sum(filter(None, cpu_s)) / len(runs),
        "sampling_s": sum(cost.seconds for cost in sampled) / len(runs),
        "peak_bytes": max((step.get("gpu_peak_bytes") or step.get("peak_bytes") or 0 for step in steps), default=0),
    }
