"""How good the embeddings are, and whether they rank neighbourhoods."""

from html import escape

from gscl_scale.evaluate.schema import METHODS, RANKING, Method, Metrics, Rings
from gscl_scale.evaluate.summary import TITLES, margin, missing_sentences, protocol_sentences, tasks
from gscl_scale.report.html import figures, head, items, listing, plain_table, section, table, with_std
from gscl_scale.report.plots import violins_svg


def headline(metrics: Metrics, title: str) -> str:
    """The result in a sentence."""
    probe = metrics.get("probe")
    reached = probe["trained"]["test_mean"] if probe else None
    if probe is None or reached is None:
        reason = metrics.get("missing", {}).get("probe", "there are no test nodes")
        return f"Every node of {escape(title)} has an embedding; no accuracy can be given, because {escape(reason)}."
    others: dict[Method, float | None] = {name: probe[name]["test_mean"] for name in METHODS[1:] if name in probe}
    gains = [
        f"{abs(100 * (reached - other)):.1f} points {'above' if reached >= other else 'below'} "
        f"{'the ' * (name == 'untrained')}{TITLES[name]}"
        for name, other in others.items()
        if other is not None
    ]
    beside = f", {' and '.join(gains)}" if gains else ""
    return f"The embeddings reach <strong>{100 * reached:.2f} %</strong> test accuracy{beside}."


def take_care(warnings: list[str]) -> str:
    """What a reader should be wary of; nothing where there is nothing."""
    return f'<aside class="note"><h2>Take care</h2>{items(warnings)}</aside>' if warnings else ""


def accuracy(metrics: Metrics) -> str:
    """The table of figures, with raw features and the untrained encoder beside the trained one."""
    words = listing([*protocol_sentences(metrics), *missing_sentences(metrics)])
    shown = ""
    if "probe" in metrics:
        names = head("vectors", "validation %", "test %", "NMI", "Sim@5")
        rows = "".join(_method_row(metrics, name) for name in TITLES if name in metrics["probe"])
        shown = table("Accuracy of a linear probe, agreement of clusters with classes, and search", names, rows)
    return section("How good are the embeddings?", shown, words)


def by_fraction(metrics: Metrics) -> str:
    """Test accuracy for every train fraction, where there are several."""
    sections = metrics.get("probe_by_fraction", {})
    if not sections:
        return ""
    names = [name for name in TITLES if name in next(iter(sections.values()))]
    rows = "".join(
        f'<tr><th scope="row">{100 * float(fraction):g} % of labels</th>'
        + "".join(
            f"<td>{with_std(part[name]['test_mean'], margin(part[name], 'test', metrics))}</td>" for name in names
        )
        + "</tr>"
        for fraction, part in sections.items()
    )
    shown = table("Test accuracy in %", head("train share", *(TITLES[name] for name in names)), rows)
    return section("With fewer or more labels", shown)


def neighbourhoods(metrics: Metrics) -> str:
    """Whether nearer nodes are more similar: violins per hop, and how often a nearer node is the more similar one."""
    title, rings = "Does it rank neighbourhoods?", metrics.get("rings")
    if not rings:
        return section(title, '<p class="small">No ring samples were compared.</p>')
    violins = violins_svg(rings.get("distribution", {}), rings["protocol"]["levels"])
    drawn = figures((violins, "Similarity per hop:", _ring_words(rings)), beside=_ranking(rings))
    return section(title, _ranking_lead(rings), drawn)


def _method_row(metrics: Metrics, name: Method) -> str:
    probe = metrics["probe"][name]
    cells = [
        f"<td>{with_std(probe['val_mean'], margin(probe, 'val', metrics))}</td>",
        f'<td class="key">{with_std(probe["test_mean"], margin(probe, "test", metrics))}</td>',
        *(f"<td>{value}</td>" for value in tasks(metrics, name)),
    ]
    own = ' class="own"' if name == "trained" else ""
    return f'<tr{own}><th scope="row">{TITLES[name]}</th>{"".join(cells)}</tr>'


def _ring_words(rings: Rings) -> str:
    means = ["-" if mean is None else f"{mean:.2f}" for mean in rings["similarity"]]
    return (
        "cosine between an anchor and the members of its rings; training should order them by hop. "
        f"Means of the trained encoder: {', '.join(means)}. {rings['protocol']['anchors']:,} anchors"
        f"{', none of them trained on' if rings['protocol'].get('anchors_held_out') else ''}."
    )


def _ranking_lead(rings: Rings) -> str:
    reached = rings.get("ranking", {}).get("accuracy")
    if reached is None:
        return ""
    before = rings.get("ranking_untrained", {}).get("accuracy")
    beside = "" if before is None else f"; with the untrained encoder it is in {100 * before:.1f} %"
    return (
        f"<p>In <strong>{100 * reached:.1f} %</strong> of pairs of nodes around an anchor, the one that is nearer in "
        f"the graph is also the more similar one{beside}. 50 % is chance.</p>"
    )


def _ranking(rings: Rings) -> str:
    found = {name: rings[RANKING[name]] for name in TITLES if RANKING[name] in rings}
    if not found:
        return ""
    hops = len(next(iter(found.values()))["by_hop"])
    rows = [
        (TITLES[name], *(_share(share) for share in part["by_hop"]), _share(part["accuracy"]))
        for name, part in found.items()
    ]
    names = ["", *(f"hop {hop}" for hop in range(1, hops + 1)), "mean"]
    return plain_table("Ranking accuracy: a member of the hop before any farther node, in %", names, rows)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"
