"""Names of training objectives: ours, and those of installed packages; known without importing any of them."""

import functools
import sys
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Literal, get_args

from gscl_scale.errors import ConfigError

GROUP = "gscl_scale.objectives"

OwnObjective = Literal[
    "gscl",
    "supervised",
    "gae",
    "vgae",
    "dgi",
    "mvgrl",
    "gmi",
    "grace",
    "gca",
    "bgrl",
    "afgrl",
    "af-gcl",
    "autossl",
    "cca-ssg",
    "g-bt",
    "graphmae",
    "graphmae2",
    "s2gae",
    "sugrl",
    "costa",
    "graphacl",
    "blnn",
]
OWN_OBJECTIVES: tuple[str, ...] = get_args(OwnObjective)
OTHER_ROWS = (
    "raw", "untrained", "spectral", "cleora", "prone", "deepwalk", "node2vec",
    "gat", "first-hop", "gscl-pairwise", "gscl-listwise",
)  # fmt: skip


def installed_objectives() -> dict[str, EntryPoint]:
    """The entry points of other packages by the name of their method; names must be free and given once."""
    found: dict[str, EntryPoint] = {}
    for point in _entry_points(tuple(sys.path)):
        if point.name in (*OWN_OBJECTIVES, *OTHER_ROWS):
            raise ConfigError(
                f"{package_of(point)}: its method {point.name!r} has the name of a method of gscl-scale; "
                "rename its entry point, or uninstall the package"
            )
        if point.name in found and package_of(found[point.name]) != package_of(point):
            both = " and ".join(sorted((package_of(found[point.name]), package_of(point))))
            raise ConfigError(f"the method {point.name!r} is in two packages, {both}; uninstall one of them")
        found[point.name] = point
    return found


@functools.lru_cache(maxsize=1)
def _entry_points(path: tuple[str, ...]) -> EntryPoints:
    """Those of the packages on the path: reading all packages takes 20 ms, and every configuration asks."""
    return entry_points(group=GROUP)


def package_of(point: EntryPoint) -> str:
    """The package of an entry point, with its version."""
    return f"package {point.dist.name} {point.dist.version}" if point.dist else f"entry point {point.value}"


def check_objective(name: str) -> str:
    """The name of an objective of ours or of an installed package; ValueError for any other."""
    if name != "gscl" and name not in (known := (*OWN_OBJECTIVES, *installed_objectives())):
        raise ValueError(
            f"expected one of {', '.join(known)}, or a method of an installed package (entry point {GROUP})"
        )
    return name
