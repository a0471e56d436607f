"""Tables that all machines of a cluster read together: the graph of one process, whatever is killed on the way."""

import os
import signal
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray

from gscl_scale.config.config import Config
from gscl_scale.errors import GraphError
from gscl_scale.graph import estimate, row_pieces
from gscl_scale.graph.sources import spilled_edges
from gscl_scale.run.record import open_run
from gscl_scale.runtime.console import Console
from gscl_scale.stages.ingest import ingest
from tests.ray.clusters import wait_until

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]

NODES, EDGES = 9_000, 40_000
STEPS = {
    "write_section": spilled_edges, "find_new": spilled_edges, "look_up": spilled_edges,
    "fill_buckets": spilled_edges, "_write_piece": row_pieces,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _all_are_large(monkeypatch):
    monkeypatch.setattr(estimate, "_LARGE", -estimate._PROGRAM)


@pytest.fixture
def source(tmp_path):
    draw = np.random.default_rng(0)
    names = pa.array([f"n{number}" for number in range(NODES)])
    ends = {name: names.take(pa.array(draw.integers(0, NODES, EDGES))) for name in ("source", "target")}
    (tmp_path / "edges").mkdir()
    for number in range(2):
        rows = pa.table({**ends, "kg": draw.random(EDGES) + 0.1})[number * EDGES // 2 :][: EDGES // 2]
        pq.write_table(rows, tmp_path / f"edges/{number}.parquet", row_group_size=2_000)
    pq.write_table(pa.table({"id": names[:-500], "x": draw.random(NODES - 500)}), tmp_path / "nodes.parquet")
    return {"source": "tables", "edges": str(tmp_path / "edges"), "nodes": str(tmp_path / "nodes.parquet")}


def written(graph, folder, cluster=None, **options):
    """The run folder, and the files of its graph."""
    runtime = {"engine": "ray", "address": cluster.address} if cluster else {}
    config = Config.parse({"graph": {**graph, "weight_column": "kg", **options}, "runtime": runtime})
    run = open_run(config, folder)
    ingest(config, run, Console(quiet=True))
    return run, {path.name: path.read_bytes() for path in run.graph.iterdir()}


def killed_once(function, traces):
    """The function of a task whose process is killed the first time, when all its files are written."""

    driver = os.getpid()

    def run(task):
        assert os.getpid() != driver
        name = function.__name__
        first = not list(traces.glob(f"{name}-*"))
        (traces / f"{name}-{ray.util.get_node_ip_address()}-{uuid.uuid4()}").touch()
        if name == "write_section":  # all machines take part
            wait_until(lambda: len(machines_in(traces, name)) == 2)
        result = function(task)
        if first:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return run


def machines_in(traces, name):
    return {path.name.split("-")[1] for path in traces.glob(f"{name}-*")}


def test_machines_that_lose_a_task_of_each_step_write_the_graph_of_one_process(two, source, tmp_path, monkeypatch):
    _, here = written(source, tmp_path / "here", unknown_ids="add")
    (tmp_path / "traces").mkdir()
    for name, module in STEPS.items():
        monkeypatch.setattr(module, name, killed_once(getattr(module, name), tmp_path / "traces"))
    run, there = written(source, tmp_path / "there", two, unknown_ids="add")
    assert there == here
    assert {path.name.split("-")[0] for path in (tmp_path / "traces").iterdir()} == STEPS.keys()
    assert len(list((tmp_path / "traces").glob("write_section-*"))) >= 8
    assert not list(run.folder.glob(".*"))


def test_an_unknown_id_is_refused_with_its_row_and_leaves_nothing(two, source, tmp_path):
    with pytest.raises(GraphError) as here:
        written(source, tmp_path / "here")
    with pytest.raises(GraphError) as there:
        written(source, tmp_path / "there", two)
    assert str(there.value) == str(here.value)
    assert "row" in str(here.value)
    assert not (tmp_path / "there").exists()
