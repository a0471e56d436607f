"""Commands that jobs run on a cluster, and the bytes that they should write."""

import yaml

from gscl_scale.config.config import Config
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.runner import start_runner
from gscl_scale.runtime.settings import RunnerSettings
from gscl_scale.shards.precompute import precompute
from tests.shards.test_precompute import assert_same_bytes

CONFIG = {
    "graph": {"source": "synthetic", "preset": "small"},
    "rings": {"rounds": 1, "part_anchors": 500},
    "runtime": {"engine": "ray"},
}


def verbs_of(run):
    """The shell command that makes the samples of a run by config.yaml."""
    return " && ".join(
        f"gscl-scale {verb} --config config.yaml --run {run.folder}" for verb in ("ingest", "precompute")
    )


def write_config(folder, values=CONFIG):
    (folder / "config.yaml").write_text(yaml.safe_dump(values))


def assert_bytes_of_one_machine(run, folder):
    with start_runner(RunnerSettings(workers=1)) as runner:
        precompute(run.graph, folder, Config.parse(CONFIG).rings, 1, runner, Console(quiet=True))
    assert_same_bytes(folder, run.samples)
