"""Published splits as one code per node."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale.errors import GraphError
from gscl_scale.graph.types import SPLIT_CODES


def splits_from_masks(masks: Mapping[str, npt.NDArray[np.bool_]], origin: str) -> dict[str, npt.NDArray[np.int8]]:
    """Turn masks [N] or [N, S] of train, val and test into S splits `split_0`, ...; a mask [N] holds for all S."""
    columns = {part: mask if mask.ndim == 2 else mask[:, None] for part, mask in masks.items()}
    rows, width = (max(mask.shape[axis] for mask in columns.values()) for axis in (0, 1))
    codes = np.zeros((rows, width), np.int8)
    for part, mask in columns.items():
        chosen = np.broadcast_to(mask, codes.shape)
        if codes[chosen].any():
            row = int(np.argwhere(chosen & (codes > 0))[0, 0])
            raise GraphError(
                f"{origin}: node {row:,} is in {part} and in another part of the same split; expected disjoint masks"
            )
        codes[chosen] = SPLIT_CODES[part]
    return {f"split_{number}": np.ascontiguousarray(codes[:, number]) for number in range(width)}


def split_from_rows(parts: Mapping[str, npt.NDArray[Any]], num_nodes: int, origin: str) -> npt.NDArray[np.int8]:
    """Turn row numbers of train, val and test into codes [N]."""
    masks = {}
    for part, rows in parts.items():
        if rows.dtype.kind not in "iu" or (rows.size and (rows.min() < 0 or rows.max() >= num_nodes)):
            raise GraphError(f"{origin}: the {part} split names nodes outside 0 to {num_nodes - 1:,}")
        masks[part] = np.zeros(num_nodes, bool)
        masks[part][rows] = True
    return splits_from_masks(masks, origin)["split_0"]
