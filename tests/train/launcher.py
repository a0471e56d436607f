"""Processes that train together on this machine, started by torchrun or one by one; some may be killed or stopped."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from tests.ports import free_port

ROOT = Path(__file__).parent.parent.parent


class Started:
    """A command in a folder, in a session of its own."""

    def __init__(self, folder, *command, **env):
        env = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **env}
        self.process = subprocess.Popen(
            [sys.executable, "-m", *command], cwd=folder, env=env, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def rank(self, number):
        """The process of a rank."""
        return next(
            one for one in psutil.Process(self.process.pid).children() if one.environ().get("RANK") == str(number)
        )

    def ended(self, timeout=100):
        """(exit code, output, errors) when all have ended; they are killed if they have not in time."""
        try:
            out, err = self.process.communicate(timeout=timeout)
        finally:
            self.kill()
        return self.process.returncode, out, err

    def kill(self):
        """Kill whatever has not ended, and close what nobody reads."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


def begin_torchrun(folder, *words, size=2, **env):
    """Start `torchrun -m gscl_scale WORDS` in a folder."""
    address = ["--master-addr", "127.0.0.1", "--master-port", str(free_port())]
    command = ["torch.distributed.run", "--nproc-per-node", str(size), *address, "-m", "--", "gscl_scale", *words]
    return Started(folder, *command, **env)


def torchrun(folder, *words, **settings):
    """(exit code, output, errors) of `torchrun -m gscl_scale WORDS`."""
    return begin_torchrun(folder, *words, **settings).ended()


@contextlib.contextmanager
def each_of(size, folder, *words, **env):
    """Start processes one by one, as a scheduler without torchrun does; each has an exit code of its own."""
    world = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    started = [Started(folder, "gscl_scale", *words, RANK=str(rank), **world, **env) for rank in range(size)]
    try:
        yield started
    finally:
        for one in started:
            one.kill()
