"""k-means on a device, with the same number of iterations whatever the rows are."""

import torch
from torch import Tensor

from gscl_scale import seeding

_NUMBERS_AT_ONCE = 1 << 24
_MOST_PER_CLUSTER = 256  # rows that centers are computed from, as faiss has it


def k_means(rows_ND: Tensor, clusters: int, iterations: int, key: int) -> Tensor:
    """The cluster of each row [N]; centers begin at drawn rows, and one without rows stays where it is."""
    num_nodes, clusters = rows_ND.shape[0], min(clusters, rows_ND.shape[0])
    drawn = torch.from_numpy(seeding.generator("clusters", key).permutation(num_nodes)).to(rows_ND.device)
    some_SD = rows_ND[drawn[: _MOST_PER_CLUSTER * clusters]]
    centers_CD = some_SD[:clusters]
    for _ in range(iterations):
        nearest_S = _nearest(some_SD, centers_CD)
        sums_CD = torch.zeros_like(centers_CD).index_add(0, nearest_S, some_SD)
        counts_C1 = rows_ND.new_zeros(clusters, 1).index_add(0, nearest_S, torch.ones_like(some_SD[:, :1]))
        centers_CD = torch.where(counts_C1 > 0, sums_CD / counts_C1.clamp(min=1), centers_CD)
    return _nearest(rows_ND, centers_CD)


def _nearest(rows_ND: Tensor, centers_CD: Tensor) -> Tensor:
    half_C = (centers_CD**2).sum(dim=1) / 2
    parts = rows_ND.split(max(1, _NUMBERS_AT_ONCE // centers_CD.shape[0]))
    return torch.cat([(part @ centers_CD.T - half_C).argmax(dim=1) for part in parts])
