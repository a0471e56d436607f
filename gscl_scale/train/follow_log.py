"""Show a training that runs in another process: its log is read as it grows."""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gscl_scale.runtime.console import Console


@contextlib.contextmanager
def follow(log: Path, total: int, console: Console) -> Iterator[Callable[[], None]]:
    """Yield a function that shows what the log has got since its last call; a repeated step counts once."""
    with contextlib.ExitStack() as stack:
        yield _Follower(log, total, console, stack).show


def describe_batch(event: Mapping[str, Any]) -> str:
    """How large the batch of a step is, and its learning rate."""
    number, anchors = event["processes"], event["anchors"]
    return (
        f"{number:,} process{'es' * (number > 1)} with {anchors // number:,} anchors each: a step takes {anchors:,}, "
        f"at a learning rate of {event['learning_rate']:.3g}"
    )


class _Follower:
    def __init__(self, log: Path, total: int, console: Console, stack: contextlib.ExitStack) -> None:
        self._log, self._total, self._console, self._stack = log, total, console, stack
        self._read = log.stat().st_size if log.exists() else 0
        self._done = 0
        self._advance: Callable[..., None] | None = None

    def show(self) -> None:
        for event in self._new():
            if event.get("event") == "checkpoint_damaged":
                self._console.say(f"{event['file']} is damaged or missing: using the checkpoint before it")
            elif event.get("event") == "resumed":
                self._console.say(f"resuming training after step {event['step']} (epoch {event['epoch']})")
            elif event.get("event") == "batch":
                self._total = event["steps"]
                self._console.say(describe_batch(event))
            elif event.get("event") == "step":
                self._step(event["step"], event["loss"], event["anchors"] / max(event["step_s"], 1e-9))

    def _step(self, step: int, loss: float, rate: float) -> None:
        if self._advance is None:
            progress = self._console.progress("train", self._total, "steps", step)
            self._done, self._advance = step, self._stack.enter_context(progress)
        self._advance(max(0, step + 1 - self._done), note=f"loss {loss:.4f}, {rate:,.0f} anchors/s")
        self._done = max(self._done, step + 1)

    def _new(self) -> Iterator[Any]:
        """The complete lines that were written since the last look."""
        if not self._log.exists():
            return
        with self._log.open("rb") as file:
            file.seek(self._read)
            *lines, rest = file.read().split(b"\n")
            self._read = file.tell() - len(rest)
        for line in lines:
            with contextlib.suppress(json.JSONDecodeError):
                yield json.loads(line)
