"""The graph, and how it was sampled."""

from typing import Any

from gscl_scale.evaluate.graph_statistics import GraphStatistics, graph_rows, hop_rows, ring_protocol
from gscl_scale.report.html import facts, figures, head, listing, row, section, table
from gscl_scale.report.plots import consistency_svg
from gscl_scale.report.run_data import Findings
from gscl_scale.text import in_words


def graph(found: Findings) -> str:
    """Size, degrees, label consistency, rings per hop."""
    statistics = found.statistics
    svg = consistency_svg(statistics)
    words = "mean share of ring n with the label of its anchor; below each hop the mean size of its ring."
    sentences = [
        f"Rings measured from {ring_protocol(statistics)}; ± is one standard error where sampled",
        *found.notes,
    ]
    if not svg:
        sentences.append("Label consistency per hop is not given, because the graph has no labels")
    drawn = figures((svg, "Label consistency LC(n):", words), beside=facts(graph_rows(statistics)))
    return section("The graph", drawn, _per_hop(statistics), listing(sentences))


def sampling(found: Findings) -> str:
    """What the ring samples hold."""
    samples = found.samples
    if not samples:
        return ""
    made, last = [entry for entry in samples["rounds"] if entry], found.last("precompute", "done")
    parts = [part for entry in made for part in entry["parts"]]
    rounds = f"{len(made)}" + (
        f" of {samples['rounds_asked']} asked for" if len(made) < samples["rounds_asked"] else ""
    )
    pairs = [
        ("rounds", rounds),
        ("anchors per round", f"{samples['num_nodes']:,}"),
        ("on disk", in_words(sum(part["bytes"] for part in parts))),
        ("engine", str(last.get("engine") or samples["rings"]["engine"])),
    ]
    if "short" in last:
        pairs.append(("short lists, finished by a search", f"{100 * last['short']:.2f} %"))
    return section("The samples", facts(pairs), _stored(samples, last.get("engine") == "sketch"))


def _stored(samples: dict[str, Any], estimated: bool) -> str:
    names = [*(f"ring {hop}" for hop in range(1, len(samples["mean_ring_size"]) + 1)), "beyond"]
    sizes = [f"{size:,.1f}" for size in samples["mean_ring_size"]]
    rows = row("nodes in it", *sizes, "-") + row("stored of them", *(f"{size:,.1f}" for size in samples["mean_stored"]))
    told = "; sizes of large rings are estimates of the sketch" if estimated else ""
    return table(f"Per anchor, means over the first round{told}", head("", *names), rows)


def _per_hop(statistics: GraphStatistics) -> str:
    names = head("", *(f"hop {hop}" for hop in range(1, len(statistics["ring_size"]) + 1)))
    rows = "".join(row(name.removesuffix(", hop"), *values) for name, values in hop_rows(statistics))
    return table("Rings per hop", names, rows)
