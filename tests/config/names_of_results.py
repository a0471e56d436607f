"""Prints the names that a configuration gives to results as JSON, and whether the run of a folder goes on with it."""

import json
import sys
from pathlib import Path

from gscl_scale import pipeline
from gscl_scale.config.config import Config
from gscl_scale.errors import FolderError
from gscl_scale.graph.graph import Graph
from gscl_scale.retrain.work_folder import may_build_on, night_identities
from gscl_scale.run.folder import Run
from gscl_scale.run.log import read_events
from gscl_scale.run.record import config_in
from gscl_scale.runtime.console import Console
from gscl_scale.shards.plan import make_plan
from gscl_scale.shards.precompute import name_of_samples
from gscl_scale.stages.train import checkpoints_of
from gscl_scale.studies.reproduce.cells import Cell
from gscl_scale.studies.tune.records import claim_search

VALUES = {
    "graph": {"source": "synthetic", "preset": "tiny"},
    "rings": {"width": 8, "per_ring": 2, "beyond": 4, "rounds": 1, "engine": "sketch"},
    "model": {"width": 8, "projection": 0},
    "train": {"epochs": 1, "negatives": 8},
    "evaluate": {"initialisations": 1, "probe_epochs": 5, "random_splits": 1},
}


def main() -> None:
    folder = Path(sys.argv[1])
    if not folder.exists():
        pipeline.run(Config.parse(VALUES), folder, Console(quiet=True), pages=False)
        claim_search(folder, Config.parse(VALUES), {})
    config, run = Config.load(None, sys.argv[2:], VALUES), Run.at(folder)
    trained = len(read_events(run.log))
    print(
        json.dumps(
            {
                "cell": Cell("tiny", config).name,
                "night": night_identities(config, Graph.open(run.graph)),
                "samples": make_plan(Graph.open(run.graph), run.samples, config.rings)[0].rings,
                "shared samples": name_of_samples(config.rings, config.train.epochs),
                "base": may_build_on(config, run),
                "checkpoints": checkpoints_of(config, run).fingerprint,
                "refused": refusal(pipeline.run, config, folder, Console(quiet=True), pages=False),
                "search": refusal(claim_search, folder, config, {}),
                "trained again": [event for event in read_events(run.log)[trained:] if event["stage"] == "train"],
                "earlier": config_in(folder).train.epochs,
            }
        )
    )


def refusal(call, *arguments, **keywords) -> str:
    try:
        call(*arguments, **keywords)
    except FolderError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    main()
