"""Plain arrays in numpy's format: a header is believed only if the bytes that it describes are there."""

import io
import math
import tokenize
import warnings
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from gscl_scale.errors import FolderError
from gscl_scale.io.validate import size_of
from gscl_scale.text import shortened

_LONGEST_HEADER = 1 << 14  # bytes
# numpy reads a header as a Python literal; these are the errors for text that is none, or is nested too deeply
_NO_HEADER = (ValueError, TypeError, OverflowError, SyntaxError, RecursionError, MemoryError, tokenize.TokenError)


class Header(NamedTuple):
    """Shape and type of an array in a file, whose values begin at byte `start`; `fortran`: column by column."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    start: int
    fortran: bool

    @property
    def num_bytes(self) -> int:
        """Bytes of the array's values."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(file: IO[bytes]) -> Header:
    """Read the header of a plain array of numbers or text; ValueError for anything else."""
    beginning = io.BytesIO(file.read(_LONGEST_HEADER))  # a packed header may say that it has gigabytes
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about headers that Python 2 wrote
            old = np.lib.format.read_magic(beginning) == (1, 0)
            read = np.lib.format.read_array_header_1_0 if old else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = read(beginning)
    except _NO_HEADER:
        raise ValueError("is not an array in numpy's format") from None
    if dtype.hasobject:
        raise ValueError("holds pickled objects, which are never loaded")
    if dtype.kind not in "biufcUS" or not dtype.itemsize:
        raise ValueError(f"holds {shortened(dtype, 80)}, expected numbers or text")
    if min(shape, default=0) < 0 or math.prod(max(axis, 1) for axis in shape) >= 2**60:
        raise ValueError(f"has shape {shortened(shape, 80)}, which is too large")
    return Header(shape, dtype, beginning.tell(), fortran)


def read_values(file: IO[bytes], header: Header, size: int) -> npt.NDArray[Any]:
    """Read the array of a file of `size` bytes.

    ValueError, before any memory is allocated, where the file has more or fewer values than its header says.
    """
    check_size(header, size)
    file.seek(0)
    array: npt.NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    return array


def check_size(header: Header, size: int) -> None:
    """ValueError where a file of `size` bytes has more or fewer values than its header says."""
    if header.num_bytes != (left := size - header.start):
        raise ValueError(
            f"has {left:,} bytes of values, its header says {header.num_bytes:,} ({header.dtype} {header.shape})"
        )


def map_values(path: Path, header: Header, first: int) -> npt.NDArray[Any]:
    """Map the values of an array whose header begins at byte `first` of a file."""
    order: Literal["F", "C"] = "F" if header.fortran else "C"
    return np.memmap(path, header.dtype, "r", first + header.start, header.shape, order)


def read_array(path: Path, cure: str) -> npt.NDArray[Any]:
    """Read the array of a file that gscl-scale wrote."""
    size = size_of(path)
    try:
        with path.open("rb") as file:
            return read_values(file, read_header(file), size)
    except (ValueError, OSError) as error:
        raise FolderError(f"{path} is damaged: {shortened(error)}; {cure}") from None
