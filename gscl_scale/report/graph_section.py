"""The graph, and how it was sampled."""

from gscl_scale.evaluate.graph_statistics import graph_rows, hop_rows, ring_protocol
from gscl_scale.report.html import Html, facts, figures, notes, section, table
from gscl_scale.report.plots import consistency_svg
from gscl_scale.report.run_data import RunData
from gscl_scale.text import format_bytes


def graph(found: RunData) -> Html:
    """Size, degrees, label consistency, rings per hop."""
    statistics = found.statistics
    svg = consistency_svg(statistics)
    words = (
        "mean share of ring n with the label of its anchor, over the anchors that have such a ring; below each hop the "
        "mean size of its ring over all anchors."
    )
    sentences = [
        f"Rings measured from {ring_protocol(statistics)}; ± is one standard error where sampled",
        *found.notes,
    ]
    if not svg:
        reason = "a node has many labels" if "labels_per_node" in statistics else "the graph has no labels"
        sentences.append(f"Label consistency per hop is not given, because {reason}")
    drawn = figures((svg, "Label consistency LC(n):", words), beside=facts(graph_rows(statistics)))
    names = ["", *(f"hop {hop}" for hop in range(1, len(statistics["ring_size"]) + 1))]
    per_hop = [(name.removesuffix(", hop"), *values) for name, values in hop_rows(statistics)]
    return section("The graph", drawn, table("Rings per hop", names, per_hop), notes(sentences))


def sampling(found: RunData) -> Html:
    """What the ring samples hold."""
    samples, last = found.samples, found.last("precompute", "done")
    if not samples:
        return Html()
    rounds, asked = [entry for entry in samples["rounds"] if entry], samples["rounds_asked"]
    engine = str(last.get("engine") or samples["rings"]["engine"])
    pairs = [
        ("rounds", f"{len(rounds)}" + f" of {asked} asked for" * (len(rounds) < asked)),
        ("anchors per round", f"{samples['num_nodes']:,}"),
        ("on disk", format_bytes(sum(part["bytes"] for entry in rounds for part in entry["parts"]))),
        ("engine", engine),
    ]
    if "short" in last:
        pairs.append(("short lists, finished by a search", f"{100 * last['short']:.2f} %"))
    sizes, stored = samples["mean_ring_size"], samples["mean_stored"]
    names = ["", *(f"ring {hop}" for hop in range(1, len(sizes) + 1)), "beyond"]
    rows = [
        ("nodes in it", *(f"{size:,.1f}" for size in sizes), "-"),
        ("stored of them", *(f"{size:,.1f}" for size in stored)),
    ]
    estimated = "; sizes of large rings are estimates of the sketch" * (last.get("engine") == "sketch")
    per_ring = table(f"Per anchor, means over the first round{estimated}", names, rows)
    return section("The samples", facts(pairs), per_ring)
