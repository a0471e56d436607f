"""Spectral embeddings: eigenvectors of the symmetric normalised adjacency."""

import numpy as np
import scipy.sparse as sp

from gscl_scale import seeding
from gscl_scale.studies.peers.factorisation import Rows, degrees_of, symmetric_eigenpairs


def normalised_adjacency(adjacency: sp.csr_array) -> sp.csr_array:
    """D^-1/2 A D^-1/2; the row of a node without neighbours is empty."""
    scale = 1 / np.sqrt(degrees_of(adjacency))
    values = np.repeat(scale, np.diff(adjacency.indptr)) * scale[adjacency.indices] * adjacency.data
    return sp.csr_array((values.astype(np.float32), adjacency.indices, adjacency.indptr), shape=adjacency.shape)


def spectral(adjacency: sp.csr_array, width: int, seed: int, iterations: int) -> Rows:
    """The eigenvectors [N, width] whose eigenvalues are largest in size, each multiplied by its eigenvalue.

    Few iterations find a mixture with the eigenvectors that follow; where a graph has many small components, which have
    an eigenvalue 1 each, that is better than to find these exactly.
    """
    draw = seeding.generator("spectral", seed)
    values, vectors = symmetric_eigenpairs(normalised_adjacency(adjacency), width, draw, iterations)
    return vectors * values
