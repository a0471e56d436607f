"""Cleora (Rychalska et al., 2021): each node's row becomes the mean of its neighbours' rows, brought to length one."""

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from gscl_scale import seeding
from gscl_scale.embed.vector_file import unit_rows
from gscl_scale.graph.structural_features import random_signs
from gscl_scale.studies.peers.factorisation import Rows


def cleora(adjacency: sp.csr_array, identities: npt.NDArray[np.uint64], width: int, seed: int, iterations: int) -> Rows:
    """T <- normalize_rows(D^-1 A T), from random signs that belong to the user's ids."""
    rows = np.empty((identities.size, width), np.float32)
    random_signs(seeding.key("cleora", seed), identities, rows)
    for _ in range(iterations):
        rows = unit_rows(adjacency @ rows)  # D^-1 changes the length of a row alone, which is made one
    return rows
