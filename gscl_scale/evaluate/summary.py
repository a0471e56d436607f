"""The figures of a run in words: a table, how they were measured, and warnings."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from gscl_scale.evaluate.collapse import flaw_of_embeddings
from gscl_scale.evaluate.gain import gain_warnings
from gscl_scale.evaluate.graph_statistics import GraphStatistics
from gscl_scale.evaluate.label_summary import (
    Part,
    by_share,
    figure_name,
    has_many_labels,
    label_sentences,
    part_titles,
    protocol_of,
    task_titles,
)
from gscl_scale.evaluate.link_summary import link_sentences, missing_link_sentences
from gscl_scale.evaluate.ranking_summary import measures_ranking_alone, ranking_sentence, ranking_warnings
from gscl_scale.evaluate.schema import (
    NMI,
    SIM_AT_5,
    TITLES,
    Accuracy,
    MeasuredGraph,
    Method,
    Metrics,
    Probe,
    ProbeProtocol,
    Sampling,
)
from gscl_scale.evaluate.splits import MIN_TEST

SCALINGS = {
    "none": "rows as they are",
    "l2": "rows of length one",
    "standard": "standardised columns",
    "auto": "scaled as is best on validation nodes",
}
_SECTIONS = {"probe": "accuracy", "clusters": "NMI", "search": "Sim@5", "rings": "ring similarity", "links": "links"}
_FEW_VALIDATION_NODES = 30
_ALL_GATED = 0.95
_LATE = 0.85  # of the steps of a probe; beyond, more of them raised the figure wherever it was tried


def figures_table(metrics: Metrics) -> tuple[list[str], list[tuple[str, ...]], list[str]]:
    """(headers, one row per method, remarks: the protocol, what is missing and why, warnings)."""
    many, shares = has_many_labels(metrics), [share for share, _ in by_share(metrics)]
    titles = part_titles(protocol_of(metrics))
    accuracies = shares if many else [f"{titles['test']}, {share} of labels" for share in shares]
    first = "F1 in % by train share" if many and shares else ""
    headers = [first, *(accuracies or titles.values()), *task_titles(metrics)]
    rows = [row for name in TITLES if name in metrics.get("probe", {}) for row in _rows(metrics, name)]
    ranking = [ranking_sentence(metrics)] if measures_ranking_alone(metrics) else []
    warnings = [f"Warning: {warning}" for warning in warnings_of(metrics)]
    return headers, rows, [*protocol_sentences(metrics), *filter(None, ranking), *missing_sentences(metrics), *warnings]


def measured(accuracy: Accuracy, part: Part, metrics: Metrics) -> tuple[float | None, float | None]:
    """A mean accuracy, and what stands after ±: the standard error over repeats, else the deviation within the run."""
    repeated = "repeats" in metrics
    if part == "val":
        return accuracy["val_mean"], accuracy.get("val_se") if repeated else accuracy.get("val_std")
    if part == "macro":
        return accuracy.get("macro_mean"), accuracy.get("macro_se") if repeated else accuracy.get("macro_std")
    return accuracy["test_mean"], accuracy.get("test_se") if repeated else accuracy.get("test_std")


def percent(mean: float | None, std: float | None = None) -> str:
    """A share as per cent with its deviation: `84.46 ± 0.31`; a dash where there is none."""
    if mean is None:
        return "-"
    return f"{100 * mean:.2f}" + (f" ± {100 * std:.2f}" if std is not None else "")


def decimal(value: float | None, digits: int = 3, times: float = 1) -> str:
    """A number, or a dash where there is none."""
    return "-" if value is None else f"{times * value:.{digits}f}"


def tasks(metrics: Metrics, name: Method) -> tuple[str, str]:
    """NMI and Sim@5 of a method."""
    nmi, search = metrics.get("clusters", {}).get(NMI[name]), metrics.get("search", {}).get(SIM_AT_5[name])
    return decimal(nmi), decimal(search)


def _rows(metrics: Metrics, name: Method) -> list[tuple[str, ...]]:
    """The row of a method; of many labels per node at several train shares two: micro- and macro-F1."""
    shares = [part[name] for _, part in by_share(metrics)]
    if shares and has_many_labels(metrics):
        figures: dict[Part, str] = {"test": "micro-F1", "macro": "macro-F1"}
        return [
            (f"{TITLES[name]}, {figure}", *(percent(*measured(one, part, metrics)) for one in shares))
            for part, figure in figures.items()
        ]
    accuracies = [percent(*measured(one, "test", metrics)) for one in shares]
    if not accuracies:
        parts = part_titles(protocol_of(metrics))
        accuracies = [percent(*measured(metrics["probe"][name], part, metrics)) for part in parts]
    return [(TITLES[name], *accuracies, *(tasks(metrics, name) if task_titles(metrics) else ()))]


# --- how figures were measured ---------------------------------------------------------------------------------------


def protocol_sentences(metrics: Metrics) -> list[str]:
    """How the figures were measured, in words."""
    sentences: list[str] = []
    repeats = metrics.get("repeats")
    if "probe" in metrics:
        first, *of_one_run = _probe_sentences(metrics["probe"], bool(repeats))
        sentences += [first, *([] if repeats else of_one_run)]
        sentences += left_out_sentences(metrics["probe"]["protocol"])
    if "clusters" in metrics:
        clusters = metrics["clusters"]["protocol"]
        sentences.append(
            f"NMI: {clusters['algorithm']}, k = {clusters['k']}, best of {clusters['n_init']} starts, "
            f"{_nodes(clusters, clusters['seed'])}."
        )
    if "search" in metrics:
        search = metrics["search"]["protocol"]
        sentences.append(f"Sim@5: exact cosine search, {_nodes(search, search['seed'])}.")
    sentences += link_sentences(metrics)
    if spread := metrics.get("spread", {}).get("trained"):
        rank, width = spread["effective_rank"], metrics["width"]["trained"]
        ranks = "" if rank is None else f", effective rank {rank:.1f} of {width:,}"
        sentences.append(
            f"Spread of the trained vectors: mean cosine of random pairs {spread['mean_cosine']:.2f}{ranks}."
        )
    if repeats:
        sentences.append(
            f"Means of {repeats['count']} whole runs, each with its own seeds of weights, rings, split and probe; "
            "± is their standard error."
        )
    return sentences


def _probe_sentences(probe: Probe, repeated: bool) -> list[str]:
    protocol, methods = probe["protocol"], [name for name in TITLES if name in probe]
    decays = ", ".join(f"{TITLES[name]} {probe[name]['weight_decay']:g}" for name in methods)
    sentences_of = label_sentences if "labels" in protocol else _class_sentences
    sentences = sentences_of(probe, SCALINGS[protocol["scaling"]], decays, repeated)
    if protocol["scaling"] == "auto":
        scalings = ", ".join(f"{TITLES[name]} {SCALINGS[probe[name]['scaling']]}" for name in methods)
        sentences.append(f"Scaling chosen on validation: {scalings}.")
    return sentences


def _class_sentences(probe: Probe, scaling: str, decays: str, repeated: bool) -> list[str]:
    protocol = probe["protocol"]
    counts, splits = protocol["counts"], protocol["num_splits"]
    steps = "" if counts["train"] <= protocol["rows_per_step"] else f", {protocol['rows_per_step']:,} rows a step"
    figure = figure_name(protocol)
    return [
        f"{figure[:1].upper()}{figure[1:]}: logistic regression on frozen vectors ({scaling}) with Adam, "
        f"{protocol['epochs']} steps{steps}; {splits} {protocol['kind']} split{'s' * (splits > 1)} into "
        f"train / validation / test ({counts['train']:,} / {counts['val']:,} / {counts['test']:,} nodes); "
        f"{'mean' if repeated else 'mean ± standard deviation'} over {protocol['initialisations']} random "
        f"initialisations{' and all splits' * (splits > 1)}, at the {protocol['selection']}.",
        f"Weight decay chosen on validation: {decays}.",
    ]


def _nodes(sampling: Sampling, seed: int) -> str:
    if sampling["sampled"]:
        return f"a sample of {sampling['nodes']:,} of {sampling['labelled']:,} labelled nodes (seed {seed})"
    return f"all {sampling['nodes']:,} labelled nodes"


def left_out_sentences(protocol: ProbeProtocol) -> list[str]:
    """The test nodes that are not measured, and the reason."""
    left_out = protocol.get("left_out")
    if not left_out:
        return []
    few, nodes = left_out["too_few"], f"{left_out['most']:,} test node{'s' * (left_out['most'] > 1)}"
    return [
        f"Left out of the test {figure_name(protocol)}: up to {nodes} of a split, {100 * left_out['share']:.1f} % on "
        f"average, because their labels, as validation nodes of another split, chose {left_out['chose']}.",
        *([f"Not measured: {_listed(few)}, with fewer than {MIN_TEST} test nodes left."] if few else []),
    ]


def missing_sentences(metrics: Metrics) -> list[str]:
    """The figures that could not be measured, and the reasons; those with the same reason share a sentence."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in metrics.get("missing", {}).items():
        by_reason.setdefault(reason, []).append(_SECTIONS.get(name, name))
    missing = [f"Not measured: {_listed(names)}, because {reason}." for reason, names in by_reason.items()]
    return [*missing, *missing_link_sentences(metrics)]


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


