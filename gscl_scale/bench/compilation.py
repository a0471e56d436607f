"""A command whose process records what numba compiles: `python -m gscl_scale.bench.compilation FILE VERB ...`."""

import atexit
import json
import runpy
import sys
import time
from pathlib import Path
from typing import Any

from numba.core import event


class Recorder(event.Listener):
    """Counts the kernels that are compiled, and the seconds of it; one that another one calls is within its time."""

    def __init__(self) -> None:
        self.kernels: list[str] = []
        self.seconds = 0.0
        self._depth, self._began = 0, 0.0

    def on_start(self, event: Any) -> None:
        """A kernel begins to be compiled."""
        function = event.data["dispatcher"].py_func
        if not function.__module__.startswith("numba."):  # what kernels call of it takes time, and is none of them
            self.kernels.append(function.__qualname__)
        if not self._depth:
            self._began = time.perf_counter()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        """A kernel is compiled."""
        self._depth -= 1
        if not self._depth:
            self.seconds += time.perf_counter() - self._began


def record(path: Path) -> None:
    """Write what is compiled from now on to a file when the process ends."""
    recorder = Recorder()
    event.register("numba:compile", recorder)
    atexit.register(
        lambda: path.write_text(json.dumps({"kernels": len(recorder.kernels), "seconds": recorder.seconds,
                                            "names": recorder.kernels}), encoding="utf-8")
    )  # fmt: skip


if __name__ == "__main__":
    record(Path(sys.argv.pop(1)))
    runpy.run_module("gscl_scale", run_name="__main__")
