"""The lease of a registry: one run at a time, alive while its heart beats, fenced by the ledger once it does not."""

import contextlib
import json
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from gscl_scale.errors import FolderError, GsclError, LeaseError, StoppedError
from gscl_scale.io.atomic import is_running
from gscl_scale.io.checksum import fingerprint_of
from gscl_scale.io.validate import parse_json, schema_error
from gscl_scale.registry.ledger import Ledger, State, StateChange
from gscl_scale.runtime.console import Console
from gscl_scale.storage.stores import Store, check_creation

_BEATS = 4  # within the time after which a silent holder is dead
_LOOK_S = 0.5


class _Heartbeat(TypedDict):
    time: Annotated[float, Field(ge=0, le=1e12)]
    seconds: NotRequired[Annotated[float, Field(gt=0, le=1e9)]]  # the holder's lease; versions before had none


class Lease:
    """The right to change a registry, until it is released or lost."""

    def __init__(self, store: Store, state: State, seconds: float) -> None:
        self.state = state  # the registry as this lease has last seen it
        self._store, self._ledger, self._seconds = store, Ledger(store), seconds
        self._over = threading.Event()
        self._lost = threading.Event()
        self._beating = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    @property
    def token(self) -> int:
        """Higher than that of every lease before."""
        return self.state.token

    def record(self, decide: Callable[[State], StateChange | None]) -> State:
        """Write the next record, decided from the newest, or none; LeaseError if another run has taken the lease over.

        Whoever changes the registry by hand needs no lease: if a record came in between, it is decided again.
        """
        while True:
            self.state = self._newest()
            change = decide(self.state)
            following = self._ledger.append(self.state, **change) if change else self.state
            if following:
                self.state = following
                return following

    def check(self) -> None:
        """LeaseError if it is known to be lost."""
        if self._lost.is_set():
            raise self._is_lost()

    def verify(self) -> None:
        """LeaseError if another run has taken the lease over."""
        self._newest()

    def start(self) -> None:
        """Write the first heartbeat, and go on with it in the background."""
        _write_heartbeat(self._store, self.token, self._seconds)
        self._beating.start()

    def stop(self) -> None:
        """End the heartbeat, and release the lease if it is still ours."""
        self._over.set()
        self._beating.join()
        with contextlib.suppress(LeaseError):
            self.record(lambda _: {"event": "released", "holder": ""})
        self._store.remove(_heartbeat_file(self.token))

    def _newest(self) -> State:
        """The registry now; LeaseError if another run has taken the lease over."""
        state = self._ledger.newest()
        if state.token != self.token:
            raise self._is_lost()
        return state

    def _is_lost(self) -> LeaseError:
        self._lost.set()
        holder = self._ledger.newest().holder or "another run, which has ended"
        return LeaseError(
            f"{self._store.where}: this run lost its lease: it sent no heartbeat for more than {self._seconds:g} s, "
            f"and {holder} took over its work; nothing of this run was published. If such pauses are normal, raise "
            "retrain.lease_s"
        )

    def _beat(self) -> None:
        while not self._over.wait(self._seconds / _BEATS) and not self._lost.is_set():
            with contextlib.suppress(GsclError, OSError):  # a store in trouble; the next beat may reach it
                self._newest()
                _write_heartbeat(self._store, self.token, self._seconds)


@contextlib.contextmanager
def hold_lease(
    store: Store, seconds: float, wait_s: float, console: Console, asked: threading.Event | None = None
) -> Iterator[Lease]:
    """Have the lease of a registry; LeaseError if another run has it, and still does after `wait_s`.

    asked   a request to stop, which ends the waiting
    """
    check_creation(store)
    lease = Lease(store, _acquire(store, seconds, wait_s, console, asked or threading.Event()), seconds)
    lease.start()
    try:
        yield lease
    finally:
        lease.stop()


def _acquire(store: Store, seconds: float, wait_s: float, console: Console, asked: threading.Event) -> State:
    ledger, until, is_waiting = Ledger(store), time.monotonic() + wait_s, False
    who = f"{socket.gethostname()}, process {os.getpid()}, {_machine()}-{uuid.uuid4().hex[:8]}"
    while True:
        state = ledger.newest()
        is_gone = _is_gone(state.holder)
        if not state.holder or is_gone or _is_dead(store, state, seconds):
            event = "taken over" if state.holder else "leased"
            taken = ledger.append(state, event=event, token=state.token + 1, holder=who, reason=state.holder)
            if taken and state.holder:
                why = f"{state.holder} no longer runs" if is_gone else f"the lease of {state.holder} has expired"
                console.say(f"{why}: this run takes over its work")
            if taken:
                return taken
            continue
        if time.monotonic() >= until:
            beat = _last_heartbeat(store, state.token)
            ago = f", seen {max(0.0, time.time() - beat['time']):.0f} s ago" if beat else ""
            raise LeaseError(
                f"{store.where}: another run has the lease ({state.holder}{ago}); nothing was done. Try again when it "
                "has ended; gscl-scale retrain waits for it with --set retrain.wait_s=SECONDS"
            )
        if not is_waiting:
            console.say(f"waiting for {state.holder}, which has the lease")
            is_waiting = True
        if asked.wait(min(_LOOK_S, seconds / _BEATS)):
            raise StoppedError(f"{store.where}: asked to stop while waiting for the lease; nothing was done")


def _is_gone(holder: str) -> bool:
    """Whether the holder was a process that this one would see if it ran, and does not."""
    machine = _machine()
    ours = re.fullmatch(rf"{re.escape(socket.gethostname())}, process (\d{{1,9}}), {machine}-\w+", holder)
    return bool(machine and ours and not is_running(int(ours[1])))


def _machine() -> str:
    """The same for processes that see each other: of one container, since one start of the machine; "" if unknown."""
    try:
        start = Path("/proc/sys/kernel/random/boot_id").read_text()
        return fingerprint_of([start, Path("/proc/self/ns/pid").readlink()])[:8]
    except OSError:
        return ""


def _is_dead(store: Store, state: State, seconds: float) -> bool:
    """Whether the holder's last heartbeat is too old, and no other comes while we watch: clocks may differ.

    seconds   our own lease, for a holder that has not written the seconds of its lease
    """
    last = _last_heartbeat(store, state.token)
    seconds = last.get("seconds", seconds) if last else seconds
    if abs(time.time() - (last["time"] if last else _time_of(state))) < seconds:
        return False
    time.sleep(2 * seconds / _BEATS)
    return _last_heartbeat(store, state.token) == last


def _time_of(state: State) -> float:
    try:
        return datetime.fromisoformat(state.time).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0  # no time that is known: long ago


def _heartbeat_file(token: int) -> str:
    return f"heartbeats/{token:08d}.json"


def _write_heartbeat(store: Store, token: int, seconds: float) -> None:
    store.write(_heartbeat_file(token), json.dumps({"time": time.time(), "seconds": seconds}).encode())


def _last_heartbeat(store: Store, token: int) -> _Heartbeat | None:
    try:
        values: Any = parse_json(store.read(_heartbeat_file(token)) or b"", "", "")
    except FolderError:
        return None
    return None if schema_error(_Heartbeat, values) else values
