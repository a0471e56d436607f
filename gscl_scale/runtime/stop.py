"""A request to stop: SIGTERM, as schedulers and preempted machines send it."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any


class _Listener:
    """A handler of SIGTERM that sets its event and those of the listeners around it.

    The handler that is installed is the innermost listener: the process has no other record of who listens.
    """

    def __init__(self, event: threading.Event) -> None:
        self._event = event
        self.outer = signal.getsignal(signal.SIGTERM)
        if isinstance(self.outer, _Listener) and self.outer.was_asked():
            event.set()

    def __call__(self, *signal_and_frame: Any) -> None:
        self._event.set()
        if isinstance(self.outer, _Listener):
            self.outer()

    def was_asked(self) -> bool:
        return self._event.is_set() or (isinstance(self.outer, _Listener) and self.outer.was_asked())


@contextlib.contextmanager
def stop_event(event: threading.Event | None = None) -> Iterator[threading.Event]:
    """Yield an event that SIGTERM sets; only the main thread can listen, elsewhere others have to set it.

    A request that came earlier, to a listener further out, counts too.
    """
    event = event or threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return
    listener = _Listener(event)
    signal.signal(signal.SIGTERM, listener)
    try:
        yield event
    finally:
        signal.signal(signal.SIGTERM, listener.outer)


@contextlib.contextmanager
def outlive_stop(reason: threading.Event) -> Iterator[None]:
    """Ignore SIGTERM once there is a reason to, instead of ending at once: an error has to be printed first."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    outer = signal.getsignal(signal.SIGTERM)

    def end(*_: Any) -> None:
        if not reason.is_set():
            signal.signal(signal.SIGTERM, outer)
            os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        if not reason.is_set():
            signal.signal(signal.SIGTERM, outer)


@contextlib.contextmanager
def stop_after(seconds: float) -> Iterator[None]:
    """Ask this process to stop after so many seconds, as a scheduler would; 0: never."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGTERM))
    timer.daemon = True
    if seconds:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
