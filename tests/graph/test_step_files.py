"""Structural features that go on where a process was stopped."""

import itertools
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from gscl_scale.config.graphs import MemoryGraph
from gscl_scale.errors import GraphError, RunError
from gscl_scale.graph import draft as draft_module
from gscl_scale.graph import step_files, structural_features
from gscl_scale.graph.draft import write_graph
from gscl_scale.graph.step_files import StepFiles
from tests.graph.test_draft import make
from tests.graphs import random_weights

CONFIG = MemoryGraph(structural_features=8)
LAST = "graph-structure.tmp"


def save_every_third_step(monkeypatch):
    monkeypatch.setattr(step_files, "_SAVE_EVERY_S", 3)
    monkeypatch.setattr(step_files, "time", SimpleNamespace(monotonic=itertools.count().__next__))


class Stop:
    """Stands in place of `_average`: counts its calls, and raises at one of them."""

    def __init__(self, monkeypatch, at=None, error=KeyboardInterrupt):
        self.calls, self._at, self._error = 0, at, error
        self._average = structural_features._average
        monkeypatch.setattr(structural_features, "_average", self)
        save_every_third_step(monkeypatch)

    def __call__(self, *arguments):
        self.calls += 1
        if self.calls == self._at:
            raise self._error
        self._average(*arguments)


def ring(size=50):
    nodes = np.arange(size)
    return make(num_nodes=size, edges=[(nodes, (nodes + 1) % size), (nodes, nodes * 7 % size)], features=None)


def weighted_ring():
    draft = ring()
    draft.edges = [(*ends, random_weights(50, seed)) for seed, ends in enumerate(draft.edges)]
    return draft


def features(folder, draft=None):
    return np.array(write_graph(draft or ring(), CONFIG, folder / "graph").features)


def stopped(folder, monkeypatch, at, error=KeyboardInterrupt, draft=None):
    with monkeypatch.context() as patched:
        Stop(patched, at, error)
        with pytest.raises(error):
            features(folder, draft)


@pytest.fixture
def whole(tmp_path):
    return features(tmp_path / "whole")


@pytest.fixture(autouse=True)
def one_part(monkeypatch):
    monkeypatch.setattr(draft_module, "num_threads", lambda: 1)


def calls_of_one_run(monkeypatch, tmp_path):
    with monkeypatch.context() as patched:
        counted = Stop(patched)
        features(tmp_path / "counted")
    return counted.calls


@pytest.mark.parametrize("share", [0.3, 0.6, 0.99])
def test_steps_before_a_stop_are_not_computed_again_and_rows_are_the_same(tmp_path, monkeypatch, whole, share):
    calls = calls_of_one_run(monkeypatch, tmp_path)
    stopped(tmp_path, monkeypatch, at=int(share * calls))
    assert (tmp_path / LAST / "step.json").exists()
    again = Stop(monkeypatch)
    np.testing.assert_array_equal(features(tmp_path), whole)
    assert again.calls < (1.2 - share) * calls
    assert sorted(path.name for path in tmp_path.iterdir()) == ["counted", "graph", "whole"]


def test_a_disk_that_was_full_keeps_the_steps(tmp_path, monkeypatch, whole):
    stopped(tmp_path, monkeypatch, at=20, error=RunError)
    assert (tmp_path / LAST).exists()
    np.testing.assert_array_equal(features(tmp_path), whole)


@pytest.mark.parametrize("harm", ["rows", "edges", "weights", "file", "record"])
def test_steps_that_are_damaged_or_of_another_graph_are_computed_anew(tmp_path, monkeypatch, whole, harm):
    other = {"edges": ring(51), "weights": weighted_ring()}.get(harm)
    stopped(tmp_path, monkeypatch, at=20, draft=other)
    if harm == "record":
        (tmp_path / LAST / "step.json").write_text('{"step": 7')
    for path in (tmp_path / LAST).glob("*.raw"):
        if harm == "rows":
            path.write_bytes(path.read_bytes()[:-4] + b"\0\0\0\1")
        if harm == "file":
            path.unlink()
    expected, again = calls_of_one_run(monkeypatch, tmp_path), Stop(monkeypatch)
    np.testing.assert_array_equal(features(tmp_path), whole)
    assert again.calls == expected


def test_a_graph_that_is_refused_leaves_no_steps(tmp_path, monkeypatch):
    save_every_third_step(monkeypatch)
    draft = ring()
    draft.features = np.full((50, 2), np.nan, np.float32)
    with pytest.raises(GraphError, match="not finite"):
        features(tmp_path, draft)
    assert list(tmp_path.iterdir()) == []


def test_nothing_stays_where_no_step_was_saved(tmp_path, monkeypatch):
    stopped(tmp_path, monkeypatch, at=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="only Linux tells how much of a file is in memory")
def test_the_rows_of_one_step_at_most_are_in_memory(tmp_path):
    num_nodes, width = 40_000, 64
    files = StepFiles(tmp_path / "steps", "a ring", (num_nodes, width))
    indptr, nodes = np.arange(0, 2 * num_nodes + 1, 2), np.arange(num_nodes)
    indices = np.stack([(nodes - 1) % num_nodes, (nodes + 1) % num_nodes], axis=1).ravel()
    held = []
    structural_features.structural_features(
        indptr, indices, nodes.astype(np.uint64), files, 1, lambda: held.append(in_memory(tmp_path / "steps"))
    )
    assert max(held) <= 1.1 * 4 * num_nodes * width


def in_memory(folder):
    """Bytes of the files in a folder that are in the memory of this process."""
    resident, counts = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, _, rest = line.partition(" ")
        if "-" in name:
            counts = str(folder) in rest
        elif counts and name == "Rss:":
            resident += int(rest.split()[0]) << 10
    return resident
