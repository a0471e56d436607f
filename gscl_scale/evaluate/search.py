"""Are the nearest nodes of the same class? Exact search by cosine, in blocks."""

import numpy as np
import numpy.typing as npt
import torch

from gscl_scale.evaluate.vectors import Rows, Scaling, Vectors, blocks, load_rows, rows_per_block, take_dense, unit

NEAREST = 5
_QUERIES = 1024
_PRODUCTS = 4_000_000_000  # most query x candidate pairs: fewer queries on graphs of many millions


def most_queries(num_candidates: int, sample: int) -> int:
    """How many queries an exact search can afford."""
    return max(100, min(sample, _PRODUCTS // max(1, num_candidates)))


def sim_at_5(
    vectors: Vectors,
    labels: npt.NDArray[np.int64],
    queries: npt.NDArray[np.int64],
    device: torch.device | str = "cpu",
) -> float:
    """Mean share of the 5 nearest labelled nodes by cosine, the query itself apart, that have its label."""
    candidates = np.flatnonzero(labels >= 0)
    shares = [_shares(vectors, labels, some, candidates, device) for some in blocks(queries, _QUERIES)]
    return float(np.concatenate(shares).mean())


def _shares(
    vectors: Vectors,
    labels: npt.NDArray[np.int64],
    queries: npt.NDArray[np.int64],
    candidates: npt.NDArray[np.int64],
    device: torch.device | str,
) -> npt.NDArray[np.float64]:
    nearest, _ = nearest_nodes(vectors, queries, candidates, device=device)
    same = (labels[nearest] == labels[queries][:, None]) & (nearest >= 0)
    return same.sum(axis=1) / np.maximum((nearest >= 0).sum(axis=1), 1)


def nearest_nodes(
    vectors: Vectors,
    queries: npt.NDArray[np.int64],
    candidates: npt.NDArray[np.int64],
    count: int = NEAREST,
    device: torch.device | str = "cpu",
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """The candidates nearest to each query [Q, count] without itself, and their cosines; -1 where there are fewer."""
    rows = load_rows(vectors, queries, Scaling("l2"), device)
    best = torch.full((queries.size, count), -torch.inf, device=device)
    found = torch.full((queries.size, count), -1, dtype=torch.int64, device=device)
    wanted = torch.from_numpy(queries).to(device)
    for some in blocks(candidates, rows_per_block(vectors)):
        similarity, ids = _similarities(rows, vectors, some, device)
        similarity.masked_fill_(ids[None, :] == wanted[:, None], -torch.inf)
        top, places = similarity.topk(min(count, some.size), dim=1)
        best, order = torch.cat([best, top], 1).topk(count, dim=1)
        found = torch.cat([found, ids[places]], 1).gather(1, order)
    return torch.where(best > -torch.inf, found, -1).cpu().numpy(), best.cpu().numpy()


def _similarities(
    queries: Rows, vectors: Vectors, candidates: npt.NDArray[np.int64], device: torch.device | str
) -> tuple[torch.Tensor, torch.Tensor]:
    others = torch.from_numpy(np.ascontiguousarray(unit(take_dense(vectors, candidates)))).to(device)
    return queries.times(others.T.contiguous()), torch.from_numpy(candidates).to(device)
