"""A function on a thread in the background, while the main thread is interrupted."""

import os
import signal
import threading

import pytest

from gscl_scale.runtime.cluster.background import BackgroundCall


def test_waiting_for_its_end_goes_on_after_an_interrupt():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background would ignore it
    go_on, ended = threading.Event(), []
    call = BackgroundCall(lambda: go_on.wait(60) and ended.append(True))
    call.start()
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            call.wait(60)
    finally:
        signal.signal(signal.SIGINT, before)
    call.wait(0.05)
    assert (call.is_over, ended) == (False, [])
    go_on.set()
    call.wait()
    assert (call.is_over, call.error, ended) == (True, None, [True])


def test_its_error_is_kept():
    call = BackgroundCall(lambda: [][0])
    call.start()
    call.wait()
    assert isinstance(call.error, IndexError)
