"""Runs side by side on one page: figures, loss, settings that differ, and how alike their neighbourhoods are."""

from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding
from gscl_scale.evaluate.schema import METHODS, Method
from gscl_scale.evaluate.search import most_queries, nearest_nodes
from gscl_scale.evaluate.summary import TITLES, margin, percent, protocol_sentences, warnings_of
from gscl_scale.io.atomic import write_text
from gscl_scale.report.html import figures, items, listing, plain, plain_table, seconds, section, whole_page
from gscl_scale.report.node_map import NEAREST
from gscl_scale.report.plots import lines_svg
from gscl_scale.report.provenance import flat
from gscl_scale.report.run_data import Findings
from gscl_scale.report.training_curves import along

Runs = Mapping[str, Findings]
_QUERIES = 2_000


def write_comparison(path: Path, runs: Runs, overlap: npt.NDArray[np.float64] | None) -> None:
    """Publish the page; `overlap` [R, R] as `neighbour_overlap` finds it, None for runs of different graphs."""
    write_text(path, render_comparison(runs, overlap))


def render_comparison(runs: Runs, overlap: npt.NDArray[np.float64] | None) -> str:
    """The page as text."""
    names = ", ".join(dict.fromkeys(found.name for found in runs.values()))
    title = f"{len(runs)} runs on {names}"
    body = [
        f'<header><p class="over">gscl-scale report</p><h1 dir="auto">{escape(title)}</h1>'
        f'<p class="lead">{_headline(runs)}</p>{_care(runs)}</header>',
        section("How good are they?", _figures(runs), listing(_protocols(runs))),
        _loss(runs),
        _settings(runs),
        _alike(runs, overlap),
    ]
    return whole_page(title, body)


def neighbour_overlap(vectors: list[npt.NDArray[np.float32]], seed: int) -> npt.NDArray[np.float64]:
    """Share [R, R] of the 10 nearest nodes by cosine that two of R sets of embeddings [N, d] have in common.

    A mean over a sample of nodes, whose nearest are searched among all N.
    """
    total = vectors[0].shape[0]
    everyone, count = np.arange(total, dtype=np.int64), min(NEAREST, total - 1)
    most = min(total, _QUERIES, most_queries(total, _QUERIES))
    queries = np.sort(seeding.generator("overlap", seed).choice(everyone, most, replace=False))
    if count < 1:
        return np.ones((len(vectors), len(vectors)))
    found = [nearest_nodes(rows, queries, everyone, count)[0] for rows in vectors]
    return np.array([[_common(one, other) for other in found] for one in found])


def _common(one: npt.NDArray[np.int64], other: npt.NDArray[np.int64]) -> float:
    return float((one[:, :, None] == other[:, None, :]).any(axis=2).mean())


# --- sections --------------------------------------------------------------------------------------------------------


def _headline(runs: Runs) -> str:
    reached = {name: _test_accuracy(found) for name, found in runs.items()}
    known = {name: value for name, value in reached.items() if value is not None}
    if not _comparable(runs):
        return "These runs cannot be ranked: they are not of the same graph, or not measured in the same way."
    if len(known) < 2:
        return "Fewer than two of these runs have a test accuracy, so none can be called the better one."
    best = max(known, key=lambda name: known[name])
    second = max(value for name, value in known.items() if name != best)
    return (
        f"<strong>{escape(best)}</strong> reaches the highest test accuracy, {percent(known[best])} %, "
        f"{100 * (known[best] - second):.2f} points above the next."
    )


def _care(runs: Runs) -> str:
    warnings = [f"in {name}, {warning}" for name, found in runs.items() for warning in warnings_of(found.metrics)]
    if not _same_graph(runs):
        warnings.insert(0, "these runs are not of the same graph, so their figures cannot be set against each other")
    elif not _comparable(runs):
        warnings.insert(
            0, "these runs were not measured in the same way: splits, seeds or settings of the probe differ"
        )
    return f'<aside class="note"><h2>Take care</h2>{items(warnings)}</aside>' if warnings else ""


def _figures(runs: Runs) -> str:
    rows = [(name, *(told(found) for found in runs.values())) for name, told in _FIGURES.items()]
    return plain_table("Figures of the trained embeddings, unless named otherwise", ["", *runs], rows)


