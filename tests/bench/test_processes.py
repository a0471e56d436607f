import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gscl_scale.bench.processes import in_process, on_each_core
from gscl_scale.errors import RunError
from gscl_scale.machine import peak_memory, usable_cores

CORE = usable_cores()[0]


def meet(number, barrier, seconds):
    time.sleep(seconds * number)
    barrier.wait()
    return number, time.time(), sorted(os.sched_getaffinity(0)), os.getpid()


def fail_second(number, barrier):
    if number == 1:
        raise ValueError("the second failed")
    barrier.wait()


def die():
    os._exit(9)


def test_processes_begin_together_each_on_its_core():
    found = on_each_core([CORE, CORE], meet, 0.5)
    assert [number for number, *_ in found] == [0, 1]
    assert abs(found[0][1] - found[1][1]) < 0.4
    assert all(cores == [CORE] for _, _, cores, _ in found)
    assert len({process for *_, process in found}) == 2


@pytest.mark.timeout(60, method="thread")  # what waits for ever can only be ended with the whole process
def test_an_error_in_one_process_is_raised_and_the_others_do_not_wait_for_ever():
    with pytest.raises(ValueError, match="the second failed"):
        on_each_core([CORE, CORE], fail_second)


def test_a_process_that_is_killed_is_told_in_one_sentence():
    with pytest.raises(RunError, match="bench: a process was killed"):
        in_process([CORE], die)


def wait_long(path):
    path.write_text(str(os.getpid()))
    time.sleep(60)


@pytest.mark.timeout(60, method="thread")
@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGINT])
def test_a_bench_that_is_ended_leaves_no_process_behind(blow, tmp_path):
    program = (
        "import signal\n"
        "from pathlib import Path\n"
        "from gscl_scale.bench.processes import in_process\n"
        "from tests.bench.test_processes import wait_long\n"
        "if __name__ == '__main__':\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # in the background a shell has it ignored
        f"    in_process([{CORE}], wait_long, Path('child'))\n"
    )
    (tmp_path / "program.py").write_text(program)
    env, child = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}, tmp_path / "child"
    with subprocess.Popen([sys.executable, "program.py"], cwd=tmp_path, env=env, stderr=subprocess.DEVNULL) as bench:
        try:
            wait_for(lambda: child.exists() and child.read_text())
            bench.send_signal(blow)  # to it alone: a terminal gives it to the child as well
            bench.wait(30)
            wait_for(lambda: not Path(f"/proc/{child.read_text()}").exists())
        finally:
            bench.kill()


def wait_for(condition):
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def take_memory(size):
    before = peak_memory()
    block = bytearray(size)
    block[::4096] = b"x" * len(block[::4096])
    del block
    return before, peak_memory()


def test_peak_memory_is_of_the_process_itself_and_remembers():
    before, after = in_process([CORE], take_memory, 300 << 20)
    assert before < 200 << 20
    assert 290 << 20 < after - before < 330 << 20
