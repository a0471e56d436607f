"""`gscl-scale compare`: all methods on a user's graph, under one protocol, with one encoder and the same seeds."""

import itertools
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NotRequired

from typing_extensions import TypedDict

from gscl_scale import machine
from gscl_scale.config.baselines import BaselineConfig
from gscl_scale.config.config import Config
from gscl_scale.errors import ConfigError, RunError, StoppedError, UserError
from gscl_scale.evaluate.repeats import combine_repeats
from gscl_scale.evaluate.schema import NMI, SIM_AT_5, Method, Metrics
from gscl_scale.evaluate.splits import why_no_splits
from gscl_scale.evaluate.summary import best_step
from gscl_scale.io.atomic import write_text
from gscl_scale.io.json import read_json, write_json
from gscl_scale.report.compare_methods import Comparison, MethodCost, MethodFigures, MethodRow, comparison_page
from gscl_scale.report.plots import plot_comparison
from gscl_scale.run.folder import Run
from gscl_scale.run.log import read_curve, read_events
from gscl_scale.run.record import claim, open_run, refuse_other_work, with_seed
from gscl_scale.runtime.console import Console
from gscl_scale.shards.precompute import name_of_samples
from gscl_scale.stages.embed import embed
from gscl_scale.stages.evaluate import evaluate
from gscl_scale.stages.ingest import ingest
from gscl_scale.stages.precompute import precompute
from gscl_scale.stages.train import refuse_untrainable, train
from gscl_scale.text import shortened
from gscl_scale.train.objectives.methods import METHODS, configured, settings_of

# measured beside every trained method
FREE: dict[Method, str] = {"raw": "raw features", "untrained": "untrained encoder"}


class _Row(TypedDict):
    """A method of an earlier comparison, as far as it is read."""

    method: str
    settings: NotRequired[dict[str, Any]]
    error: NotRequired[str]


class _Told(TypedDict):
    """The comparison, likewise."""

    methods: list[_Row]


def compare(config: Config, folder: Path, names: Sequence[str], console: Console) -> Comparison:
    """Run the methods named, or all, and write compare.json, compare.md and compare.png into the run folder.

    A method whose run fails has its reason in place of figures. What was asked for earlier keeps its row, and what is
    finished is not done again; the row is of fewer seeds where it was asked for with fewer.
    """
    asked = _asked_for(config, names)
    begun = [name for name in METHODS if name in asked or (folder / "compare" / name).exists()]
    runs = {name: _runs(config, name, Run.at(folder)) for name in begun}
    for one, run in itertools.chain(*runs.values()):
        refuse_other_work(one, run)
    earlier = set(begun).difference(asked)
    for name in earlier:
        runs[name] = [(one, run) for one, run in runs[name] if run.metrics.exists()]
    missing = [name for name in earlier if len(runs[name]) < config.train.repeats]
    failed = _earlier_failures(config, missing, folder / "compare.json")
    whole = open_run(config, folder)
    graph = ingest(config, whole, console)
    if reason := why_no_splits(graph, config.evaluate):
        raise ConfigError(f"compare: methods are compared by accuracy, and {reason}; bring labels with the graph")
    for name in asked:
        for one, _ in runs[name]:
            refuse_untrainable(one, whole)
    metrics: dict[str, Metrics] = {}
    rows = [
        failed.get(name) or _method(config, name, runs[name], whole, metrics, console)
        for name in begun
        if name in failed or runs[name]
    ]
    beside = metrics[_reference(config, metrics)] if metrics else None
    result: Comparison = {
        "graph": {"name": graph.name, "nodes": graph.num_nodes, "fingerprint": graph.fingerprint},
        "seeds": [with_seed(config, number).train.seed for number in range(config.train.repeats)],
        "protocol": beside["probe"]["protocol"] if beside else None,
        "config": config.dump(),
        "methods": [*(_free_rows(beside) if beside else []), *rows],
    }
    write_json(folder / "compare.json", result)
    write_text(folder / "compare.md", comparison_page(result))
    plot_comparison(result, folder / "compare.png")
    return result


def _earlier_failures(config: Config, names: Sequence[str], path: Path) -> dict[str, MethodRow]:
    """The rows of those of these methods that failed in an earlier comparison, with the settings that they have now."""
    told = read_json(path, _Told, "delete it, and compare again")["methods"] if path.exists() else []
    failed = {row["method"]: row for row in told if "error" in row}
    rows = {name: _head(config, name) for name in names if name in failed}
    return {
        name: {**row, "error": failed[name]["error"]}
        for name, row in rows.items()
        if failed[name].get("settings") == row["settings"]
    }


def _head(config: Config, name: str) -> MethodRow:
    """How the row of a method begins."""
    return {"method": name, "title": METHODS[name].title, "settings": _settings(config, configured(config, name))}


def _reference(config: Config, metrics: dict[str, Metrics]) -> str:
    """The method beside which raw features and the untrained encoder count: with the user's protocol and encoder if any
    has these, on all splits; of equal ones the last of the table.
    """
    ones = {name: configured(config, name) for name in METHODS if name in metrics}
    return max(
        reversed(ones),
        key=lambda name: (
            ones[name].train.learnt is None,
            ones[name].evaluate == config.evaluate,
            ones[name].model == config.model,
        ),
    )


