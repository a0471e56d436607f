"""ProNE (Zhang et al., 2019): factorise the edges as skip-gram would, then filter the rows along the spectrum."""

import numpy as np
import scipy.sparse as sp
from scipy.special import iv

from gscl_scale import seeding
from gscl_scale.embed.vector_file import unit_rows
from gscl_scale.studies.peers.factorisation import Rows, degrees_of, left_singular

_ITERATIONS = 5
_SMOOTHING = 0.75  # exponent of the noise distribution


def prone(adjacency: sp.csr_array, width: int, seed: int, mu: float, theta: float, order: int) -> Rows:
    """Rows [N, width] of length one."""
    rows = left_singular(edge_matrix(adjacency), width, seeding.generator("prone", seed), _ITERATIONS)
    filtered = propagate(adjacency, unit_rows(rows), mu, theta, order)
    left, values, _ = np.linalg.svd(filtered, full_matrices=False)
    return unit_rows(left * np.sqrt(values))


def edge_matrix(adjacency: sp.csr_array) -> sp.csr_array:
    """ln p_ij - ln P_j for every edge (equation 4): p = D^-1 A, and P_j in proportion to (sum_i p_ij)^0.75."""
    edges = _mean_of_neighbours(adjacency)
    noise = np.asarray(edges.sum(axis=0), np.float64) ** _SMOOTHING
    noise /= max(noise.sum(), 1e-300)
    values = np.log(edges.data) - np.log(noise[edges.indices])
    return sp.csr_array((values.astype(np.float32), edges.indices, edges.indptr), shape=edges.shape)


def propagate(adjacency: sp.csr_array, rows: Rows, mu: float, theta: float, order: int) -> Rows:
    """(A + I)(R - g(L) R), where g(L) = exp(-theta ((L - mu I)^2 / 2 - I)) and L is the Laplacian I - D^-1 (A + I).

    The exponential is a series of Chebyshev polynomials T_i: exp(-theta x) = I_0 T_0(x) + 2 sum (-1)^i I_i T_i(x), with
    the modified Bessel functions I_i(theta).
    """
    with_loops = sp.csr_array(adjacency + sp.eye_array(adjacency.shape[0], dtype=np.float32))
    mean = _mean_of_neighbours(with_loops)

    def shifted(rows: Rows) -> Rows:
        """X R, where X = (L - mu I)^2 / 2 - I has its spectrum between -1 and 1."""
        once = (1 - mu) * rows - mean @ rows
        return ((1 - mu) * once - mean @ once) / 2 - rows

    def weight(i: int) -> float:
        return float(iv(i, theta))  # one of numpy would make the rows twice as wide

    before, now = rows, shifted(rows)
    total = weight(0) * before - 2 * weight(1) * now
    for i in range(2, order):
        before, now = now, 2 * shifted(now) - before
        total += 2 * (-1) ** i * weight(i) * now
    filtered: Rows = with_loops @ (rows - total).astype(np.float32)
    return filtered


def _mean_of_neighbours(adjacency: sp.csr_array) -> sp.csr_array:
    """D^-1 A."""
    values = np.repeat(1 / degrees_of(adjacency), np.diff(adjacency.indptr)) * adjacency.data
    return sp.csr_array((values.astype(np.float32), adjacency.indices, adjacency.indptr), shape=adjacency.shape)
