"""A graph's features: its own, those of its structure, or both side by side; checked and written a part at a time."""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from gscl_scale.config.graph_size import FEW, FeatureBlocks
from gscl_scale.config.graphs import GraphConfig
from gscl_scale.errors import GraphError
from gscl_scale.graph.alikeness import Alikeness
from gscl_scale.graph.row_file import RowFile, RowStream
from gscl_scale.graph.types import ColumnEncoding
from gscl_scale.io.arrow_writer import column_file, write_column

Rows = npt.NDArray[np.float32]
Features = npt.NDArray[Any] | sp.csr_matrix | sp.csr_array | RowStream

DENSE = "features.arrow"
FARTHEST = 8.0  # deviations from the mean: what lies farther counts as much as this
_ROWS_AT_ONCE = 65536


def columns_in(encodings: Sequence[ColumnEncoding]) -> int:
    """The columns of a node table that became features; a list counts as many as it has numbers."""
    return sum(one["width"] if one["kind"] == "numbers" else 1 for one in encodings)


def gets_structural(num_columns: int | None, config: GraphConfig) -> bool:
    """Whether dense features of so many columns, None for no features, are joined by those of the structure."""
    if config.structure == "auto":
        return num_columns is None or num_columns < FEW
    return config.structure in ("always", "only")


def feature_blocks(num_features: int | None, config: GraphConfig) -> FeatureBlocks:
    """How many features of each kind a graph with so many dense ones gets; None for no features."""
    own = num_features or 0
    if not gets_structural(num_features, config):
        return FeatureBlocks(own)
    if config.structure == "only":
        own = 0
    return FeatureBlocks(own, own if own < FEW else 0, config.structural_features)


def why_structural(
    features: Features | None, config: GraphConfig, origin: str, encodings: Sequence[ColumnEncoding] = ()
) -> str:
    """Why structural features are computed, as a note for the user; "" where they are not.

    Columns of a table count as such, however many features texts and categories became.
    """
    width = config.structural_features
    if config.structure == "only":
        others = "" if features is None else f"; the {features.shape[-1]:,} that it brings are not used"
        return f"graph.structure is only: {width} features were computed from the structure{others}"
    if features is None:
        if config.structure == "none":
            raise GraphError(
                f"{origin}: the graph has no features, and graph.structure is none; set it to auto, or bring features"
            )
        return f"the graph has no features: {width} were computed from its structure (see docs/structural_features.md)"
    if sp.issparse(features):
        if config.structure == "always":
            raise GraphError(
                f"{origin}: the features are sparse, and graph.structure is always; set it to auto, or bring dense ones"
            )
        return ""
    if not gets_structural(columns_in(encodings) or features.shape[-1], config):
        return ""
    fewer = f"fewer than {FEW}" if features.shape[-1] < FEW else f"from fewer than {FEW} columns of the table"
    reason = "graph.structure is always" if config.structure == "always" else fewer
    means = "the means of its own over neighbours and " if features.shape[1] < FEW else ""
    return (
        f"features of its own: {features.shape[1]}; {reason}, so {means}{width} of the structure stand beside them, "
        "and its own were scaled to mean 0 and deviation 1 (graph.structure: none keeps them as they are)"
    )


def why_structural_after_all(own: Rows, found: Alikeness | None, config: GraphConfig) -> str:
    """Why many features that tell nothing of the edges are joined by those of the structure; "" where they are not."""
    if config.structure != "auto" or found is None or not found.is_chance:
        return ""
    return (
        f"features of its own: {own.shape[1]}; those of neighbours are no more alike than those of other nodes (mean "
        f"correlation {found.neighbours:.3f}, of random pairs {found.random:.3f}), so {config.structural_features} of "
        "the structure stand beside them, and its own were scaled to mean 0 and deviation 1 (graph.structure: none "
        "keeps them as they are)"
    )


def why_not_structural(found: Alikeness | None, config: GraphConfig) -> str:
    """Why many features are not joined by those of the structure, where that was looked at."""
    if config.structure != "auto" or found is None:
        return ""
    return (
        f"neighbours are alike in the features (mean correlation {found.neighbours:.3f}, of random pairs "
        f"{found.random:.3f}), so none of the structure stand beside them (graph.structure: always adds them)"
    )


def beside(
    own: Features, means_of: Callable[[Rows], Iterable[Rows]], structural: Rows, origin: str
) -> tuple[RowStream, FeatureBlocks]:
    """A graph's own features, means of few of them over the neighbours, and the structural ones.

    The own ones and their means are scaled to mean 0 and deviation 1. `means_of` gives the means of rows [N, width].
    """
    _check_numbers(own, origin)
    assert isinstance(own, np.ndarray | RowStream)
    num_nodes, width = own.shape
    blocks = [_scaled(_finite_parts(own, origin)).mapped()]
    if width < FEW:
        blocks.append(_scaled(means_of(blocks[0])).mapped())
    widths = FeatureBlocks(width, width * (len(blocks) - 1), structural.shape[1])
    return RowStream((num_nodes, sum(widths)), _joined([*blocks, structural])), widths


