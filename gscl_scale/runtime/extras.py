"""Extras: packages that are installed only where somebody asks for them."""

from importlib.util import find_spec

from gscl_scale.errors import UserError


def need_package(package: str, extra: str, work: str) -> None:
    """Refuse work that needs a package of an extra which is not installed."""
    if find_spec(package) is None:
        raise UserError(f"{work} needs the package {package}; pip install 'gscl-scale[{extra}]'")
