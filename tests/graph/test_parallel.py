"""Threads whose results come in order."""

import gc
import threading
import time
import weakref

import pytest

from gscl_scale.runtime.threads import map_in_order, one_ahead


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_the_order_of_the_tasks(threads):
    def slow_at_first(number):
        time.sleep(0.02 if number == 0 else 0)
        return number * number

    assert list(map_in_order(slow_at_first, range(20), threads)) == [number * number for number in range(20)]


def test_few_tasks_are_begun_before_results_are_taken():
    begun = []
    results = map_in_order(lambda number: begun.append(number) or number, iter(range(100)), 2)
    next(results)
    time.sleep(0.05)
    assert len(begun) <= 3
    results.close()
    assert len(begun) <= 3


@pytest.mark.parametrize("tasks", [0, 1])
def test_one_task_alone_needs_no_thread(tasks):
    assert list(map_in_order(lambda _: threading.get_ident(), iter(range(tasks)), 4)) == [threading.get_ident()] * tasks


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_of_a_task_comes_out_in_its_turn(threads):
    results = map_in_order(lambda number: 1 // number, [1, 0, 2], threads)
    assert next(results) == 1
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_items_are_made_on_another_thread_one_ahead():
    makers = set()

    def items():
        for number in range(5):
            makers.add(threading.get_ident())
            yield number

    assert list(one_ahead(items())) == list(range(5))
    assert threading.get_ident() not in makers
    assert list(one_ahead([])) == []


def test_an_error_of_the_source_comes_through():
    def items():
        yield 1
        raise KeyError("x")

    with pytest.raises(KeyError):
        list(one_ahead(items()))


def test_what_the_source_held_goes_with_its_error():
    class Held:
        pass

    def items(held):
        yield held
        raise KeyError("x")

    held = Held()
    there = weakref.ref(held)
    gc.disable()
    try:
        with pytest.raises(KeyError):
            list(one_ahead(items(held)))
        del held
        assert there() is None
    finally:
        gc.enable()
