import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from gscl_scale.config.sections import RingsConfig
from gscl_scale.errors import ConfigError, StoppedError, TaskError
from gscl_scale.graph.graph import Graph
from gscl_scale.io.json import read_json, read_json_lines
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.runner import start_runner
from gscl_scale.runtime.settings import RunnerSettings
from gscl_scale.shards import rounds
from gscl_scale.shards.precompute import is_complete
from gscl_scale.shards.prefetch import RoundsAhead
from gscl_scale.shards.reader import Samples
from tests.graphs import make_graph, make_samples, random_edges
from tests.rings.checks import assert_same_lists

CONFIG = RingsConfig(hops=2, width=8, per_ring=4, beyond=6, rounds="epoch", part_anchors=50, ahead=2)
ROUNDS = 8


@pytest.fixture
def graph_folder(tmp_path):
    make_graph(tmp_path / "graph", random_edges(200, 500, seed=0), 200)
    return tmp_path / "graph"


@pytest.fixture
def samples(graph_folder, tmp_path):
    """A folder with the first round, as the stage before a training leaves it."""
    make_samples(graph_folder, tmp_path / "samples", CONFIG, epochs=ROUNDS)
    return tmp_path / "samples"


def ahead(graph_folder, samples, config=CONFIG, log=None, num_rounds=ROUNDS, epochs=ROUNDS):
    console = Console(log, quiet=True)
    return RoundsAhead(
        graph_folder, samples, config, num_rounds, epochs, lambda: start_runner(RunnerSettings(workers=2)), console
    )


def on_disk(samples):
    return sorted(int(path.name[-3:]) for path in samples.glob("round-*"))


def wait_until(there):
    end = time.monotonic() + 30
    while not there():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


def test_rounds_made_while_they_are_used_are_those_made_before_and_few_wait_on_disk(graph_folder, tmp_path):
    make_samples(graph_folder, tmp_path / "all", CONFIG.model_copy(update={"ahead": 0}), epochs=ROUNDS)
    all_of_them, samples = Samples.open(tmp_path / "all"), tmp_path / "samples"
    make_samples(graph_folder, samples, CONFIG, epochs=ROUNDS)
    assert on_disk(samples) == [0]
    with ahead(graph_folder, samples) as source:
        assert source.num_rounds == ROUNDS
        for number in range(ROUNDS):
            reader, known = source.of_epoch(number), all_of_them.round(number)
            last = min(number + CONFIG.ahead, ROUNDS - 1)
            wait_until(lambda: on_disk(samples) == sorted({0, *range(number, last + 1)}))  # noqa: B023
            for mine, theirs in zip(reader.parts, known.parts, strict=True):
                assert_same_lists(mine, theirs)
    recorded = [number for number, entry in enumerate(read_json(samples / "manifest.json")["rounds"]) if entry]
    assert recorded[0] == 0
    assert set(recorded) <= set(on_disk(samples))


def test_a_training_that_goes_on_at_a_dropped_round_gets_it_again(graph_folder, samples):
    with ahead(graph_folder, samples) as source:
        first = source.of_epoch(3).parts[0].beyond.members.tolist()
        source.of_epoch(6)
        wait_until(lambda: 3 not in on_disk(samples))
    with ahead(graph_folder, samples) as source:
        assert source.of_epoch(3).parts[0].beyond.members.tolist() == first


def test_rounds_used_in_turn_are_dropped_too_and_none_is_made_for_epochs_that_there_are_not(graph_folder, tmp_path):
    samples, log = tmp_path / "samples", tmp_path / "log.jsonl"
    in_turn = CONFIG.model_copy(update={"rounds": 5, "ahead": 1})
    make_samples(graph_folder, samples, in_turn, epochs=13)
    (samples / "scratch/round-004").mkdir(parents=True)  # of a training that was killed
    with ahead(graph_folder, samples, in_turn, log, num_rounds=5, epochs=13) as source:
        for epoch in range(13):
            source.of_epoch(epoch)
            needed = {0, epoch % 5, min(epoch + 1, 12) % 5}
            wait_until(lambda: set(on_disk(samples)) == needed)  # noqa: B023
    assert on_disk(samples) == [0, 2]
    assert not (samples / "scratch").exists()
    assert not (samples / "progress.jsonl").exists()
    made = [line["round"] for line in read_json_lines(log) if line.get("event") == "round"]
    assert made == [0, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2]


