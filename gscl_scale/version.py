"""The version of the package: that of its installation, which follows the tags of git."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("gscl-scale")
except PackageNotFoundError:  # source code that nobody has installed
    __version__ = "0.0.0"
