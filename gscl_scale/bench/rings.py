"""`bench rings`: our engines and other tools on one graph, and our engines on graphs whose balls hold all nodes."""

import os
from dataclasses import asdict

from gscl_scale.bench.graphs import config_graph, graph_setting
from gscl_scale.bench.large_balls import as_json, large_balls_section, measure_large_balls
from gscl_scale.bench.options import Rings
from gscl_scale.bench.tools import Results, entries_of, measure_tools
from gscl_scale.bench.tools_page import packages, tools_section
from gscl_scale.errors import UserError

SECTIONS = ("tools", "large-balls")
_RINGS = {"width", "per_ring", "beyond", "sampling", "sharing"}


def bench_rings(bench: Rings) -> str:
    """Measure, write rings.json and rings.md, and return the page."""
    rings = bench.config.rings
    if bench.only and bench.only not in SECTIONS:
        expected = " or ".join(SECTIONS)
        raise UserError(f"bench rings: --only {bench.only}: expected {expected}; leave it out to measure both")
    if rings.sharing != "shared":
        raise UserError("bench rings: only shared priorities are measured; set rings.sharing to shared")
    load = os.getloadavg()[0]
    results, parts, more = Results(), list[str](), dict[str, object]()
    with bench.scratch() as scratch:
        graph = config_graph(bench, bench.config, scratch)
        if bench.only != "large-balls":
            results = measure_tools(bench, graph)
        entries = entries_of(results, graph)
        if entries:
            parts += tools_section(bench, graph, results, entries)
        if bench.only != "tools":
            graphs = measure_large_balls(bench, graph, scratch)
            parts += large_balls_section(bench, graphs)
            more["large_balls"] = as_json(graphs)
    setting = {
        **graph_setting(graph), "undirected": graph.undirected,
        "rings": rings.model_dump(mode="json", include=_RINGS), "hops": bench.our_depths,
        "peer_hops": bench.peer_depths, "seconds": bench.seconds, "load_before": load,
        "engine_chosen": {str(hops): engine for hops, engine in results.engines_chosen().items()},
        "forms": [
            {"competitor": peer, "hops": hops, "trials": [asdict(trial) for trial in trials]}
            for (peer, hops), trials in results.trials.items()
        ],
        "left_out": results.left_out,
    }  # fmt: skip
    return bench.write("\n\n".join(parts), entries, setting, packages(), **more)
