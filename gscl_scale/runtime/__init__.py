"""How work runs and how it is told: local processes, progress, the log. Knows nothing about graphs."""

from gscl_scale.runtime.console import Console
from gscl_scale.runtime.local import num_workers, run_tasks

__all__ = ["Console", "num_workers", "run_tasks"]
