"""One training by two processes that torchrun has started."""

import numpy as np
import pytest
import yaml

from gscl_scale.config.config import Config
from gscl_scale.io.json import read_json_lines
from gscl_scale.run.log import read_curve
from gscl_scale.run.record import open_run
from gscl_scale.runtime.console import Console
from gscl_scale.stages.precompute import precompute
from gscl_scale.stages.train import train
from tests.graphs import make_graph, random_edges
from tests.train.launcher import torchrun

VALUES = {
    "graph": {"source": "memory"},
    "rings": {"hops": 2, "width": 16, "per_ring": 4, "beyond": 8, "rounds": 2},
    "model": {"width": 8, "projection": 8, "feature_dropout": 0.3, "activation": "rrelu"},
    "train": {"epochs": 4, "batch_size": 50, "negatives": 16, "checkpoint_every": 2, "validate_every": 2},
    "evaluate": {"train_fractions": [0.3], "val_fraction": 0.2},
}


def prepared(folder):
    config = Config.parse(VALUES)
    run = open_run(config, folder)
    make_graph(run.graph, random_edges(240, 700, seed=3), 240, labels=np.arange(240) % 3)
    precompute(config, run, Console(quiet=True))
    return config, run


@pytest.fixture
def alone(tmp_path):
    config, run = prepared(tmp_path / "alone")
    train(config, run, Console(run.log, quiet=True))
    return run


def test_two_processes_of_torchrun_have_the_losses_of_one_and_only_the_first_tells(alone, tmp_path):
    _, run = prepared(tmp_path / "together")
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(VALUES))
    code, out, err = torchrun(tmp_path, "train", "--config", "config.yaml", "--run", "together")
    assert code == 0, err
    assert out == "checkpoints are in together/checkpoints\n"
    steps = [event for event in read_json_lines(run.log) if event["event"] == "step"]
    assert [event["step"] for event in steps] == list(range(20))
    np.testing.assert_allclose(
        [event["loss"] for event in steps], [event["loss"] for event in read_curve(alone.log)], rtol=1e-4
    )
    started = next(event for event in read_json_lines(run.log) if event["event"] == "started" and "processes" in event)
    assert started["processes"] == 2
