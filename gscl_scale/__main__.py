"""Entry point of the command: handles Ctrl-C at any moment, from the first import on."""

import atexit
import contextlib
import os
import signal
import sys
import threading
from typing import Any

from gscl_scale.errors import INTERRUPTED, STOPPED


def main() -> None:
    """Set how threads wait, import the command line and call it."""
    sys.unraisablehook = _unraisable
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # it is ignored in the background
        interrupt = _Interrupt()
        signal.signal(signal.SIGINT, interrupt)
        sys.excepthook = interrupt.at_an_error
    try:
        try:
            from gscl_scale.runtime.native_threads import set_thread_variables

            set_thread_variables()
            from gscl_scale.cli.main import main as command
        except KeyboardInterrupt:
            print("gscl-scale: stopped before it started; rerun the command", file=sys.stderr)
            sys.exit(INTERRUPTED)
        command()
    except SystemExit as leaving:
        if leaving.code == INTERRUPTED:
            _end()
        raise


class _Interrupt:
    """Raises KeyboardInterrupt at Ctrl-C, and remembers it: native libraries turn that into errors of their own."""

    def __init__(self) -> None:
        self._heard = False

    def __call__(self, *_: object) -> None:
        """Handle the signal."""
        self._heard = True
        raise KeyboardInterrupt

    def at_an_error(self, *error: Any) -> None:
        """Say that the command was stopped, where an interrupt came before an error that nobody caught."""
        if not self._heard:
            sys.__excepthook__(*error)
            return
        print(f"gscl-scale: {STOPPED}", file=sys.stderr)
        _end()


def _end() -> None:
    """Exit without the interpreter's cleanup, which may crash if the interrupt hit the loading of a native library.

    A second interrupt, from an impatient user or from _unraisable, exits at once.
    """
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(INTERRUPTED)


def _unraisable(dropped: Any) -> None:
    """Interrupt again where Python has dropped an interrupt, because it hit the finalizer of an object."""
    if issubclass(dropped.exc_type, KeyboardInterrupt):
        threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(dropped)


if __name__ == "__main__":
    main()
