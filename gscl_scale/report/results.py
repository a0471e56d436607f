"""How good the embeddings are, and whether they rank neighbourhoods."""

from gscl_scale.evaluate.label_summary import (
    Part,
    by_share,
    figure_name,
    has_many_labels,
    part_titles,
    protocol_of,
    task_titles,
)
from gscl_scale.evaluate.schema import METHODS, RANKING, TITLES, Method, Metrics, Rings
from gscl_scale.evaluate.summary import decimal, measured, missing_sentences, protocol_sentences, tasks
from gscl_scale.report.html import Html, element, figures, html, notes, section, small, table, with_std
from gscl_scale.report.links_section import links_lead
from gscl_scale.report.plots import violins_svg


def headline(metrics: Metrics, title: str) -> Html:
    """The result in a sentence."""
    probe = metrics.get("probe")
    reached = probe["trained"]["test_mean"] if probe else None
    if (probe is None or reached is None) and (lead := links_lead(metrics)):
        return html(f"Every node of {title} has an embedding. ", lead)
    if probe is None or reached is None:
        reason = metrics.get("missing", {}).get("probe", "there are no test nodes")
        return html(f"Every node of {title} has an embedding; no accuracy can be given, because {reason}.")
    others: dict[Method, float | None] = {name: probe[name]["test_mean"] for name in METHODS[1:] if name in probe}
    gains = [
        f"{abs(100 * (reached - other)):.1f} points {'above' if reached >= other else 'below'} "
        f"{'the ' * (name == 'untrained')}{TITLES[name]}"
        for name, other in others.items()
        if other is not None
    ]
    strong = element("strong", f"{100 * reached:.2f} %")
    return html(
        "The embeddings reach ",
        strong,
        f" test {figure_name(probe['protocol'])}{', ' * bool(gains)}{' and '.join(gains)}.",
    )


def accuracy(metrics: Metrics) -> Html:
    """The table of figures, with input features and the untrained encoder above the trained one."""
    probe, of_classes = metrics.get("probe", {}), task_titles(metrics)
    titles, figure = part_titles(protocol_of(metrics)), figure_name(protocol_of(metrics))
    rows = []
    for name in (name for name in TITLES if name in probe):
        accuracies = (with_std(*measured(probe[name], part, metrics)) for part in titles)
        rows.append((TITLES[name], *accuracies, *(tasks(metrics, name) if of_classes else ())))
    caption = f"{figure[:1].upper()}{figure[1:]} of a linear probe, agreement of clusters with classes, and search"
    if has_many_labels(metrics):
        share = probe["protocol"].get("train_fraction")
        caption = f"F1 of a linear probe{f' at a train share of {100 * share:g} %' if share else ''}"
    shown = table(caption, ["vectors", *titles.values(), *of_classes], rows, "methods")
    words = notes([*protocol_sentences(metrics), *missing_sentences(metrics)])
    return section("How good are the embeddings?", shown, words)


def by_fraction(metrics: Metrics) -> Html:
    """The figures on test nodes for every train fraction, where there are several."""
    shares, many, titles = by_share(metrics), has_many_labels(metrics), part_titles(protocol_of(metrics))
    names = [name for name in TITLES if all(name in part for _, part in shares)]
    shown_parts: tuple[Part, ...] = ("test", "macro") if many else ("test",)
    rows = []
    for share, part in shares:
        for one in shown_parts:
            accuracies = (with_std(*measured(part[name], one, metrics)) for name in names)
            rows.append(
                (
                    f"{share} of {'nodes, ' + titles[one].removesuffix(' %') if many else 'labels'}",
                    *accuracies,
                )
            )
    shown = table(
        "F1 on test nodes in %" if many else f"Test {figure_name(protocol_of(metrics))} in %",
        ["train share", *(TITLES[name] for name in names)],
        rows,
    )
    return section("With fewer or more labels", shown)


def neighbourhoods(metrics: Metrics) -> Html:
    """Whether nearer nodes are more similar: violins per hop, and how often a nearer node is the more similar one."""
    title, rings = "Does it rank neighbourhoods?", metrics.get("rings")
    if not rings:
        return section(title, small("No ring samples were compared."))
    violins = violins_svg(rings.get("distribution", {}), rings["protocol"]["levels"])
    means = ["-" if mean is None else f"{mean:.2f}" for mean in rings["similarity"]]
    words = (
        "cosine between an anchor and the members of its rings; training should order them by hop. "
        f"Means of the trained encoder: {', '.join(means)}. {rings['protocol']['anchors']:,} anchors"
        f"{', none of them trained on' * rings['protocol'].get('anchors_held_out', False)}."
    )
    drawn = figures((violins, "Similarity per hop:", words), beside=_ranking(rings))
    return section(title, _ranking_lead(rings), drawn)


def _ranking_lead(rings: Rings) -> str:
    reached = rings.get("ranking", {}).get("accuracy")
    if reached is None:
        return ""
    before = rings.get("ranking_untrained", {}).get("accuracy")
    untrained = "" if before is None else f"; with the untrained encoder it is in {100 * before:.1f} %"
    return element(
        "p",
        "In ",
        element("strong", f"{100 * reached:.1f} %"),
        " of pairs of nodes around an anchor, the one that is nearer in the graph is also the more similar one"
        f"{untrained}. 50 % is chance.",
    )


def _ranking(rings: Rings) -> Html:
    found = {name: rings[RANKING[name]] for name in TITLES if RANKING[name] in rings}
    shares = {name: [*ranking["by_hop"], ranking["accuracy"]] for name, ranking in found.items()}
    rows = [(TITLES[name], *(decimal(share, 1, times=100) for share in row)) for name, row in shares.items()]
    hops = max((len(part["by_hop"]) for part in found.values()), default=0)
    names = ["", *(f"hop {hop}" for hop in range(1, hops + 1)), "mean"]
    return table("Ranking accuracy: a member of the hop before any farther node, in %", names, rows)
