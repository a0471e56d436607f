"""The metrics of several runs as those of one."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from gscl_scale.evaluate.link_schema import LINK_FIGURES
from gscl_scale.evaluate.schema import METHODS, NMI, SIM_AT_5, Metrics, Repeat, Repeats

_OF_THE_FIRST = ("protocol", "graph", "width", "missing", "weight_decay", "scaling")
_WITH_ERRORS = ("test_mean", "val_mean", "macro_mean", *NMI.values(), *SIM_AT_5.values(), *LINK_FIGURES)


def combine_repeats(figures: Sequence[Metrics]) -> Metrics:
    """The metrics of several runs as one: means under the same names, standard errors as `..._se`.

    A `_std` covers the spread within and between runs; protocols are those of the first run; `repeats.runs` keeps the
    probe of each.
    """
    probes = [one.get("probe", {}) for one in figures]
    repeats: Repeats = {
        "count": len(figures),
        "seeds": [probe.get("protocol", {}).get("seed") for probe in probes],
        "runs": [cast(Repeat, {name: probe[name] for name in METHODS if name in probe}) for probe in probes],
    }
    return cast(Metrics, {**_merge_mappings(figures), "repeats": repeats})


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


def _merge_mappings(values: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    merged: dict[str, object] = {}
    for key in values[0]:
        parts = [value[key] for value in values if key in value]
        merged[key] = parts[0] if key in _OF_THE_FIRST or len(parts) < len(values) else _merge(parts)
    for key in _WITH_ERRORS:
        means = [value.get(key) for value in values]
        if len(means) > 1 and None not in means:
            error = np.std(np.array(means, float), ddof=1) / math.sqrt(len(means))
            merged[f"{key.removesuffix('_mean')}_se"] = float(error)
    for part in ("val", "test", "macro"):
        means, deviations = [v.get(f"{part}_mean") for v in values], [v.get(f"{part}_std") for v in values]
        if None not in means and None not in deviations:
            within = np.mean(np.square(np.array(deviations, float)))
            between = np.var(np.array(means, float), ddof=1) if len(means) > 1 else 0.0
            merged[f"{part}_std"] = float(math.sqrt(within + between))
    return merged
