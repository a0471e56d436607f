"""All readers against mutated inputs: python -m tests.hostile.campaign --inputs 20000 --seed 0

Every input follows from its reader, the seed and its number; one that a reader does not survive is kept as files.
"""

import argparse
import contextlib
import json
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from gscl_scale.machine import processor_name, usable_cores
from gscl_scale.text import table as markdown
from tests.hostile.corpus import make
from tests.hostile.readers import READERS, use
from tests.hostile.trial import MEMORY, Guard, name_of, one

TIME_S = 20
_LOOK_S = 0.05
_IDLE = 0.05  # a process that works less than this share of the time waits for something
_PATIENCE = 6
_INPUTS_OF_A_WORKER = 3000
GOOD = ("refused", "read")


class Worker:
    """A process of `tests.hostile.worker`, watched while it works: time and resident memory."""

    def __init__(self, corpus: Path, work: Path) -> None:
        self._arguments = [sys.executable, "-m", "tests.hostile.worker", str(corpus), str(work)]
        self._errors = work.parent / f"{work.name}.txt"
        self._process: subprocess.Popen | None = None
        self._done = 0

    def ask(self, name: str, seed: int, number: int) -> dict:
        """The result of an input; a process that is silent, too large or dead has a result, too."""
        if self._process is None or self._done >= _INPUTS_OF_A_WORKER:
            self.close()
            self._start()
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
        process, watched, began, peak = self._process, psutil.Process(self._process.pid), time.monotonic(), 0
        worked, _ = _usage(watched)
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not selector.select(_LOOK_S):
                used, resident = _usage(watched)
                wall, work, peak = time.monotonic() - began, used - worked, max(peak, resident)
                silent = work > seconds or (wall > seconds and work < _IDLE * wall) or wall > _PATIENCE * seconds
                if peak > MEMORY or silent:
                    process.kill()
                    self.close()
                    what = f"{peak} bytes" if peak > MEMORY else f"no end after {wall:.0f} s, {work:.0f} s of work"
                    return {"outcome": "memory" if peak > MEMORY else "hang", "what": what, "peak": peak}
        if line := process.stdout.readline():
            return json.loads(line)
        self.close()
        return {"outcome": "crash", "what": f"the process ended with {process.returncode}", "peak": peak}

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
            self._process.stdout.close()
            self._process.wait(60)
            self._process = None


def _usage(process: psutil.Process) -> tuple[float, int]:
    """(seconds of processor, bytes of memory) of a process: on a busy machine a slow one is not one that hangs."""
    with contextlib.suppress(psutil.Error):
        times = process.cpu_times()
        return times.user + times.system, process.memory_info().rss
    return 0.0, 0


def plan(inputs: int, only: list[str]) -> list[tuple[str, int]]:
    """(reader, number) of all inputs, the readers in turn."""
    readers = [reader for reader in READERS.values() if not only or reader.name in only]
    whole = sum(reader.weight for reader in readers)
    counts = {reader.name: -(-inputs * reader.weight // whole) for reader in readers}
    return [(name, number) for number in range(max(counts.values())) for name in counts if number < counts[name]]


def attack(corpus: Path, kept: Path, todo: list[tuple[str, int]], seed: int, workers: int) -> list[dict]:
    """Have all inputs read by some processes; the result of each."""
    waiting = iter(todo)  # threads take from it in turn: a list's iterator is one step of the interpreter

    def work(number: int) -> list[dict]:
        worker, results = Worker(corpus, kept / f"worker-{number}"), []
        with contextlib.closing(worker):
            for name, at in waiting:
                began = time.monotonic()
                result = {"peak": 0, **worker.ask(name, seed, at), "reader": name, "seed": seed, "number": at}
                results.append({**result, "seconds": time.monotonic() - began})
                if result["outcome"] not in GOOD:
                    _keep(kept, result)
        return results

    with ThreadPoolExecutor(workers) as pool:
        return [result for results in pool.map(work, range(workers)) for result in results]


def _keep(kept: Path, failure: dict) -> None:
    """Note a failure in failures.jsonl, and print how to see it again."""
    name, seed, number = failure["reader"], failure["seed"], failure["number"]
    folder = next(kept.glob(f"worker-*/{name_of(name, seed, number)}"), None)
    with (kept / "failures.jsonl").open("a") as file:
        file.write(json.dumps({**failure, "folder": str(folder)}) + "\n")
    print(f"{name}, input {number}: {failure['outcome']}\n  {str(failure['what']).strip()[-700:]}\n  kept in {folder}")
    print(f"  again: python -m tests.hostile.campaign --seed {seed} --only '{name}' --number {number}", flush=True)


def table(results: list[dict]) -> str:
    """Markdown: a row for each reader and one for all."""
    by_reader: dict[str, list[dict]] = {}
    for result in results:
        by_reader.setdefault(result["reader"], []).append(result)
    rows = [[name, *_cells(of_reader)] for name, of_reader in by_reader.items()]
    rows.append([f"**{cell}**" for cell in ["all", *_cells(results)]])
    headers = ["reader", "inputs", "refused", "read", "failures", "seconds", "longest", "peak memory"]
    return markdown(headers, rows, left=(0,))


def _cells(results: list[dict]) -> list[str]:
    good = [sum(result["outcome"] == outcome for result in results) for outcome in GOOD]
    counts = [len(results), *good, len(results) - sum(good)]
    seconds = [result["seconds"] for result in results]
    peak = max(result["peak"] for result in results)
    return [*(f"{n:,}" for n in counts), f"{sum(seconds):,.0f}", f"{max(seconds):.1f} s", f"{peak / 1e6:,.0f} MB"]


def page(results: list[dict], seed: int, seconds: float) -> str:
    """The page of the figures."""
    return (
        "# Mutated inputs\n\n"
        "Each input is a valid one of its kind with some bytes, numbers, types or members changed, by\n"
        "`tests/hostile/mutate`. *Refused*: one sentence and an exception of `gscl_scale.errors`.\n"
        "*Read*: accepted, and what was read was used. A *failure* is any other exception, a process that ends,\n"
        f"{TIME_S} s without an end, more than {MEMORY / 1e9:g} GB of resident memory, a sentence of several lines,\n"
        "code that is run, anything unpickled, or a file outside the input's folder that is read or changed.\n"
        "Seconds are those of the reader's process, with those of making the input. The processes are limited\n"
        "to less than that by `ulimit -d`, which the readers take into account.\n\n"
        f"`make fuzz` (seed {seed}, {len(usable_cores())} cores of {processor_name()}): {len(results):,} inputs in "
        f"{seconds / 60:.0f} minutes.\n\n"
        f"{table(results)}\n"
    )


def again(corpus: Path, name: str, seed: int, number: int) -> None:
    """Read one input in this process, and show what happens."""
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
            corpus.mkdir(parents=True)
            make(corpus)
        if options.number is not None:
            again(corpus, options.only[0], options.seed, options.number)
            return 0
        todo = plan(options.inputs, options.only)
        print(f"seed {options.seed}: {len(todo):,} inputs", flush=True)
        began = time.monotonic()
        results = attack(corpus, kept, todo, options.seed, options.workers)
        seconds = time.monotonic() - began
    print(table(results))
    failures = sum(result["outcome"] not in GOOD for result in results)
    print(f"{len(todo):,} inputs in {seconds:,.0f} s with seed {options.seed}, {failures} failures")
    if options.page:
        options.page.write_text(page(results, options.seed, seconds))
    if not failures:
        shutil.rmtree(kept, ignore_errors=True)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