def _joined(blocks: Sequence[Rows]) -> Iterator[Rows]:
    for low in range(0, len(blocks[0]), _ROWS_AT_ONCE):
        yield np.hstack([rows[low : low + _ROWS_AT_ONCE] for rows in blocks])


def _scaled(parts: Iterable[Rows]) -> RowFile:
    """Columns scaled to mean 0 and deviation 1."""
    given, scaled, moments = RowFile(), RowFile(), _Moments()
    for rows in parts:
        given.append(rows)
        moments.add(rows)
    scale = moments.scale()
    for rows in given:
        scaled.append(np.clip((rows - moments.mean) * scale, -FARTHEST, FARTHEST))
    return scaled


class _Moments:
    """Mean and deviation of columns whose rows come a part at a time, merged as in Chan, Golub and LeVeque (1979)."""

    def __init__(self) -> None:
        self.mean, self._away, self._known = np.zeros(1), np.zeros(1), 0

    def add(self, rows: Rows) -> None:
        """Count further rows."""
        mean, share = rows.mean(axis=0, dtype=np.float64), len(rows) / (self._known + len(rows))
        step = mean - self.mean
        self.mean = self.mean + step * share
        self._away = self._away + ((rows - mean) ** 2).sum(axis=0) + step**2 * (self._known * share)
        self._known += len(rows)

    def scale(self) -> npt.NDArray[np.float64]:
        """One divided by the deviation; 0 for a constant column."""
        deviation = np.sqrt(self._away / max(self._known, 1))
        return np.divide(1, deviation, out=np.zeros_like(deviation), where=deviation > 0)


def write_features(out: Path, features: Features, origin: str) -> int:
    """Write dense rows or the arrays of a CSR matrix as float32; numbers that are not finite are refused.

    Returns how many values differ from zero.
    """
    _check_numbers(features, origin)
    if sp.issparse(features):
        return _write_sparse(out, sp.csr_array(features), origin)
    return _write_dense(out, features, origin)


def _check_numbers(features: Features, origin: str) -> None:
    if len(features.shape) != 2 or features.shape[1] == 0:
        raise GraphError(f"{origin}: features have shape {features.shape}, expected one row of numbers per node")
    if not isinstance(features, RowStream) and features.dtype.kind not in "iubf":
        raise GraphError(f"{origin}: features are of type {features.dtype}, expected numbers")


def _write_sparse(out: Path, features: sp.csr_array, origin: str) -> int:
    if not features.has_canonical_format:
        features = features.copy()  # the caller's matrix does not change
        features.sum_duplicates()
    values = _finite(features.data, origin, lambda at: int(np.searchsorted(features.indptr, at, side="right")) - 1)
    write_column(out / "feature_indptr.arrow", "indptr", features.indptr.astype(np.int64))
    write_column(out / "feature_indices.arrow", "indices", features.indices.astype(np.int32))
    write_column(out / "feature_values.arrow", "values", values)
    return int(np.count_nonzero(values))


def _write_dense(out: Path, features: npt.NDArray[Any] | RowStream, origin: str) -> int:
    (num_rows, width), nonzero = features.shape, 0
    with column_file(out / DENSE, "features", np.float32, width) as column:
        for rows in _finite_parts(features, origin):
            column.append(rows)
            nonzero += int(np.count_nonzero(rows))
        assert column.num_rows == num_rows
    return nonzero


def _finite_parts(features: npt.NDArray[Any] | RowStream, origin: str) -> Iterator[Rows]:
    size, (num_rows, width) = _ROWS_AT_ONCE, features.shape
    mapped = () if isinstance(features, RowStream) else (features[low : low + size] for low in range(0, num_rows, size))
    first = 0
    for part in features.parts if isinstance(features, RowStream) else mapped:
        yield _finite(part, origin, functools.partial(_row, first, width))
        first += len(part)


def _row(first: int, width: int, at: int) -> int:
    return first + at // width


def _finite(values: npt.NDArray[Any], origin: str, row_of: Callable[[int], int]) -> Rows:
    """The values as float32; GraphError with the row of the first that is not finite."""
    with np.errstate(over="ignore"):
        numbers = np.asarray(values, np.float32)
    if not (known := np.isfinite(numbers)).all():
        raise GraphError(
            f"{origin}: features of node {row_of(int(np.argmin(known))):,} are not finite as 32-bit numbers; "
            "replace NaN, infinity, and huge values"
        )
    return numbers
