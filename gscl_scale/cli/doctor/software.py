"""Python, the packages that gscl-scale needs, and those that an extra brings."""

import importlib
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, version

from packaging.requirements import Requirement

from gscl_scale.cli.doctor.check import Finding, ok, trouble

_SHOWN = ("torch", "torch-geometric", "ray", "pyarrow", "numpy", "numba")
_EXTRAS = {
    "tune": "proposals of gscl-scale tune by Optuna",
    "index": "an index of neighbors --index",
    "cloud": "a registry on an object store",
    "torch-sparse": "its sparse product",
}


def examine_software() -> Iterator[Finding]:
    """Python, required packages, compiled kernels, extras."""
    yield ok("python", f"{platform.python_version()}, {platform.system()} {platform.machine()}")
    yield _packages()
    yield _kernels()
    yield from _extras()


def _packages() -> Finding:
    needed = [Requirement(line) for line in distribution("gscl-scale").requires or ()]
    unfit = [told for need in needed if not need.marker and (told := unmet(need))]
    if unfit:
        return trouble("packages", "; ".join(unfit), "install again: make install, or pip install gscl-scale")
    return ok("packages", ", ".join(f"{name} {version(name)}" for name in ("gscl-scale", *_SHOWN)))


def unmet(need: Requirement) -> str:
    """What is wrong with the installed version of a requirement; "" if it is fit."""
    try:
        have = version(need.name)
    except PackageNotFoundError:
        return f"{need.name} is not installed"
    return (
        "" if need.specifier.contains(have, prereleases=True) else f"{need.name} is {have}, expected {need.specifier}"
    )


def _kernels() -> Finding:
    """Numba keeps what it compiles; where it finds no place for that, its kernels cannot even be imported."""
    try:
        importlib.import_module("gscl_scale.graph.csr")
    except RuntimeError as error:
        place = f"set NUMBA_CACHE_DIR to a folder that can be written ({str(error).splitlines()[0]})"
        return trouble("kernels", "numba finds no folder for compiled code", place)
    return ok("kernels", "numba keeps compiled code")


def _extras() -> Iterator[Finding]:
    needed = [Requirement(line) for line in distribution("gscl-scale").requires or ()]
    for extra, purpose in _EXTRAS.items():
        own = [need for need in needed if need.marker and need.marker.evaluate({"extra": extra})]
        if any(unmet(need) for need in own):
            yield ok(f"extra {extra}", f"not installed; for {purpose}: pip install 'gscl-scale[{extra}]'")
        else:
            yield ok(f"extra {extra}", ", ".join(f"{need.name} {version(need.name)}" for need in own))
