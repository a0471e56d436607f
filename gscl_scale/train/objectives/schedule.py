"""Factors of the learning rate over the training."""

import math


def cosine(done: float) -> float:
    """From 1 down to 0 along half a cosine.

    >>> cosine(0.5)
    0.5
    """
    return (1 + math.cos(math.pi * done)) / 2


def warm_up_then_cosine(done: float, warm_up: float = 0.1) -> float:
    """A linear rise to 1 in the first share of the training, then a cosine down to 0.

    >>> warm_up_then_cosine(0.05)
    0.5
    """
    return done / warm_up if done < warm_up else cosine((done - warm_up) / (1 - warm_up))
