"""Runs side by side on one page: figures, loss, settings that differ, and how alike their neighbourhoods are."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding
from gscl_scale.evaluate.label_summary import figure_name
from gscl_scale.evaluate.link_summary import TASK_TITLES
from gscl_scale.evaluate.schema import METHODS, TITLES
from gscl_scale.evaluate.search import most_queries, nearest_nodes
from gscl_scale.evaluate.summary import decimal, measured, percent, protocol_sentences, tasks, warnings_of
from gscl_scale.io.atomic import write_text
from gscl_scale.report.agreement import (
    PARTS,
    Runs,
    cure_of_tuning,
    differences_in_measuring,
    differing_parts,
    why_not_comparable,
)
from gscl_scale.report.html import (
    CARE,
    Html,
    care,
    care_link,
    element,
    figures,
    html,
    notes,
    page_head,
    plain,
    seconds,
    section,
    table,
    whole_page,
)
from gscl_scale.report.node_map import NEAREST
from gscl_scale.report.plots import lines_svg
from gscl_scale.report.provenance import flat_settings
from gscl_scale.report.run_data import RunData
from gscl_scale.report.training_curves import speed, step_curve
from gscl_scale.text import join_names

_QUERIES = 2_000


def write_comparison(path: Path, runs: Runs, overlap: npt.NDArray[np.float64] | None) -> None:
    """Publish the page; `overlap` [R, R] is that of `neighbour_overlap`, None for runs of different nodes."""
    title = f"{len(runs)} runs on {', '.join(dict.fromkeys(found.name for found in runs.values()))}"
    warnings = _warnings(runs)
    sections = [
        ("Figures", _figures(runs)),
        (CARE, care(warnings)),
        ("Training", _loss(runs)),
        ("Differences", section("What is different?", _parts(runs), _settings(runs))),
        ("Neighbours", _overlap(runs, overlap)),
    ]
    head = page_head("", title, _headline(runs), care_link(warnings))
    write_text(path, whole_page(title, head, sections))


def neighbour_overlap(vectors: list[npt.NDArray[np.float32]]) -> npt.NDArray[np.float64]:
    """Share [R, R] of the 10 nearest nodes by cosine that two of R sets of embeddings [N, d] have in common.

    A mean over a sample of nodes, whose nearest are searched among all N.
    """
    total = vectors[0].shape[0]
    everyone, count = np.arange(total, dtype=np.int64), min(NEAREST, total - 1)
    queries = seeding.sample(everyone, most_queries(total, _QUERIES), "overlap", 0)
    if count < 1:
        return np.ones((len(vectors), len(vectors)))
    nearest = [nearest_nodes(rows, queries, everyone, count)[0] for rows in vectors]
    return np.array(
        [[(one[:, :, None] == other[:, None, :]).any(axis=2).mean() for other in nearest] for one in nearest]
    )


# --- sections --------------------------------------------------------------------------------------------------------


def _headline(runs: Runs) -> Html:
    if reason := why_not_comparable(runs):
        return html(" ".join(filter(None, [f"These runs cannot be ranked, because {reason}.", cure_of_tuning(runs)])))
    known, what = _accuracies(runs), f"test {_figure(runs)}"
    if not known:
        known, what = _link_aucs(runs), "AUC of held-out edges against nodes drawn by degree"
    if len(known) < 2:
        return html(f"Fewer than two of these runs have a test {_figure(runs)}, so none can be called the better one.")
    best = max(known, key=lambda name: known[name])
    second = max(value for name, value in known.items() if name != best)
    words = f"{percent(known[best])} %, {100 * (known[best] - second):.2f} points above the next."
    return html(element("strong", best), f" reaches the highest {what}, {words}")


def _accuracies(runs: Runs) -> dict[str, float]:
    reached = {name: found.metrics["probe"]["trained"] for name, found in runs.items() if "probe" in found.metrics}
    return {name: one["test_mean"] for name, one in reached.items() if one["test_mean"] is not None}


def _link_aucs(runs: Runs) -> dict[str, float]:
    """The AUCs by which runs without labels are ranked; none where edges differ, or how links were measured."""
    links = {name: found.metrics["links"] for name, found in runs.items() if "links" in found.metrics}
    alike = len({str(one["protocol"]) for one in links.values()}) == 1 and "edges" not in differing_parts(runs)
    return {name: one["trained"]["degree_matched"]["auc"] for name, one in links.items()} if alike else {}


def _warnings(runs: Runs) -> list[str]:
    warnings = [f"in {name}, {warning}" for name, found in runs.items() for warning in warnings_of(found.metrics)]
    if reason := why_not_comparable(runs):
        return [f"the figures of these runs cannot be set against each other, because {reason}", *warnings]
    if keys := differences_in_measuring(runs):
        return [
            f"the same nodes were measured, but not with the same probe: {', '.join(keys).replace('_', ' ')} differ",
            *warnings,
        ]
    return warnings


def _figures(runs: Runs) -> Html:
    columns = [_figures_of(found, _figure(runs)) for found in runs.values()]
    names = [name for name in columns[0] if any(column[name] != "-" for column in columns)]
    rows = [(name, *(column[name] for column in columns)) for name in names]
    shown = table("Figures of the trained embeddings, unless named otherwise", ["", *runs], rows)
    first, *others = (protocol_sentences(found.metrics)[:1] for found in runs.values())
    words = first if all(other == first for other in others) else []
    if "edges" in differing_parts(runs):
        words = [*words, "ranking accuracy and links are measured on the edges of each run, which differ"]
    return section("How good are they?", shown, notes(words))


def _loss(runs: Runs) -> Html:
    drawn = lines_svg({name: step_curve(found.curve, "loss") for name, found in runs.items()}, "loss", "step", "loss")
    words = "losses can be compared where the settings of rings and loss are equal."
    return section("How did they get there?", figures((drawn, "Loss per training step;", words)))


def _parts(runs: Runs) -> Html:
    """What is the same of the graphs in words, and a table of what is not."""
    differing = differing_parts(runs)
    if not differing:
        return element("p", "All runs are of the same graph.")
    rows = [(part, *(_size_of(found, part) for found in runs.values())) for part in differing]
    same = [part for part in PARTS if part not in differing]
    return html(
        table("Parts of the graphs that differ", ["part", *runs], rows),
        notes([f"the same in all runs: {join_names(same)}" if same else "no part is the same"]),
    )


def _size_of(found: RunData, part: str) -> str:
    statistics, graph = found.statistics, found.graph
    structural = f", {graph.num_structural:,} of the structure" if graph is not None and graph.num_structural else ""
    return {
        "nodes": f"{statistics['nodes']:,}",
        "labels": f"{statistics['labelled']:,} nodes in {statistics['classes']:,} classes",
        "splits": ", ".join(graph.splits) if graph is not None and graph.splits else "none",
        "edges": f"{statistics['edges']:,}",
        "features": f"{statistics['features']:,}{structural}",
    }[part]


def _settings(runs: Runs) -> Html:
    settings = [flat_settings(found.config) for found in runs.values()]
    keys = sorted({key for one in settings for key in one})
    rows = [
        (key, *(plain(one[key]) if key in one else "-" for one in settings))
        for key in keys
        if len({str(one.get(key)) for one in settings}) > 1
    ]
    return table("Settings that differ", ["setting", *runs], rows) or element("p", "All settings are equal.")


def _overlap(runs: Runs, overlap: npt.NDArray[np.float64] | None) -> Html:
    if overlap is None:
        return Html()
    rows = [(name, *(f"{100 * share:.1f} %" for share in shares)) for name, shares in zip(runs, overlap, strict=True)]
    shown = table(f"Share of the {NEAREST} nearest nodes that two runs have in common", ["", *runs], rows)
    return section("Do they see the same neighbours?", shown, notes(["mean over a sample of nodes, by cosine"]))


def _figure(runs: Runs) -> str:
    """What the probes of the runs measure."""
    protocols = [found.metrics["probe"]["protocol"] for found in runs.values() if "probe" in found.metrics]
    return " or ".join(sorted({figure_name(protocol) for protocol in protocols})) or figure_name(None)


def _figures_of(found: RunData, figure: str) -> dict[str, str]:
    metrics = found.metrics
    probe, ranking = metrics.get("probe", {}), metrics.get("rings", {}).get("ranking", {}).get("accuracy")
    spread = metrics.get("spread", {}).get("trained")
    nmi, search = tasks(metrics, "trained")
    links = metrics.get("links")
    took, rate = speed(found.curve)
    macro = percent(*measured(probe["trained"], "macro", metrics)) if probe else "-"
    test = {name: percent(*measured(probe[name], "test", metrics)) if name in probe else "-" for name in METHODS}
    return {
        f"test {figure}, %": test["trained"],
        **{f"test {figure} of {TITLES[name]}, %": test[name] for name in METHODS[1:]},
        f"validation {figure}, %": percent(*measured(probe["trained"], "val", metrics)) if probe else "-",
        **({"test macro-F1, %": macro} if "F1" in figure else {}),
        "NMI of clusters": nmi,
        "Sim@5": search,
        "ranking accuracy, %": decimal(ranking, 1, times=100),
        **{
            f"AUC of links {title}, %": decimal(links["trained"][task]["auc"], 1, times=100) if links else "-"
            for task, title in TASK_TITLES.items()
        },
        "mean cosine of random pairs": decimal(spread["mean_cosine"] if spread else None),
        "effective rank": decimal(spread["effective_rank"] if spread else None, 1),
        "training": f"{seconds(took)}, {len(found.curve):,} steps" if took else "-",
        "anchors per second": f"{rate:,.0f}" if rate else "-",
    }
