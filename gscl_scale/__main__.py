"""The command as it is started: an interrupt is heard at any moment, from the first one on."""

import atexit
import contextlib
import os
import signal
import sys
import threading
from typing import Any

from gscl_scale.errors import INTERRUPTED


def main() -> None:
    """Import the command line, which takes a second, and call it."""
    sys.unraisablehook = _unraisable
    try:
        try:
            from gscl_scale.cli.main import main as command
        except KeyboardInterrupt:
            print("gscl-scale: stopped before it started; rerun the command", file=sys.stderr)
            sys.exit(INTERRUPTED)
        command()
    except SystemExit as leaving:
        if leaving.code == INTERRUPTED:
            _end()
        raise


def _end() -> None:
    """End here: the interrupt may have fallen into the loading of a native library, of which half cannot be taken down.

    A second interrupt, of an impatient user or of _unraisable, ends it at once.
    """
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(INTERRUPTED)


def _unraisable(found: Any) -> None:
    """Interrupt again where Python has dropped an interrupt, because it fell into the end of some object."""
    if issubclass(found.exc_type, KeyboardInterrupt):
        threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(found)


if __name__ == "__main__":
    main()
