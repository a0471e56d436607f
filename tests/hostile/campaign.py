"""All readers against mutated inputs: python -m tests.hostile.campaign --inputs 20000 --seed 0

Every input follows from its reader, the seed and its number; one that a reader does not survive is kept as files.
"""

import argparse
import contextlib
import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gscl_scale.machine import processor_name, usable_cores
from gscl_scale.text import table as markdown
from tests.hostile.readers import READERS
from tests.hostile.trial import MEMORY

TIME_S = 20
_LOOK_S = 0.05
_IDLE = 0.05  # a process that works less than this share of the time waits for something
_PATIENCE = 6
_INPUTS_OF_A_WORKER = 3000
_GOOD = ("read", "refused")


@dataclass
class Tally:
    """What became of the inputs of a reader."""

    outcomes: Counter = field(default_factory=Counter)
    seconds: float = 0.0
    longest: float = 0.0
    peak: int = 0
    failures: list[dict] = field(default_factory=list)


class Worker:
    """A process of `tests.hostile.worker`, watched while it works: time and resident memory."""

    def __init__(self, corpus: Path, work: Path) -> None:
        self._arguments = [sys.executable, "-m", "tests.hostile.worker", str(corpus), str(work)]
        self._errors = work.parent / f"{work.name}.txt"
        self._process: subprocess.Popen | None = None
        self._done = 0

    def ask(self, name: str, seed: int, number: int) -> dict:
        """The result of an input; a process that is silent, too large or dead is one, too."""
        if self._process is None or self._done >= _INPUTS_OF_A_WORKER:
            self.close()
            self._start()
        assert self._process is not None
        self._process.stdin.write(json.dumps([name, seed, number]) + "\n")
        self._process.stdin.flush()
        self._done += 1
        return self._answer(TIME_S)

    def _start(self) -> None:
        self._errors.parent.mkdir(parents=True, exist_ok=True)
        with self._errors.open("a") as errors:
            self._process = subprocess.Popen(
                self._arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, stderr=errors
            )
        self._done = 0
        assert self._answer(300).get("ready"), "the worker does not start"

    def _answer(self, seconds: float) -> dict:
        process, began, peak = self._process, time.monotonic(), 0
        worked = _worked(process.pid)
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not selector.select(_LOOK_S):
                peak = max(peak, _resident(process.pid))
                wall, work = time.monotonic() - began, _worked(process.pid) - worked
                silent = work > seconds or (wall > seconds and work < _IDLE * wall) or wall > _PATIENCE * seconds
                if peak > MEMORY or silent:
                    self._kill()
                    what = f"{peak} bytes" if peak > MEMORY else f"no end after {wall:.0f} s, {work:.0f} s of work"
                    return {"outcome": "memory" if peak > MEMORY else "hang", "what": what, "peak": peak}
        line = process.stdout.readline()
        if not line:
            code = process.wait()
            self.close()
            return {"outcome": "crash", "what": f"the process ended with {code}", "peak": peak}
        return json.loads(line)

    def _kill(self) -> None:
        self._process.kill()
        self.close()

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
            self._process.stdout.close()
            self._process.wait(60)
            self._process = None


