"""Stage precompute: sample the rings of every node."""

from pathlib import Path

from gscl_scale.config.config import Config
from gscl_scale.graph.graph import Graph
from gscl_scale.run.folder import Run
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.runner import start_runner
from gscl_scale.shards.precompute import is_complete
from gscl_scale.shards.precompute import precompute as shards_precompute


def precompute(config: Config, run: Run, console: Console, verify: bool = False, since: Path | None = None) -> None:
    """Sample the rings of every node; `verify` compares finished files with their checksums and repairs them.

    With `since`, the folder of an earlier run, only anchors near a change of the graph are sampled again.
    """
    if not config.train.reads_samples:
        console.say(f"precompute: skipped, because {config.train.objective} is trained without ring samples")
        return
    graph = Graph.open(run.graph)
    epochs = config.train.epochs_for(graph.size)
    if not verify and is_complete(run.samples, graph, config.rings, epochs):
        return
    console.event("precompute", "started")
    with start_runner(config.runtime.for_tasks()) as runner:
        earlier = Run.at(since).repeat_like(run) if since else None
        before = (earlier.graph, earlier.samples) if earlier else None
        memory = config.runtime.precompute_memory
        shards_precompute(run.graph, run.samples, config.rings, epochs, runner, console, before, memory)
