"""`bench rings`: our engines and other tools on one graph, and our engines on graphs whose balls hold all nodes."""

import os
from collections.abc import Sequence
from dataclasses import asdict

from gscl_scale.bench.graphs import config_graph
from gscl_scale.bench.harness import Bench, all_rows, graph_setting
from gscl_scale.bench.large_balls import BallSizes, as_json, large_balls_section, measure_large_balls
from gscl_scale.bench.tools import Depths, Results, entries_of, measure_tools
from gscl_scale.bench.tools_page import packages, tools_section
from gscl_scale.config.config import Config
from gscl_scale.errors import UserError

SECTIONS = ("tools", "large-balls")
_RINGS = {"width", "per_ring", "beyond", "sampling", "sharing"}


def bench_rings(
    bench: Bench, config: Config, depths: Depths, sections: Sequence[str] = SECTIONS, balls: BallSizes | None = None
) -> str:
    """Measure, write rings.json and rings.md, and return the page."""
    if config.rings.sharing != "shared":
        raise UserError("bench rings: only shared priorities are measured; set rings.sharing to shared")
    load = os.getloadavg()[0]
    results, parts, more = Results(), list[str](), dict[str, object]()
    with bench.scratch() as scratch:
        graph = config_graph(config, scratch)
        if "tools" in sections:
            results = measure_tools(bench, graph, config.rings, depths)
        entries = entries_of(results, graph)
        if entries:
            parts += tools_section(bench, graph, config.rings, depths.seconds, results, entries)
        if "large-balls" in sections:
            graphs = measure_large_balls(bench, graph, balls or BallSizes(), scratch)
            parts += large_balls_section(bench, graphs)
            more["large_balls"] = as_json(graphs)
    setting = {
        **graph_setting(graph), "undirected": graph.undirected,
        "rings": config.rings.model_dump(mode="json", include=_RINGS), "hops": list(depths.hops),
        "peer_hops": list(depths.peer_hops), "seconds": depths.seconds, "load_before": load,
        "engine_chosen": {str(hops): engine for hops, engine in results.engines_chosen().items()},
        "forms": [
            {"competitor": peer, "hops": hops, "trials": [asdict(trial) for trial in trials]}
            for (peer, hops), trials in results.trials.items()
        ],
        "left_out": results.left_out,
    }  # fmt: skip
    return bench.write("\n\n".join(parts), all_rows(entries), setting, packages(), **more)
