"""Blocks of rows as tasks of other processes: the same bytes as here."""

import pickle

import numpy as np
import pytest

from gscl_scale.embed.layers import EncodingSettings, encode_nodes
from gscl_scale.model.scaling import Scaling
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.local import LocalRunner
from tests.embed.test_layers import CPU, ENCODERS, KINDS, NODES, events, features_of, hubs, model_of
from tests.graphs import make_graph


class Elsewhere:
    """A runner whose tasks travel as to another machine; it is interrupted after `until` of them."""

    def __init__(self, workers=2, until=None):
        self.workers, self.until, self.tasks = workers, until, []

    def run(self, function, tasks):
        for task in tasks:
            if len(self.tasks) == self.until:
                raise KeyboardInterrupt
            self.tasks.append(task)
            with LocalRunner(1) as runner:
                yield from runner.run(function, [pickle.loads(pickle.dumps(task))])


def encoded(folder, graph, encoder="gcn", scaling="standard", runner=None):
    _, model = model_of(graph, encoder=encoder)
    place = EncodingSettings(folder / "scratch", "made from this", CPU, threads=2)
    log = Console(folder / "log.jsonl", quiet=True)
    with encode_nodes(model.encoder, graph, Scaling.of(graph.features, scaling), place, log, runner) as vectors:
        return np.array(vectors)


@pytest.fixture
def pieces(monkeypatch):
    """Blocks of 32 rows rather than thousands, so that small graphs have many."""
    monkeypatch.setattr("gscl_scale.embed.layer_files._MOST_PIECE", 32)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize(("kind", "width"), KINDS)
def test_tasks_write_the_same_bytes(tmp_path, pieces, kind, width, encoder):
    graph = make_graph(tmp_path / "graph", hubs(), NODES, features=features_of(kind, width))
    runner = Elsewhere()
    found = encoded(tmp_path, graph, encoder, runner=runner)
    assert found.tobytes() == encoded(tmp_path, graph, encoder).tobytes()
    assert all(task.first % 32 == 0 for task in runner.tasks)
    assert len(runner.tasks) > 8
    assert not (tmp_path / "scratch").exists()


def test_finished_blocks_are_not_computed_again(tmp_path, pieces):
    graph = make_graph(tmp_path / "graph", hubs(), NODES, features=features_of("dense", 6))
    first, second = Elsewhere(until=5), Elsewhere()
    with pytest.raises(KeyboardInterrupt):
        encoded(tmp_path, graph, runner=first)
    found = encoded(tmp_path, graph, runner=second)
    begun = [event for event in events(tmp_path) if event["event"] == "encoding"][-1]
    assert begun["rows_kept"] == sum(task.end - task.first for task in first.tasks)
    assert not {(task.step, task.first) for task in first.tasks} & {(task.step, task.first) for task in second.tasks}
    assert found.tobytes() == encoded(tmp_path, graph).tobytes()
