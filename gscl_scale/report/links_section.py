"""How well the embeddings predict edges that they were not trained on."""

from gscl_scale.evaluate.link_summary import LINK_COLUMNS, TASK_TITLES, link_rows
from gscl_scale.evaluate.schema import Metrics
from gscl_scale.report.html import Html, element, html, section, table


def links(metrics: Metrics) -> Html:
    """A table for each kind of non-edges; nothing where no edge was held out."""
    tables = [
        table(f"Held-out edges {title}, in %", ["score", *LINK_COLUMNS], rows, "methods")
        for task, title in TASK_TITLES.items()
        if (rows := link_rows(metrics, task))
    ]
    lead = links_lead(metrics)
    return section("Does it predict links?", element("p", lead) if lead else "", *tables)


def links_lead(metrics: Metrics) -> Html:
    """The figure in a sentence."""
    if not (found := metrics.get("links")):
        return Html()
    random, matched = (found["trained"][task]["auc"] for task in TASK_TITLES)
    before = found["untrained"]["degree_matched"]["auc"] if "untrained" in found else None
    untrained = "" if before is None else f" (untrained encoder: {100 * before:.1f} %)"
    return html(
        "The ends of a held-out edge are more similar than two nodes without an edge in ",
        element("strong", f"{100 * random:.1f} %"),
        f" of comparisons, and in {100 * matched:.1f} % where the other node is drawn by degree{untrained}. "
        "50 % is chance.",
    )
