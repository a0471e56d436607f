"""Clusters of the vectors by k-means, and their normalised mutual information with the labels."""

import warnings

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding
from gscl_scale.evaluate.vectors import Vectors, take, unit

N_INIT = 10


def cluster_nmi(vectors: Vectors, labels: npt.NDArray[np.int64], nodes: npt.NDArray[np.int64], seed: int) -> float:
    """Normalised mutual information of labels and k-means on rows of length one, with one cluster per class."""
    from sklearn.cluster import KMeans  # takes a second to import
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.metrics import normalized_mutual_info_score

    rows, known = unit(take(vectors, nodes)), labels[nodes]
    k_means = KMeans(np.unique(known).size, n_init=N_INIT, random_state=seeding.integer("clusters", seed) % 2**32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters: collapsed vectors
        clusters = k_means.fit_predict(rows)
    return float(normalized_mutual_info_score(known, clusters))
