"""A console in another process, whose sentences and progress appear at the terminal of this one."""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gscl_scale.io.atomic import explain_disk_errors
from gscl_scale.runtime.console import Console

_LOOK_S = 0.3
_TELL_EVERY_S = 0.5


class RelayConsole(Console):
    """Writes events to a log as every console, and what it would print into a file that `relayed` follows."""

    def __init__(self, log: Path | None, relay: Path) -> None:
        super().__init__(log, quiet=True)
        self._relay = relay

    def with_log(self, log: Path) -> "RelayConsole":  # noqa: D102
        return RelayConsole(log, self._relay)

    def say(self, text: str) -> None:  # noqa: D102
        self._tell({"say": text})

    @contextlib.contextmanager
    def progress(self, label: str, total: int, unit: str = "", done: int = 0) -> Iterator[Callable[..., None]]:  # noqa: D102
        steps, told = 0, time.monotonic()
        self._tell({"begin": [label, total, unit, done]})

        def advance(more: int = 1, note: str = "") -> None:
            nonlocal steps, told
            steps += more
            if time.monotonic() - told >= _TELL_EVERY_S:
                self._tell({"advance": [steps, note]})
                steps, told = 0, time.monotonic()

        try:
            yield advance
        finally:
            self._tell({"advance": [steps, ""]})
            self._tell({"end": True})

    def _tell(self, message: dict[str, object]) -> None:
        with explain_disk_errors(self._relay), self._relay.open("a", encoding="utf-8") as file:
            file.write(json.dumps(message) + "\n")


@contextlib.contextmanager
def relayed(relay: Path, console: Console) -> Iterator[None]:
    """Show at `console` what a `RelayConsole` writes into this file, which is removed at the end."""
    relay.unlink(missing_ok=True)
    over = threading.Event()
    follower = threading.Thread(target=_follow, args=(relay, console, over), name="relay", daemon=True)
    follower.start()
    try:
        yield
    finally:
        over.set()
        follower.join()
        relay.unlink(missing_ok=True)


def _follow(relay: Path, console: Console, over: threading.Event) -> None:
    read = 0
    with contextlib.ExitStack() as shown:
        show = _Shown(console, shown)
        while True:
            last = over.wait(_LOOK_S)
            if relay.exists():
                with relay.open("rb") as file:
                    file.seek(read)
                    *lines, rest = file.read().split(b"\n")
                    read = file.tell() - len(rest)
                for line in lines:
                    show(json.loads(line))
            if last:
                return


class _Shown:
    """Shows one message after the other; a progress that a lost process began ends when the next one begins."""

    def __init__(self, console: Console, shown: contextlib.ExitStack) -> None:
        self._console, self._shown = console, shown
        self._advance: Callable[..., None] | None = None

    def __call__(self, message: dict[str, Any]) -> None:
        if "say" in message:
            self._console.say(message["say"])
        elif "advance" in message and self._advance:
            self._advance(*message["advance"])
        else:
            self._shown.close()
            self._advance = None
            if "begin" in message:
                self._advance = self._shown.enter_context(self._console.progress(*message["begin"]))
