"""Slow, obvious parts of the computations that losses are compared with."""

import numpy as np

from tests.model.graphs import EDGES, NUM_NODES


def cosine(a, b):
    return a @ b / (np.linalg.norm(a) * np.linalg.norm(b))


def slow_adjacency():
    """D^-1/2 (A + I) D^-1/2."""
    linked_both = np.array([[float(linked(u, v)) for u in range(NUM_NODES)] for v in range(NUM_NODES)])
    scale = 1 / np.sqrt(linked_both.sum(axis=0))
    return scale[:, None] * linked_both * scale


def weights(module):
    return {name: value.detach().numpy().astype(np.float64) for name, value in module.state_dict().items()}


def linked(u, v):
    return u == v or (u, v) in EDGES or (v, u) in EDGES
