"""Ingest on a cluster: the graph of one machine, written by a machine that sees its source."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from gscl_scale.config.config import Config
from gscl_scale.errors import GraphError
from gscl_scale.graph import estimate
from gscl_scale.graph.sources import archive, array_edges
from gscl_scale.run.record import open_run
from gscl_scale.runtime.console import Console
from gscl_scale.stages import ingest as stage
from gscl_scale.stages.ingest import ingest
from tests.graphs import random_edges
from tests.ray.clusters import wait_until

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]

NODES = 3_000


@pytest.fixture
def source(tmp_path):
    edges = random_edges(NODES, 6_000, seed=0)
    np.savez(tmp_path / "graph.npz", edge_index=edges.T, x=np.ones((NODES, 3), np.float32))
    return tmp_path / "graph.npz"


@pytest.fixture(autouse=True)
def _all_are_large(monkeypatch):
    monkeypatch.setattr(estimate, "_LARGE", -estimate._PROGRAM)


def parsed(source, cluster=None, **graph):
    runtime = {"engine": "ray", "address": cluster.address} if cluster else {}
    return Config.parse({"graph": {"source": "npz", "path": str(source), **graph}, "runtime": runtime})


def written(config, folder):
    """The run folder, and the files of its graph."""
    run = open_run(config, folder)
    ingest(config, run, Console())
    return run, {path.name: path.read_bytes() for path in run.graph.iterdir()}


@pytest.fixture
def here(source, tmp_path):
    return written(parsed(source), tmp_path / "here")[1]


def not_here(*_, **__):
    raise AssertionError("this process reads the graph")


def test_a_machine_of_the_cluster_writes_the_graph_of_one_machine(two, source, here, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(stage, "read_if_it_fits", not_here)
    run, files = written(parsed(source, two), tmp_path / "there")
    assert files == here
    told = capfd.readouterr().err
    assert "6,000 edges take" in told  # by the task
    assert f"graph graph: {NODES:,} nodes" in told
    assert not list(run.folder.glob(".*"))


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_edges_in_a_mapped_array_are_read_by_tasks_of_all_machines(
    two, source, here, tmp_path, monkeypatch, write, capfd
):
    write(source, **np.load(source))
    monkeypatch.setattr(archive, "LEAST_MAPPED", 0)
    monkeypatch.setattr(array_edges, "_LEAST_EDGES", 1_000)
    monkeypatch.setattr(array_edges, "_fill", elsewhere(tmp_path / "traces", os.getpid()))
    run, files = written(parsed(source, two), tmp_path / "there")
    assert files == here
    assert len(list((tmp_path / "traces").iterdir())) == 6
    assert not list(run.folder.glob(".*"))


def elsewhere(traces, driver, fill=array_edges._fill):
    """The function of a task, which leaves a trace and may not run in the driver."""
    traces.mkdir()

    def run(section):
        assert os.getpid() != driver
        (traces / str(section.low)).touch()
        return fill(section)

    return run


def test_a_source_that_the_machines_see_otherwise_is_read_here(two, source, here, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(stage, "input_state", lambda config: {str(source): [1, 2]})
    monkeypatch.setattr(stage, "with_checksums", lambda inputs: inputs)
    _, files = written(parsed(source, two), tmp_path / "mine")
    assert files == here
    assert "do not see the source of the graph as this one does: it is read here" in capfd.readouterr().err


def test_a_mistake_in_the_source_is_told_as_it_is_and_leaves_nothing(two, source, tmp_path):
    np.savez(source, edge_index=np.array([[0], [9]]), x=np.ones((3, 1), np.float32))
    with pytest.raises(GraphError, match=r"graph\.npz"):
        written(parsed(source, two), tmp_path / "bad")
    assert not (tmp_path / "bad").exists()


def test_a_process_that_is_killed_while_it_reads_is_replaced(two, source, here, tmp_path):
    def blow():
        pids = wait_until(lambda: [pid for machine in two.alive for pid in machine.running("_run_here")])
        os.kill(pids[0], signal.SIGKILL)

    with ThreadPoolExecutor(1) as pool:
        fallen = pool.submit(blow)
        _, files = written(parsed(source, two), tmp_path / "again")
        fallen.result()
    assert files == here
