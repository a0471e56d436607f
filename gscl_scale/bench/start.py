"""`bench start`: seconds until a command answers, compilation of kernels, and a run beside other programs."""

import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gscl_scale.bench.harness import Columns, Line, table_of
from gscl_scale.bench.options import Start
from gscl_scale.errors import RunError
from gscl_scale.text import shortened

_PACKAGES = ("torch", "numba", "scikit-learn")
_REFUSED = 2  # the exit code of a command whose settings are refused
_BOUNDS = {  # seconds that a command may take on two idle cores; RUN stands for a finished run of the digits
    "--help": 0.4,
    "run --set bad.key=1": 0.6,
    "status --run RUN": 0.6,
    "precompute --run RUN": 1.5,
    "run --run RUN": 3.0,
    "neighbors RUN --id 0": 1.2,
    "doctor": 5.0,
}
_COMPILE_BOUNDS = {"a first run, with an empty cache": 12.0, "a run after doctor --warm": 0.0}
_BESIDE_BOUND = 2.2  # times the idle time
_DIGITS = "run --set graph.source=digits --run"
_SPINNING = {"GOMP_SPINCOUNT": "300000"}  # what GNU's OpenMP does by itself, and each other program of its threads
_BUSY = "import os\nif hasattr(os, 'sched_setaffinity'): os.sched_setaffinity(0, [{core}])\nwhile True: pass"


@dataclass(frozen=True)
class Spent:
    """Seconds that a command took, and those that it computed on all cores together."""

    wall_s: float
    cpu_s: float


@dataclass(frozen=True)
class Command(Line):
    """A command, the medians of its seconds, and what it may take."""

    command: str
    wall_s: float
    cpu_s: float
    bound_s: float


@dataclass(frozen=True)
class Compilation(Line):
    """The kernels that a run compiled, and the seconds of that."""

    when: str
    kernels: int
    compile_s: float
    wall_s: float
    bound_s: float


@dataclass(frozen=True)
class Shared(Line):
    """The medians of a run on idle cores, and beside a busy loop on each core."""

    threads: str
    idle_s: float
    beside_s: float
    bound: float

    @property
    def times(self) -> float:
        """How much longer it takes beside the loops."""
        return self.beside_s / self.idle_s


_COMMANDS: Columns[Command] = {
    "command": lambda row: f"`gscl-scale {row.command}`",
    "time": lambda row: f"{row.wall_s:.2f} s",
    "CPU": lambda row: f"{row.cpu_s:.2f} s",
    "at most": lambda row: f"{row.bound_s:.1f} s",
}
_COMPILATIONS: Columns[Compilation] = {
    "kernels of": lambda row: row.when,
    "compiled": lambda row: f"{row.kernels}",
    "compilation": lambda row: f"{row.compile_s:.1f} s",
    "at most": lambda row: f"{row.bound_s:.0f} s",
    "whole run": lambda row: f"{row.wall_s:.1f} s",
}
_SHARED: Columns[Shared] = {
    "threads": lambda row: row.threads,
    "idle": lambda row: f"{row.idle_s:.1f} s",
    "beside busy loops": lambda row: f"{row.beside_s:.1f} s",
    "times": lambda row: f"{row.times:.2f}",
    "at most": lambda row: f"{row.bound:.1f}",
}


def bench_start(bench: Start) -> str:
    """Measure, write start.json and start.md, and return the page."""
    with bench.scratch() as scratch:
        compiled = _compilations(bench, scratch)
        commands = _commands(bench, scratch)
        shared = _shared(bench, scratch)
    page = "\n\n".join(
        [
            f"Whole commands as a shell starts them, in processes of their own: {bench.machine}, medians. RUN is the "
            f"finished run of the digits. `{bench.command}` makes this page:",
            table_of(commands, _COMMANDS, left=[0]),
            "Kernels are compiled by the first command that calls them, once on a machine:",
            table_of(compiled, _COMPILATIONS, left=[0]),
            "Whole new runs of the digits, with all kernels compiled, on idle cores and beside a program on each core "
            "that computes all the time:",
            table_of(shared, _SHARED, left=[0]),
        ]
    )
    return bench.write(page, [*commands, *compiled, *shared], {}, _PACKAGES)


