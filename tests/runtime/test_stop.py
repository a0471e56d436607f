"""A request to stop."""

import signal
import threading

from gscl_scale.runtime.stop import stop_after, stop_event


def test_a_request_reaches_all_listeners_and_those_that_start_later():
    with stop_event() as outer:
        with stop_event() as inner:
            signal.raise_signal(signal.SIGTERM)
            assert outer.is_set()
            assert inner.is_set()
        with stop_event(), stop_event() as later:
            assert later.is_set()
    with stop_event() as another:
        assert not another.is_set()


def test_the_handler_before_is_called_again_afterwards():
    received = []
    before = signal.signal(signal.SIGTERM, lambda *_: received.append(1))
    try:
        with stop_event():
            signal.raise_signal(signal.SIGTERM)
        assert not received
        signal.raise_signal(signal.SIGTERM)
        assert received == [1]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_after_its_time_a_process_asks_itself():
    with stop_event() as asked:
        with stop_after(0.05):
            assert asked.wait(10)
        asked.clear()
        with stop_after(0.2):
            pass
        assert not asked.wait(0.4)
        with stop_after(0):
            assert not asked.wait(0.1)


def test_another_thread_does_not_listen():
    events = []

    def listen():
        with stop_event() as event:
            events.append(event)

    with stop_event() as outer:
        signal.raise_signal(signal.SIGTERM)
        thread = threading.Thread(target=listen)
        thread.start()
        thread.join()
        assert outer.is_set()
    assert not events[0].is_set()
