"""The Slurm script with real Ray on two nodes that srun pretends to have."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from gscl_scale.run.folder import Run
from tests.ray.clusters import PATIENCE_S, RAY, ROOT, wait_until
from tests.ray.jobs import assert_bytes_of_one_machine, verbs_of, write_config

pytestmark = [pytest.mark.ray, pytest.mark.slow]

STAND_INS = {
    "scontrol": 'printf "node-1\\nnode-2\\n"',
    "getent": 'echo "127.0.0.${2#node-} STREAM $2"',
    "srun": """
        while [[ $1 == --* ]]; do case $1 in --nodelist=*) NODE=${1#*=} ;; esac; shift; done
        export NODE SLURM_CPUS_ON_NODE=1
        exec "$@"
    """,
    "ray": f"""
        own=()
        [[ $1 == start ]] && own=(--object-store-memory=80000000 --metrics-export-port=0)
        [[ $1 == start && $NODE != node-1 ]] && own+=(--node-ip-address=127.0.0.2)
        exec {RAY} "$@" "${{own[@]}}"
    """,
}


STARTED: list[subprocess.Popen[str]] = []


@pytest.fixture
def folder():
    place = Path(tempfile.mkdtemp(prefix="s", dir="/tmp"))
    for name, body in STAND_INS.items():
        (place / name).write_text(f"#!/usr/bin/env bash\n{body}\n")
        (place / name).chmod(0o755)
    write_config(place)
    yield place
    for process in [*STARTED, *map(psutil.Process, of_ray(place))]:  # nothing, where the script did its work
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    STARTED.clear()
    shutil.rmtree(place)
    shutil.rmtree(f"/tmp/ray-{place.name}", ignore_errors=True)


def started(folder, *words):
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")} | {
        "PATH": f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HOME": str(folder),
        "SLURM_JOB_ID": folder.name,
        "SLURM_JOB_NODELIST": "node-[1-2]",
    }
    process = subprocess.Popen(
        [ROOT / "cluster" / "slurm.sh", *words],
        cwd=folder, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    STARTED.append(process)
    return process


def of_ray(folder):
    """Processes of the job's clusters that live."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline", "status"])
        if f"/tmp/ray-{folder.name}" in " ".join(process.info["cmdline"] or ())
        and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def kept(folder):
    return {path.name: path.read_text()[-3000:] for path in folder.glob("ray-*.log")}


def test_two_nodes_make_the_bytes_of_one_machine_and_nothing_is_left_running(folder):
    run = Run.at(folder / "run")
    process = started(folder, "bash", "-c", f"{verbs_of(run)} && exit 3")
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 3, (out, err, kept(folder))
    assert "Ray runs on 2 nodes: node-1 node-2" in err
    assert of_ray(folder) == []
    assert_bytes_of_one_machine(run, folder / "samples")


def test_sigterm_stops_the_command_and_every_node(folder):
    process = started(folder, "bash", "-c", "trap 'touch saved; exit 1' TERM; touch begun; while :; do sleep 0.1; done")
    wait_until((folder / "begun").exists)
    assert of_ray(folder)
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, (folder / "saved").exists()) == (1, True), err
    assert of_ray(folder) == []
    assert time.monotonic() - began < 45
    assert not re.search(r"[0-9a-f]{64}", err + "".join(kept(folder).values()))  # the token
