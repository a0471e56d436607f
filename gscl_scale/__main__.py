"""The command as it is started: an interrupt is heard at any moment, from the first one on."""

import os
import signal
import sys
import threading
from typing import Any


def main() -> None:
    """Import the command line, which takes a second, and call it."""
    sys.unraisablehook = _unraisable
    try:
        from gscl_scale.cli import main as command
    except KeyboardInterrupt:
        print("gscl-scale: stopped before it began; run the same command again", file=sys.stderr)
        sys.exit(130)
    command()


def _unraisable(found: Any) -> None:
    """Interrupt again where Python has dropped an interrupt, because it fell into the end of some object."""
    if issubclass(found.exc_type, KeyboardInterrupt):
        threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(found)


if __name__ == "__main__":
    main()