def _protocols(runs: Runs) -> list[str]:
    first, *others = ([*protocol_sentences(found.metrics)[:1]] for found in runs.values())
    return first if all(other == first for other in others) else []


def _loss(runs: Runs) -> str:
    drawn = lines_svg({name: along(found.curve, "loss") for name, found in runs.items()}, "loss", "step", "loss")
    words = "losses can be compared where the settings of rings and loss are equal."
    return section("How did they get there?", figures((drawn, "Loss per training step;", words)))


def _settings(runs: Runs) -> str:
    settings = [flat(found.config) for found in runs.values()]
    keys = sorted({key for one in settings for key in one})
    rows = [
        (key, *(plain(one[key]) if key in one else "-" for one in settings))
        for key in keys
        if len({str(one.get(key)) for one in settings}) > 1
    ]
    shown = plain_table("Settings that differ", ["setting", *runs], rows) if rows else ""
    return section("What is different?", shown or "<p>All settings are equal.</p>")


def _alike(runs: Runs, overlap: npt.NDArray[np.float64] | None) -> str:
    if overlap is None:
        return ""
    rows = [(name, *(f"{100 * share:.1f} %" for share in shares)) for name, shares in zip(runs, overlap, strict=True)]
    shown = plain_table(f"Share of the {NEAREST} nearest nodes that two runs have in common", ["", *runs], rows)
    return section("Do they see the same neighbours?", shown, listing(["mean over a sample of nodes, by cosine"]))


# --- figures ---------------------------------------------------------------------------------------------------------


def _test_accuracy(found: Findings) -> float | None:
    return found.metrics.get("probe", {}).get("trained", {}).get("test_mean")


def _accuracy(part: Literal["val", "test"], method: Method) -> Callable[[Findings], str]:
    def told(found: Findings) -> str:
        accuracy = found.metrics.get("probe", {}).get(method)
        if accuracy is None:
            return "-"
        mean = accuracy["val_mean"] if part == "val" else accuracy["test_mean"]
        return percent(mean, margin(accuracy, part, found.metrics))

    return told


def _number(*keys: str, digits: int = 3, times: float = 1) -> Callable[[Findings], str]:
    def told(found: Findings) -> str:
        value: Any = found.metrics
        for key in keys:
            value = (value or {}).get(key)
        return "-" if value is None else f"{times * value:.{digits}f}"

    return told


def _training(found: Findings) -> str:
    took = [one["step_s"] for one in found.curve if one.get("step_s")]
    return f"{seconds(sum(took))}, {len(took):,} steps" if took else "-"


def _rate(found: Findings) -> str:
    timed = [one for one in found.curve if one.get("step_s") and one.get("anchors")]
    return f"{sum(one['anchors'] for one in timed) / sum(one['step_s'] for one in timed):,.0f}" if timed else "-"


_FIGURES: dict[str, Callable[[Findings], str]] = {
    "test accuracy, %": _accuracy("test", "trained"),
    **{f"test accuracy of {TITLES[name]}, %": _accuracy("test", name) for name in METHODS[1:]},
    "validation accuracy, %": _accuracy("val", "trained"),
    "NMI of clusters": _number("clusters", "nmi"),
    "Sim@5": _number("search", "sim_at_5"),
    "ranking accuracy, %": _number("rings", "ranking", "accuracy", digits=1, times=100),
    "mean cosine of random pairs": _number("spread", "trained", "mean_cosine"),
    "effective rank": _number("spread", "trained", "effective_rank", digits=1),
    "training": _training,
    "anchors per second": _rate,
}


def _protocol(found: Findings) -> Any:
    protocol = found.metrics.get("probe", {}).get("protocol", {})
    return {key: value for key, value in protocol.items() if key != "val_by_decay"}


def _comparable(runs: Runs) -> bool:
    return _same_graph(runs) and len({str(_protocol(found)) for found in runs.values()}) == 1


def _same_graph(runs: Runs) -> bool:
    return len({found.metrics.get("graph", {}).get("fingerprint") for found in runs.values()}) == 1
