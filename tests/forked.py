"""Processes to kill, freeze and stop, forked from one that has imported torch already: importing it takes seconds."""

import multiprocessing
import multiprocessing.util
import os
import sys
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from tests.maps import shorten_maps

multiprocessing.util.get_temp_dir()  # of its socket, whose path must be short: some tests have a long TMPDIR
_forking = multiprocessing.get_context("forkserver")
_forking.set_forkserver_preload(
    ["gscl_scale.retrain.night", "torch._dynamo", "sklearn.cluster", "openTSNE", "matplotlib.backends.backend_svg"]
)


def begin(function: Callable[..., Any], *arguments: Any, errors: Path | None = None) -> ForkServerProcess:
    """Start a function of a test module; what it prints to standard error comes into the file `errors`."""
    process = _forking.Process(target=_work, args=(function, arguments, dict(os.environ), errors), daemon=True)
    process.start()
    return process


def begin_program(source: str, *arguments: object, errors: Path | None = None) -> ForkServerProcess:
    """Start a program, as `python -c SOURCE ARGUMENTS` does."""
    return begin(_program, source, [str(one) for one in arguments], errors=errors)


def begin_command(*words: object, cwd: Path) -> ForkServerProcess:
    """Start `python -m gscl_scale WORDS` in a folder."""
    return begin(_command, words, cwd)


def _work(function: Callable[..., Any], arguments: Any, environment: dict[str, str], errors: Path | None) -> None:
    os.environ.clear()
    os.environ.update(environment)
    shorten_maps()
    if errors:
        sys.stderr = errors.open("w")  # until the process has ended: its last words are those of an error
    function(*arguments)


def _program(source: str, arguments: list[str]) -> None:
    sys.argv = ["-c", *arguments]
    exec(compile(source, "program", "exec"), {"__name__": "__main__"})


def _command(words: tuple[object, ...], cwd: Path) -> None:
    from tests.commands import cli

    ended = cli(*words, cwd=cwd)
    sys.stderr.write(ended.stderr)
    sys.exit(ended.returncode)
