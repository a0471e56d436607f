"""Nights frozen at every write of the ledger in turn, while somebody rolls back from another process."""

import os
import shutil
import signal
import time
from itertools import pairwise
from pathlib import Path

import pytest

from gscl_scale.errors import LeaseError
from gscl_scale.registry.lease import hold_lease
from gscl_scale.registry.ledger import Ledger
from gscl_scale.registry.promote import rollback
from gscl_scale.registry.versions import Registry
from gscl_scale.retrain.decision import decide
from gscl_scale.retrain.night import retrain
from gscl_scale.runtime.console import Console
from tests.forked import begin
from tests.retrain.test_columns import OPEN
from tests.retrain.town import Town

pytestmark = pytest.mark.usefixtures("blank_curves")

QUIET = Console(quiet=True)
WRITES = ("leased", "promoted", "released")  # of an undisturbed night
PLACES = [(number, when) for number in range(len(WRITES)) for when in ("before", "after")]
LEASE_S = 0.4


def short_night(where, lease_s):
    """A night for the ledger and the store: all that `retrain` does there, without a graph and a training."""
    registry = Registry(where)
    with hold_lease(registry.store, lease_s, 0, QUIET) as lease:
        base = registry.point().current
        run = Path(where) / f"work/{lease.token:08d}"
        run.mkdir(parents=True)
        (run / "embeddings.parquet").write_text(f"of lease {lease.token}, made from {base}")
        version = registry.keep(lease, run, ["embeddings.parquet"], {"base": base})
        lease.record(lambda state: decide(state, version.name, base, "", keep=10))
        registry.point()
        shutil.rmtree(run)
        registry.clear(lease)


def whole_night(where, lease_s, town):
    """A night as a scheduler starts it."""
    retrain(town.config(train={"epochs": 2}, gate=OPEN, retrain={"lease_s": lease_s, "keep": 10}), where, QUIET)


def freezing(place, night, *arguments):
    """Run a night that freezes itself before or after one of its writes of the ledger; exit code 4 if it was late."""
    (frozen_at, when), append, written = place, Ledger.append, []

    def append_or_freeze(ledger, state, **changes):
        is_it = len(written) == frozen_at
        written.append(changes["event"])
        if is_it and when == "before":
            os.kill(os.getpid(), signal.SIGSTOP)
        following = append(ledger, state, **changes)
        if is_it and when == "after":
            os.kill(os.getpid(), signal.SIGSTOP)
        return following

    Ledger.append = append_or_freeze
    try:
        night(*arguments)
    except LeaseError:
        raise SystemExit(4) from None


def begin_and_freeze(place, night, *arguments):
    """The night, which stands still now."""
    process = begin(freezing, place, night, *arguments)
    until = time.monotonic() + 100
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < until
        assert process.is_alive()
        time.sleep(0.005)
    return process


def thaw(process):
    os.kill(process.pid, signal.SIGCONT)
    process.join(100)
    return process.exitcode


def assert_consistent(registry):
    """One holder at a time, who alone publishes; each record follows from the one before."""
    ledger = registry.ledger
    assert ledger.numbers() == list(range(1, len(ledger.numbers()) + 1))
    for before, after in pairwise(map(ledger.at, ledger.numbers())):
        if after.event in ("leased", "taken over"):
            assert (after.event == "leased") == (before.holder == "")
            assert (after.token, after.current) == (before.token + 1, before.current)
        else:
            assert after.token == before.token
            assert after.holder == ("" if after.event == "released" else before.holder)
        if after.event in ("promoted", "candidate", "released"):
            assert before.holder
        if after.event in ("promoted", "candidate"):
            assert after.version == f"v{after.token:06d}"
            assert (after.event == "promoted") == (registry.version(after.version).index["base"] == before.current)
        if after.event not in ("promoted", "rolled back"):
            assert after.current == before.current
        assert after.current == after.promoted[-1]
        assert set(after.candidates) | set(after.rolled_back) <= set(after.refused)
        assert not set(after.promoted) & set(after.refused)
    newest = ledger.newest()
    assert newest.holder == ""
    assert {name.split("/")[1] for name in registry.store.sizes("versions")} >= set(newest.kept())


def freeze_roll_back_and_thaw(where, place, night, *arguments):
    """A night that is frozen for a moment, in which somebody rolls back."""
    registry = Registry(where)
    process = begin_and_freeze(place, night, where, 60.0, *arguments)
    try:
        leaving = registry.ledger.newest()
        state = rollback(registry)
        assert state.current == leaving.promoted[-2] == registry.ledger.newest().current
        assert thaw(process) == 0
    finally:
        process.kill()
    events = [state.event for state in map(registry.ledger.at, registry.ledger.numbers())]
    assert_consistent(registry)
    newest = registry.ledger.newest()
    assert leaving.current in newest.refused
    if place[0] == WRITES.index("leased"):  # it has not begun, so it begins with the version that is current now
        assert newest.promoted == (*state.promoted, f"v{newest.token:06d}")
    else:
        assert newest.current == state.current
    assert events.count("candidate") == (place == (WRITES.index("promoted"), "before"))


def freeze_take_over_roll_back_and_thaw(where, place, night, *arguments):
    """A night that is frozen for longer than its lease: another takes over, somebody rolls back, then it wakes."""
    registry = Registry(where)
    process = begin_and_freeze(place, night, where, LEASE_S, *arguments)
    try:
        time.sleep(LEASE_S)
        night(where, LEASE_S, *arguments)
        leaving = registry.ledger.newest()
        state = rollback(registry)
        has_lease = PLACES.index((0, "after")) <= PLACES.index(place) <= PLACES.index((1, "before"))
        assert thaw(process) == (4 if has_lease else 0)  # else it had nothing left to publish, or had not begun
    finally:
        process.kill()
    assert_consistent(registry)
    newest = registry.ledger.newest()
    assert leaving.current in newest.refused
    if place == PLACES[0]:  # it had not begun; a whole one then finds that its graph is that of the version left
        mine = (f"v{newest.token:06d}",) if night is short_night else ()
        assert newest.promoted == (*state.promoted, *mine)
    else:
        assert newest == state


@pytest.fixture
def where(tmp_path):
    """A registry with two versions."""
    for _ in range(2):
        short_night(tmp_path / "registry", 60.0)
    return tmp_path / "registry"


@pytest.mark.parametrize("place", PLACES)
def test_a_rollback_while_a_night_is_frozen_at_a_write_holds(where, place):
    freeze_roll_back_and_thaw(where, place, short_night)


@pytest.mark.parametrize("place", PLACES)
def test_a_rollback_after_a_frozen_night_was_taken_over_holds(where, place):
    freeze_take_over_roll_back_and_thaw(where, place, short_night)


@pytest.fixture(scope="module")
def two_nights(tmp_path_factory):
    """A registry with two versions of a town, and the town, which has grown since."""
    folder = tmp_path_factory.mktemp("nights")
    town = Town(folder / "town")
    for _ in range(2):
        whole_night(folder / "registry", 60.0, town)
        town.grow()
    return folder / "registry", town


@pytest.mark.slow
@pytest.mark.timeout(400)  # the first one makes two versions before
@pytest.mark.parametrize("scenario", [freeze_roll_back_and_thaw, freeze_take_over_roll_back_and_thaw])
@pytest.mark.parametrize("place", PLACES)
def test_whole_nights_that_are_frozen_at_a_write(two_nights, tmp_path, scenario, place):
    registry, town = two_nights
    shutil.copytree(registry, tmp_path / "registry")
    scenario(tmp_path / "registry", place, whole_night, town)
