"""Features from the structure alone, for graphs without features of their own."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding
from gscl_scale.io.atomic import explain_disk_errors
from gscl_scale.kernel import kernel
from gscl_scale.runtime.threads import in_order

_HOPS = 3
_ROWS_AT_ONCE = 1 << 16


def structural_features(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[Any],
    identities: npt.NDArray[np.uint64],
    width: int,
    folder: Path,
    threads: int,
) -> npt.NDArray[np.float32]:
    """Random signs of each node, averaged over neighbours one to three times (as FastRP, Chen et al. 2019), and degree.

    The rows of each hop are scaled to length one and added, so nodes with common neighbours get similar rows; the last
    column is the standardised logarithm of the degree. The signs belong to the user's ids: a row does not depend on the
    order of the nodes. All arrays of N rows are files in `folder`.
    """
    num_nodes = identities.size
    current, following, out = (_rows_on_disk(folder / f"structure-{name}.raw", (num_nodes, width)) for name in "abc")
    parts = [slice(low, low + _ROWS_AT_ONCE) for low in range(0, num_nodes, _ROWS_AT_ONCE)]
    key = seeding.key("structure")
    _all(in_order(lambda part: _random_signs(key, identities[part], current[part]), parts, threads))
    for _ in range(_HOPS):

        def average(part: slice, current: Any = current, following: Any = following) -> None:
            _average(indptr[part.start : part.stop + 1], indices, current, following[part], out[part])

        _all(in_order(average, parts, threads))
        current, following = following, current
    degree = np.log1p(np.diff(indptr)).astype(np.float32)
    out[:, -1] = (degree - degree.mean()) / max(float(degree.std()), 1e-6)
    return out


def _rows_on_disk(path: Path, shape: tuple[int, int]) -> npt.NDArray[np.float32]:
    """Zeros in a file with allocated blocks: the system kills a process whose mapped file finds the disk full."""
    with explain_disk_errors(path), path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 4 * shape[0] * shape[1])
    return np.memmap(path, np.float32, "r+", shape=shape)


def _all(results: Iterator[None]) -> None:
    for _ in results:
        pass


@kernel
def _random_signs(key, identities, out):  # type: ignore[no-untyped-def]
    for v in range(out.shape[0]):
        for column in range(out.shape[1] - 1):
            bits = seeding.mix(seeding.mix(identities[v] ^ key) + np.uint64(column))
            out[v, column] = 1.0 if bits >> np.uint64(63) else -1.0


@kernel
def _average(indptr, indices, current, following, out):  # type: ignore[no-untyped-def]
    width = out.shape[1] - 1
    total = np.empty(width, np.float64)
    for v in range(indptr.size - 1):
        total[:] = 0.0
        for e in range(indptr[v], indptr[v + 1]):
            for column in range(width):
                total[column] += current[indices[e], column]
        length = np.sqrt((total * total).sum())
        if length > 0.0:
            for column in range(width):
                following[v, column] = total[column] / length
                out[v, column] += following[v, column]
        else:
            following[v, :width] = 0.0
