"""Records that are created one after the other, and the lease that is kept in them."""

import contextlib
import json
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from gscl_scale.errors import FolderError, LeaseError, RunError, StoppedError
from gscl_scale.registry.lease import hold_lease
from gscl_scale.registry.ledger import Ledger, State
from gscl_scale.runtime.console import Console

QUIET = Console(quiet=True)


def test_the_newest_state_is_that_of_the_last_record_and_a_late_one_is_refused(store):
    ledger = Ledger(store)
    assert ledger.newest() == State()
    first = ledger.append(State(), event="one", promoted=("v1",))
    second = ledger.append(first, event="two", reason="because")
    assert ledger.append(first, event="late", current="v9") is None
    assert ledger.newest() == second
    assert ledger.at(1) == first
    assert (second.number, second.event, second.promoted, second.reason) == (2, "two", ("v1",), "because")
    assert ledger.append(second, event="three").reason == ""


def test_of_many_writers_at_once_one_writes_the_next_record(store):
    with ThreadPoolExecutor(8) as pool:
        written = list(pool.map(lambda who: Ledger(store).append(State(), event=f"of {who}"), range(8)))
    (winner,) = (state for state in written if state)
    assert Ledger(store).newest() == winner


def test_a_damaged_record_is_named(store):
    ledger = Ledger(store)
    ledger.append(State(), event="one")
    store.write("ledger/00000002.json", b'{"number": 2}')
    with pytest.raises(FolderError, match=r"ledger/00000002\.json is damaged"):
        ledger.newest()


# --- the lease -------------------------------------------------------------------------------------------------------


def test_a_second_run_leaves_and_the_first_is_not_disturbed(store):
    with hold_lease(store, 60, 0, QUIET) as first:
        says = r"another run has the lease .*nothing was done"
        with pytest.raises(LeaseError, match=says), hold_lease(store, 60, 0, QUIET):
            pass
        first.record(lambda _: {"event": "promoted", "current": "v1"})
    state = Ledger(store).newest()
    assert (state.holder, state.current, state.token) == ("", "v1", 1)


def test_a_second_run_may_wait(store):
    first = hold_lease(store, 60, 0, QUIET)
    first.__enter__()
    release = threading.Timer(0.3, lambda: first.__exit__(None, None, None))
    release.start()
    with hold_lease(store, 60, 30, QUIET) as second:
        assert second.token == 2
    release.join()


def test_who_waits_can_be_asked_to_stop(store):
    asked = threading.Event()
    with hold_lease(store, 60, 0, QUIET):
        asking = threading.Timer(0.3, asked.set)
        asking.start()
        with pytest.raises(StoppedError, match="while waiting for the lease"), hold_lease(store, 60, 60, QUIET, asked):
            pass
        asking.join()


def test_a_holder_that_lives_keeps_the_lease_for_as_long_as_it_likes(store):
    with hold_lease(store, 1.0, 0, QUIET) as lease:
        time.sleep(2.0)
        with pytest.raises(LeaseError), hold_lease(store, 1.0, 0, QUIET):
            pass
        lease.check()


@pytest.fixture
def late(store):
    """A lease whose holder was killed at once."""
    with hold_lease(store, 0.4, 0, QUIET) as lease:
        lease._over.set()
        lease._beating.join()
        yield lease


def test_the_lease_of_a_dead_holder_is_taken_over_and_whoever_is_late_cannot_publish(store, late):
    with pytest.raises(LeaseError), hold_lease(store, 60, 0, QUIET):
        pass
    time.sleep(0.5)
    with hold_lease(store, 0.4, 0, QUIET) as lease:
        lease.record(lambda _: {"event": "promoted", "current": "v2"})
        late.check()
        late._over.clear()
        late._beat()  # it wakes, and notices by itself
        for publish in (late.check, late.verify, lambda: late.record(lambda _: {"event": "promoted", "current": "v1"})):
            with pytest.raises(LeaseError, match=r"no heartbeat for more than 0\.4 s, and .* took over its work"):
                publish()
    assert Ledger(store).newest().current == "v2"


@pytest.mark.parametrize("is_ours", [True, False], ids=["this machine", "another container"])
def test_the_lease_of_a_process_that_no_longer_runs_is_taken_over_at_once(store, monkeypatch, capfd, is_ours):
    process = subprocess.Popen(["true"])
    process.wait()
    with monkeypatch.context() as then:
        then.setattr("os.getpid", lambda: process.pid)
        if not is_ours:
            then.setattr("pathlib.Path.readlink", lambda _: "pid:[1]")
        killed = hold_lease(store, 60, 0, QUIET)
        killed.__enter__()._over.set()
    if not is_ours:
        with pytest.raises(LeaseError, match="another run has the lease"), hold_lease(store, 60, 0, QUIET):
            pass
        return
    with hold_lease(store, 60, 0, Console()) as lease:
        assert lease.token == 2
    assert "no longer runs: this run takes over its work" in capfd.readouterr().err


def test_a_holder_with_a_longer_lease_is_not_dead_by_the_shorter_one_of_a_rival(store):
    with hold_lease(store, 60, 0, QUIET) as lease:
        time.sleep(0.2)
        with pytest.raises(LeaseError, match="another run has the lease"), hold_lease(store, 0.1, 0, QUIET):
            pass
        lease.check()


def test_a_clock_that_jumped_does_not_kill_a_holder_that_shows_life(store):
    with hold_lease(store, 1.0, 0, QUIET) as lease:
        stop = threading.Event()

        def beat():
            for number in range(200):
                if stop.wait(0.05):
                    return
                with contextlib.suppress(RunError):  # the lease beats too, from this very process: one of them may fail
                    store.write(f"heartbeats/{lease.token:08d}.json", json.dumps({"time": number}).encode())

        with ThreadPoolExecutor(1) as pool:
            pool.submit(beat)
            time.sleep(0.2)
            with pytest.raises(LeaseError), hold_lease(store, 1.0, 0, QUIET):
                pass
            stop.set()


def test_a_lease_ends_with_its_block_also_when_that_fails(store):
    with pytest.raises(ZeroDivisionError), hold_lease(store, 60, 0, QUIET):
        raise ZeroDivisionError
    with hold_lease(store, 60, 0, QUIET) as lease:
        assert lease.token == 2
    assert store.sizes("heartbeats") == {}
