"""What bringing a graph takes, and when it is refused."""

import gzip
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gscl_scale import machine
from gscl_scale.config.config import Config
from gscl_scale.errors import GraphError
from gscl_scale.graph.estimate import check_resources, estimate_need, is_large, read_if_it_fits
from gscl_scale.graph.sources import archive, ogb
from gscl_scale.graph.sources.read import read, source_size
from gscl_scale.graph.sources.tables import size_of_tables
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


def test_files_that_do_not_tell_their_rows_are_large_by_their_bytes(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n")
    config = Config.load(None, ["graph.source=tables", f"graph.edges={tmp_path / 'edges.csv'}"]).graph
    assert [is_large(config, size) for size in (GIB // 8, GIB)] == [False, True]


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


def test_ids_that_do_not_fit_a_share_of_the_memory_take_disk_in_place_of_it():
    tables = ["graph.source=tables", "graph.edges=e", "graph.nodes=n", "graph.structure=none"]
    config = Config.load(None, [*tables, "graph.memory_mb=256"]).graph
    size = size_of_tables(config, 10**8, 10**9, 1)
    in_memory, on_disk = (estimate_need(size, config, 2, available << 30) for available in (16, 8))
    assert in_memory == estimate_need(size, config, 2)
    assert in_memory.memory - on_disk.memory > 3.9e9
    assert on_disk.memory < 3.3e9
    assert 10**10 < on_disk.disk - in_memory.disk < 2 * 10**10


def test_tables_tell_their_rows_and_the_nodes_are_told_once_they_are_counted(tmp_path, this_machine):
    this_machine(8 * GIB, 30 * GIB)
    edges = pa.table({"source": [1, 2, 3, 3], "target": [2, 3, 4, 1]})
    pq.write_table(edges, tmp_path / "edges.parquet")
    config = Config.load(None, ["graph.source=tables", f"graph.edges={tmp_path / 'edges.parquet'}"]).graph
    said = []
    assert read_if_it_fits(config, tmp_path / "graph", said.append).num_nodes == 4
    assert [line.split(" take ")[0] for line in said] == [
        "an unknown number of nodes and 4 edges",
        "4 nodes and 4 edges",
    ]
    assert "at least 0.5 GiB of memory" in said[0]
    nodes = pa.table({"id": [1, 2, 3, 4], "a": [1.0] * 4, "b": [[1.0, 2.0]] * 4})
    pq.write_table(nodes.set_column(2, "b", nodes["b"].cast(pa.list_(pa.float64(), 2))), tmp_path / "nodes.parquet")
    size = source_size(config.model_copy(update={"nodes": tmp_path / "nodes.parquet"}))
    assert (size.num_nodes, size.num_edges, size.num_features) == (4, 4, 3)


def test_a_source_that_is_checked_once_it_is_read_may_use_what_the_process_holds(tmp_path, this_machine, monkeypatch):
    this_machine(8 * GIB, 30 * GIB)
    monkeypatch.setattr(machine, "allocated_memory", lambda: GIB)
    pq.write_table(pa.table({"source": [1, 2], "target": [2, 3]}), tmp_path / "edges.parquet")
    config = Config.load(None, ["graph.source=tables", f"graph.edges={tmp_path / 'edges.parquet'}"]).graph
    said = []
    read_if_it_fits(config, tmp_path / "graph", said.append)
    assert ["8.0 GiB available" in said[0], "9.0 GiB available" in said[1]] == [True, True]


def test_the_rows_of_csv_files_are_not_known(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n")
    config = Config.load(None, ["graph.source=tables", f"graph.edges={tmp_path / 'edges.csv'}"]).graph
    assert source_size(config) == SourceSize(reading=40, resident=40, spills=True)


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
    config = Config.load(None, ["graph.source=pyg", "graph.dataset=Actor", f"graph.path={tmp_path}"]).graph
    assert check_resources(source_size(config), config, tmp_path) == (
        "Reading the graph (source pyg); its size is not known yet (8.0 GiB of memory and 30.0 GiB of disk are free)"
    )


def test_the_digits_are_as_many_as_they_say():
    config = Config.load(None).graph
    draft, size = read(config), source_size(config)
    assert (size.num_nodes, size.num_features) == (draft.num_nodes, draft.features.shape[1])


# --- data sets that other packages read ------------------------------------------------------------------------------


def write_ogb(folder, nodes, edges, width, edge_width=0):
    """Heads of raw files as of a data set of this size; the values that would follow are not looked at."""
    raw = folder / "raw"
    raw.mkdir(parents=True)
    heads = {"num-node-list": f"{nodes}\n", "num-edge-list": f"{edges}\n", "edge": "0,1\n"}
    heads |= {"node-feat": ",".join(["0.5"] * width) + "\n"} if width else {}
    heads |= {"edge-feat": ",".join(["0.5"] * edge_width) + "\n"} if edge_width else {}
    for name, text in heads.items():
        with gzip.open(raw / f"{name}.csv.gz", "wt") as file:
            file.write(text)


def ogb_config(tmp_path, dataset="ogbn-arxiv"):
    return Config.load(None, ["graph.source=ogb", f"graph.dataset={dataset}", f"graph.path={tmp_path}"]).graph


def test_ogb_tells_the_size_of_its_tables_from_their_heads(tmp_path):
    write_ogb(tmp_path / "ogbn_arxiv", 1000, 5000, 128)
    size = source_size(ogb_config(tmp_path))
    ends, values = 5000 * 2 * 8, 1000 * 128
    kept = ends + 4 * values
    assert size == SourceSize(1000, 5000, 128, reading=(ends + 16 * values - kept) // 1000, fixed=kept)
    write_ogb(tmp_path / "ogbn_proteins", 1000, 5000, 0, edge_width=8)
    size = source_size(ogb_config(tmp_path, "ogbn-proteins"))
    both, parsed = 2 * 5000 * 2 * 8, 5000 * (2 * 8 + 8 * 16)
    assert size == SourceSize(
        1000, 10_000, None, reading=(max(parsed, 3 * 5000 * (16 + 32)) - both) // 1000, fixed=both
    )


def test_ogb_tells_the_size_of_its_arrays_from_their_headers(tmp_path, monkeypatch):
    raw = tmp_path / "ogbn_papers100M" / "raw"
    raw.mkdir(parents=True)
    arrays = {"edge_index": np.zeros((2, 50), np.int64), "node_feat": np.zeros((7, 3), np.float32)}
    np.savez_compressed(raw / "data.npz", node_year=np.zeros((7, 1), np.int64), num_nodes_list=[7], **arrays)
    np.savez_compressed(raw / "node-label.npz", node_label=np.zeros((7, 1), np.float32))
    config, labels = ogb_config(tmp_path, "ogbn-papers100M"), 7 * 4
    assert source_size(config) == SourceSize(7, 50, 3, fixed=50 * 16 + 7 * 12 + labels)
    monkeypatch.setattr(archive, "LEAST_MAPPED", 50 * 16)
    assert source_size(config) == SourceSize(7, 50, 3, fixed=7 * 12 + labels, unpacked=50 * 16, mapped=True)
    np.savez(raw / "data.npz", num_nodes_list=[7], **arrays)
    assert source_size(config) == SourceSize(7, 50, 3, fixed=7 * 12 + labels, mapped=True)


def test_an_ogb_graph_past_the_memory_is_refused_before_its_values_are_read(tmp_path, this_machine, monkeypatch):
    monkeypatch.setattr(ogb, "_text", lambda *_: pytest.fail("it was read"))
    write_ogb(tmp_path / "ogbn_products", 2_449_029, 61_859_140, 100)
    this_machine(4 * GIB, 99 * GIB)
    says = (
        r"2,449,029 nodes and 123,718,280 edges take about \d\.\d GiB of memory and 4.0 GiB are available; use a mach"
    )
    with pytest.raises(GraphError, match=says):
        read_if_it_fits(ogb_config(tmp_path, "ogbn-products"), tmp_path / "graph", lambda _: None)


@pytest.mark.parametrize("name", ["num-node-list", "num-edge-list", "node-feat"])
def test_of_a_damaged_ogb_data_set_nothing_is_known(tmp_path, name):
    write_ogb(tmp_path / "ogbn_arxiv", 1000, 5000, 128)
    (tmp_path / f"ogbn_arxiv/raw/{name}.csv.gz").write_bytes(b"no gzip")
    assert source_size(ogb_config(tmp_path)) == SourceSize()


@pytest.mark.parametrize("dataset", ["Planetoid/Cora", "Actor"])
@pytest.mark.parametrize("below", [True, False])
def test_torch_geometric_tells_the_bytes_of_its_files(tmp_path, this_machine, dataset, below):
    class_name, _, name = dataset.partition("/")
    place = tmp_path / (class_name if below else "") / name
    config = Config.load(None, ["graph.source=pyg", f"graph.dataset={dataset}", f"graph.path={tmp_path}"]).graph
    assert source_size(config) == SourceSize()
    write_bytes(place / "raw" / "a.txt", 3000), write_bytes(place / "raw" / "b.txt", 4000)
    assert source_size(config) == SourceSize(fixed=7000)
    write_bytes(place / "processed" / "data.pt", 5 * GIB), write_bytes(place / "processed" / "pre_filter.pt", 10)
    write_bytes(place / "geom-gcn" / "processed" / "data.pt", 4 * GIB)
    assert source_size(config) == SourceSize(fixed=4 * GIB)
    this_machine(8 * GIB, 30 * GIB)
    free = "8.0 GiB of memory and 30.0 GiB of disk are free"
    told = f"Reading the graph (source pyg); it takes at least 4.5 GiB of memory ({free})"
    assert check_resources(source_size(config), config, tmp_path) == told
    this_machine(4 * GIB, 30 * GIB)
    with pytest.raises(GraphError, match=r"pyg: its files of 4.0 GiB take at least 4.5 GiB of memory and 4.0 GiB are"):
        read_if_it_fits(config, tmp_path / "graph", lambda _: None)


def write_bytes(path, size):
    """A file of so many bytes, most of which take no disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.truncate(path, size)
