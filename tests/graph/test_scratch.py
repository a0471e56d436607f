"""Disks that are full when a graph is brought."""

import resource
import signal
import subprocess
import sys

PROGRAM = """
from pathlib import Path
import numpy as np
from gscl_scale.errors import RunError
from gscl_scale.graph.structural_features import structural_features
try:
    structural_features(np.zeros(9001, np.int64), np.zeros(0), np.arange(9000, dtype=np.uint64), 8, Path("."), 1)
except RunError as error:
    print(error)
"""


def small_files():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))


def test_a_file_that_does_not_fit_the_disk_is_named_and_not_mapped_before_it_has_its_blocks(tmp_path):
    command = [sys.executable, "-B", "-c", PROGRAM]
    ended = subprocess.run(command, cwd=tmp_path, preexec_fn=small_files, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "structure-a.raw: File too large; finished work is kept" in ended.stdout
