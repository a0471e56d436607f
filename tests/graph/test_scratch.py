"""Disks that are full when a graph is brought."""

import resource
import signal
import subprocess
import sys

PROGRAM = """
import sys
from pathlib import Path
import numpy as np
from gscl_scale.errors import RunError
from gscl_scale.graph.row_file import RowFile
from gscl_scale.graph.structural_features import structural_features
try:
    if sys.argv[1] == "rows":
        rows = RowFile()
        for _ in range(9):
            rows.append(np.ones((1000, 4)))
        list(rows.stream().parts)
    else:
        structural_features(np.zeros(9001, np.int64), np.zeros(0), np.arange(9000, dtype=np.uint64), 8, Path("."), 1)
except RunError as error:
    print(error)
"""


def small_files():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))


def told(what, tmp_path):
    ended = subprocess.run(
        [sys.executable, "-B", "-c", PROGRAM, what],
        cwd=tmp_path,
        preexec_fn=small_files,
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def test_temporary_files_that_do_not_fit_are_told_with_their_folder(tmp_path):
    assert ", the folder of temporary files: File too large; make room there, or set TMPDIR" in told("rows", tmp_path)


def test_features_made_from_the_structure_have_their_room_before_they_are_mapped(tmp_path):
    assert "structure-a.raw: File too large; finished work is kept" in told("structure", tmp_path)
