"""Room for the processes of a training: what is asked for, how long is waited, and when it is given up."""

import pytest

from gscl_scale.errors import StoppedError, TaskError
from gscl_scale.runtime.cluster import room
from gscl_scale.runtime.cluster.nodes import Machine
from gscl_scale.runtime.cluster.room import AttemptEnd, ask_for_room, attempt_size, await_room, give_up, start_s
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.settings import TrainingSettings


def machine(number, managed=False, **resources):
    return Machine(f"id-{number}", f"10.0.0.{number}", managed, {"CPU": 16.0, **resources})


@pytest.fixture
def there(monkeypatch):
    """The machines that are there at each look; the last ones stay."""
    looks = []
    monkeypatch.setattr(room, "alive_machines", lambda: looks.pop(0) if len(looks) > 1 else looks[0])
    monkeypatch.setattr(room, "_LOOK_S", 0.01)
    return looks


def never():
    return False


def test_processes_wait_for_machines_with_gpus_and_are_told_once(there, capsys):
    one, two, three = (machine(number, GPU=1.0) for number in (1, 2, 3))
    there += [[one, two], [one, two], [one, two, three]]
    await_room(TrainingSettings(workers=(3, 3), gpus=1), never, Console())
    told = capsys.readouterr().err.splitlines()
    assert told == [
        "runtime.train_workers: 3 processes with 1 core, 1 GPU each are asked for, but the machines of the Ray "
        "cluster have room for 2; waiting up to 30 minutes for machines (runtime.wait_minutes)"
    ]


def test_room_that_does_not_come_in_time_ends_it(there):
    there.append([machine(1, GPU=1.0), machine(2, GPU=1.0)])
    with pytest.raises(TaskError, match=r"have room for 2 after 0\.001 minutes; checkpoints are kept: ask for fewer"):
        await_room(TrainingSettings(workers=(3, 3), gpus=1, wait_s=0.06), never, Console(quiet=True))


def test_who_waits_can_be_stopped(there):
    there.append([machine(1)])
    with pytest.raises(StoppedError):
        await_room(TrainingSettings(workers=(3, 3), gpus=1), lambda: True, Console(quiet=True))


def test_nobody_waits_where_there_is_room_or_an_autoscaler_may_add_it(there, capsys):
    there.append([machine(1, GPU=2.0)])
    await_room(TrainingSettings(workers=(2, 8), gpus=1), never, Console())
    there[:] = [[machine(1, managed=True)]]
    await_room(TrainingSettings(workers=(2, 8), gpus=1), never, Console())
    assert not capsys.readouterr().err


@pytest.mark.parametrize("managed", [True, False])
def test_an_autoscaler_is_asked_for_the_top_of_the_range_until_the_end(there, monkeypatch, managed):
    asked = []
    monkeypatch.setattr(room, "request_resources", lambda bundles: asked.append(bundles))
    there.append([machine(1, managed=managed)])
    with pytest.raises(KeyboardInterrupt), ask_for_room(TrainingSettings(workers=(1, 3), cpus=6, gpus=1)):
        raise KeyboardInterrupt
    assert asked == ([[{"CPU": 6, "GPU": 1.0}] * 3, []] if managed else [])


def test_an_attempt_waits_no_longer_than_the_training_may():
    settings = TrainingSettings(workers=(2, 4))
    assert [start_s(settings, size) for size in (2, 3)] == [60, 10]
    assert start_s(TrainingSettings(workers=(2, 4), wait_s=20), 2) == 20


def test_a_training_that_is_broken_off_too_often_is_given_up():
    failed, asked = AttemptEnd("process 1 of 2 was lost", "failed"), AttemptEnd("there is room", "asked")
    settings = TrainingSettings(max_failures=2)
    give_up([failed, asked, failed, asked], settings)
    with pytest.raises(TaskError, match=r"interrupted 3 times, .* because process 1 of 2 was lost; .* and run again"):
        give_up([failed, asked, failed, failed], settings)
    at_once, waited = AttemptEnd("no room", "not started"), AttemptEnd("no room", "not started", 60.0)
    give_up([at_once] * 9, settings)
    with pytest.raises(TaskError, match="was not started 10 times, the last time because no room"):
        give_up([at_once] * 10, settings)
    give_up([waited] * 29, settings)
    give_up([*[waited] * 29, asked, waited], settings)
    with pytest.raises(
        TaskError, match=r"was not started within 30 minutes, .* or wait longer \(runtime\.wait_minutes"
    ):
        give_up([waited] * 30, settings)


def test_of_a_range_fewer_are_tried_where_others_have_taken_the_room():
    settings = TrainingSettings(workers=(2, 5))
    machines = [Machine("a", "127.0.0.1", False, {"CPU": 4.0}), Machine("b", "127.0.0.2", False, {"CPU": 3.0})]
    failed, no_room = AttemptEnd("process 1 of 2 was lost", "failed"), AttemptEnd("no room", "not started")
    sizes = [attempt_size(settings, machines, breaks) for breaks in ([], [no_room], [no_room, failed], [no_room] * 9)]
    assert sizes == [5, 4, 5, 2]
    wide, large = TrainingSettings(workers=(1, 16)), [Machine("a", "127.0.0.1", False, {"CPU": 16.0})]
    assert [attempt_size(wide, large, [no_room] * tried) for tried in range(6)] == [16, 15, 13, 9, 1, 1]
    assert attempt_size(settings, machines[1:], [failed]) == 3
