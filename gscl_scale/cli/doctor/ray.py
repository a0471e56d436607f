"""Does Ray work? Each machine is sent a small task, the way that those of a run would go."""

import tempfile
from pathlib import Path

from gscl_scale.cli.doctor.check import Finding, note, ok, trouble
from gscl_scale.config.runtime import RuntimeConfig
from gscl_scale.errors import GsclError
from gscl_scale.io.atomic import naming
from gscl_scale.runtime.runner import start_runner


def examine_ray(config: RuntimeConfig, folder: Path) -> Finding:
    """Join the cluster that a run would join, or start one; every machine must see the folder and compute alike."""
    worse = trouble if config.engine == "ray" else note
    try:
        with (
            naming(folder),
            tempfile.TemporaryDirectory(prefix=".doctor-", dir=folder) as probe,
            start_runner(config.model_copy(update={"engine": "ray"}).for_tasks()) as runner,
        ):
            runner.check_shared(Path(probe))
            return ok("Ray", f"runs tasks, {runner.workers} at once")
    except GsclError as error:
        return worse("Ray", "cannot run tasks", str(error))
