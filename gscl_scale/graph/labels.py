"""Labels as a source gives them: checked, numbered and written, one per node or many."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding
from gscl_scale.errors import GraphError
from gscl_scale.graph.label_sets import LabelSets, sets_from_matrix
from gscl_scale.io.arrow_writer import write_column

_EXACT_FLOATS = 2**53
_AT_ONCE = 1 << 20


def checked_labels(labels: npt.NDArray[Any] | LabelSets | None, origin: str) -> npt.NDArray[Any] | LabelSets | None:
    """The labels as one array [N], or as LabelSets where a node has several; a single column [N, 1] is welcome."""
    if isinstance(labels, np.ndarray) and labels.ndim == 2 and labels.shape[1] > 1:
        labels = sets_from_matrix(labels, origin)
    if labels is None or isinstance(labels, LabelSets):
        return labels
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise GraphError(f"{origin}: labels have shape {labels.shape}, expected one class per node")
    if labels.dtype.kind not in "iubfOUS":
        raise GraphError(f"{origin}: labels are of type {labels.dtype}, expected integers or names")
    if labels.dtype.kind == "f":
        known = labels[~np.isnan(labels)]
        if not np.array_equal(known, np.round(known)) or (np.abs(known) > _EXACT_FLOATS).any():
            raise GraphError(
                f"{origin}: labels are fractions, expected classes; give integers or names, or leave the labels out "
                "(of a Data of torch_geometric: del data.y)"
            )
    if labels.dtype.kind == "S":
        return np.char.decode(labels, "utf-8", "replace")
    for row, label in enumerate(labels) if labels.dtype.kind == "O" else ():
        if label is not None and not isinstance(label, str | int | float | np.integer | np.floating):
            raise GraphError(
                f"{origin}: the label of node {row:,} is a {type(label).__name__}, expected a name, an integer, or None"
            )
    return labels


def write_labels(out: Path, labels: npt.NDArray[Any] | LabelSets | None, shuffle: int | None = None) -> list[str]:
    """Write one class per node, or many labels; returns their names, none where no node has a label.

    With the seed `shuffle` each labelled node gets the labels of a random one.
    """
    if isinstance(labels, LabelSets) and (labels.counts > 1).any():
        labels = labels if shuffle is None else labels.take(_shuffled(labels.counts > 0, shuffle))
        write_column(out / "label_indptr.arrow", "indptr", labels.indptr)
        write_column(out / "label_indices.arrow", "label", labels.indices)
        return labels.names
    if labels is None:
        return []
    codes, classes = (labels.most_common(), labels.names) if isinstance(labels, LabelSets) else encode_labels(labels)
    if classes:
        codes = codes if shuffle is None else codes[_shuffled(codes >= 0, shuffle)]
        write_column(out / "labels.arrow", "label", codes)
    return classes


def _shuffled(labelled: npt.NDArray[np.bool_], seed: int) -> npt.NDArray[np.int64]:
    """The node [N] whose labels each node gets: of a labelled node a labelled one, of all others the node itself."""
    nodes, known = np.arange(labelled.size), np.flatnonzero(labelled)
    nodes[known] = seeding.generator("shuffled labels", seed).permutation(known)
    return nodes


def encode_labels(labels: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Number the classes in sorted order, -1 where a label is unknown; returns the codes and the names.

    >>> encode_labels(np.array([7, -1, 3]))
    (array([ 1, -1,  0]), ['3', '7'])
    """
    if labels.dtype.kind in "iu" and labels.size and 0 <= labels.max() <= labels.size:
        return _encode_small_numbers(labels)
    if labels.dtype.kind in "OUS":
        known = np.array([label is not None and label == label for label in labels], bool)
        named = labels[known].astype(str)
    else:
        known = labels >= 0  # NaN is not
        named = labels[known] if labels.dtype.kind in "iu" else labels[known].astype(np.int64)
    classes, inverse = np.unique(named, return_inverse=True)
    codes = np.full(labels.size, -1, np.int64)
    codes[known] = inverse
    return codes, [str(name) for name in classes]


def _encode_small_numbers(labels: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], list[str]]:
    """The same without sorting, for integers up to about the number of labels."""
    used = np.zeros(int(labels.max()) + 1, bool)
    for part in _parts(labels):
        used[part[part >= 0]] = True
    classes = np.flatnonzero(used)
    codes = np.full(classes[-1] + 2, -1, np.int64)  # the last for all that are negative
    codes[classes] = np.arange(classes.size)
    found = np.empty(labels.size, np.int64)
    for part, out in zip(_parts(labels), _parts(found), strict=True):
        out[:] = codes[np.maximum(part, -1)] if labels.dtype.kind == "i" else codes[part]
    return found, [str(name) for name in classes]


def _parts(labels: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    """Views of few labels at a time, so that copies of them take little memory."""
    return (labels[low : low + _AT_ONCE] for low in range(0, labels.size, _AT_ONCE))
