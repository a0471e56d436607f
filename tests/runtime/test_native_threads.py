"""How threads of native libraries wait, and how many there are: in our processes only, and never against the user."""

import os
import subprocess
import sys

import pytest

from gscl_scale.runtime.native_threads import (
    thread_variables,
    thread_variables_while_loading,
    waiting_variables,
)

OURS = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OMP_NUM_THREADS", "OMP_DISPLAY_ENV")
SHOWN = "GOMP_SPINCOUNT = '0'"  # what GNU's OpenMP prints where its threads do not spin


def clean():
    return {name: value for name, value in os.environ.items() if name not in OURS}


def told(program, **variables):
    """Standard output and error of a process with these variables alone."""
    ended = subprocess.run(
        [sys.executable, "-c", program], env=clean() | variables, capture_output=True, text=True, check=True
    )
    return ended.stdout.strip(), ended.stderr


def test_threads_wait_without_spinning():
    assert thread_variables({}, cores=2, visible=2) == {"OMP_WAIT_POLICY": "PASSIVE"}


@pytest.mark.parametrize("name", ["OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"])
def test_what_the_user_said_of_waiting_stays_and_workers_hear_it(name):
    assert thread_variables({name: "7"}, cores=2, visible=2) == {}
    assert waiting_variables({name: "7", "HOME": "/"}) == {name: "7"}


def test_threads_do_not_outnumber_the_cores_of_a_container():
    assert thread_variables({}, cores=2, visible=64)["OMP_NUM_THREADS"] == "2"
    assert "OMP_NUM_THREADS" not in thread_variables({"OMP_NUM_THREADS": "5"}, cores=2, visible=64)


def test_the_environment_is_as_before_after_the_block(monkeypatch):
    for name in OURS:
        monkeypatch.delenv(name, raising=False)
    before = dict(os.environ)
    with thread_variables_while_loading():
        assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
    assert dict(os.environ) == before


MAIN = """
import os, sys
from gscl_scale.__main__ import main
sys.argv = ["gscl-scale", "--version"]
try:
    main()
except SystemExit:
    print(os.environ.get("OMP_WAIT_POLICY"), os.environ.get("GOMP_SPINCOUNT"))
"""


@pytest.mark.parametrize(
    ("variables", "expected"),
    [({}, "PASSIVE None"), ({"GOMP_SPINCOUNT": "5"}, "None 5"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE None")],
)
def test_the_command_sets_how_its_threads_wait_unless_the_user_did(variables, expected):
    assert told(MAIN, **variables)[0].splitlines()[-1] == expected


FROM_PYTHON = """
import os, sys
import gscl_scale
assert "torch" not in sys.modules
gscl_scale.fit
assert "torch" in sys.modules
print(os.environ.get("OMP_WAIT_POLICY"))
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks GNU's OpenMP")
def test_libraries_that_the_python_api_loads_wait_and_the_users_environment_is_as_before():
    printed, shown = told(FROM_PYTHON, OMP_DISPLAY_ENV="VERBOSE")
    assert printed == "None"
    assert SHOWN in shown
    assert SHOWN not in told("import torch", OMP_DISPLAY_ENV="VERBOSE")[1]  # by itself it spins
