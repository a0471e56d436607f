"""A training that runs elsewhere, shown here: its log is read as it grows."""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gscl_scale.runtime.console import Console


@contextlib.contextmanager
def shown(log: Path, total: int, console: Console) -> Iterator[Callable[[], None]]:
    """Yield what shows, whenever it is called, the steps that have come since; repeated ones count once."""
    with contextlib.ExitStack() as stack:
        yield _Shown(log, total, console, stack).look


class _Shown:
    def __init__(self, log: Path, total: int, console: Console, stack: contextlib.ExitStack) -> None:
        self._log, self._total, self._console, self._stack = log, total, console, stack
        self._read = log.stat().st_size if log.exists() else 0
        self._done: int | None = None
        self._advance: Callable[..., None] = lambda steps, note: None

    def look(self) -> None:
        for event in self._new():
            if event.get("event") == "checkpoint_damaged":
                self._console.say(f"{event['file']} is damaged or missing: the checkpoint before it is used")
            elif event.get("event") == "resumed":
                self._console.say(f"training goes on after step {event['step']} (epoch {event['epoch']})")
            elif event.get("event") == "step":
                self._step(event)

    def _step(self, event: dict[str, Any]) -> None:
        if self._done is None:
            self._done = event["step"]
            self._advance = self._stack.enter_context(self._console.progress("train", self._total, "steps", self._done))
        rate = event["anchors"] / max(event["step_s"], 1e-9)
        self._advance(max(0, event["step"] + 1 - self._done), note=f"loss {event['loss']:.4f}, {rate:,.0f} anchors/s")
        self._done = max(self._done, event["step"] + 1)

    def _new(self) -> Iterator[dict[str, Any]]:
        """The whole lines that have been written since the last look."""
        if not self._log.exists():
            return
        with self._log.open("rb") as file:
            file.seek(self._read)
            *lines, rest = file.read().split(b"\n")
            self._read = file.tell() - len(rest)
        for line in lines:
            with contextlib.suppress(json.JSONDecodeError):
                yield json.loads(line)
