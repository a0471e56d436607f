"""The page of `bench rings`, from what its JSON file holds."""

from collections.abc import Sequence
from typing import Any

from gscl_scale.bench.large_balls_page import large_balls
from gscl_scale.text import amount, cores_of, table, turns_of

_OURS = ("auto", "sketch", "exact")

Figures = dict[tuple[str, int], dict[str, float]]  # (competitor, hops) -> figure -> value


def rings_page(written: dict[str, Any]) -> str:
    """Markdown: the sections that were measured, one after the other."""
    setting = written["setting"]
    parts = _tools(setting, written["rows"]) if written["rows"] else []
    parts += large_balls(setting, written["large_balls"]) if "large_balls" in written else []
    return "\n\n".join(parts)


def _tools(setting: dict[str, Any], rows: Sequence[dict[str, Any]]) -> list[str]:
    """One sentence about the setting, the table, the batch, and what the peers were asked."""
    figures: Figures = {}
    for row in rows:
        figures.setdefault((row["competitor"], row["hops"]), {})[row["figure"]] = row["value"]
    parts = [_sentence(setting), _competitors(setting, figures), *_best(figures), *_batch(figures)]
    return [*parts, *_notes(setting, figures)]


def peer_depth(hops: int, measured: Sequence[int]) -> int:
    """The depth of the peers beside ours: the same where they were measured, else their deepest; 0 if there is none."""
    return hops if hops in measured else max(measured, default=0)


def _sentence(setting: dict[str, Any]) -> str:
    rings = setting["rings"]
    arcs = "every edge walked both ways" if setting["undirected"] else "edges walked as directed"
    return (
        f"Hop rings of `{setting['graph']}` ({setting['nodes']:,} nodes, {setting['entries']:,} directed entries, "
        f"{arcs}) on {cores_of(setting['cores'])} of {setting['processor']}. The engines `auto` and `sketch` sample "
        f"the rings of *every* node ({rings['per_ring']} per ring, {rings['beyond']} beyond, width {rings['width']}, "
        f"{rings['sampling']}), write them and read them back with checksums, and all of that is in their time; "
        f"`exact` and the other tools are timed on random nodes for {setting['seconds']:g} s, and `all nodes` is "
        f"extrapolated. The other tools only list whole rings: they draw and write nothing. *scipy rows and numpy "
        f"marks* is no tool but a search written in numpy for this comparison. One process per core, "
        f"one competitor after the other, {turns_of(setting['turns'])}. `{setting['command']}` makes this table:"
    )


def _competitors(setting: dict[str, Any], figures: Figures) -> str:
    fastest_first = sorted(figures.items(), key=lambda item: (item[0][1], -item[1]["anchors_per_second"]))
    lines = [
        [
            str(hops),
            _label(name, hops, setting),
            f"{of['anchors_per_second']:,.0f}",
            _against(figures, hops, of),
            _duration(of["seconds"]) if "seconds" in of else f"about {_duration(of['all_anchors_extrapolated'])}",
            amount(of["edge_visits_per_second"]),
            f"{of['peak_memory'] / 1e6:,.0f} MB",
            f"{of['bytes_written'] / 1e6:,.0f} MB" if "bytes_written" in of else "-",
        ]
        for (name, hops), of in fastest_first
    ]
    headers = ["k", "competitor", "nodes/s", "x best tool", "all nodes", "edge visits/s", "peak memory", "written"]
    return table(headers, lines, left=(1,))


def _against(figures: Figures, hops: int, of: dict[str, float]) -> str:
    """The ratio to the best peer, with the peer's depth where it is another."""
    if "ratio_to_best_peer" not in of:
        return "-"
    depth = _beside(figures, hops)
    return _times(of["ratio_to_best_peer"]) + ("" if depth == hops else f" (its k = {depth})")


def _best(figures: Figures) -> list[str]:
    """The faster of our engines against each peer, a paragraph per depth."""
    written = [key for key, of in figures.items() if "short_share" in of]
    told = []
    for hops in sorted({hops for _, hops in written}):
        name = max((n for n, h in written if h == hops), key=lambda n: figures[n, hops]["anchors_per_second"])
        of = figures[name, hops]
        ratios = {key.removeprefix("ratio_to "): value for key, value in of.items() if key.startswith("ratio_to ")}
        listed = ", ".join(f"{_times(ratio)} {peer}" for peer, ratio in sorted(ratios.items(), key=lambda i: i[1]))
        beside = f"against each other tool at k = {_beside(figures, hops)}: {listed}" if listed else "stands alone"
        told.append(
            f"`{name}` at k = {hops} {beside}. "
            f"The exact engine finished {of['short_share']:.2%} of its lists; reading back took "
            f"{of['verify_seconds']:.2f} s of its {of['seconds']:.2f} s; it used {of['cores_used']:.1f} cores."
        )
    return told


def _batch(figures: Figures) -> list[str]:
    """References and distinct nodes of a batch, at the deepest depth that was written."""
    written = [key for key, of in figures.items() if "batch_distinct_all_rings" in of]
    if not written:
        return []
    name, hops = max(written, key=lambda key: key[1])
    of = figures[name, hops]
    places = [*(f"ring_{hop}" for hop in range(1, hops + 1)), "all_rings"]
    lines = [
        [
            place.replace("_", " "),
            f"{of[f'batch_references_{place}']:,.0f}",
            f"{of[f'batch_distinct_{place}']:,.0f}",
            f"{of[f'batch_references_{place}'] / max(1, of[f'batch_distinct_{place}']):.1f}",
        ]
        for place in places
    ]
    return [
        f"A batch of 4,096 random nodes at k = {hops}, up to 16 of each ring: shared priorities make it refer to few "
        "distinct nodes.",
        table(["", "references", "distinct nodes", "references per node"], lines, left=(0,)),
    ]


def _notes(setting: dict[str, Any], figures: Figures) -> list[str]:
    lines = []
    for entry in setting["forms"]:
        of = figures.get((entry["competitor"], entry["hops"]))
        if of:
            others = ", ".join(
                f"{trial['form']} {trial['anchors_per_second']:,.0f}" + (" (wrong rings)" if trial["wrong"] else "")
                for trial in entry["trials"][1:]
            )
            lines.append(
                f"- {entry['competitor']}, k = {entry['hops']}: {entry['trials'][0]['form']}, the fastest form here; "
                f"{of['anchors_measured']:,.0f} nodes measured, {of['cores_used']:.1f} of {setting['cores']} cores got"
                + (f"; one core, nodes/s in a short trial: {others}" if others else "")
            )
    lines += [f"- left out: {name}: {reason}" for name, reason in setting["left_out"].items()]
    versions = ", ".join(f"{name} {number}" for name, number in setting["versions"].items())
    return ["\n".join([*lines, f"- versions: {versions}"])]


def _label(name: str, hops: int, setting: dict[str, Any]) -> str:
    if name == "auto":
        return f"**gscl-scale `auto`** (it chose {setting['engine_chosen'][str(hops)]})"
    if name == "exact":
        return "gscl-scale `exact`, search only"
    return f"**gscl-scale `{name}`**" if name in _OURS else name


def _beside(figures: Figures, hops: int) -> int:
    """The depth of the peers beside ours."""
    return peer_depth(hops, [depth for name, depth in figures if name not in _OURS])


def _times(ratio: float) -> str:
    return f"{ratio:,.0f} x" if ratio >= 10 else f"{ratio:.2g} x"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:,.0f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"
