"""Commands as a user types them: in this process, which has imported torch already, or in one of their own."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import sklearn.neighbors  # noqa: F401  # its library of threads can only be limited once it is loaded
from threadpoolctl import threadpool_limits

from gscl_scale.__main__ import main

COMMAND = [sys.executable, "-m", "gscl_scale"]


def cli(*arguments: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m gscl_scale ARGUMENTS` in a folder, but in this process: importing torch takes seconds.

    It has one thread: sums are rounded by their order, and sklearn decides ties among the nearest digits by it.
    """
    output, errors, code = io.StringIO(), io.StringIO(), 0
    words = ["gscl-scale", *map(str, arguments)]
    with (
        threadpool_limits(1),
        contextlib.chdir(cwd),
        mock.patch.dict(os.environ, environment),
        mock.patch.object(sys, "argv", words),
        mock.patch.object(sys, "unraisablehook", sys.unraisablehook),  # main() replaces it
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(errors),
    ):
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    return subprocess.CompletedProcess(words, code, output.getvalue(), errors.getvalue())
