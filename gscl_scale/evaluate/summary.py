"""Figures for a reader: the table, the protocol in words, what to be wary of, and the mean over repeats."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gscl_scale.evaluate.splits import MIN_TEST

SCALINGS = {
    "none": "rows as they are",
    "l2": "rows of length one",
    "standard": "standardised columns",
    "auto": "scaled as is best on validation nodes",
}
METHODS = {"raw": "raw features", "untrained": "untrained encoder", "trained": "trained encoder"}
FEW_VALIDATION_NODES = 30
_OF_THE_FIRST = ("protocol", "graph", "width", "missing", "weight_decay", "scaling")
_WITH_ERRORS = tuple(f"{figure}{of}" for figure in ("nmi", "sim_at_5") for of in ("", "_untrained", "_raw"))
_ALIKE = 0.98
_FLAT = 1.5
_FEW_DIRECTIONS = 0.05
_ALL_GATED = 0.95
_LATE = 0.85  # of the steps of a probe; beyond, more of them raised the figure wherever it was tried

Headers = list[str]
Rows = list[tuple[str, ...]]


def figures_table(metrics: dict[str, Any]) -> tuple[Headers, Rows, list[str]]:
    """(headers, one row per method, sentences beneath: protocol, what is missing and why, warnings)."""
    by_fraction = metrics.get("probe_by_fraction", {})
    measured = [f"test %, {100 * float(fraction):g} % of labels" for fraction in by_fraction]
    headers = ["", *(measured or ["validation %", "test %"]), "NMI", "Sim@5"]
    rows: Rows = []
    if "probe" in metrics:
        rows = [_row(metrics, name) for name in METHODS if name in metrics["probe"]]
    remarks = [*protocol_sentences(metrics), *missing_sentences(metrics)]
    return headers, rows, [*remarks, *(f"Warning: {warning}" for warning in warnings_of(metrics))]


def margin(figures: dict[str, Any], part: str, metrics: dict[str, Any]) -> float | None:
    """What stands after ±: the standard error over the repeats of a run, else the deviation within it."""
    name = f"{part}_se" if "repeats" in metrics else f"{part}_std"
    value: float | None = figures.get(name)
    return value


def percent(mean: float | None, std: float | None = None) -> str:
    """A share as per cent with its deviation: `84.46 ± 0.31`; a dash where there is none."""
    if mean is None:
        return "-"
    return f"{100 * mean:.2f}" + (f" ± {100 * std:.2f}" if std is not None else "")


def protocol_sentences(metrics: dict[str, Any]) -> list[str]:
    """How the figures were measured, in words."""
    sentences = []
    if "probe" in metrics:
        told, *of_this_run = _probe_sentences(metrics["probe"], "repeats" in metrics)
        sentences += [told] if "repeats" in metrics else [told, *of_this_run]
        sentences += left_out_sentences(metrics["probe"]["protocol"])
    if "clusters" in metrics:
        found = metrics["clusters"]["protocol"]
        sentences.append(
            f"NMI: {found['algorithm']}, k = {found['k']}, best of {found['n_init']} starts, {_of_nodes(found)}."
        )
    if "search" in metrics:
        sentences.append(f"Sim@5: exact cosine search, {_of_nodes(metrics['search']['protocol'])}.")
    if found := metrics.get("spread", {}).get("trained"):
        sentences.append(_spread_sentence(found, metrics["width"]["trained"]))
    if repeats := metrics.get("repeats"):
        sentences.append(
            f"Means of {repeats['count']} whole runs, each with its own seeds of weights, rings, split and probe; "
            "± is their standard error."
        )
    return sentences


def left_out_sentences(protocol: dict[str, Any]) -> list[str]:
    """Which test nodes are not measured, and why."""
    found = protocol.get("left_out")
    if not found:
        return []
    few, nodes = found["too_few"], f"{found['most']:,} test node{'s' * (found['most'] > 1)}"
    return [
        f"Left out of the test accuracy: up to {nodes} of a split, {100 * found['share']:.1f} % on average, because "
        f"their labels, as validation nodes of another split, chose {found['chose']}.",
        *([f"Not measured: {_listed(few)}, with fewer than {MIN_TEST} test nodes left."] if few else []),
    ]


def missing_sentences(metrics: dict[str, Any]) -> list[str]:
    """What could not be measured, and why; figures with the same reason share a sentence."""
    words = {"probe": "accuracy", "clusters": "NMI", "search": "Sim@5", "rings": "ring similarity"}
    by_reason: dict[str, list[str]] = {}
    for name, reason in metrics.get("missing", {}).items():
        by_reason.setdefault(reason, []).append(words.get(name, name))
    return [f"Not measured: {_listed(names)}, because {reason}." for reason, names in by_reason.items()]


def warnings_of(metrics: dict[str, Any]) -> list[str]:
    """What a reader should be wary of, in plain words."""
    return [
        *_gain_warnings(metrics),
        *validation_warnings(metrics.get("probe", {}).get("protocol")),
        *_probe_warnings(metrics.get("probe", {})),
        *_collapse_warnings(metrics),
        *_ranking_warnings(metrics),
    ]


def training_warnings(curve: Sequence[dict[str, Any]]) -> list[str]:
    """What a reader should be wary of in the steps of a training."""
    losses = [step["loss"] for step in curve if step.get("loss") is not None and math.isfinite(step["loss"])]
    few = max(1, len(losses) // 10)
    warnings = []
    if len(losses) > 1 and (late := float(np.mean(losses[-few:]))) >= (early := float(np.mean(losses[:few]))):
        warnings.append(
            f"the loss did not fall: {early:.3f} in the first steps, {late:.3f} in the last ones; "
            "try another train.learning_rate, or more train.epochs"
        )
    gated = [step["gated"] for step in curve[-few:] if step.get("gated") is not None]
    if gated and (share := float(np.mean(gated))) > _ALL_GATED:
        warnings.append(
            f"the gate stops {100 * share:.0f} % of all terms in the last steps, so there is next to nothing to learn "
            "from; raise loss.gate"
        )
    return warnings


def graph_warnings(statistics: dict[str, Any]) -> list[str]:
    """What a reader should be wary of in the graph."""
    warnings = []
    parts, nodes, isolated = statistics.get("components"), statistics["nodes"], statistics["isolated"]
    if parts and parts["count"] > 1:
        warnings.append(
            f"the graph falls into {parts['count']:,} parts without an edge between them; the largest has "
            f"{100 * parts['largest'] / nodes:.1f} % of the nodes: nodes of two parts count as far, however alike"
        )
    if isolated:
        one = isolated == 1
        what = "neighbour" + "s" * (not one) + " to point at" * statistics["directed"]
        warnings.append(
            f"{isolated:,} node{'' if one else 's'} ({100 * isolated / nodes:.1f} %) {'has' if one else 'have'} no "
            f"{what}: nothing of the graph is in {'its embedding' if one else 'their embeddings'}"
        )
    return warnings


def combine_repeats(figures: list[dict[str, Any]]) -> dict[str, Any]:
    """The metrics of several runs as one: means under the same names, standard errors as `..._se`.

    A `_std` covers the spread within and between runs; protocols are those of the first run; `repeats.runs` keeps the
    probe of each.
    """
    merged = _merge(figures)
    merged["repeats"] = {
        "count": len(figures),
        "seeds": [one.get("probe", {}).get("protocol", {}).get("seed") for one in figures],
        "runs": [{name: one["probe"][name] for name in METHODS if name in one.get("probe", {})} for one in figures],
    }
    return merged


# --- sentences -------------------------------------------------------------------------------------------------------


def _row(metrics: dict[str, Any], name: str) -> tuple[str, ...]:
    figures = metrics["probe"][name]
    suffix = "" if name == "trained" else f"_{name}"
    nmi = metrics.get("clusters", {}).get(f"nmi{suffix}")
    search = metrics.get("search", {}).get(f"sim_at_5{suffix}")
    by_fraction = [section[name] for section in metrics.get("probe_by_fraction", {}).values()]
    measured = [(part, "test") for part in by_fraction] or [(figures, "val"), (figures, "test")]
    return (
        METHODS[name],
        *(percent(part[f"{kind}_mean"], margin(part, kind, metrics)) for part, kind in measured),
        "-" if nmi is None else f"{nmi:.3f}",
        "-" if search is None else f"{search:.3f}",
    )


def _probe_sentences(probe: dict[str, Any], repeated: bool) -> list[str]:
    protocol = probe["protocol"]
    counts, splits = protocol["counts"], protocol["num_splits"]
    parts = f"{counts['train']:,} / {counts['val']:,} / {counts['test']:,} nodes"
    kind = f"{splits} {protocol['kind']} split{'s' * (splits > 1)}"
    decays = ", ".join(f"{METHODS[name]} {probe[name]['weight_decay']:g}" for name in METHODS if name in probe)
    chosen = [name for name in METHODS if name in probe] if protocol["scaling"] == "auto" else []
    scalings = ", ".join(f"{METHODS[name]} {SCALINGS[probe[name]['scaling']]}" for name in chosen)
    steps = "" if counts["train"] <= protocol["rows_per_step"] else f", {protocol['rows_per_step']:,} rows a step"
    return [
        f"Accuracy: logistic regression on frozen vectors ({SCALINGS[protocol['scaling']]}) with Adam, "
        f"{protocol['epochs']} steps{steps}; {kind} into train / validation / test ({parts}); "
        f"{'mean' if repeated else 'mean ± standard deviation'} over {protocol['initialisations']} random "
        f"initialisations{' and all splits' * (splits > 1)}, at the {protocol['selection']}.",
        f"Weight decay chosen on validation: {decays}.",
        *([f"Scaling chosen on validation: {scalings}."] if scalings else []),
    ]


def _spread_sentence(found: dict[str, Any], width: int) -> str:
    rank = "" if found["effective_rank"] is None else f", effective rank {found['effective_rank']:.1f} of {width:,}"
    return f"Spread of the trained vectors: mean cosine of random pairs {found['mean_cosine']:.2f}{rank}."


def _of_nodes(protocol: dict[str, Any]) -> str:
    if protocol["sampled"]:
        return f"a sample of {protocol['nodes']:,} of {protocol['labelled']:,} labelled nodes (seed {protocol['seed']})"
    return f"all {protocol['nodes']:,} labelled nodes"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


# --- warnings --------------------------------------------------------------------------------------------------------


def _gain_warnings(metrics: dict[str, Any]) -> list[str]:
    probe = metrics.get("probe", {})
    trained = probe.get("trained")
    if not trained or trained["test_mean"] is None:
        return []
    warnings = []
    for name in ("untrained", "raw"):
        other = probe.get(name)
        if not other or other["test_mean"] is None:
            continue
        gain = trained["test_mean"] - other["test_mean"]
        if gain <= 0:
            warnings.append(
                f"training brought no gain over the {METHODS[name]} ({100 * gain:+.2f} points of test accuracy); "
                "try other rings.hops, loss.temperature or train.learning_rate"
            )
        elif gain < 2 * (error := _gain_error(metrics, name)):
            warnings.append(
                f"the gain over the {METHODS[name]} ({100 * gain:.2f} points) is less than two standard errors "
                f"({100 * error:.2f} each)"
            )
    return warnings


def _gain_error(metrics: dict[str, Any], name: str) -> float:
    """Standard error of the gain, paired over repeats or splits; over initialisations where there is one of each."""
    pairs = metrics.get("repeats", {}).get("runs") or metrics["probe"].get("splits", [])
    gains = [pair["trained"]["test_mean"] - pair[name]["test_mean"] for pair in pairs]
    if len(gains) > 1:
        return float(np.std(gains, ddof=1) / math.sqrt(len(gains)))
    both = math.hypot(*(metrics["probe"][one]["test_std"] or 0 for one in ("trained", name)))
    return both / math.sqrt(metrics["probe"]["protocol"]["initialisations"])


def validation_warnings(protocol: dict[str, Any] | None) -> list[str]:
    """What a reader should be wary of where few nodes, or none, were there to choose on."""
    if not protocol:
        return []
    least = protocol["least_val"]
    if least == 0:
        return ["a split has no validation nodes: the last epoch and, with no split validated, the first decay count"]
    if least < FEW_VALIDATION_NODES:
        return [f"only {least} validation node{'s' * (least > 1)}: what was chosen on them is mostly chance"]
    return []


def best_step(probe: dict[str, Any], name: str) -> float | None:
    """The mean step at which vectors were best on validation nodes; None where nothing was validated."""
    steps = [split[name].get("best_epoch_mean") for split in probe.get("splits", [])]
    known = [step for step in steps if step is not None]
    return float(np.mean(known)) if known and probe[name]["val_mean"] is not None else None


def is_late(probe: dict[str, Any], name: str) -> bool:
    """Whether the probe was still getting better when it ended."""
    step = best_step(probe, name)
    return step is not None and step > _LATE * probe["protocol"]["epochs"]


def late_warnings(best: Mapping[str, float | None], steps: float) -> list[str]:
    """Whose vectors the probe had not done with, by name and best step."""
    late = [f"{name} {step:.0f}" for name, step in best.items() if step is not None and step > _LATE * steps]
    if not late:
        return []
    return [
        f"the probe was still getting better when its {steps:.0f} steps ended (best at step, on average: "
        f"{', '.join(late)}); more evaluate.probe_epochs may raise these figures, and change the order"
    ]


def _probe_warnings(probe: dict[str, Any]) -> list[str]:
    if not probe:
        return []
    best = {told: best_step(probe, name) for name, told in METHODS.items() if name in probe}
    return late_warnings(best, probe["protocol"]["epochs"])


def _collapse_warnings(metrics: dict[str, Any]) -> list[str]:
    found = metrics.get("spread", {}).get("trained")
    if not found:
        return []
    rank, cosine = found["effective_rank"], found["mean_cosine"]
    if cosine > _ALIKE or (rank is not None and rank < _FLAT):
        words = f"mean cosine of random pairs {cosine:.3f}" + (f", effective rank {rank:.1f}" if rank else "")
        return [f"the embeddings have collapsed: nearly all vectors point the same way ({words})"]
    width = metrics.get("width", {}).get("trained", 0)
    if rank is not None and rank < _FEW_DIRECTIONS * width:
        return [
            f"the embeddings use few of their {width:,} dimensions (effective rank {rank:.1f}); "
            "try a smaller model.width or a lower loss.temperature"
        ]
    return []


def _ranking_warnings(metrics: dict[str, Any]) -> list[str]:
    rings = metrics.get("rings", {})
    reached, before = (rings.get(key, {}).get("accuracy") for key in ("ranking", "ranking_untrained"))
    if reached is None or before is None or reached > before:
        return []
    return [
        f"neighbourhoods are ranked no better than by the untrained encoder ({100 * reached:.1f} % of pairs against "
        f"{100 * before:.1f} %)"
    ]


# --- repeats ---------------------------------------------------------------------------------------------------------


def _merge(values: list[Any]) -> Any:
    """Dictionaries and lists of equal shape are merged part by part, numbers become means, the rest is the first's."""
    first = values[0]
    if isinstance(first, dict) and all(isinstance(value, dict) for value in values):
        return _merge_mappings(values)
    if isinstance(first, list) and len({len(value) for value in values}) == 1:
        return [_merge(list(parts)) for parts in zip(*values, strict=True)]
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
        return float(np.mean(values))
    return first


def _merge_mappings(values: list[dict[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for key in values[0]:
        parts = [value[key] for value in values if key in value]
        whole = key in _OF_THE_FIRST or len(parts) < len(values)
        merged[key] = parts[0] if whole else _merge(parts)
    for key in ("test_mean", "val_mean", *_WITH_ERRORS):
        parts = [value.get(key) for value in values]
        if len(parts) > 1 and None not in parts:
            errors = np.std(np.array(parts, float), ddof=1) / math.sqrt(len(parts))
            merged[f"{key.removesuffix('_mean')}_se"] = float(errors)
    for part in ("val", "test"):
        merged |= _merged_deviation(part, values)
    return merged


def _merged_deviation(part: str, values: list[dict[str, Any]]) -> dict[str, float]:
    """The deviation over all runs: within each, and between their means."""
    means, deviations = [v.get(f"{part}_mean") for v in values], [v.get(f"{part}_std") for v in values]
    if None in means or None in deviations:
        return {}
    within = np.mean(np.square(np.array(deviations, float)))
    between = np.var(np.array(means, float), ddof=1) if len(means) > 1 else 0.0
    return {f"{part}_std": float(math.sqrt(within + between))}
