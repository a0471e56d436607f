"""What bringing a graph takes, and when it is refused."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gscl_scale import machine
from gscl_scale.config.config import Config
from gscl_scale.errors import GraphError
from gscl_scale.graph.estimate import check_resources, estimate_need, read_if_it_fits
from gscl_scale.graph.sources.read import read, source_size
from gscl_scale.graph.types import SourceSize

GIB = 1 << 30
LARGE = Config.load(None, ["graph.source=synthetic", "graph.preset=large"]).graph


@pytest.fixture
def this_machine(monkeypatch):
    def has(memory, disk):
        monkeypatch.setattr(machine, "available_memory", lambda: memory)
        monkeypatch.setattr(machine, "free_disk", lambda folder: disk)

    return has


def test_ten_million_nodes_take_what_was_measured_and_a_line_says_so(tmp_path, this_machine):
    """gscl-scale ingest --source synthetic on 2 cores: 1.01 GiB of resident memory, 2.17 GiB of disk."""
    need = estimate_need(source_size(LARGE), LARGE, threads=2)
    assert 0.9 < need.memory / GIB < 1.35
    assert 2.0 < need.disk / GIB < 2.6
    this_machine(8 * GIB, 30 * GIB)
    line = check_resources(source_size(LARGE), LARGE, tmp_path / "graph")
    assert line.startswith("10,000,000 nodes and 110,000,000 edges take about 1.")
    assert "(8.0 GiB available)" in line
    assert "(30.0 GiB free)" in line


@pytest.mark.parametrize(
    ("memory", "disk", "sentence"),
    [
        (GIB // 2, 99 * GIB, "GiB of memory and 0.5 GiB are available; .* smaller graph.num_nodes"),
        (99 * GIB, GIB, r"GiB of disk and 1.0 GiB are free in .*; choose another --run on a larger disk"),
    ],
)
def test_what_does_not_fit_is_refused_before_it_is_read(tmp_path, this_machine, memory, disk, sentence):
    this_machine(memory, disk)
    said = []
    with pytest.raises(GraphError, match=sentence):
        read_if_it_fits(LARGE, tmp_path / "graph", said.append)
    assert not said


def test_where_sorting_takes_too_much_the_cure_is_its_setting(tmp_path, this_machine):
    config = LARGE.model_copy(update={"memory_mb": 4096})
    size = SourceSize(num_nodes=1000, num_edges=10**10, num_features=1)
    this_machine(3 * GIB, 999 * GIB)
    with pytest.raises(GraphError, match=r"set graph.memory_mb below 4096, such as \d+") as error:
        check_resources(size, config, tmp_path)
    lower = int(str(error.value).split("such as ")[1])
    check_resources(size, config.model_copy(update={"memory_mb": lower}), tmp_path)


def test_needs_grow_with_counts_beyond_32_bits():
    need = estimate_need(SourceSize(2**32, 2**36, 1), LARGE, threads=2)
    assert need.disk == 2**36 * 2 * 8 * 2
    assert need.memory > 2**32 * 24


def test_weights_take_half_as_much_disk_again_and_more_memory_while_edges_are_sorted():
    plain, weighted = (
        estimate_need(SourceSize(10**6, 10**8, 1, weighted=given), LARGE, threads=2) for given in (False, True)
    )
    assert weighted.disk == plain.disk * 3 / 2
    assert weighted.sorting > 1.2 * plain.sorting
    assert weighted.memory > plain.memory


def test_tables_tell_their_rows_and_the_nodes_are_told_once_they_are_counted(tmp_path, this_machine):
    this_machine(8 * GIB, 30 * GIB)
    edges = pa.table({"source": [1, 2, 3, 3], "target": [2, 3, 4, 1]})
    pq.write_table(edges, tmp_path / "edges.parquet")
    config = Config.load(None, ["graph.source=tables", f"graph.edges={tmp_path / 'edges.parquet'}"]).graph
    said = []
    assert read_if_it_fits(config, tmp_path / "graph", said.append).num_nodes == 4
    assert [line.split(" take ")[0] for line in said] == ["nodes yet to be counted and 4 edges", "4 nodes and 4 edges"]
    assert "at least 0.5 GiB of memory" in said[0]
    nodes = pa.table({"id": [1, 2, 3, 4], "a": [1.0] * 4, "b": [[1.0, 2.0]] * 4})
    pq.write_table(nodes.set_column(2, "b", nodes["b"].cast(pa.list_(pa.float64(), 2))), tmp_path / "nodes.parquet")
    size = source_size(config.model_copy(update={"nodes": tmp_path / "nodes.parquet"}))
    assert (size.num_nodes, size.num_edges, size.num_features) == (4, 4, 3)


def test_the_rows_of_csv_files_are_not_known(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n")
    config = Config.load(None, ["graph.source=tables", f"graph.edges={tmp_path / 'edges.csv'}"]).graph
    assert source_size(config) == SourceSize(reading=40, resident=40)


def test_npz_files_tell_their_shapes(tmp_path):
    np.savez_compressed(tmp_path / "g.npz", edge_index=np.zeros((2, 7), np.int64), x=np.zeros((5, 3), np.float32))
    config = Config.load(None, ["graph.source=npz", f"graph.path={tmp_path / 'g.npz'}"]).graph
    assert source_size(config) == SourceSize(5, 7, 3, fixed=2 * 7 * 8 + 5 * 3 * 4)
    np.savez_compressed(tmp_path / "g.npz", edge_index=np.zeros((2, 7), np.int64), edge_weight=np.ones(7, np.float32))
    assert source_size(config) == SourceSize(None, 7, fixed=2 * 7 * 8 + 7 * 4, weighted=True)
    (tmp_path / "g.npz").write_bytes(b"no archive")
    assert source_size(config) == SourceSize()


def test_a_source_that_knows_nothing_is_told_as_that(tmp_path, this_machine):
    this_machine(8 * GIB, 30 * GIB)
    config = Config.load(None, ["graph.source=ogb", "graph.dataset=ogbn-arxiv"]).graph
    assert check_resources(source_size(config), config, tmp_path) == (
        "reading source ogb: its size is not known yet (8.0 GiB of memory and 30.0 GiB of disk are free)"
    )


def test_the_digits_are_as_many_as_they_say():
    config = Config.load(None).graph
    draft, size = read(config), source_size(config)
    assert (size.num_nodes, size.num_features) == (draft.num_nodes, draft.features.shape[1])
