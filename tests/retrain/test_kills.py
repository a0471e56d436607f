"""Nights that are killed, frozen, or run at the same time, in processes of their own; and a reader all the while."""

import contextlib
import hashlib
import json
import os
import signal
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from gscl_scale.errors import LeaseError
from gscl_scale.registry.versions import Registry
from gscl_scale.retrain.night import retrain
from gscl_scale.runtime.console import Console
from tests.forked import begin
from tests.retrain.town import Town
from tests.slow import slow

pytestmark = pytest.mark.usefixtures("blank_curves")

QUIET = Console(quiet=True)
KILLS = 10
LEASE = {"lease_s": 0.6, "wait_s": 30.0}


def night(config, where):
    """One night, as a scheduler starts it; exit code 4 where another run has the lease."""
    try:
        retrain(config, where, QUIET)
    except LeaseError as error:
        Path(config.graph.edges).with_name("told").write_text(str(error))
        raise SystemExit(4) from None


class Reader(threading.Thread):
    """Reads what the ledger names again and again, and notes what does not belong together."""

    def __init__(self, where):
        super().__init__(daemon=True)
        self.where, self.over = where, threading.Event()
        self.seen, self.wrong, self.reads = [], [], 0

    def run(self):
        registry = Registry(self.where)
        while not self.over.is_set():
            name = registry.ledger.newest().current
            content = registry.store.read(f"versions/{name}/embeddings/embeddings.parquet")
            expected = registry.version(name).index["files"]["embeddings/embeddings.parquet"]["sha256"]
            if hashlib.sha256(content).hexdigest() != expected:
                self.wrong.append(name)
            if self.seen[-1:] != [name]:
                self.seen.append(name)
            self.reads += 1
            time.sleep(0.01)


@contextlib.contextmanager
def reading(where):
    reader = Reader(where)
    reader.start()
    yield reader
    enough = reader.reads + 2  # one that began after the last night
    while reader.reads < enough:
        assert reader.is_alive()
        time.sleep(0.01)
    reader.over.set()
    reader.join()
    assert reader.reads > 5
    assert not reader.wrong


@pytest.mark.slow
def test_a_night_that_is_killed_ten_times_ends_like_an_undisturbed_one(place, tmp_path):
    town = Town(tmp_path / "town")
    config = town.config(retrain=LEASE)
    undisturbed = tmp_path / "undisturbed"
    for where in (place, undisturbed):
        retrain(config, where, QUIET)
    town.grow()
    began = time.monotonic()
    expected = retrain(config, undisturbed, QUIET)
    whole = time.monotonic() - began
    draw = np.random.Generator(np.random.Philox(3))
    with reading(place) as reader:
        for _ in range(KILLS):
            process = begin(night, config, place)
            process.join(float(draw.uniform(0.1, 0.5 + whole / 3)))
            process.kill()
            process.join()
        ended = retrain(config, place, QUIET)
    registry, other = Registry(place), Registry(undisturbed)
    assert ended.current == registry.ledger.newest().current
    files = [one.version(name).files for one, name in ((registry, ended.current), (other, expected.current))]
    assert {name for name in files[0] | files[1] if files[0].get(name) != files[1].get(name)} == set()
    assert registry.version(ended.current).files == other.version(expected.current).files
    assert len(reader.seen) == 2
    assert reader.seen[-1] == ended.current
    kept = {name.split("/")[1] for name in registry.store.sizes("versions")}
    assert kept == set(registry.ledger.newest().kept())
    assert not list((registry.place / "work").iterdir())


@pytest.mark.parametrize("place", ["folder"], indirect=True)
def test_of_two_at_once_one_works_and_the_other_leaves(place, tmp_path):
    config = Town(tmp_path / "town").config()
    both = [begin(night, config, place) for _ in range(2)]
    for process in both:
        process.join()
    assert sorted(process.exitcode for process in both) == [0, 4]
    state = Registry(place).ledger.newest()
    assert (len(state.promoted), state.holder) == (1, "")


def wait_for(pattern, folder, process):
    until = time.monotonic() + 60
    while not list(folder.glob(pattern)):
        assert time.monotonic() < until
        assert process.is_alive()
        time.sleep(0.002)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["s3"], indirect=True)
def test_a_holder_that_was_frozen_past_its_lease_cannot_publish(place, tmp_path):
    town = Town(tmp_path / "town")
    config = town.config(retrain=LEASE)
    first = retrain(config, place, QUIET)
    town.grow()
    frozen = begin(night, config, place)
    try:
        registry = Registry(place)
        wait_for("*/samples", registry.place / "work", frozen)
        os.kill(frozen.pid, signal.SIGSTOP)
        ended = retrain(config, place, QUIET)
        assert ended.current != first.current
        before = registry.ledger.newest()
        os.kill(frozen.pid, signal.SIGCONT)
        frozen.join(60)
        assert frozen.exitcode == 4
        assert "took over its work" in (tmp_path / "town/told").read_text()
        assert registry.ledger.newest() == before
        assert json.loads(registry.store.read("current.json"))["version"] == ended.current
    finally:
        frozen.kill()
        frozen.join()


@pytest.mark.parametrize("after", ["checkpoints", *slow("graph", "samples", "embeddings")])
def test_a_night_goes_on_where_the_one_before_was_killed(after, tmp_path):
    town, where = Town(tmp_path / "town"), tmp_path / "registry"
    config = town.config(retrain=LEASE)
    process = begin(night, config, where)
    wait_for(f"*/{after}/manifest.json", where / "work", process)
    process.kill()
    process.join()
    killed = datetime.now(UTC).isoformat()
    outcome = retrain(config, where, QUIET)
    log = (Registry(where).folder(outcome.version) / "log.jsonl").read_text().splitlines()
    assert json.loads(log[0])["time"] < killed
    events = [(line["stage"], line["event"]) for line in map(json.loads, log)]
    assert events.count(("ingest", "started")) == 1
    if after in ("checkpoints", "embeddings"):
        assert events.count(("precompute", "done")) == 1
        assert ("train", "resumed") in events or events.count(("train", "done")) == 1
