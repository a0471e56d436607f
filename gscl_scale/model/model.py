"""The encoder with the projection head of the critic: theta(a, b) = cosine(g(h_a), g(h_b)); g is for training only."""

import torch
from torch import Tensor, nn

from gscl_scale import seeding
from gscl_scale.config.graph_size import FeatureBlocks
from gscl_scale.config.sections import ModelConfig
from gscl_scale.model.captured import CapturedEncoder
from gscl_scale.model.encoder import Encoder
from gscl_scale.model.fused import rows as fused
from gscl_scale.model.fused.availability import runs_fused
from gscl_scale.model.inputs import Inputs

_SHORTEST = 1e-12


class Projection(nn.Module):
    """g, a two-layer perceptron."""

    def __init__(self, width: int, projection: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, projection), nn.ELU(), nn.Linear(projection, projection))

    def forward(self, hidden: Tensor) -> Tensor:
        """g(h), [N, projection]."""
        result: Tensor = self.layers(hidden)
        return result


class Model(nn.Module):
    """`encode` gives the embeddings; `project` gives rows of length one whose products are the critic's cosines.

    captured   what encodes in training, in place of the encoder itself
    """

    def __init__(self, config: ModelConfig, features: FeatureBlocks | int) -> None:
        super().__init__()
        self.encoder = Encoder(config, features)
        self.projection = Projection(config.width, config.projection) if config.projection else nn.Identity()
        self.captured: CapturedEncoder | None = None

    def encode(self, inputs: Inputs, key: int = 0) -> Tensor:
        """Embeddings [nodes asked for, width]; in training, `key` decides what is dropped."""
        encode = self.captured if self.training and self.captured is not None else self.encoder
        hidden: Tensor = encode(inputs, key)
        return hidden

    def project(self, hidden: Tensor) -> Tensor:
        """g(h) brought to length one, or h itself where there is no projection."""
        rows: Tensor = self.projection(hidden)
        if runs_fused(rows):
            unit: Tensor = fused.unit_rows(rows, _SHORTEST)
            return unit
        return normalise(rows if rows.dtype == torch.float64 else rows.float())


def normalise(rows: Tensor) -> Tensor:
    """Rows brought to length one, so that their products are cosines; a zero row stays zero, and so does its gradient.

    >>> normalise(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    length = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    return torch.where(length <= _SHORTEST, 0.0, rows / length.clamp(min=_SHORTEST))


def build_model(config: ModelConfig, features: FeatureBlocks | int, seed: int) -> Model:
    """A model whose first weights depend on the seed alone; torch's generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seeding.integer("weights", seed))
        return Model(config, features)