def test_what_a_killed_training_has_left_goes_unless_it_is_needed_next(graph_folder, samples):
    with ahead(graph_folder, samples) as source:
        source.of_epoch(1)
        wait_until(lambda: on_disk(samples) == [0, 1, 2, 3])
    kept = (samples / "round-003").stat().st_ino
    (samples / "round-007").mkdir()
    (samples / "round-007/part-00000.arrow").write_bytes(b"half")
    with ahead(graph_folder, samples) as source:
        source.of_epoch(3)
        wait_until(lambda: on_disk(samples) == [0, 3, 4, 5])
        assert (samples / "round-003").stat().st_ino == kept
    make_samples(graph_folder, samples, CONFIG, epochs=ROUNDS)
    assert on_disk(samples) == [0]


def test_a_first_round_that_is_damaged_is_made_again_wherever_the_training_goes_on(graph_folder, samples):
    first = (samples / "round-000/part-00001.arrow").read_bytes()
    (samples / "round-000/part-00001.arrow").write_bytes(first[:-1] + b"x")
    with ahead(graph_folder, samples) as source:
        source.of_epoch(5)
    assert (samples / "round-000/part-00001.arrow").read_bytes() == first


def test_without_rounds_ahead_those_that_were_dropped_are_missing(graph_folder, samples):
    graph, before = Graph.open(graph_folder), CONFIG.model_copy(update={"ahead": 0})
    assert is_complete(samples, graph, CONFIG, ROUNDS)
    assert not is_complete(samples, graph, before, ROUNDS)
    with ahead(graph_folder, samples) as source:
        source.of_epoch(ROUNDS - 1)
    assert not (samples / "progress.jsonl").exists()
    assert not is_complete(samples, graph, before, ROUNDS)
    make_samples(graph_folder, samples, before, epochs=ROUNDS)
    assert is_complete(samples, graph, before, ROUNDS)
    assert on_disk(samples) == list(range(ROUNDS))


def test_an_error_of_the_producer_is_raised_where_the_round_is_asked_for(graph_folder, samples, monkeypatch):

    def fails(task):
        raise TaskError("no more of this")

    monkeypatch.setattr(rounds, "run_part", fails)
    with ahead(graph_folder, samples) as source:
        source.of_epoch(0)
        with pytest.raises(TaskError, match="no more of this"):
            source.of_epoch(1)


def test_leaving_stops_the_producer_at_once_and_what_is_finished_is_kept(graph_folder, samples, tmp_path):
    log = tmp_path / "log.jsonl"
    with ahead(graph_folder, samples, log=log) as source:
        source.of_epoch(0)
    assert len(read_json_lines(log)) <= 4
    Samples.open(samples).round(0)


def test_more_ahead_than_the_disk_that_is_allowed_is_refused(graph_folder, tmp_path):
    tight = CONFIG.model_copy(update={"disk_gb": 1e-4})
    with pytest.raises(ConfigError, match=r"rings\.ahead: the first round, the one in use and 2 ahead take"):
        make_samples(graph_folder, tmp_path / "samples", tight, epochs=ROUNDS)


def test_who_waits_for_a_round_when_the_training_ends_is_told(graph_folder, samples, monkeypatch):
    released = threading.Event()
    make_round = rounds.Rounds.make_round

    def slow(self, number, advance):
        if number:
            released.wait(30)
            advance()  # which ends it, once nobody needs it
        make_round(self, number, advance)

    monkeypatch.setattr(rounds.Rounds, "make_round", slow)
    with ThreadPoolExecutor(1) as pool:
        with ahead(graph_folder, samples) as source:
            waiting = pool.submit(source.of_epoch, 1)
            threading.Timer(0.5, released.set).start()
        with pytest.raises(StoppedError, match="the training has ended"):
            waiting.result(timeout=20)
