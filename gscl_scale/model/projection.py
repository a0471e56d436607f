"""The projection head of the critic: theta(a, b) = cosine(g(h_a), g(h_b))."""

import torch
from torch import Tensor, nn

_SHORTEST = 1e-12


class Projection(nn.Module):
    """g, a two-layer perceptron; it is used in training only."""

    def __init__(self, width: int, projection: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, projection), nn.ELU(), nn.Linear(projection, projection))

    def forward(self, hidden: Tensor) -> Tensor:
        """g(h), [N, projection]."""
        result: Tensor = self.layers(hidden)
        return result


def normalise(rows: Tensor) -> Tensor:
    """Rows brought to length one, so that their products are cosines; a zero row stays zero, and so does its gradient.

    >>> normalise(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    length = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    return torch.where(length <= _SHORTEST, 0.0, rows / length.clamp(min=_SHORTEST))
