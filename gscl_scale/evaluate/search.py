"""Exact search by cosine, in blocks; and the share of nearest nodes that have the class of the query."""

import numpy as np
import numpy.typing as npt
import torch

from gscl_scale.evaluate.vectors import Scaling, Vectors, blocks, load_rows, rows_per_block, take_dense, unit

NEAREST = 5
_QUERIES = 1024
_PRODUCTS = 4_000_000_000  # most query x candidate pairs: fewer queries on graphs of many millions


def most_queries(num_candidates: int, sample: int) -> int:
    """The number of queries that an exact search can afford."""
    return max(100, min(sample, _PRODUCTS // max(1, num_candidates)))


def sim_at_5(
    vectors: Vectors,
    labels: npt.NDArray[np.int64],
    queries: npt.NDArray[np.int64],
    device: torch.device | str = "cpu",
) -> float:
    """Mean share of the 5 nearest labelled nodes by cosine, the query itself apart, that have its label."""
    nearest, _ = nearest_nodes(vectors, queries, np.flatnonzero(labels >= 0), device=device)
    same = (labels[nearest] == labels[queries][:, None]) & (nearest >= 0)
    return float((same.sum(axis=1) / np.maximum((nearest >= 0).sum(axis=1), 1)).mean())


def nearest_nodes(
    vectors: Vectors,
    queries: npt.NDArray[np.int64],
    candidates: npt.NDArray[np.int64],
    count: int = NEAREST,
    device: torch.device | str = "cpu",
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """The candidates nearest to each query [Q, count] without itself, and their cosines; -1 where there are fewer."""
    parts = [_nearest(vectors, some, candidates, count, device) for some in blocks(queries, _QUERIES)]
    nearest, cosines = zip(*parts, strict=True)
    return np.concatenate(nearest), np.concatenate(cosines)


def _nearest(
    vectors: Vectors,
    queries: npt.NDArray[np.int64],
    candidates: npt.NDArray[np.int64],
    count: int,
    device: torch.device | str,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    rows = load_rows(vectors, queries, Scaling("l2"), device)
    cosines = torch.full((queries.size, count), -torch.inf, device=device)
    nearest = torch.full((queries.size, count), -1, dtype=torch.int64, device=device)
    themselves = torch.from_numpy(queries).to(device)[:, None]
    for some in blocks(candidates, rows_per_block(vectors)):
        others = torch.from_numpy(np.ascontiguousarray(unit(take_dense(vectors, some)))).to(device)
        ids = torch.from_numpy(some).to(device)
        similarity = rows.times(others.T.contiguous()).masked_fill_(ids == themselves, -torch.inf)
        top, places = similarity.topk(min(count, some.size), dim=1)
        cosines, order = torch.cat([cosines, top], 1).topk(count, dim=1)
        nearest = torch.cat([nearest, ids[places]], 1).gather(1, order)
    return torch.where(cosines > -torch.inf, nearest, -1).cpu().numpy(), cosines.cpu().numpy()