def _compilations(bench: Start, scratch: Path) -> list[Compilation]:
    """The first run of all, which stays as RUN, and one after `doctor --warm` in another cache."""
    cold, warm = _environment(scratch / "cold"), _environment(scratch / "warm")
    bench.say("the first run, with an empty cache of kernels")
    rows = [_recorded(bench, scratch, "RUN", cold, "a first run, with an empty cache")]
    bench.say("doctor --warm, which compiles all kernels")
    bench.say(f"doctor --warm: {_spend('doctor --warm', scratch, warm).wall_s:.1f} s")
    return [*rows, _recorded(bench, scratch, "after-warm", warm, "a run after doctor --warm")]


def _recorded(bench: Start, scratch: Path, run: str, environment: Mapping[str, str], when: str) -> Compilation:
    """Run the digits in a process that records what numba compiles."""
    record = (scratch / f"{run}.json").absolute()  # the program runs elsewhere
    program = [sys.executable, "-m", "gscl_scale.bench.compilation", str(record), *_DIGITS.split(), run]
    spent = _run(program, scratch, environment)
    found = json.loads(record.read_text(encoding="utf-8"))
    bench.say(f"{when}: {spent.wall_s:.1f} s, {found['kernels']} kernels compiled in {found['seconds']:.1f} s")
    return Compilation(when, found["kernels"], found["seconds"], spent.wall_s, _COMPILE_BOUNDS[when])


def _commands(bench: Start, scratch: Path) -> list[Command]:
    environment = _environment(scratch / "cold")
    ways = {command: partial(_spend, command, scratch, environment) for command in _BOUNDS}
    measured = bench.in_turns(ways, lambda command, spent: f"{command}: {spent.wall_s:.2f} s")
    return [
        Command(command, _median_wall(turns), statistics.median(one.cpu_s for one in turns), _BOUNDS[command])
        for command, turns in measured.items()
    ]


def _shared(bench: Start, scratch: Path) -> list[Shared]:
    """Whole runs of the digits, in turns on idle cores and beside busy loops, and with threads that spin."""
    ours, numbers = _environment(scratch / "cold"), itertools.count()
    kinds = {"wait": ours, **({"spin": ours | _SPINNING} if bench.spinning else {})}

    def run(threads: str, place: str) -> Spent:
        with _busy(bench.core_ids if place == "beside" else ()):
            return _spend(f"{_DIGITS} new-{next(numbers)}", scratch, kinds[threads])

    pairs = [(threads, place) for threads in kinds for place in ("idle", "beside")]
    ways = {pair: partial(run, *pair) for pair in pairs}
    measured = bench.in_turns(ways, lambda pair, spent: f"the digits, threads {' '.join(pair)}: {spent.wall_s:.1f} s")
    median = {pair: _median_wall(turns) for pair, turns in measured.items()}
    return [Shared(one, median[one, "idle"], median[one, "beside"], _BESIDE_BOUND) for one in kinds]


@contextlib.contextmanager
def _busy(cores: Sequence[int]) -> Iterator[None]:
    """A program on each core that computes all the time."""
    with contextlib.ExitStack() as stack:
        for core in cores:
            loop = subprocess.Popen([sys.executable, "-c", _BUSY.format(core=core)])
            stack.callback(loop.wait)
            stack.callback(loop.kill)
        yield


def _environment(cache: Path) -> dict[str, str]:
    return {**os.environ, "NUMBA_CACHE_DIR": str(cache.absolute())}


def _spend(command: str, folder: Path, environment: Mapping[str, str]) -> Spent:
    return _run([sys.executable, "-m", "gscl_scale", *command.split()], folder, environment)


def _run(program: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Spent:
    """Run a program to its end; one that fails, or whose bad settings are not refused, is no measurement."""
    began = time.perf_counter()
    output = folder / "output"
    with output.open("wb") as file:
        process = subprocess.Popen(program, cwd=folder, env=dict(environment), stdout=file, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
    wall_s, code = time.perf_counter() - began, os.waitstatus_to_exitcode(status)
    process.returncode = code
    if code != (_REFUSED if "bad.key=1" in program else 0):
        told = shortened(output.read_text(encoding="utf-8", errors="replace").strip(), 400)
        raise RunError(f"bench start: {' '.join(program)} ended with exit code {code}: {told}")
    return Spent(wall_s, used.ru_utime + used.ru_stime)


def _median_wall(turns: Sequence[Spent]) -> float:
    return statistics.median(one.wall_s for one in turns)
