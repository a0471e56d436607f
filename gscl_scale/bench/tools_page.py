"""The section about other tools on the page of `bench rings`."""

from collections.abc import Sequence

from gscl_scale.bench.graphs import describe, describe_lists
from gscl_scale.bench.harness import Columns, table_of
from gscl_scale.bench.options import Rings
from gscl_scale.bench.peers import PEERS
from gscl_scale.bench.tools import OURS, Competitor, Results, peer_depth, ring_names
from gscl_scale.graph.graph import Graph
from gscl_scale.text import format_count


def tools_section(bench: Rings, graph: Graph, results: Results, entries: Sequence[Competitor]) -> list[str]:
    """A sentence about the setting, the table, our best engine, its batches, and notes about the peers."""
    rings = bench.config.rings
    arcs = "every edge walked both ways" if graph.undirected else "edges walked as directed"
    sentence = (
        f"Hop rings of {describe(graph, arcs)} on {bench.machine}. The engines `auto` and `sketch` sample the rings of "
        f"*every* node ({describe_lists(rings)}, {rings.sampling}), write them and read them back with checksums; all "
        f"of that is in their time. `exact` and the other tools are timed on random nodes for {bench.seconds:g} s, and "
        "`all nodes` is extrapolated. The other tools only list whole rings: they draw and write nothing. *scipy rows "
        "and numpy marks* is not a tool but a search written in numpy for this comparison. One process per core, one "
        f"competitor after the other. `{bench.command}` makes this table:"
    )
    depths = [entry.hops for entry in entries if entry.competitor not in OURS]
    table = _table(entries, results.engines_chosen(), depths)
    return [sentence, table, *_best(entries, depths), *_batch(entries), _notes(bench, results, entries)]


def _table(entries: Sequence[Competitor], chosen: dict[int, str], depths: Sequence[int]) -> str:
    labels = {
        "auto": "**gscl-scale `auto`** (it chose {chosen})", "sketch": "**gscl-scale `sketch`**",
        "exact": "gscl-scale `exact`, search only",
    }  # fmt: skip
    columns: Columns[Competitor] = {
        "k": lambda row: str(row.hops),
        "competitor": lambda row: labels.get(row.competitor, row.competitor).format(chosen=chosen.get(row.hops)),
        "nodes/s": lambda row: f"{row['anchors_per_second']:,.0f}",
        "x best tool": lambda row: _to_best_tool(row, depths),
        "all nodes": _all_nodes,
        "edge visits/s": lambda row: format_count(row["edge_visits_per_second"]),
        "peak memory": lambda row: f"{row['peak_memory'] / 1e6:,.0f} MB",
        "written": lambda row: f"{row['bytes_written'] / 1e6:,.0f} MB" if "bytes_written" in row.figures else "-",
    }
    fastest_first = sorted(entries, key=lambda entry: (entry.hops, -entry["anchors_per_second"]))
    return table_of(fastest_first, columns, left=[1])


def _to_best_tool(row: Competitor, depths: Sequence[int]) -> str:
    """The ratio to the best peer, with the peer's depth if it is another."""
    if "ratio_to_best_peer" not in row.figures:
        return "-"
    depth = peer_depth(row.hops, depths)
    return _times(row["ratio_to_best_peer"]) + ("" if depth == row.hops else f" (its k = {depth})")


def _all_nodes(row: Competitor) -> str:
    if "seconds" in row.figures:
        return _duration(row["seconds"])
    return f"about {_duration(row['all_anchors_extrapolated'])}"


def _best(entries: Sequence[Competitor], depths: Sequence[int]) -> list[str]:
    """The faster of our engines against each peer, a paragraph per depth."""
    rounds = [entry for entry in entries if "short_share" in entry.figures]
    paragraphs = []
    for hops in sorted({entry.hops for entry in rounds}):
        best = max((entry for entry in rounds if entry.hops == hops), key=lambda entry: entry["anchors_per_second"])
        ratios = sorted((best[name], name[9:]) for name in best.figures if name.startswith("ratio_to "))
        listed = ", ".join(f"{_times(ratio)} {peer}" for ratio, peer in ratios)
        against = f"against each other tool at k = {peer_depth(hops, depths)}: {listed}" if ratios else "stands alone"
        paragraphs.append(
            f"`{best.competitor}` at k = {hops} {against}. "
            f"The exact engine finished {best['short_share']:.2%} of its lists; reading back took "
            f"{best['verify_seconds']:.2f} s of its {best['seconds']:.2f} s; it used {best['cores_used']:.1f} cores."
        )
    return paragraphs


def _batch(entries: Sequence[Competitor]) -> list[str]:
    """References and distinct nodes of a batch, at the deepest depth that was written."""
    rounds = [entry for entry in entries if "short_share" in entry.figures]
    if not rounds:
        return []
    deepest = max(rounds, key=lambda entry: entry.hops)

    def figure(kind: str, place: str) -> float:
        return deepest[f"batch_{kind}_{place}"]

    columns: Columns[str] = {
        "": lambda place: place.replace("_", " "),
        "references": lambda place: f"{figure('references', place):,.0f}",
        "distinct nodes": lambda place: f"{figure('distinct', place):,.0f}",
        "references per node": lambda place: f"{figure('references', place) / max(1, figure('distinct', place)):.1f}",
    }
    return [
        f"A batch of 4,096 random nodes at k = {deepest.hops}, up to 16 of each ring: shared priorities make it refer "
        "to few distinct nodes.",
        table_of(ring_names(deepest.hops), columns, left=[0]),
    ]


def _notes(bench: Rings, results: Results, entries: Sequence[Competitor]) -> str:
    """The form of each peer that was measured, the peers that are left out, and versions."""
    measured = {(entry.competitor, entry.hops): entry for entry in entries}
    lines = []
    for (peer, hops), (fastest, *slower) in results.trials.items():
        entry = measured[peer, hops]
        others = ", ".join(
            f"{trial.form} {trial.anchors_per_second:,.0f}" + (" (wrong rings)" if trial.wrong else "")
            for trial in slower
        )
        lines.append(
            f"- {peer}, k = {hops}: {fastest.form}, the fastest form here; {entry['anchors_measured']:,.0f} nodes "
            f"measured on {entry['cores_used']:.1f} of {len(bench.core_ids)} cores"
            + (f"; on one core, nodes/s in a short trial: {others}" if others else "")
        )
    lines += [f"- left out: {name}: {reason}" for name, reason in results.left_out.items()]
    versions = ", ".join(f"{name} {number}" for name, number in bench.versions(packages()).items())
    return "\n".join([*lines, f"- versions: {versions}"])


def packages() -> list[str]:
    """The installed packages whose versions the page names."""
    return ["numpy", *sorted({peer.package.replace("_", "-") for peer in PEERS if peer.is_installed()})]


def _times(ratio: float) -> str:
    return f"{ratio:,.0f} x" if ratio >= 10 else f"{ratio:.2g} x"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:,.0f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"
