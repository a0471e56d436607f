"""Disks that are full when a graph is brought."""

import resource
import signal
import subprocess
import sys

import pytest

PROGRAM = """
import sys
from pathlib import Path
import numpy as np
from gscl_scale.errors import RunError
from gscl_scale.graph.row_file import RowFile
from gscl_scale.graph.step_files import StepFiles
from gscl_scale.graph.structural_features import structural_features
try:
    if sys.argv[1] == "rows":
        rows = RowFile()
        for _ in range(9):
            rows.append(np.ones((1000, 4)))
        list(rows)
    else:
        files = StepFiles(Path("steps"), "no edges", (9000, 8))
        structural_features(np.zeros(9001, np.int64), np.zeros(0), np.arange(9000, dtype=np.uint64), files, 1)
except RunError as error:
    print(error)
"""


def small_files():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("rows", ", the folder of temporary files: File too large; make room there, or set TMPDIR"),
        ("structure", "rows-a.raw: File too large; finished work is kept"),
    ],
)
def test_files_that_do_not_fit_the_disk_are_named_and_none_is_mapped_before_it_has_its_blocks(tmp_path, what, sentence):
    command = [sys.executable, "-B", "-c", PROGRAM, what]
    ended = subprocess.run(command, cwd=tmp_path, preexec_fn=small_files, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert sentence in ended.stdout
