"""Rotations of new embeddings into the space of earlier ones, so that models trained on those still fit.

A ranking loss determines embeddings up to a rotation; orthogonal Procrustes finds the best one.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg

from gscl_scale import seeding
from gscl_scale.errors import FolderError
from gscl_scale.graph.graph import Graph
from gscl_scale.io.atomic import publish_file
from gscl_scale.io.npy import read_array
from gscl_scale.shards.graph_diff import match_nodes

Rows = npt.NDArray[np.float32]

LEAST = 4  # rows that have an agreement
_MOST = 100_000
_CURE = "remove it and run gscl-scale embed again: the embeddings are then in a space of their own"


@dataclass(frozen=True)
class Common:
    """The rows [n] of nodes that an earlier and a later graph have, ascending in the later one."""

    earlier: npt.NDArray[np.int64]
    later: npt.NDArray[np.int64]


def common_nodes(earlier: Graph, later: Graph, most: int = _MOST) -> Common:
    """The nodes that both graphs have, by the user's ids; a sample where they are more than `most`."""
    places = match_nodes(earlier, later).old_of_new
    known = np.flatnonzero(places >= 0)
    if known.size > most:
        known = np.sort(seeding.generator("common nodes", 0).choice(known, most, replace=False))
    return Common(places[known], known)


def best_rotation(rows: Rows, target: Rows) -> Rows:
    """The rotation R [d, d] for which rows @ R are most like the rows of target, all taken at length one."""
    rotation, _ = scipy.linalg.orthogonal_procrustes(_unit(rows), _unit(target))
    return rotation.astype(np.float32)


def alignment(rows: Rows, target: Rows) -> float | None:
    """Mean cosine with target after the best rotation, fitted on the even rows and measured on the odd ones."""
    if lack_for_alignment(rows, target):
        return None
    turned = _unit(rows[1::2] @ best_rotation(rows[::2], target[::2]))
    return float((turned * _unit(target[1::2])).sum(axis=1).mean())


def agreement(rows: Rows, target: Rows) -> float | None:
    """How alike rows are to those of target whatever the rotation; None for rows that cannot tell.

    1 for the same rows, 0 for chance, also where there are fewer rows than columns: linear CKA with the unbiased
    estimator of HSIC (Kornblith et al., ICML 2019; Song et al., JMLR 2012), on at most 2,000 rows.
    """
    picked = np.linspace(0, len(rows) - 1, min(len(rows), 2000)).astype(np.int64)
    number = picked.size
    if number < LEAST:
        return None
    one, other = (each @ each.T for each in (_unit(rows[picked]), _unit(target[picked])))
    np.fill_diagonal(one, 0)
    np.fill_diagonal(other, 0)

    def hsic(first: Any, second: Any) -> float:
        means = first.sum() * second.sum() / ((number - 1) * (number - 2))
        return float((first * second).sum() + means - 2 / (number - 2) * first.sum(axis=0) @ second.sum(axis=0))

    spreads = hsic(one, one), hsic(other, other)
    if min(spreads) < 1e-6 * number**2:  # nearly all rows are alike
        return None
    return hsic(one, other) / math.sqrt(math.prod(spreads))


def lack_for_alignment(rows: Rows, target: Rows) -> str:
    """Why the alignment cannot be measured, in words; "" where it can."""
    (number, width), before = rows.shape, target.shape[1]
    if width != before:
        return f"the embeddings have {width:,} columns now and had {before:,}"
    if number < 2 * width:  # a rotation of so many columns fits so few rows to nearly any target
        return f"both versions have {number:,} nodes in common, expected at least {2 * width:,} (2 x the columns)"
    return ""


def write_rotation(path: Path, rotation: Rows) -> None:
    """Publish a rotation."""
    with publish_file(path) as temporary, temporary.open("wb") as file:
        np.save(file, rotation)


def read_rotation(path: Path) -> Rows | None:
    """The rotation of a run, None where it has none."""
    if not path.exists():
        return None
    rotation = read_array(path, _CURE)
    if rotation.dtype != np.float32 or rotation.ndim != 2 or rotation.shape[0] != rotation.shape[1]:
        raise FolderError(f"{path}: expected a square of float32, got {rotation.dtype} of {rotation.shape}; {_CURE}")
    if not np.isfinite(rotation).all():
        raise FolderError(f"{path} is damaged: its numbers are not finite; {_CURE}")
    return rotation


def _unit(rows: Any) -> Any:
    wide = rows.astype(np.float64)
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    return wide / np.where(norms > 0, norms, 1.0)
