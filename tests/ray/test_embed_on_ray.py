"""Embedding and evaluation on a cluster: the bytes and figures of one machine, whatever is killed on the way."""

import os
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from gscl_scale import pipeline
from gscl_scale.config.config import Config
from gscl_scale.embed.store import FILE
from gscl_scale.errors import ConfigError
from gscl_scale.io.json import read_json, read_json_lines
from gscl_scale.run.folder import Run
from gscl_scale.runtime.console import Console
from gscl_scale.stages.embed import embed
from tests.graphs import random_edges
from tests.ray.clusters import wait_until

pytestmark = [pytest.mark.ray, pytest.mark.timeout(300)]

NODES = 30_000  # 8 blocks of a step, of at most 4,096 rows


@pytest.fixture(scope="module")
def values(tmp_path_factory):
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("graph") / "graph.npz"
    edges, labels = random_edges(NODES, 60_000, seed=0), rng.integers(0, 3, NODES)
    features = (rng.normal(size=(NODES, 70)) + labels[:, None]).astype(np.float32)
    np.savez(path, edge_index=edges.T, x=features, y=np.where(np.arange(NODES) < 600, labels, -1))
    return {
        "graph": {"source": "npz", "path": str(path)},
        "rings": {"hops": 1, "width": 8, "per_ring": 4, "beyond": 4, "rounds": 1},
        "model": {"width": 96, "projection": 8},
        "train": {"epochs": 1, "batch_size": 15_000, "negatives": 8},
        "evaluate": {"initialisations": 1, "probe_epochs": 5, "probe_weight_decay": [0.0], "random_splits": 1},
    }


@pytest.fixture(scope="module")
def finished(values, tmp_path_factory):
    """The run on this machine."""
    folder = tmp_path_factory.mktemp("here") / "run"
    pipeline.run(Config.parse(values), folder, Console(quiet=True), pages=False)
    return folder


def on(cluster, values, **settings):
    runtime = {"engine": "ray", "address": cluster.address, "worker_cpus": 0.5, **settings}
    return Config.parse({**values, "runtime": runtime})


def trained(finished, where):
    """A copy of the run that has a training, and nothing after it."""
    shutil.copytree(finished, where / "run")
    shutil.rmtree(where / "run/embeddings")
    (where / "run/metrics.json").unlink()
    (where / "run/log.jsonl").unlink()
    return where / "run"


def assert_same(run, finished):
    assert (run / "embeddings" / FILE).read_bytes() == (finished / "embeddings" / FILE).read_bytes()


def test_a_cluster_has_the_embeddings_and_figures_of_one_machine(two, values, finished, tmp_path, capfd):
    run = trained(finished, tmp_path)
    pipeline.run(on(two, values), run, Console(), pages=False)
    assert_same(run, finished)
    there, here = (read_json(folder / "metrics.json", dict, "") for folder in (run, finished))
    assert there["rings"] == here["rings"]
    assert there["probe"]["trained"]["test_mean"] == pytest.approx(here["probe"]["trained"]["test_mean"], abs=0.02)
    assert "evaluate: " in capfd.readouterr().err  # of the task
    assert not list(run.glob(".relay*"))
    assert not (run / ".untrained").exists()
    done = [(event["stage"], event["event"]) for event in read_json_lines(run / "log.jsonl")]
    assert [stage for stage, event in done if event == "done"] == ["embed", "evaluate"]
    encodings = [event for event in read_json_lines(run / "log.jsonl") if event["event"] == "encoding"]
    assert [event["processes"] for event in encodings] == [
        4,
        4,
        1,
    ]  # of the untrained encoder the task finds all blocks
    assert encodings[2]["rows"] == 0


def test_tasks_write_the_parts_that_one_machine_writes(two, values, finished, tmp_path):
    here = embed(
        Config.parse({**values, "runtime": {"embed_part_rows": 8_000}}), Run.at(finished), Console(quiet=True),
        out=tmp_path / "here",
    )  # fmt: skip
    run = trained(finished, tmp_path)
    there = embed(on(two, values, embed_part_rows=8_000), Run.at(run), Console(run / "log.jsonl", quiet=True))
    parts = sorted(path.relative_to(here) for path in here.rglob("part-*.parquet"))
    assert len(parts) == 4
    assert [(there / part).read_bytes() for part in parts] == [(here / part).read_bytes() for part in parts]
    assert (there / "manifest.json").read_bytes() == (here / "manifest.json").read_bytes()
    assert sorted(there.iterdir()) == [there / FILE, there / "manifest.json"]


def test_a_killed_process_and_a_killed_machine_change_no_byte(three, values, finished, tmp_path):
    run, machine = trained(finished, tmp_path), three.alive[-1]

    def blows():
        os.kill(wait_until(lambda: machine.running("compute_block"), 60)[0], signal.SIGKILL)
        wait_until(lambda: machine.running("compute_block"), 60)
        machine.kill()

    with ThreadPoolExecutor(1) as pool:
        fallen = pool.submit(blows)
        embed(on(three, values), Run.at(run), Console(quiet=True))
        fallen.result()
    assert_same(run, finished)


def test_a_process_that_no_machine_has_room_for_is_refused_with_the_key_of_the_training(
    two, values, finished, tmp_path
):
    with pytest.raises(ConfigError, match=r"runtime\.worker_gpus: a task asks for 1 GPU, but no machine"):
        embed(on(two, values, worker_gpus=1), Run.at(trained(finished, tmp_path)), Console(quiet=True))
