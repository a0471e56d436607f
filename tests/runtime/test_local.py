import os
import subprocess
import sys
import threading
import time

import pytest

from gscl_scale.errors import FolderError, GraphError, TaskError
from gscl_scale.runtime.runner import run_in_order, start_runner
from gscl_scale.runtime.settings import RunnerSettings


def local(workers):
    return start_runner(RunnerSettings(workers=workers))


class Meter:
    """How many tasks run at once, and what has been started and finished."""

    def __init__(self, seconds=0.02):
        self.seconds = seconds
        self.lock = threading.Lock()
        self.started, self.finished, self.running, self.most = [], [], 0, 0

    def __call__(self, number):
        with self.lock:
            self.started.append(number)
            self.running += 1
            self.most = max(self.most, self.running)
        time.sleep(self.seconds)
        with self.lock:
            self.running -= 1
            self.finished.append(number)
        return number


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_task_is_done_once_by_as_many_workers_as_asked_for(workers):
    work = Meter()
    with local(workers) as runner:
        assert runner.workers == workers
        assert sorted(runner.run(work, range(20))) == list(range(20))
    assert sorted(work.started) == list(range(20))
    assert work.most == workers


def test_one_worker_runs_tasks_in_the_thread_of_the_caller_and_in_order():
    with local(1) as runner:
        assert list(runner.run(lambda _: threading.get_ident(), range(3))) == [threading.get_ident()] * 3


def test_a_runner_does_one_thing_after_the_other():
    with local(2) as runner:
        assert list(runner.run(abs, [])) == []
        assert sorted(runner.run(abs, [-1, -2])) == [1, 2]
        assert sorted(runner.run(str, [1, 2])) == ["1", "2"]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_tasks_are_drawn_only_as_they_are_needed(workers):
    drawn = []

    def tasks():
        for number in range(50):
            drawn.append(number)
            yield number

    with local(workers) as runner:
        results = runner.run(Meter(), tasks())
        for taken in range(1, 20):
            next(results)
            assert len(drawn) <= taken + 2 * workers


@pytest.mark.parametrize("error", [FolderError("task 3 failed"), KeyError("three")])
@pytest.mark.parametrize("workers", [1, 2])
def test_the_error_of_a_task_arrives_as_itself_and_nothing_new_starts(error, workers):
    work = Meter()

    def fail_at_three(number):
        if number == 3:
            raise error
        return work(number)

    results = []
    with local(workers) as runner, pytest.raises(type(error)) as raised:  # noqa: PT012
        for result in runner.run(fail_at_three, range(100)):
            results.append(result)
    assert raised.value is error
    assert sorted(results) == sorted(work.started) == sorted(work.finished)
    assert len(results) < 10


def test_what_finishes_after_an_error_is_still_given():
    begun = threading.Event()

    def fail_or_finish(number):
        if number == 0:
            begun.wait()
            raise TaskError("at once")
        begun.set()
        time.sleep(0.1)
        return number

    results = []
    with local(2) as runner, pytest.raises(TaskError, match="at once"):  # noqa: PT012
        for result in runner.run(fail_or_finish, range(2)):
            results.append(result)
    assert results == [1]


def test_an_error_of_the_tasks_themselves_ends_the_work():
    work = Meter()

    def tasks():
        yield from range(3)
        raise TaskError("no more tasks can be made")

    with local(2) as runner, pytest.raises(TaskError, match="no more tasks"):
        list(runner.run(work, tasks()))
    assert sorted(work.started) == sorted(work.finished)


def test_nothing_runs_on_after_the_consumer_has_stopped():
    work = Meter(seconds=0.05)
    with local(2) as runner:
        results = runner.run(work, range(100))
        next(results)
        results.close()
        assert sorted(work.started) == sorted(work.finished)
        before = len(work.started)
        time.sleep(0.2)
        assert len(work.started) == before <= 5


def test_nothing_runs_on_after_an_interrupt_of_the_consumer():
    work = Meter(seconds=0.05)
    with pytest.raises(KeyboardInterrupt), local(2) as runner:  # noqa: PT012
        for _ in runner.run(work, range(100)):
            raise KeyboardInterrupt
    assert sorted(work.started) == sorted(work.finished)
    assert len(work.started) <= 5
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("task")]


def test_a_folder_of_this_machine_is_seen_by_all_threads(tmp_path):
    with local(2) as runner:
        runner.check_shared(tmp_path / "not there yet")
    assert list(tmp_path.iterdir()) == []


def test_without_a_setting_there_is_one_worker_per_core():
    with local(0) as runner:
        assert 1 <= runner.workers <= (os.cpu_count() or 1)


def test_local_work_does_not_import_ray():
    code = (
        "import sys; from gscl_scale.runtime.runner import start_runner\n"
        "from gscl_scale.runtime.settings import RunnerSettings\n"
        "with start_runner(RunnerSettings(workers=2)) as runner: list(runner.run(abs, [1]))\n"
        "sys.exit('ray' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def slow_first(number):
    time.sleep(0.1 if number < 2 else 0)
    if number in (1, 3):
        raise GraphError(f"row {number} is wrong")
    return number


def test_results_and_mistakes_of_the_input_come_in_the_order_of_the_tasks():
    with local(3) as runner:
        assert list(run_in_order(runner, abs, range(0, -20, -1))) == list(range(20))
        results = run_in_order(runner, slow_first, range(5))
        assert next(results) == 0
        with pytest.raises(GraphError, match="row 1 is wrong"):
            next(results)
