"""Signs that vectors have collapsed, in numbers and in words."""

from gscl_scale.evaluate.schema import Metrics, Spread

_ALIKE = 0.98
_FLAT = 1.5
_FEW_DIRECTIONS = 0.05
_FEW_NODES = 10  # of fewer the rank says little: it cannot exceed their number, and that of two opposite vectors is 1


def is_collapsed(spread: Spread, nodes: int) -> bool:
    """Whether nearly all vectors, one for each node, point the same way."""
    rank = spread["effective_rank"]
    return spread["mean_cosine"] > _ALIKE or (rank is not None and rank < _FLAT and nodes >= _FEW_NODES)


def is_flat(spread: Spread, width: int, nodes: int) -> bool:
    """Whether vectors have collapsed, or use few of the dimensions that so many nodes and columns can have."""
    rank = spread["effective_rank"]
    return is_collapsed(spread, nodes) or (rank is not None and rank < _FEW_DIRECTIONS * min(width, nodes))


def flaw_of_spread(spread: Spread, width: int, nodes: int) -> str:
    """What is wrong with vectors; "" where they are not flat."""
    if not is_flat(spread, width, nodes):
        return ""
    rank = spread["effective_rank"]
    if not is_collapsed(spread, nodes):
        return f"the embeddings use few of their {width:,} dimensions (effective rank {rank:.1f})"
    ranks = f", effective rank {rank:.1f}" if rank else ""
    return (
        "the embeddings have collapsed: nearly all vectors point the same way "
        f"(mean cosine of random pairs {spread['mean_cosine']:.3f}{ranks})"
    )


def flaw_of_embeddings(metrics: Metrics) -> tuple[str, bool]:
    """What is wrong with the embeddings of a run, "" where nothing is, and whether they have collapsed."""
    if not (spread := metrics.get("spread", {}).get("trained")):
        return "", False
    width = metrics["width"]["trained"]
    nodes = metrics.get("graph", {}).get("nodes", width)
    return flaw_of_spread(spread, width, nodes), is_collapsed(spread, nodes)
