"""Compiled code trusts its indices: whoever can write a folder can write its checksums, so these prove nothing."""

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from gscl_scale.errors import FolderError, TaskError
from gscl_scale.graph.graph import Graph
from gscl_scale.io.arrow import map_arrow, write_arrow
from gscl_scale.shards.levels import LevelFiles
from gscl_scale.shards.reader import Samples
from tests.hostile.corpus import NODES
from tests.hostile.trial import repair


@pytest.fixture
def run(corpus, tmp_path):
    shutil.copytree(corpus / "run", tmp_path / "run")
    return tmp_path / "run"


def changed(path: Path, **columns) -> None:
    """Other columns of a file, told to its manifest as they are."""
    before = path.read_bytes()
    batch = map_arrow(path)
    old = {name: batch.column(name) for name in batch.schema.names}
    made = {name: pa.array(value(old[name])) if callable(value) else value for name, value in columns.items()}
    write_arrow(path.with_suffix(".new"), {**old, **made})
    content = path.with_suffix(".new").read_bytes()
    path.with_suffix(".new").rename(path)
    repair(path.parents[1], path, before, content)


def other(place, value):
    def change(column):
        array = column.to_numpy(zero_copy_only=False).copy()
        array[place] = value
        return array

    return change


@pytest.mark.parametrize(
    ("file", "column", "place", "value", "sentence"),
    [
        ("indices", "indices", 5, NODES, "not an ascending list of other nodes"),
        ("indices", "indices", 5, -1, "not an ascending list of other nodes"),
        ("indices", "indices", slice(None), 0, "not an ascending list of other nodes"),
        ("indptr", "indptr", 3, 10**12, "not an ascending list of other nodes"),
        ("indptr", "indptr", 3, -5, "not an ascending list of other nodes"),
        ("indptr", "indptr", -1, 7, "does not end at"),
        ("labels", "label", 0, 3, "labels are not one of 3 classes"),
        ("labels", "label", 0, -2, "labels are not one of 3 classes"),
        ("splits", "split_0", 0, 4, "is not one code for each"),
    ],
)
def test_a_graph_whose_indices_lead_elsewhere_is_refused_whatever_its_checksums(
    run, file, column, place, value, sentence
):
    assert Graph.open(run / "graph").num_nodes == NODES
    changed(run / f"graph/{file}.arrow", **{column: other(place, value)})
    with pytest.raises(FolderError, match=f"{sentence}.*; delete {run / 'graph'} and ingest the graph again$"):
        Graph.open(run / "graph")


def test_arrays_of_a_graph_of_other_lengths_are_refused(run):
    changed(run / "graph/ids.arrow", id=pa.array(["a"] * NODES).slice(0, NODES))
    assert len(Graph.open(run / "graph").ids) == NODES
    before = (run / "graph/labels.arrow").read_bytes()
    write_arrow(run / "graph/labels.arrow", {"label": pa.array(np.zeros(NODES - 1, np.int64))})
    repair(run, run / "graph/labels.arrow", before, (run / "graph/labels.arrow").read_bytes())
    with pytest.raises(FolderError, match="labels are not one of"):
        Graph.open(run / "graph")


def lists(column, change):
    offsets, members = column.offsets.to_numpy().copy(), column.values.to_numpy().copy()
    change(offsets, members)
    buffers = [None, pa.py_buffer(offsets)]
    return pa.Array.from_buffers(pa.list_(pa.int32()), len(column), buffers, children=[pa.array(members)])


@pytest.mark.parametrize("change", ["member", "negative", "offsets", "end"])
@pytest.mark.parametrize("column", ["ring_1", "ring_2", "beyond"])
def test_samples_that_name_nodes_elsewhere_are_refused_whatever_their_checksums(run, column, change):
    def act(offsets, members):
        if change == "offsets":
            offsets[2] = 2**31 - 1
        elif change == "end":
            offsets[-1] = 0
        else:
            members[0] = {"member": NODES, "negative": -1}[change]

    path = run / "samples/round-000/part-00001.arrow"
    assert Samples.open(run / "samples").round(0).take(np.arange(NODES)).anchors.size == NODES
    changed(path, **{column: lists(map_arrow(path).column(column), act)})
    with pytest.raises(FolderError, match="is damaged"):
        Samples.open(run / "samples").round(0)


@pytest.mark.parametrize(("column", "value"), [("node", NODES), ("node", -1), ("node", 0), ("priority", np.nan)])
def test_priorities_that_do_not_name_each_node_once_are_refused(run, column, value):
    path = run / "samples/round-000/priorities.arrow"
    changed(path, **{column: other(slice(3, 5), value)})
    with pytest.raises(FolderError, match=r"each of 40 nodes once|ascending priorities"):
        Samples.open(run / "samples").round(0)


@pytest.mark.parametrize("row", [7, NODES - 1])
@pytest.mark.parametrize(("column", "value"), [(0, 10**6), (0, -1), (1, 999), (1, -1), (4, 10**6), (5, -3), (5, 10**6)])
def test_rows_of_a_level_that_lead_elsewhere_are_made_again(tmp_path, row, column, value):
    files = LevelFiles(tmp_path, NODES, 8, "int32")
    files.create()
    table = np.zeros((NODES, 6), np.int32)
    table[:, 1], table[:, 5] = 1, np.arange(NODES)
    tails = np.zeros(NODES * 8, np.int32)
    (tmp_path / "table.raw").write_bytes(table.tobytes())
    (tmp_path / "tails.raw").write_bytes(tails.tobytes())
    assert files.checksum(0, NODES) >= 0
    table[row, column] = value
    if column == 4:  # the row of the head, which is looked at where a bit is set
        table[row, 0] = 1
    (tmp_path / "table.raw").write_bytes(table.tobytes())
    assert files.checksum(0, NODES) == -1
    if row == NODES - 1 and column > 3:
        with pytest.raises(TaskError, match="is damaged; run the same command again"):
            files.load()
    tails[3] = NODES
    (tmp_path / "tails.raw").write_bytes(tails.tobytes())
    assert files.checksum(0, NODES) == -1
