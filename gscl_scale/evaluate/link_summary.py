"""The figures of link prediction in words: a table, how they were measured, and a warning."""

from gscl_scale.evaluate.link_schema import LINK_FIGURES, LinkMethod, LinksProtocol, LinkTask, LinkTasks
from gscl_scale.evaluate.schema import Metrics

LINK_TITLES: dict[LinkMethod, str] = {
    "preferential_attachment": "preferential attachment",
    "adamic_adar": "Adamic-Adar",
    "raw": "input features",
    "untrained": "untrained encoder",
    "trained": "trained encoder",
}
LINK_COLUMNS = ["AUC %", "AP %", "Hits@10 %", "MRR %"]
TASK_TITLES: dict[LinkTask, str] = {
    "random": "against random nodes",
    "degree_matched": "against nodes drawn by degree",
}


def link_rows(metrics: Metrics, task: LinkTask) -> list[tuple[str, ...]]:
    """A row per method, with the figures in per cent."""
    links = metrics.get("links")
    if not links:
        return []
    return [
        (LINK_TITLES[name], *(f"{100 * links[name][task][figure]:.1f}" for figure in LINK_FIGURES))
        for name in LINK_TITLES
        if name in links
    ]


def links_table(metrics: Metrics) -> tuple[list[str], list[tuple[str, ...]]]:
    """(headers, one row per method), each figure against random nodes / against nodes drawn by degree."""
    random, matched = (link_rows(metrics, task) for task in TASK_TITLES)
    rows = [
        (title, *(f"{one} / {other}" for one, other in zip(figures, by_degree, strict=True)))
        for (title, *figures), (_, *by_degree) in zip(random, matched, strict=True)
    ]
    return ["links", *LINK_COLUMNS], rows


def link_aucs(links: LinkTasks) -> str:
    """AUC in per cent against both kinds of non-edges."""
    return " / ".join(f"{100 * links[task]['auc']:.1f}" for task in TASK_TITLES)


def link_sentences(metrics: Metrics) -> list[str]:
    """How links were measured."""
    return [links_sentence(links["protocol"])] if (links := metrics.get("links")) else []


def links_sentence(protocol: LinksProtocol) -> str:
    """How links were measured, by the protocol."""
    sample = f" (a sample of {protocol['test']:,})" if protocol["sampled"] else ""
    apart = (
        f"; {protocol['validation']:,} others are kept to choose epochs and settings" if protocol["validation"] else ""
    )
    return (
        f"Links: {protocol['edges']:,} held-out edges{sample}, each against {protocol['non_edges']} pairs of one of "
        f"its ends and a node without an edge to it: a random one / one drawn by degree{apart}. Vectors score a pair "
        "by cosine; AUC and average precision (AP) weigh non-edges as one per edge; Hits@10 and mean reciprocal rank "
        "(MRR) are of the rank among the pairs of an edge."
    )


def missing_link_sentences(metrics: Metrics) -> list[str]:
    """How to get figures of links, where there are none of labels either."""
    if "probe" in metrics or "links" in metrics or "links" in metrics.get("missing", {}):
        return []
    return [
        "To measure the embeddings without labels, by link prediction: use a new run folder (--run) and add "
        "--set evaluate.held_out_edges=0.1"
    ]
