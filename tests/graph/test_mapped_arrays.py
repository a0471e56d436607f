"""Large arrays of a file: mapped in place of loaded, their edges read by tasks; the graph has the same bytes."""

import os

import numpy as np
import pytest

from gscl_scale.config.graphs import NpzGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph.draft import write_graph
from gscl_scale.graph.sources import archive, array_edges
from gscl_scale.graph.sources.array_edges import MappedEdges
from gscl_scale.graph.sources.read import read
from tests.graph.tables import Machines
from tests.graphs import random_edges

NODES = 60
EDGES = random_edges(NODES, 500, seed=0).T
FEATURES = np.random.default_rng(1).standard_normal((NODES, 5))
WEIGHTS = np.random.default_rng(2).random((500, 1)) + 0.5
FORMS = {
    "plain": {"edge_index": np.ascontiguousarray(EDGES), "x": FEATURES},
    "with weights": {"edge_index": np.ascontiguousarray(EDGES), "x": FEATURES, "edge_weight": WEIGHTS},
    "column by column": {"edge_index": np.asfortranarray(EDGES), "x": np.asfortranarray(FEATURES)},
    "at odd places": {  # in the file
        "y": np.zeros(NODES, np.int8),
        "edge_index": EDGES.astype(np.int32),
        "edge_weight": WEIGHTS.astype(np.float32),
        "x": FEATURES.astype(np.float32),
    },
    "other types": {"edge_index": EDGES.astype(">u4"), "x": FEATURES.astype(np.float16)},
}


@pytest.fixture
def mapped(monkeypatch):
    monkeypatch.setattr(archive, "LEAST_MAPPED", 0)
    monkeypatch.setattr(array_edges, "_LEAST_EDGES", 40)


def save(tmp_path, form, write=np.savez):
    write(tmp_path / "g.npz", **FORMS[form])
    return NpzGraph(source="npz", path=tmp_path / "g.npz")


def files_of(graph):
    return {path.name: path.read_bytes() for path in graph.folder.iterdir()}


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("runner", [None, Machines(3)])
def test_the_graph_of_mapped_arrays_has_the_bytes_of_that_of_loaded_ones(tmp_path, request, write, form, runner):
    config = save(tmp_path, form, write)
    loaded = files_of(write_graph(read(config), config, tmp_path / "loaded"))
    request.getfixturevalue("mapped")
    draft = read(config, scratch=tmp_path / "scratch", runner=runner)
    assert isinstance(draft.features, np.memmap)
    if form == "at odd places" and write is np.savez:
        assert not next(iter(draft.edges))[0].flags.aligned
    assert isinstance(draft.edges, MappedEdges) == (runner is not None)
    assert np.concatenate([ends[0] for ends in draft.edges]).tolist() == EDGES[0].tolist()
    assert files_of(write_graph(draft, config, tmp_path / "mapped", runner=runner)) == loaded
    unpacked = {"edge_index", "edge_weight", "x"} & {*FORMS[form]} if write is np.savez_compressed else {}
    assert len(list((tmp_path / "scratch").glob("*"))) == len(unpacked)


def test_without_a_folder_unpacked_arrays_are_in_files_that_vanish(tmp_path, mapped, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(archive.tempfile, "tempdir", str(tmp_path / "temporary"))
    draft = read(save(tmp_path, "plain", np.savez_compressed))
    assert isinstance(draft.features, np.memmap)
    assert not list((tmp_path / "temporary").iterdir())
    np.testing.assert_array_equal(draft.features, FEATURES)


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("where", [0.3, 0.8])
def test_flipped_bytes_of_a_mapped_array_are_noticed(tmp_path, mapped, write, where):
    write(tmp_path / "g.npz", edge_index=np.tile(EDGES, 20), x=np.tile(FEATURES, 60))  # longer than what heads read
    config = NpzGraph(source="npz", path=tmp_path / "g.npz")
    content = bytearray(config.path.read_bytes())
    at = int(where * len(content))
    content[at] ^= 1
    config.path.write_bytes(content)
    with pytest.raises(GraphError, match=r"g.npz is truncated or not a .npz file: .*; write it again with numpy.savez"):
        read(config, scratch=tmp_path / "scratch")


def test_the_first_mistake_is_named_with_its_place_in_the_whole_file(tmp_path, mapped):
    edges = np.ascontiguousarray(EDGES)
    edges[1, [130, 470]] = NODES
    np.savez(tmp_path / "g.npz", edge_index=edges, x=FEATURES)
    config = NpzGraph(source="npz", path=tmp_path / "g.npz")
    draft = read(config, runner=Machines(3))
    with pytest.raises(GraphError, match=r"g.npz: edge 130 names node 60, expected 0 to 59"):
        write_graph(draft, config, tmp_path / "graph", runner=Machines(3))
    np.savez(tmp_path / "g.npz", edge_index=EDGES, x=FEATURES, edge_weight=np.where(np.arange(500) == 222, -1.0, 1.0))
    with pytest.raises(GraphError, match=r"g.npz: the weight of edge 222 is -1"):
        write_graph(read(config, runner=Machines(3)), config, tmp_path / "graph", runner=Machines(3))
    assert not (tmp_path / "graph").exists()


class Blind(Machines):
    """Machines that see another file than the driver."""

    def __init__(self, path):
        super().__init__(2)
        self.path = path

    def run(self, function, tasks):
        tasks, state = list(tasks), self.path.stat()
        os.utime(self.path, (1, 1))
        results = list(super().run(function, tasks))
        os.utime(self.path, ns=(state.st_atime_ns, state.st_mtime_ns))
        if "_fill" in repr(tasks[0].function):
            assert [result for _, result in results] == [None] * len(tasks)
        return results


def test_sections_of_a_file_that_the_machines_see_otherwise_are_read_by_the_driver(tmp_path, mapped):
    config = save(tmp_path, "plain")
    expected = files_of(write_graph(read(config), config, tmp_path / "here"))
    blind = Blind(config.path)
    assert files_of(write_graph(read(config, runner=blind), config, tmp_path / "there", runner=blind)) == expected
