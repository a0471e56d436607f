"""Features made from the structure alone, for graphs that bring none."""

from pathlib import Path
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from gscl_scale import seeding

_HOPS = 3


def structural_features(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[Any],
    identities: npt.NDArray[np.uint64],
    width: int,
    folder: Path,
) -> npt.NDArray[np.float32]:
    """Random signs of each node, averaged over neighbours one to three times (as FastRP, Chen et al. 2019), and degree.

    Each of the hops is brought to length one per node and they are added up, so nodes with common neighbours get
    similar rows; the last column is the standardised logarithm of the degree. The signs belong to the user's ids: a row
    does not depend on the order of the nodes. All arrays of N rows live in files below `folder`.
    """
    num_nodes = identities.size
    current, following, out = (
        np.memmap(folder / f"structure-{name}.raw", np.float32, "w+", shape=(num_nodes, width)) for name in "abc"
    )
    _random_signs(seeding.key("structure"), identities, current)
    for _ in range(_HOPS):
        _average(indptr, indices, current, following, out)
        current, following = following, current
    degree = np.log1p(np.diff(indptr)).astype(np.float32)
    out[:, -1] = (degree - degree.mean()) / max(float(degree.std()), 1e-6)
    return out


@numba.njit(cache=True)
def _random_signs(key, identities, out):  # type: ignore[no-untyped-def]
    for v in range(out.shape[0]):
        for column in range(out.shape[1] - 1):
            bits = seeding.mix(seeding.mix(identities[v] ^ key) + np.uint64(column))
            out[v, column] = 1.0 if bits >> np.uint64(63) else -1.0


@numba.njit(cache=True)
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
