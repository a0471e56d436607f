"""An S3 server that has trouble: `python -m tests.chaos.crooked PORT MOOD`, where MOOD is a file that may change.

It says how the server answers: {"answer": "error" | "throttle" | "cut" | "slow", "share": of the requests, "after_s"}.
"""

import contextlib
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

CODES = {"error": ("500 Internal Server Error", "InternalError"), "throttle": ("503 Slow Down", "SlowDown")}


class Crooked:
    """An application that answers as its mood is: of a share of 0.3 every third request or so has trouble."""

    def __init__(self, inner: Any, mood: Path) -> None:
        self._inner, self._mood, self._count = inner, mood, itertools.count(1)

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """WSGI."""
        mood: dict[str, Any] = {}
        with contextlib.suppress(OSError, json.JSONDecodeError):
            mood = json.loads(self._mood.read_text())
        number, share = next(self._count), mood.get("share", 0.0)
        if int(number * share) == int((number - 1) * share):
            return self._inner(environ, start)
        if mood["answer"] == "slow":
            time.sleep(mood["seconds"])
            return self._inner(environ, start)
        if mood["answer"] == "cut":  # the client cannot know whether it was done
            list(self._inner(environ, lambda *_: None))
            environ["werkzeug.socket"].close()
            return []
        status, code = CODES[mood["answer"]]
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))  # the client keeps its connection open
        start(status, [("Content-Type", "application/xml")])
        return [f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()]


if __name__ == "__main__":
    application = Crooked(DomainDispatcherApplication(create_backend_app), Path(sys.argv[2]))
    run_simple("127.0.0.1", int(sys.argv[1]), application, threaded=True)
