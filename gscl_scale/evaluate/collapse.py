"""Signs that vectors have collapsed, in numbers and in words."""

from gscl_scale.evaluate.schema import Spread

_ALIKE = 0.98
_FLAT = 1.5
_FEW_DIRECTIONS = 0.05


def is_collapsed(spread: Spread) -> bool:
    """Whether nearly all vectors point the same way."""
    rank = spread["effective_rank"]
    return spread["mean_cosine"] > _ALIKE or (rank is not None and rank < _FLAT)


def is_flat(spread: Spread, width: int) -> bool:
    """Whether vectors of so many dimensions have collapsed, or use few of these."""
    rank = spread["effective_rank"]
    return is_collapsed(spread) or (rank is not None and rank < _FEW_DIRECTIONS * width)


def flaw_of_spread(spread: Spread, width: int) -> str:
    """What is wrong with flat vectors."""
    rank = spread["effective_rank"]
    if not is_collapsed(spread):
        return f"the embeddings use few of their {width:,} dimensions (effective rank {rank:.1f})"
    ranks = f", effective rank {rank:.1f}" if rank else ""
    return (
        "the embeddings have collapsed: nearly all vectors point the same way "
        f"(mean cosine of random pairs {spread['mean_cosine']:.3f}{ranks})"
    )
