"""The Slurm script, run for real; srun, scontrol, ray and python are stand-ins that write down their arguments."""

import os
import signal
import subprocess
import time

import pytest

from tests.cluster.kube import ROOT

SCRIPT = ROOT / "cluster" / "slurm.sh"
STAND_INS = {
    "scontrol": 'echo "scontrol $*" >> "$TOLD"; printf "node-a\\nnode-b\\nnode-c\\n"',
    "getent": 'echo "getent $*" >> "$TOLD"; echo "10.0.0.7 STREAM $2"',
    "srun": """
        while [[ $1 == --* ]]; do case $1 in --nodelist=*) node=${1#*=} ;; esac; shift; done
        export SLURM_CPUS_ON_NODE=3 NODE=$node
        exec "$@"
    """,
    "ray": """
        echo "$NODE ray $* ${#RAY_AUTH_TOKEN} $RAY_AUTH_MODE" >> "$TOLD"
        [[ $1 == health-check ]] && exit 0
        [[ -e $TOLD.broken && $* == *--head* ]] && exit 1
        trap 'echo "$NODE stopped" >> "$TOLD"; exit 0' TERM
        while :; do sleep 0.05; done
    """,
    "python": """
        case "$1 $2" in
            *socket*) echo 4321 ;;
            *secrets*) printf '%064d' 0 ;;
            *) until (($(grep -c "ray start" "$TOLD") == $2)); do sleep 0.02; done
               echo "python waits for $2 nodes at $RAY_ADDRESS" >> "$TOLD"; [[ ! -e $TOLD.lonely ]] ;;
        esac
    """,
}


@pytest.fixture
def slurm(tmp_path):
    (tmp_path / "bin").mkdir()
    for name, body in STAND_INS.items():
        (tmp_path / "bin" / name).write_text(f"#!/usr/bin/env bash\n{body}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    started = []

    def start(*words, **env):
        given = {"SLURM_JOB_ID": "77", "SLURM_JOB_NODELIST": "node-[a-c]"} | env
        process = subprocess.Popen(
            ["env", "--default-signal=INT", SCRIPT, *words],  # a job in the background would ignore it
            cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, **given, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "TOLD": str(start.told)},
        )  # fmt: skip
        started.append(process)
        return process

    start.told = tmp_path / "told"
    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()


def lines(slurm):
    return slurm.told.read_text().splitlines() if slurm.told.exists() else []


def wait_for(slurm, part):
    until = time.monotonic() + 30
    while not any(part in line for line in lines(slurm)):
        assert time.monotonic() < until, lines(slurm)
        time.sleep(0.02)


@pytest.mark.parametrize("code", [0, 3])
def test_ray_runs_on_all_nodes_and_the_exit_code_of_the_command_is_passed_on(slurm, code):
    process = slurm("bash", "-c", f'echo "the command at $RAY_ADDRESS" >> "$TOLD"; exit {code}')
    _, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert f"ended with exit code {code}" in err
    told = lines(slurm)
    started = {line.split()[0]: line for line in told if "ray start" in line}
    assert set(started) == {"node-a", "node-b", "node-c"}
    assert all("--block --num-cpus=3" in line and line.endswith("64 token") for line in started.values())
    assert "--head --node-ip-address=10.0.0.7 --port=4321" in started["node-a"]
    assert all("--address=10.0.0.7:4321" in started[node] for node in ("node-b", "node-c"))
    assert "0000" not in "".join(told)  # the token is on no command line
    joined, command = (
        told.index("python waits for 3 nodes at 10.0.0.7:4321"),
        told.index("the command at 10.0.0.7:4321"),
    )
    assert joined < command < min(told.index(f"{node} stopped") for node in started)
    assert "getent ahostsv4 node-a" in told


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_it_waits_for_the_command_to_save_and_then_stops_all_nodes(slurm, told):
    process = slurm(
        "bash", "-c",
        'trap \'sleep 0.3; echo saved >> "$TOLD"; exit 1\' TERM; echo begun >> "$TOLD"; while :; do sleep 0.05; done',
    )  # fmt: skip
    wait_for(slurm, "begun")
    process.send_signal(told)
    process.communicate(timeout=60)
    assert process.returncode == 1
    assert lines(slurm).index("saved") < lines(slurm).index("node-b stopped")
    assert sum(line.endswith(" stopped") for line in lines(slurm)) == 3


def test_nothing_is_run_if_a_node_does_not_join(slurm):
    slurm.told.with_name("told.lonely").touch()
    process = slurm("bash", "-c", 'echo "the command" >> "$TOLD"')
    process.communicate(timeout=60)
    assert process.returncode == 1
    assert "the command" not in lines(slurm)
    assert sum(line.endswith(" stopped") for line in lines(slurm)) == 3


@pytest.mark.parametrize(
    ("words", "env", "sentence"),
    [
        ((), {}, "no command; expected: sbatch slurm.sh gscl-scale VERB"),
        (("true",), {"SLURM_JOB_NODELIST": ""}, "this is no Slurm job; start it with sbatch"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(slurm, words, env, sentence):
    process = slurm(*words, **env)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err.count("\n")) == (2, 1)
    assert sentence in err
    assert lines(slurm) == []
