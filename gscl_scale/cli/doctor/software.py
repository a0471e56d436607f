"""Python, the packages of gscl-scale and of its extras, and whether Ray runs tasks."""

import platform
import tempfile
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

from packaging.requirements import Requirement

from gscl_scale import seeding
from gscl_scale.cli.doctor.check import Finding
from gscl_scale.config.runtime import RuntimeConfig
from gscl_scale.errors import GsclError
from gscl_scale.io.atomic import explain_disk_errors
from gscl_scale.runtime.runner import start_runner

_SHOWN = ("gscl-scale", "torch", "torch-geometric", "pyarrow", "numpy", "numba")
_EXTRAS = {
    "ray": "runs on a Ray cluster",
    "tune": "trials of gscl-scale tune proposed by Optuna",
    "index": "the index of neighbors --index",
    "cloud": "runs and registries on an object store",
    "ogb": "graphs of the Open Graph Benchmark",
    "tensorboard": "curves for TensorBoard",
    "torch-sparse": "model.product torch-sparse",
}


def examine_software() -> Iterator[Finding]:
    """Python, required packages, compiled kernels, extras."""
    yield Finding("python", "ok", f"{platform.python_version()}, {platform.system()} {platform.machine()}")
    needed = [Requirement(line) for line in distribution("gscl-scale").requires or ()]
    if unfit := [problem for need in needed if not need.marker and (problem := unmet(need))]:
        cure = "install again: make install, or pip install gscl-scale"
        yield Finding("packages", "trouble", "; ".join(unfit), cure)
    else:
        yield Finding("packages", "ok", _versions(_SHOWN))
    yield _kernels()
    for extra, purpose in _EXTRAS.items():
        own = [need for need in needed if need.marker and need.marker.evaluate({"extra": extra})]
        absent = f"not installed; for {purpose}: pip install 'gscl-scale[{extra}]'"
        yield Finding(f"extra {extra}", "ok", absent if any(map(unmet, own)) else _versions(need.name for need in own))


def unmet(need: Requirement) -> str:
    """What is wrong with the installed version of a requirement; "" where it fits."""
    try:
        installed = version(need.name)
    except PackageNotFoundError:
        return f"{need.name} is not installed"
    fits = need.specifier.contains(installed, prereleases=True)
    return "" if fits else f"{need.name} is {installed}, expected {need.specifier}"


def _versions(names: Iterable[str]) -> str:
    return ", ".join(f"{name} {version(name)}" for name in names)


def _kernels() -> Finding:
    """Numba caches compiled code; without a folder for it, no kernel can be called."""
    try:
        assert seeding.mix.dispatcher
    except RuntimeError as error:
        cure = f"set NUMBA_CACHE_DIR to a folder with write access ({str(error).splitlines()[0]})"
        return Finding("kernels", "trouble", "numba finds no folder for compiled code", cure)
    return Finding("kernels", "ok", "numba caches compiled code")


def examine_ray(config: RuntimeConfig, folder: Path) -> Finding:
    """Run a small task on each machine of the cluster of a run, or of a new one; all must see the folder."""
    try:
        with (
            explain_disk_errors(folder),
            tempfile.TemporaryDirectory(prefix=".doctor-", dir=folder) as probe,
            start_runner(config.model_copy(update={"engine": "ray"}).for_tasks()) as runner,
        ):
            runner.check_shared(Path(probe))
            return Finding("Ray", "ok", f"runs tasks, {runner.workers} at a time")
    except GsclError as error:
        return Finding("Ray", "trouble" if config.engine == "ray" else "note", "cannot run tasks", str(error))