def _asked_for(config: Config, names: Sequence[str]) -> list[str]:
    """The methods in the order of the table, once their settings are known to be right."""
    known = ", ".join([*FREE, *METHODS])
    for source, given in (("--methods", names), ("compare.settings", config.compare.settings)):
        for name in given:
            if name not in METHODS and (name not in FREE or source == "compare.settings"):
                raise ConfigError(f"{source}: there is no method {name!r}; the methods are {known}")
    methods = [name for name in METHODS if name in names or not names]
    if not methods:
        raise ConfigError("--methods: raw and untrained are measured beside a trained method; name one of those too")
    if config.baseline != BaselineConfig() or not config.train.reads_samples:
        raise ConfigError(
            "compare: train.objective and baseline are set for each method; "
            "put what one of them is to have into compare.settings, such as {grace: [baseline.temperature=0.5]}"
        )
    for name in methods:
        if not (one := configured(config, name)).train.reads_samples:
            settings_of(one)
    return methods


def _method(
    config: Config,
    name: str,
    runs: list[tuple[Config, Run]],
    whole: Run,
    metrics: dict[str, Metrics],
    console: Console,
) -> MethodRow:
    """The row of a method: its figures over the seeds of these runs, or why there are none."""
    missing = config.train.repeats - len(runs)
    row = _head(config, name)
    if missing:
        row["title"] += f" ({len(runs)} of {config.train.repeats} seeds)"
    found, sampling = [], []
    for seeded, run in runs:
        console.say(f"{METHODS[name].title}, seed {seeded.train.seed}")
        try:
            sampling.append(_samples(seeded, claim(seeded, run), whole, console))
            found.append(_figures(seeded, run, console.with_log(run.log)))
        except StoppedError:
            raise
        except (UserError, RuntimeError, MemoryError) as error:  # torch tells with the first one that memory is short
            reason = shortened(error) or "there is not enough memory"
            console.say(f"{METHODS[name].title} failed: {reason}")
            return {**row, "error": f"seed {seeded.train.seed}: {reason}"}
    metrics[name] = found[0] if len(found) == 1 else combine_repeats(found)
    return {
        **row,
        **_figures_of(metrics[name], "trained"),
        **_cost([run for _, run in runs]),
        "sampling_s": sum(sampling) / len(sampling),
    }


def _runs(config: Config, name: str, whole: Run) -> list[tuple[Config, Run]]:
    """The runs of a method, one for each seed."""
    one, method = configured(config, name), Run(whole.folder / "compare" / name, whole.graph)
    seeds = [with_seed(one, number) for number in range(config.train.repeats)]
    return [(seeded, method.repeat(seeded.train.seed)) for seeded in seeds]


def _figures(config: Config, run: Run, console: Console) -> Metrics:
    """Train, embed and evaluate; what is finished is skipped."""
    machine.start_peak()
    train(config, run, console)
    embed(config, run, console)
    metrics = evaluate(config, run, console)
    if "probe" not in metrics:
        raise RunError(f"there is no accuracy to compare: {metrics['missing']['probe']}")
    return metrics


def _samples(config: Config, run: Run, whole: Run, console: Console) -> float:
    """Ring samples for a run, one folder for all methods that ask for the same ones; the seconds that they took."""
    if not config.train.reads_samples:
        return 0.0
    name = name_of_samples(config.rings, config.train.epochs)
    shared = run if config.rings.ahead else Run(whole.folder / "compare" / "samples" / name, whole.graph)
    told = console.with_log(shared.log)
    if not (shared.samples / "manifest.json").exists():
        began = time.monotonic()
        precompute(config, shared, told)
        told.event("compare", "sampled", seconds=time.monotonic() - began)
    if not run.samples.exists():
        run.samples.symlink_to(os.path.relpath(shared.samples, run.folder))
    return sum(event["seconds"] for event in read_events(shared.log) if event["event"] == "sampled")


def _settings(config: Config, one: Config) -> dict[str, Any]:
    """What a method has otherwise than the user's configuration."""
    ours, its = config.dump(), one.dump()
    return {
        f"{section}.{key}": value
        for section in its
        if section != "compare"
        for key, value in its[section].items()
        if value != ours[section].get(key)
    }


def _cost(runs: list[Run]) -> MethodCost:
    """Seconds of the steps of a training, as a mean over its seeds; the largest memory of any; what the logs tell."""
    curves = [read_curve(run.log) for run in runs]
    steps = [step for curve in curves for step in curve]
    return {
        "steps": max(map(len, curves)),
        "training_s": sum(step.get("step_s") or 0.0 for step in steps) / len(curves),
        "peak_bytes": max((step.get("gpu_peak_bytes") or step.get("peak_bytes") or 0 for step in steps), default=0),
    }


def _free_rows(metrics: Metrics) -> list[MethodRow]:
    """Raw features and the untrained encoder, as measured beside a trained one."""
    heads: dict[Method, MethodRow] = {name: {"method": name, "title": title} for name, title in FREE.items()}
    return [{**head, **_figures_of(metrics, name)} for name, head in heads.items()]


def _figures_of(metrics: Metrics, vectors: Method) -> MethodFigures:
    accuracy = metrics["probe"][vectors]
    return {
        "val_mean": accuracy["val_mean"],
        "val_std": accuracy["val_std"],
        "test_mean": accuracy["test_mean"],
        "test_std": accuracy["test_std"],
        "best_step": best_step(metrics["probe"], vectors),
        "nmi": metrics["clusters"][NMI[vectors]],
        "sim_at_5": metrics["search"][SIM_AT_5[vectors]],
    }
