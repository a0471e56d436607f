"""Embedding and evaluation on a cluster: the bytes and figures of one machine, whatever is killed on the way."""

import os
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from gscl_scale import pipeline
from gscl_scale.config.config import Config
from gscl_scale.embed import layers
from gscl_scale.embed.store import FILE
from gscl_scale.errors import ConfigError
from gscl_scale.io.json import read_json, read_json_lines
from gscl_scale.run.folder import Run
from gscl_scale.runtime.console import Console
from gscl_scale.stages.embed import embed
from tests.graphs import random_edges
from tests.ray.clusters import wait_until

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]

NODES = 30_000  # 8 blocks of a step, of at most 4,096 rows
STEPS = ["messages-0.raw", "layer-0.raw", "layer-1.raw", "layer-2.raw", "joined.raw"]  # of three layers


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
        os.kill(wait_until(lambda: machine.running("compute_block"))[0], signal.SIGKILL)
        wait_until(lambda: machine.running("compute_block"))
        machine.kill()

    with ThreadPoolExecutor(1) as pool:
        fallen = pool.submit(blows)
        embed(on(three, values), Run.at(run), Console(quiet=True))
        fallen.result()
    assert_same(run, finished)


@pytest.fixture(scope="module")
def deep(values, tmp_path_factory):
    """The values of a run with two layers before the last one, and that run on this machine."""
    values = {**values, "model": {**values["model"], "layers": 3}}
    folder = tmp_path_factory.mktemp("deep") / "run"
    pipeline.run(Config.parse(values), folder, Console(quiet=True), pages=False)
    return values, folder


def after_step(monkeypatch, number, act):
    """Do something once all rows of a step's file are computed for the first time."""
    compute, computed = layers._Encoding._compute, []

    def watched(self, step, *rest):
        compute(self, step, *rest)
        computed.append(step.file)
        if len(computed) == number + 1:
            act()

    monkeypatch.setattr(layers._Encoding, "_compute", watched)
    return computed


def test_layers_on_the_disks_of_the_machines_have_the_same_bytes_and_are_removed(two, deep, tmp_path, monkeypatch):
    values, finished = deep
    run, disks, seen = trained(finished, tmp_path), tmp_path / "disks", []

    def look():
        seen.extend(
            sorted(path.relative_to(folder).name for path in folder.rglob("*.raw"))
            for folder in (run, *disks.glob("*"))
        )

    after_step(monkeypatch, 3, look)
    embed(on(two, values, embed_scratch=str(disks)), Run.at(run), Console(run / "log.jsonl", quiet=True))
    assert_same(run, finished)
    assert seen == [["joined.raw"], *[sorted(STEPS[:-1])] * 2]
    assert list(disks.iterdir()) == []


def test_rows_that_are_lost_with_a_machine_are_computed_again(three, deep, tmp_path, monkeypatch):
    values, finished = deep
    run = trained(finished, tmp_path)
    computed = after_step(monkeypatch, 1, three.alive[-1].kill)
    config = on(three, values, embed_scratch=str(tmp_path / "disks"))
    embed(config, Run.at(run), Console(run / "log.jsonl", quiet=True))
    assert_same(run, finished)
    assert computed == [*STEPS[:2], *STEPS]
    log = read_json_lines(run / "log.jsonl")
    assert [event["reason"] for event in log if event["event"] == "lost rows"]
    again = [event for event in log if event["event"] == "encoding"][-1]
    assert 3 * NODES < again["rows"] < 5 * NODES  # the rows of two machines are kept


def test_a_command_that_was_killed_goes_on_with_the_rows_on_the_disks(two, deep, tmp_path, monkeypatch):
    values, finished = deep
    run, config = trained(finished, tmp_path), on(two, values, embed_scratch=str(tmp_path / "disks"))

    def interrupt():
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        after_step(patch, 1, interrupt)
        with pytest.raises(KeyboardInterrupt):
            embed(config, Run.at(run), Console(quiet=True))
    damaged = next((tmp_path / "disks").glob("*/layer-0.raw"))
    content = bytearray(damaged.read_bytes())
    content[next(at for at, byte in enumerate(content) if byte) + 1] ^= 4
    damaged.write_bytes(content)
    embed(config, Run.at(run), Console(run / "log.jsonl", quiet=True))
    assert_same(run, finished)
    (again,) = [event for event in read_json_lines(run / "log.jsonl") if event["event"] == "encoding"]
    assert 3 * NODES < again["rows"] <= 3 * NODES + again["block_rows"]


def test_a_process_that_no_machine_has_room_for_is_refused_with_the_key_of_the_training(
    two, values, finished, tmp_path
):
    with pytest.raises(ConfigError, match=r"runtime\.worker_gpus: a task asks for 1 GPU, but no machine"):
        embed(on(two, values, worker_gpus=1), Run.at(trained(finished, tmp_path)), Console(quiet=True))
