"""A place in the plane for every node of a map, so that nodes with similar vectors stand close together."""

import warnings
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding

_FEWEST = 8  # below this there are no neighbourhoods to keep
_NEIGHBOURS_PER_PERPLEXITY = 3  # as usual for t-SNE
_FFT_FROM = 5_000  # nodes: below it sums over a tree are quicker than a grid
_EXAGGERATED, _SETTLING = 250, 500  # turns of t-SNE, as usual
TURNS = _EXAGGERATED + _SETTLING
_TURNS_PER_CALL = 25  # of `advance`

Advance = Callable[[int], None]


def lay_out(
    vectors: npt.NDArray[np.float32],
    nearest: npt.NDArray[np.int64],
    cosines: npt.NDArray[np.float32],
    seed: int,
    advance: Advance = lambda turns: None,
) -> npt.NDArray[np.float32]:
    """Places [M, 2] in the unit square for rows of length one [M, d]: t-SNE, begun with their principal components.

    `nearest` [M, K] are the nearest other rows of each, `cosines` their cosines. One thread, so that equal input and
    seed give equal places. `advance` receives the number of turns done, `TURNS` in all.
    """
    begun = _principal(vectors, seed)
    if vectors.shape[0] < _FEWEST or nearest.shape[1] < _NEIGHBOURS_PER_PERPLEXITY:
        return _in_unit_square(begun)
    return _in_unit_square(_t_sne(begun, nearest, np.sqrt(np.maximum(2 - 2 * cosines, 0)), seed, advance))


def _t_sne(
    begun: npt.NDArray[np.float64],
    nearest: npt.NDArray[np.int64],
    distances: npt.NDArray[np.float32],
    seed: int,
    advance: Advance,
) -> npt.NDArray[np.float64]:
    from openTSNE import TSNE, affinity, nearest_neighbors

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about perplexities, on graphs of a few nodes
        known = nearest_neighbors.PrecomputedNeighbors(nearest.astype(np.int32), distances.astype(np.float64))
        joint = affinity.PerplexityBasedNN(
            perplexity=nearest.shape[1] / _NEIGHBOURS_PER_PERPLEXITY, knn_index=known, n_jobs=1
        )
        method = "fft" if begun.shape[0] >= _FFT_FROM else "bh"
        drawing = TSNE(
            early_exaggeration_iter=_EXAGGERATED, n_iter=_SETTLING, n_jobs=1, negative_gradient_method=method,
            random_state=seeding.integer("map", seed) % 2**31, callbacks_every_iters=_TURNS_PER_CALL,
            callbacks=lambda *_: advance(_TURNS_PER_CALL),
        )  # fmt: skip
        places = drawing.fit(affinities=joint, initialization=begun)
    return np.asarray(places, np.float64)


def _principal(vectors: npt.NDArray[np.float32], seed: int) -> npt.NDArray[np.float64]:
    """The first two principal components, small, with a little noise so that no two rows begin in one place."""
    centred = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    _, directions = np.linalg.eigh(centred.T @ centred)
    first = directions[:, ::-1][:, :2]
    first = first * np.where(np.take_along_axis(first, np.abs(first).argmax(0)[None], 0) < 0, -1.0, 1.0)
    places = np.zeros((vectors.shape[0], 2))
    places[:, : first.shape[1]] = centred @ first
    places *= 1e-4 / max(float(places[:, 0].std()), 1e-12)
    return places + seeding.generator("map start", seed).normal(0, 1e-6, places.shape)


def _in_unit_square(places: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    low, high = places.min(axis=0), places.max(axis=0)
    size = max(float((high - low).max()), 1e-30)
    return ((places - (low + high) / 2) / size + 0.5).astype(np.float32)
