import os
import signal
import time

import pytest

from gscl_scale.errors import TaskError
from gscl_scale.runtime import local, num_workers, run_tasks


def square_and_process(number):
    return number * number, os.getpid()


def sleep_briefly(number):
    time.sleep(0.02)
    return number


def die_at_three(number):
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def fail_at_three(number):
    if number == 3:
        raise TaskError("task 3 failed")
    return number


def test_every_task_is_done_once_by_any_number_of_workers(monkeypatch):
    monkeypatch.setattr(local, "INLINE_S", 0.0)
    for workers in (1, 2, 3):
        results = list(run_tasks(square_and_process, range(20), workers))
        assert sorted(value for value, _ in results) == [n * n for n in range(20)]
        processes = {process for _, process in results}
        assert len(processes) > 1 or workers == 1


def test_small_jobs_start_no_process():
    assert {process for _, process in run_tasks(square_and_process, range(20), 4)} == {os.getpid()}


def test_tasks_are_drawn_only_as_they_are_needed(monkeypatch):
    monkeypatch.setattr(local, "INLINE_S", 0.0)
    drawn = []

    def tasks():
        for number in range(50):
            drawn.append(number)
            yield number

    results = run_tasks(sleep_briefly, tasks(), 2)
    for _ in range(3):
        next(results)
    assert len(drawn) < 12
    results.close()


@pytest.mark.parametrize(
    ("function", "says"), [(die_at_three, "a worker process died"), (fail_at_three, "task 3 failed")]
)
def test_a_lost_worker_or_failed_task_is_an_error(monkeypatch, function, says):
    monkeypatch.setattr(local, "INLINE_S", 0.0)
    with pytest.raises(TaskError, match=says):
        list(run_tasks(function, range(10), 2))


def test_workers_are_what_is_asked_for_or_one_per_core():
    assert num_workers(3) == 3
    assert 1 <= num_workers(0) <= (os.cpu_count() or 1)
