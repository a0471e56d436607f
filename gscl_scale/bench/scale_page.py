"""The page of `bench scale`, from what its JSON file holds."""

from typing import Any

from gscl_scale.markdown import cores_of, table, turns_of


def scale_page(written: dict[str, Any]) -> str:
    """Markdown: one sentence about the setting, the table, and what follows from it."""
    setting, rings = written["setting"], written["setting"]["rings"]
    sentence = (
        f"Ring samples of every node of synthetic graphs with communities and hubs: k = {rings['hops']}, "
        f"{rings['per_ring']} per ring, {rings['beyond']} beyond, width {rings['width']}, one round, written and read "
        f"back with checksums, all of it in the time; {cores_of(setting['cores'])} of {setting['processor']}, "
        f"{turns_of(setting['turns'])}. Memory is the peak of all processes together, files that they map included; "
        "cores used are seconds of processor per second, fewer than workers where others keep the machine busy. "
        f"`{setting['command']}` makes this table:"
    )
    return "\n\n".join([sentence, _measured(written["rows"]), *_found(written)])


def _measured(rows: list[dict[str, Any]]) -> str:
    figures: dict[tuple[int, int, int, str], dict[str, float]] = {}
    for row in rows:
        key = row["edges"], row["nodes"], row["workers"], row["engine"]
        figures.setdefault(key, {})[row["figure"]] = row["value"]
    lines = [
        [
            f"{nodes:,}",
            f"{edges:,}",
            str(workers),
            engine,
            f"{of['seconds']:,.1f} s",
            f"{of['anchors_per_second']:,.0f}",
            f"{of['peak_memory'] / 1e9:,.2f} GB",
            f"{of['bytes_written'] / 1e9:,.2f} GB",
            f"{of['short_share']:.2%}",
            f"{of['cores_used']:.1f}",
        ]
        for (edges, nodes, workers, engine), of in figures.items()
    ]
    headers = [
        "nodes",
        "edges",
        "workers",
        "engine",
        "time",
        "nodes/s",
        "peak memory",
        "written",
        "short lists",
        "cores used",
    ]
    return table(headers, lines, left=(3,))


def _found(written: dict[str, Any]) -> list[str]:
    """What the table says about workers and growth, a paragraph each."""
    told = []
    if "speedup" in written:
        fewest, most = written["speedup"]["workers"]
        told.append(
            f"On the largest graph, {most} workers are {written['speedup']['value']:.2f} times as fast as {fewest}."
        )
    if "fit" in written:
        fit, papers = written["fit"], written["papers100m"]
        told.append(
            f"With {fit['workers']} workers time grows as edges to the power of {fit['exponent']:.2f} (a straight line "
            f"in logarithms); as a line it is {fit['fixed']:.2f} s and {fit['slope'] * 1e6:.2f} s per million edges."
        )
        told.append(
            f"An extrapolation, not a measurement: papers100M ({papers['nodes']:,} nodes, {papers['edges']:,} edges) "
            f"would take {papers['core_minutes_by_line']:,.0f} core-minutes by the line and "
            f"{papers['core_minutes_by_power']:,.0f} by the power law, on a machine whose memory holds what is mapped."
        )
    return told
