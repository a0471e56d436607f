"""Small graphs for the tests of the model; arrays are read-only, as mapped files are."""

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from gscl_scale.graph import Graph, SparseFeatures


def graph_of(edges, features, undirected=True):
    """A graph of as many nodes as there are rows of features."""
    num_nodes = features.shape[0]
    rows, columns = np.array(edges, np.int64).reshape(-1, 2).T
    if undirected:
        rows, columns = np.r_[rows, columns], np.r_[columns, rows]
    matrix = sp.csr_array((np.ones(rows.size), (rows, columns)), shape=(num_nodes, num_nodes))
    matrix.sum_duplicates()
    indptr, indices = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)
    if sp.issparse(features):
        parts = (features.indptr.astype(np.int64), features.indices.astype(np.int32), features.data.astype(np.float32))
        features = SparseFeatures(*map(_read_only, parts), features.shape[1])
    else:
        features = _read_only(np.array(features, np.float32))
    return Graph(
        name="small",
        indptr=_read_only(indptr),
        indices=_read_only(indices),
        features=features,
        labels=None,
        splits={},
        ids=pa.array(np.arange(num_nodes)),
        undirected=undirected,
        classes=[],
        fingerprint="",
        manifest={},
    )


def random_features(num_nodes, width, seed=0):
    return np.random.Generator(np.random.Philox(key=seed)).normal(size=(num_nodes, width)).astype(np.float32)


def random_sparse_features(num_nodes, width, seed=0, share=0.3):
    generator = np.random.Generator(np.random.Philox(key=seed))
    dense = generator.normal(size=(num_nodes, width)) * (generator.random((num_nodes, width)) < share)
    dense[0] = 0  # a node without features
    return sp.csr_array(dense.astype(np.float32))


def _read_only(array):
    array.setflags(write=False)
    return array


#: a triangle with a tail, a pair, and a node alone
EDGES = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (5, 6)]
NUM_NODES = 8
