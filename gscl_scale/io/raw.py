"""Numbers in files without any header, for what waits on disk between two steps."""

import uuid
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale.io.atomic import explain_disk_errors


def append_bytes(path: Path, values: npt.NDArray[Any]) -> None:
    """Append numbers to a file."""
    with explain_disk_errors(path), path.open("ab") as file:
        file.write(np.ascontiguousarray(values).data.cast("B") if values.size else b"")


def map_numbers(path: Path, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Map the numbers of a file, which may be empty."""
    return np.memmap(path, dtype, "r") if path.stat().st_size else np.empty(0, dtype)


def new_folder(parent: Path, name: str) -> Path:
    """Make a folder that no other attempt of the same task writes to; the result of the task names it."""
    folder = parent / f"{name}-{uuid.uuid4().hex}"
    with explain_disk_errors(folder):
        folder.mkdir()
    return folder
