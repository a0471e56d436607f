"""How work runs and how it is told: threads or Ray, progress, the log. Knows nothing about graphs."""

from gscl_scale.runtime.console import Console
from gscl_scale.runtime.local import num_workers
from gscl_scale.runtime.runner import Runner, start_runner, train_together
from gscl_scale.runtime.settings import Meter, RunnerSettings, TrainingSettings
from gscl_scale.runtime.stop import asked_to_stop, stop_after

__all__ = [
    "Console",
    "Meter",
    "Runner",
    "RunnerSettings",
    "TrainingSettings",
    "asked_to_stop",
    "num_workers",
    "start_runner",
    "stop_after",
    "train_together",
]
