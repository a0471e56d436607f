"""How the threads of native libraries wait and how many there are: environment variables that they read when loaded."""

import contextlib
import os
from collections.abc import Iterator, Mapping

from gscl_scale.machine import num_cores, usable_cores

_WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")  # each says how threads of OpenMP wait for work
_NUMBER = "OMP_NUM_THREADS"  # OpenMP, MKL and OpenBLAS take it where they have no variable of their own


def waiting_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """How threads of OpenMP (torch, scikit-learn) wait: as an environment says, else without spinning.

    By default they spin until they have work again. Beside another program a spinning thread takes the time that the
    other threads need: training on the digits took three times as long.
    """
    said = {name: environment[name] for name in _WAITING if name in environment}
    return said or {"OMP_WAIT_POLICY": "PASSIVE"}


def thread_variables(environment: Mapping[str, str], cores: int, visible: int) -> dict[str, str]:
    """The variables to add to an environment; what it says already stays.

    cores     that a process can keep busy
    visible   that libraries see: they look at the affinity and not at the CPU time of the container
    """
    number = {_NUMBER: str(cores)} if cores < visible else {}
    return {name: value for name, value in (waiting_variables(environment) | number).items() if name not in environment}


def set_thread_variables() -> None:
    """Set the variables of this process and of those that it starts; libraries must not be loaded yet."""
    os.environ.update(thread_variables(os.environ, num_cores(), len(usable_cores())))


@contextlib.contextmanager
def thread_variables_while_loading() -> Iterator[None]:
    """The same for libraries that are loaded in this block; the environment of the user's process is as before then."""
    added = thread_variables(os.environ, num_cores(), len(usable_cores()))
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)