# --- warnings --------------------------------------------------------------------------------------------------------


def warnings_of(metrics: Metrics) -> list[str]:
    """Warnings about the figures of a run."""
    warnings = [
        shuffle_warnings(metrics.get("graph", {})),
        collapse_warnings(metrics),
        ranking_warnings(metrics),
    ]
    if probe := metrics.get("probe"):
        best = {title: best_step(probe, name) for name, title in TITLES.items() if name in probe}
        late = late_warnings(best, probe["protocol"]["epochs"])
        warnings = [validation_warnings(probe["protocol"]), late, *warnings]
    return list(chain(gain_warnings(metrics), *warnings))


def training_warnings(curve: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Warnings about the steps of a training, each with its cure."""
    return ("; ".join(one) for one in training_flaws(curve))


def training_flaws(curve: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """What is wrong with the steps of a training, and what to do."""
    losses = [step["loss"] for step in curve if step.get("loss") is not None and math.isfinite(step["loss"])]
    few = max(1, len(losses) // 10)
    if len(losses) > 1 and (late := float(np.mean(losses[-few:]))) >= (early := float(np.mean(losses[:few]))):
        yield (
            f"the loss did not fall: {early:.3f} in the first steps, {late:.3f} in the last ones",
            "try another train.learning_rate, or more train.epochs",
        )
    gated = [step["gated"] for step in curve[-few:] if step.get("gated") is not None]
    if gated and (share := float(np.mean(gated))) > _ALL_GATED:
        yield (
            f"the gate stops {100 * share:.0f} % of all terms in the last steps, so there is next to nothing to learn "
            "from",
            "raise loss.gate",
        )


def graph_warnings(statistics: GraphStatistics) -> Iterator[str]:
    """Warnings about a graph."""
    components, nodes, isolated = statistics.get("components"), statistics["nodes"], statistics["isolated"]
    if components and (joined := components.get("joined", components["count"])) > 1:
        yield (
            f"the graph has {joined:,} connected components of two or more nodes (the largest holds "
            f"{100 * components['largest'] / nodes:.1f} % of the nodes); nodes of different components are always "
            "treated as far apart"
        )
    if isolated:
        one = isolated == 1
        what = "neighbour" + "s" * (not one) + " to point at" * statistics["directed"]
        yield (
            f"{isolated:,} node{'' if one else 's'} ({100 * isolated / nodes:.1f} %) {'has' if one else 'have'} no "
            f"{what}: nothing of the graph is in {'its embedding' if one else 'their embeddings'}"
        )


def shuffle_warnings(graph: MeasuredGraph) -> Iterator[str]:
    """Warn that labels are none of the user's."""
    if (seed := graph.get("shuffled_labels")) is not None:
        yield (
            f"the labels are shuffled (evaluate.shuffle_labels={seed}): figures by labels say whether anything leaks, "
            "and nothing of how good the embeddings are"
        )


def validation_warnings(protocol: ProbeProtocol) -> Iterator[str]:
    """Warn of few validation nodes, or of none."""
    least = protocol["least_val"]
    if least == 0:
        first = "the middle penalty counts" if "labels" in protocol else "the first decay count"
        last = "" if "labels" in protocol else "the last epoch and, "
        yield f"a split has no validation nodes: {last}with no split validated, {first}"
    elif least < _FEW_VALIDATION_NODES:
        yield f"only {least} validation node{'s' * (least > 1)}: what was chosen on them is mostly chance"


def best_step(probe: Probe, name: Method) -> float | None:
    """The mean step at which vectors were best on validation nodes; None where nothing was validated."""
    steps = [split[name].get("best_epoch_mean") for split in probe.get("splits", [])]
    known = [step for step in steps if step is not None]
    return float(np.mean(known)) if known and probe[name]["val_mean"] is not None else None


def is_late(probe: Probe, name: Method) -> bool:
    """Whether the probe was still getting better when it ended."""
    step = best_step(probe, name)
    return step is not None and step > _LATE * probe["protocol"]["epochs"]


def late_warnings(best: Mapping[str, float | None], steps: float) -> Iterator[str]:
    """Warn of methods, by their mean best step, that the probe was still getting better on."""
    late = [f"{name} {step:.0f}" for name, step in best.items() if step is not None and step > _LATE * steps]
    if late:
        yield (
            f"the probe was still getting better when its {steps:.0f} steps ended (best at step, on average: "
            f"{', '.join(late)}); more evaluate.probe_epochs may raise these figures, and change the order"
        )


def collapse_warnings(metrics: Metrics) -> Iterator[str]:
    """Warn of vectors that have collapsed, or use few of their dimensions."""
    flaw, collapsed = flaw_of_embeddings(metrics)
    smaller = "" if collapsed else "try a smaller model.width or a lower loss.temperature"
    if flaw:
        yield "; ".join(filter(None, [flaw, metrics.get("cure", smaller)]))
