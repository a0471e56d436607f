"""The script of cronjob.yaml, run for real against a small server that answers as Kubernetes does."""

import json
import os
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import certifi
import pytest

from tests.cluster.kube import data_of, nightly_template, parsed

JOBS = "/apis/ray.io/v1/namespaces/graphs/rayjobs"


class Kubernetes:
    """Takes a RayJob, and answers with one status after the other."""

    def __init__(self, statuses, refuse=None):
        self.statuses, self.refuse, self.created, self.headers = list(statuses), refuse, [], []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self, code, value):
                self.send_response(code)
                self.end_headers()
                self.wfile.write(json.dumps(value).encode())
                outer.headers.append(self.headers["Authorization"])

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                refused = outer.refuse or (404 if self.path != JOBS else 0)
                if not refused:
                    outer.created.append(body)
                self.answer(refused or 201, {"message": "refused"} if refused else body)

            def do_GET(self):
                status = outer.statuses.pop(0) if len(outer.statuses) > 1 else outer.statuses[0]
                refused = status if isinstance(status, int) else 404 if self.path != f"{JOBS}/night-7" else 0
                self.answer(refused or 200, {} if refused else {"status": status})

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def night(tmp_path):
    """Runs the script; the places that are fixed in a pod are moved here."""
    files = data_of("cronjob", "gscl-scale-nightly")
    for name, text in (("token", "secret"), ("namespace", "graphs"), ("rayjob.yaml", files["rayjob.yaml"])):
        (tmp_path / name).write_text(text)
    shutil.copy(certifi.where(), tmp_path / "ca.crt")
    servers = []

    def run(statuses, refuse=None):
        servers.append(kubernetes := Kubernetes(statuses, refuse))
        script = files["start.py"]
        for there, here in (
            ("https://kubernetes.default.svc", f"http://127.0.0.1:{kubernetes.server.server_port}"),
            ("/var/run/secrets/kubernetes.io/serviceaccount", str(tmp_path)),
            ("/nightly/rayjob.yaml", str(tmp_path / "rayjob.yaml")),
            ("EVERY_S = 15.0", "EVERY_S = 0.01"),
        ):
            assert script.count(there) == 1
            script = script.replace(there, here)
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "JOB_NAME": "night-7", "JOB_UID": "uid-7"},
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        return done, kubernetes

    yield run
    for kubernetes in servers:
        kubernetes.server.shutdown()
        kubernetes.server.server_close()


RUNNING = {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}
DONE = {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}
FAILED = {"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "message": "failed with exit code 3"}


def test_it_creates_the_ray_job_of_the_file_and_ends_when_it_does(night):
    done, kubernetes = night([{}, RUNNING, 503, RUNNING, DONE])
    assert done.returncode == 0, done.stderr
    [created] = kubernetes.created
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "night-7", "uid": "uid-7"}
    assert created["metadata"].pop("ownerReferences") == [owner]
    assert parsed(created).spec == nightly_template().spec
    assert created["metadata"] == {"name": "night-7"}
    assert set(kubernetes.headers) == {"Bearer secret"}
    assert done.stdout.split("\n")[:3] == ["RayJob night-7 is created", "Running ", "Complete "]


def test_a_pod_that_comes_again_follows_the_same_ray_job(night):
    done, kubernetes = night([DONE], refuse=409)
    assert (done.returncode, kubernetes.created) == (0, [])
    assert "is there already" in done.stdout


@pytest.mark.parametrize(
    ("statuses", "said"),
    [
        ([RUNNING, FAILED], "failed with exit code 3"),
        ([{"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"}], "Complete"),
        ([RUNNING, 404], "cannot be read any more: 404"),
    ],
)
def test_every_other_end_is_a_failure(night, statuses, said):
    done, _ = night(statuses)
    assert done.returncode == 1
    assert said in done.stdout + done.stderr


@pytest.mark.parametrize("trouble", [429, 500, 503])
def test_trouble_at_the_creation_is_left_to_another_pod(night, trouble):
    done, _ = night([DONE], refuse=trouble)
    assert done.returncode == 75  # not 1, with which podFailurePolicy ends the night
    assert "asked again soon" in done.stderr


def test_a_ray_job_that_is_refused_is_a_failure_with_the_reason(night):
    done, _ = night([DONE], refuse=403)
    assert done.returncode == 1
    assert "was not created: 403" in done.stderr
