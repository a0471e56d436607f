"""Commands as a scheduler starts them, and how they ended."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

LIMIT_S = 240.0  # an attempt that lasts longer hangs: the longest takes less than a minute on a busy machine
_SENTENCE = "gscl-scale: "


@dataclass(frozen=True)
class Ended:
    """How a command ended; `code` is negative where a signal ended it."""

    code: int
    told: str
    seconds: float

    @property
    def sentences(self) -> list[str]:
        """What it said about why it ended."""
        return [line for line in self.told.splitlines() if line.startswith(_SENTENCE)]

    def wrong(self) -> str:
        """What is wrong with the way it ended; "" if nothing is."""
        if "Traceback" in self.told:
            return f"a traceback: {self.told[-2000:]}"
        if self.code > 0 and len(self.sentences) != 1:
            return f"exit code {self.code} with {len(self.sentences)} sentences: {self.told[-2000:]}"
        return ""


@dataclass
class Attempt:
    """A command that runs."""

    process: subprocess.Popen[bytes]
    began: float

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def wait(self, seconds: float, unless: Callable[[], bool] = lambda: False) -> bool:
        """Let it run for so long; whether it still runs."""
        until = time.monotonic() + seconds
        while self.runs and time.monotonic() < until and not unless():
            time.sleep(0.01)
        return self.runs

    def children(self) -> list[psutil.Process]:
        """All processes that it has started."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(self.process.pid).children(recursive=True)
        return []


@contextlib.contextmanager
def attempt(
    words: Sequence[object], cwd: Path, wrapper: Sequence[str] = (), env: dict[str, str] | None = None
) -> Iterator[tuple[Attempt, Callable[[], Ended]]]:
    """Start `gscl-scale WORDS`; what is yielded last waits for its end. Nothing of it is left running."""
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            ["env", "--default-signal=INT", *wrapper, sys.executable, "-m", "gscl_scale", *map(str, words)],
            cwd=cwd, stdout=subprocess.DEVNULL, stderr=out, start_new_session=True, env={**os.environ, **(env or {})},
        )  # fmt: skip
        running = Attempt(process, time.monotonic())

        def end() -> Ended:
            try:
                process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                raise AssertionError(f"{' '.join(map(str, words))} has not ended within {LIMIT_S:.0f} s") from None
            out.seek(0)
            told = out.read().decode(errors="replace")
            return Ended(process.returncode, told, time.monotonic() - running.began)

        try:
            yield running, end
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def finish(words: Sequence[object], cwd: Path, env: dict[str, str] | None = None) -> Ended:
    """Run a command to its end."""
    with attempt(words, cwd, env=env) as (_, end):
        return end()
