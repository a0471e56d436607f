"""The output of a run: events in log.jsonl, sentences and progress at the terminal."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gscl_scale.io.atomic import explain_disk_errors, make_folder

if TYPE_CHECKING:  # help texts do not wait for rich
    from rich.progress import Progress

_QUIET_S = 2.0
_LINE_EVERY_S = 5.0
_CELL_EVERY_S = 0.5
_COMPILING_S = 30.0  # first steps that took less say little about the others


class Console:
    """Events go to the log, sentences and progress to standard error; both are optional."""

    def __init__(self, log: Path | None = None, quiet: bool = False) -> None:
        from rich.console import Console as RichConsole

        self._log = log
        self._file: FileIO | None = None
        self._out = RichConsole(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)

    def with_log(self, log: Path) -> "Console":
        """The same console, writing events to another log."""
        return Console(log, self._out.quiet)

    def event(self, stage: str, event: str, **fields: Any) -> None:
        """Append one object to log.jsonl; `run` is the folder's name, for tools that collect the logs of many runs."""
        if self._log is None:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        run = self._log.absolute().parent.name
        line = json.dumps({"time": now, "run": run, "stage": stage, "event": event, **fields}, default=float)
        make_folder(self._log.parent)
        with explain_disk_errors(self._log), self._opened(self._log) as file:
            left = f"{line}\n".encode()
            while left:
                left = left[file.write(left) :]

    @contextlib.contextmanager
    def log_open(self) -> Iterator[None]:
        """Keep the log open for many events, each of which is written at once."""
        if self._log is None:
            yield
            return
        make_folder(self._log.parent)
        with explain_disk_errors(self._log):
            file = self._file = self._log.open("ab", buffering=0)
        with file:
            try:
                yield
            finally:
                self._file = None

    def _opened(self, log: Path) -> contextlib.AbstractContextManager[FileIO]:
        return contextlib.nullcontext(self._file) if self._file else log.open("ab", buffering=0)

    def say(self, text: str) -> None:
        """Print one sentence."""
        self._out.print(text, markup=False)

    @contextlib.contextmanager
    def progress(self, label: str, total: int, unit: str = "", done: int = 0) -> Iterator[Callable[..., None]]:
        """Yield `advance(steps, note)`: a bar on a terminal, a changing line in a notebook, else lines now and then."""
        if self._out.is_terminal and not self._out.quiet:
            with self._bar() as bar:
                task = bar.add_task(label, total=total, completed=done, note="")
                yield lambda steps=1, note="": bar.update(task, advance=steps, note=note)
            return
        if self._out.is_jupyter and not self._out.quiet:
            line = _cell_line()
            yield _lines(label, total, unit, done, line, _CELL_EVERY_S)
            line(f"{label}: {total:,} of {total:,} {unit}".rstrip())
            return
        yield _lines(label, total, unit, done, self.say, _LINE_EVERY_S)

    def _bar(self) -> "Progress":
        from rich import progress

        return progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TextColumn("left"),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.fields[note]}"),
            console=self._out,
            transient=True,
        )


def _lines(
    label: str, total: int, unit: str, done: int, say: Callable[[str], None], every: float
) -> Callable[..., None]:
    began = time.monotonic()
    state = {"done": done, "printed": began + _QUIET_S - every}
    first: list[tuple[float, float]] = []  # when the first steps were done, which compile and read more than others

    def advance(steps: int = 1, note: str = "") -> None:
        state["done"] += steps
        now = time.monotonic()
        if not first:
            first.append((now, state["done"]))
        if now - state["printed"] < every or state["done"] == done:
            return
        state["printed"] = now
        words = f"{label}: {state['done']:,} of {total:,} {unit}".rstrip()
        since, before = first[0] if state["done"] > first[0][1] else (began, done)
        tells = since > began or now - began > _COMPILING_S or state["done"] - done >= total / 10
        if tells and (left := (total - state["done"]) * (now - since) / (state["done"] - before)):
            words += f", about {left:,.0f} s left"
        say(f"{words}, {note}" if note else words)

    return advance


def _cell_line() -> Callable[[str], None]:
    """A function that shows a line below a notebook's cell, in place of the line before."""
    from IPython.display import display

    shown: list[Any] = []

    def say(text: str) -> None:
        if shown:
            shown[0].update({"text/plain": text}, raw=True)
        else:
            shown.append(display({"text/plain": text}, raw=True, display_id=True))

    return say
