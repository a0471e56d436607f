"""A function beside the main thread, which is interrupted while it waits."""

import os
import signal
import threading

import pytest

from gscl_scale.runtime.cluster.background import Beside


@pytest.fixture
def interruptible():
    """A shell starts what it puts in the background with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_its_end_is_waited_for_also_after_an_interrupt():
    go_on, ended = threading.Event(), []
    beside = Beside(lambda: go_on.wait(60) and ended.append(True))
    beside.start()
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        beside.wait(60)
    assert not beside.is_over
    beside.wait(0.05)
    assert (beside.is_over, ended) == (False, [])
    go_on.set()
    beside.wait()
    assert (beside.is_over, beside.error, ended) == (True, None, [True])


def test_its_error_is_kept_for_the_one_who_waits():
    beside = Beside(lambda: [][0])
    beside.start()
    beside.wait()
    assert isinstance(beside.error, IndexError)
