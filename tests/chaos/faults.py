"""The kinds of faults: what is done before a command, around it, or while it runs."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import psutil

from tests.chaos.attempts import LIMIT_S, Attempt

Draw = np.random.Generator
INJECT = Path(__file__).parent / "inject"


@dataclass(frozen=True)
class Fault:
    """One fault.

    before    is done to the folder of the run first; False if there was nothing to do it to
    wrapper   what starts the command, and env its variables
    meanwhile is done beside the command; False if the command ended first
    """

    about: str
    before: Callable[[Path], bool] = lambda folder: True
    wrapper: Sequence[str] = ()
    env: dict[str, str] = field(default_factory=dict)
    meanwhile: Callable[[Attempt], bool] = lambda attempt: True


Kind = Callable[[Draw, float], Fault]  # its second argument is how long a whole command lasts


_BY_STRACE = ("flush fails", "rename fails", "writes fail from then on", "slow disk")
_BY_MOUNTS = ("disk full", "read-only folder", "machine with 64 MB of shared memory")


@cache
def impossible() -> dict[str, str]:
    """Kinds that cannot be done on this machine, and what is missing."""
    mounts = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /mnt"]
    can_mount = shutil.which("unshare") and subprocess.run(mounts, capture_output=True, check=False).returncode == 0
    return {
        **dict.fromkeys(() if shutil.which("strace") else _BY_STRACE, "strace"),
        **dict.fromkeys(() if can_mount else _BY_MOUNTS, "the right to mount"),
    }


# --- while it runs ---------------------------------------------------------------------------------------------------


def during(about: str, after: float, act: Callable[[Attempt], None]) -> Fault:
    """Something happens to a command that has run for some seconds; nothing if it has ended."""

    def meanwhile(attempt: Attempt) -> bool:
        if not attempt.wait(after):
            return False
        act(attempt)
        return True

    return Fault(about, meanwhile=meanwhile)


def sent(number: signal.Signals) -> Kind:
    """A signal to the command."""

    def kind(draw: Draw, whole: float) -> Fault:
        after = float(draw.uniform(0.3, whole))
        return during(f"{number.name} after {after:.2f} s", after, lambda attempt: attempt.process.send_signal(number))

    return kind


def paused(draw: Draw, whole: float) -> Fault:
    """The command is stopped for a while, with all that it has started."""
    after, seconds = float(draw.uniform(0.3, whole)), float(draw.uniform(1, 6))

    def freeze(attempt: Attempt) -> None:
        frozen = [psutil.Process(attempt.process.pid), *attempt.children()]
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for process in frozen:
                if process.is_running():
                    process.send_signal(number)
            time.sleep(seconds if number == signal.SIGSTOP else 0)

    return during(f"stopped after {after:.2f} s for {seconds:.1f} s", after, freeze)


# --- around it -------------------------------------------------------------------------------------------------------


def system_call(calls: str, error: str, after: tuple[int, int], lasting: bool = False) -> Kind:
    """The kernel answers a call with an error, once or from then on."""

    def kind(draw: Draw, whole: float) -> Fault:
        number = int(draw.integers(*after))
        rule = f"inject={calls}:error={error}:when={number}{'+' if lasting else ''}"
        return _kernel(f"{error} from {calls} number {number}{' on' * lasting}", calls, rule)

    return kind


def slow_disk(draw: Draw, whole: float) -> Fault:
    """Every flush and every rename takes long."""
    milliseconds = int(draw.integers(50, 400))
    calls = "fsync,rename,renameat,renameat2"
    rule = f"inject={calls}:delay_enter={1000 * milliseconds}"
    return _kernel(f"{milliseconds} ms for each flush and rename", calls, rule)


def _kernel(about: str, calls: str, rule: str) -> Fault:
    """What the kernel does to calls, by strace; it fell if strace says so."""
    log = Path(tempfile.mkstemp(prefix="chaos-")[1])

    def meanwhile(attempt: Attempt) -> bool:
        attempt.wait(LIMIT_S)
        fell = "INJECTED" in log.read_text(errors="replace")
        log.unlink()
        return fell

    wrapper = ("strace", "-f", "--seccomp-bpf", "-o", str(log), "-e", f"trace={calls}", "-e", rule)
    return Fault(about, wrapper=wrapper, meanwhile=meanwhile)


def limited(option: str, what: str, lowest: int, highest: int) -> Kind:
    """A limit of the shell for the process."""

    def kind(draw: Draw, whole: float) -> Fault:
        value = int(draw.integers(lowest, highest))
        return Fault(f"{what} {value}", wrapper=("bash", "-c", f'ulimit -{option} {value} && exec "$@"', "bash"))

    return kind


def mounted(script: str, about: str, folder: Path) -> Fault:
    """Another filesystem in a place of the run, for this command only."""
    command = f'mkdir -p {folder} && {script} && exec "$@"'
    return Fault(
        about, before=lambda run: (run / "run.json").exists(), wrapper=("unshare", "--mount", "sh", "-c", command, "sh")
    )


def jumping_clock(draw: Draw, whole: float) -> Fault:
    """The clock is now an hour ahead, now one behind."""
    path = os.pathsep.join([str(INJECT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    return Fault("the clock jumps by an hour, to and fro", env={"PYTHONPATH": path})


# --- before it -------------------------------------------------------------------------------------------------------


def damaged(pattern: str, how: str) -> Kind:
    """A file of the run is changed, cut off, emptied, or gone."""

    def kind(draw: Draw, whole: float) -> Fault:
        choice, place = float(draw.random()), float(draw.random())

        def before(folder: Path) -> bool:
            found = sorted(path for path in folder.glob(pattern) if path.is_file() and path.stat().st_size)
            if not found:
                return False
            path = found[int(choice * len(found))]
            harm(path, how, place)
            return True

        return Fault(f"{how}: one of {pattern}", before=before)

    return kind


def harm(path: Path, how: str, place: float) -> None:
    """Do to a file what a bad disk, or a copy that broke off, does."""
    content = bytearray(path.read_bytes())
    at = int(place * len(content))
    if how == "flipped":
        content[at] ^= 1 << int(8 * place) % 8
    elif how == "cut off":
        del content[at:]
    elif how == "zeroed":
        content[at:] = bytes(len(content) - at)
    elif how == "gone":
        path.unlink()
        return
    path.write_bytes(content)


def litter(draw: Draw, whole: float) -> Fault:
    """Halves of files that other attempts, on this machine or another, have left."""
    name = f"elsewhere-{int(draw.integers(1000))}"

    def before(folder: Path) -> bool:
        folder.mkdir(exist_ok=True)
        places = [path for path in (folder, *folder.glob("*"), *folder.glob("samples/*")) if path.is_dir()]
        for place in places:
            (place / f".part-00000.arrow.{name}.tmp").write_bytes(b"half")
            (place / f".manifest.json.{name}.tmp").write_text('{"half')
        return True

    return Fault("halves of files of other attempts", before=before)


def lost_cache(draw: Draw, whole: float) -> Fault:
    """What this machine keeps of an object store is gone."""

    def before(folder: Path) -> bool:
        shutil.rmtree(folder, ignore_errors=True)
        return True

    return Fault("the copy on this machine is gone", before=before)
