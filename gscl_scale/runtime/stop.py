"""A polite request to stop: SIGTERM, as schedulers and preempted machines send it."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

_listening: list[threading.Event] = []


@contextlib.contextmanager
def asked_to_stop(event: threading.Event | None = None) -> Iterator[threading.Event]:
    """An event that SIGTERM sets; only the main thread can listen, elsewhere others have to set it.

    A request that came before, while somebody further out was listening, counts too.
    """
    event = event or threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return
    if any(outer.is_set() for outer in _listening):
        event.set()
    _listening.append(event)

    def ask(*_: Any) -> None:
        for one in _listening:
            one.set()

    before = signal.signal(signal.SIGTERM, ask)
    try:
        yield event
    finally:
        signal.signal(signal.SIGTERM, before)
        _listening.pop()


@contextlib.contextmanager
def stop_after(seconds: float) -> Iterator[None]:
    """Ask this process to stop after so long, as a scheduler would; 0: never."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGTERM))
    timer.daemon = True
    if seconds:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