def _worked(pid: int) -> float:
    """Seconds that a process has used: on a busy machine a slow one is not taken for one that hangs."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS")), 0)


def plan(inputs: int, only: list[str]) -> list[tuple[str, int]]:
    """(reader, number) of all inputs, the readers in turn."""
    readers = [reader for reader in READERS.values() if not only or reader.name in only]
    whole = sum(reader.weight for reader in readers)
    counts = {reader.name: -(-inputs * reader.weight // whole) for reader in readers}
    return [(name, number) for number in range(max(counts.values())) for name in counts if number < counts[name]]


def attack(corpus: Path, kept: Path, todo: list[tuple[str, int]], seed: int, workers: int) -> dict[str, Tally]:
    """Have all inputs read by some processes; what became of them, by reader."""
    tallies = {name: Tally() for name, _ in todo}
    waiting, lock = iter(todo), threading.Lock()

    def work(number: int) -> None:
        worker = Worker(corpus, kept / f"worker-{number}")
        try:
            for name, at in _shared(waiting, lock):
                began = time.monotonic()
                result = worker.ask(name, seed, at)
                with lock:
                    _note(tallies[name], name, seed, at, result, time.monotonic() - began, kept)
        finally:
            worker.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tallies


def _shared(waiting: Iterator[tuple[str, int]], lock: threading.Lock) -> Iterator[tuple[str, int]]:
    while True:
        with lock:
            following = next(waiting, None)
        if following is None:
            return
        yield following


def _note(tally: Tally, name: str, seed: int, number: int, result: dict, seconds: float, kept: Path) -> None:
    tally.outcomes[result["outcome"]] += 1
    tally.seconds += seconds
    tally.longest = max(tally.longest, seconds)
    tally.peak = max(tally.peak, result.get("peak", 0))
    if result["outcome"] in _GOOD:
        return
    folder = next(kept.glob(f"worker-*/{name.replace(' ', '-').replace('/', '-')}-{seed}-{number}"), None)
    failure = {"reader": name, "seed": seed, "number": number, "folder": str(folder), **result}
    tally.failures.append(failure)
    with (kept / "failures.jsonl").open("a") as file:
        file.write(json.dumps(failure) + "\n")
    if len(tally.failures) <= 3:
        print(
            f"{name}, input {number}: {result['outcome']}\n  {str(result['what']).strip()[-700:]}\n  kept in {folder}; "
            "again: "
            f"python -m tests.hostile.campaign --seed {seed} --only '{name}' --number {number}",
            flush=True,
        )


def table(tallies: dict[str, Tally]) -> str:
    """Markdown: a row for each reader and one for all."""
    rows = []
    for name, tally in tallies.items():
        rows.append(_row(name, tally))
    whole = Tally(
        sum((tally.outcomes for tally in tallies.values()), Counter()),
        sum(tally.seconds for tally in tallies.values()),
        max(tally.longest for tally in tallies.values()),
        max(tally.peak for tally in tallies.values()),
    )
    rows.append([f"**{cell}**" for cell in _row("all", whole)])
    return markdown(
        ["reader", "inputs", "refused", "read", "failures", "seconds", "longest", "peak memory"], rows, left=(0,)
    )


def _row(name: str, tally: Tally) -> list[str]:
    good = [tally.outcomes[outcome] for outcome in ("refused", "read")]
    whole = sum(tally.outcomes.values())
    counts = [whole, *good, whole - sum(good)]
    return [
        name,
        *(f"{n:,}" for n in counts),
        f"{tally.seconds:,.0f}",
        f"{tally.longest:.1f} s",
        f"{tally.peak / 1e6:,.0f} MB",
    ]


def page(tallies: dict[str, Tally], seed: int, seconds: float) -> str:
    """The page that is kept."""
    inputs = sum(sum(tally.outcomes.values()) for tally in tallies.values())
    return (
        "# Mutated inputs\n\n"
        "Each input is a valid one of its kind with some bytes, numbers, types or members changed, as\n"
        "`tests/hostile/mutate.py` tells. *Refused*: one sentence and an exception of `gscl_scale.errors`.\n"
        "*Read*: accepted, and what was read was used. A *failure* is any other exception, a process that ends,\n"
        f"{TIME_S} s without an end, more than {MEMORY / 1e9:g} GB of resident memory, a sentence of several lines,\n"
        "code that is run, anything unpickled, or a file outside the input's folder that is read or changed.\n"
        "Seconds are those of the reader's process, with those of making the input. The processes are limited\n"
        "to less than that by `ulimit -d`, which the readers take into account.\n\n"
        f"`make fuzz` (seed {seed}, {len(usable_cores())} cores of {processor_name()}): {inputs:,} inputs in "
        f"{seconds / 60:.0f} minutes.\n\n"
        f"{table(tallies)}\n"
    )


def make_corpus(folder: Path) -> None:
    """The valid inputs, made by a process of its own."""
    folder.mkdir(parents=True)
    code = "import sys; from pathlib import Path; from tests.hostile.corpus import make; make(Path.cwd())"
    root = Path(__file__).resolve().parents[2]
    paths = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, env={**os.environ, "PYTHONPATH": paths})


def again(corpus: Path, name: str, seed: int, number: int) -> None:
    """Read one input in this process, and show what happens."""
    from tests.hostile.readers import use
    from tests.hostile.trial import Guard, one

    use(corpus)
    result = one(name, seed, number, corpus, corpus.parent / "again", Guard())
    print("\n".join(f"{key}: {value}" for key, value in result.items()))


def main() -> int:
    """The campaign; 1 if any input was a failure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", action="append", default=[], help="name of a reader; repeat the option")
    parser.add_argument("--number", type=int, help="one input of the reader only, in this process")
    parser.add_argument("--kept", type=Path, default=Path("fuzz-failures"), help="folder for inputs that fail")
    parser.add_argument("--corpus", type=Path, help="valid inputs of an earlier run")
    parser.add_argument("--page", type=Path, help="write the table here")
    options = parser.parse_args()
    kept = options.kept.absolute()
    kept.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gscl-scale-") as scratch:
        corpus = (options.corpus or Path(scratch) / "corpus").absolute()
        if not corpus.exists():
            make_corpus(corpus)
        if options.number is not None:
            again(corpus, options.only[0], options.seed, options.number)
            return 0
        todo = plan(options.inputs, options.only)
        print(f"seed {options.seed}: {len(todo):,} inputs", flush=True)
        began = time.monotonic()
        tallies = attack(corpus, kept, todo, options.seed, options.workers)
        seconds = time.monotonic() - began
    print(table(tallies))
    failures = sum(len(tally.failures) for tally in tallies.values())
    print(f"{len(todo):,} inputs in {seconds:,.0f} s with seed {options.seed}, {failures} failures")
    if options.page:
        options.page.write_text(page(tallies, options.seed, seconds))
    if not failures:
        shutil.rmtree(kept, ignore_errors=True)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
