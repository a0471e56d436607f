"""Small tasks that tell where they ran, fail, or die."""

import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import ray

from gscl_scale.errors import FolderError


@dataclass(frozen=True)
class Toy:
    """A task: its number, how long it takes, and a folder where it leaves a line of what happened."""

    number: int
    seconds: float = 0.0
    folder: Path = Path()


@dataclass(frozen=True)
class Told:
    """What a task saw."""

    number: int
    ip: str
    began: float
    ended: float
    threads: str
    modules: frozenset[str]


def tell(toy: Toy) -> Told:
    began = time.time()
    time.sleep(toy.seconds)
    ip = ray.util.get_node_ip_address()
    modules = frozenset({"torch", "gscl_scale", "ray"} & set(sys.modules))
    return Told(toy.number, ip, began, time.time(), os.environ.get("NUMBA_NUM_THREADS", ""), modules)


def leave_trace(toy: Toy) -> int:
    """Leave a line with the process and the machine, then work on."""
    with (toy.folder / f"task-{toy.number}").open("a") as file:
        file.write(f"{os.getpid()} {ray.util.get_node_ip_address()}\n")
    time.sleep(toy.seconds)
    return toy.number


def die_the_first_time(toy: Toy) -> int:
    leave_trace(toy)
    if toy.number == 3 and len(traces(toy.folder, 3)) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return toy.number


def die_always(toy: Toy) -> int:
    leave_trace(toy)
    os.kill(os.getpid(), signal.SIGKILL)
    return toy.number


def refuse_three(toy: Toy) -> int:
    leave_trace(toy)
    if toy.number == 3:
        raise FolderError("task 3: this folder was made from another graph")
    return toy.number


def stumble_at_three(toy: Toy) -> int:
    leave_trace(toy)
    if toy.number == 3:
        raise KeyError("three")
    return toy.number


def traces(folder: Path, number: int) -> list[str]:
    """Attempts of a task, in their order."""
    path = folder / f"task-{number}"
    return path.read_text().splitlines() if path.exists() else []


def begun_on(folder: Path, ip: str) -> int:
    """Tasks that were begun on a machine."""
    return sum(line.endswith(ip) for path in folder.glob("task-*") for line in path.read_text().splitlines())


def toys(count: int, seconds: float = 0.0, folder: Path = Path()) -> list[Toy]:
    return [Toy(number, seconds, folder) for number in range(count)]
