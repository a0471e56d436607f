"""A polite request to stop."""

import os
import signal
import threading

from gscl_scale.runtime.stop import asked_to_stop, stop_after


def test_a_request_is_heard_by_all_who_listen_and_by_those_who_begin_to_later():
    with asked_to_stop() as outer:
        with asked_to_stop() as inner:
            os.kill(os.getpid(), signal.SIGTERM)
            assert outer.is_set()
            assert inner.is_set()
        with asked_to_stop() as later:
            assert later.is_set()
    with asked_to_stop() as another:
        assert not another.is_set()


def test_what_listened_before_listens_again_afterwards():
    heard = []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
    try:
        with asked_to_stop():
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        assert heard == [1]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_after_its_time_a_process_asks_itself():
    with asked_to_stop() as asked:
        with stop_after(0.05):
            assert asked.wait(10)
        asked.clear()
        with stop_after(0.2):
            pass
        assert not asked.wait(0.4)
        with stop_after(0):
            assert not asked.wait(0.1)


def test_another_thread_hears_nothing():
    events = []

    def listen():
        with asked_to_stop() as event:
            events.append(event)

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    assert not events[0].is_set()
