"""The encoder and the projection head that is only used in training."""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from gscl_scale import seeding
from gscl_scale.config import ModelConfig
from gscl_scale.model.encoder import GcnEncoder, MessageEncoder
from gscl_scale.model.inputs import Inputs


class Model(nn.Module):
    """`encode` gives the embeddings; `project` gives rows of length one whose products are the critic's cosines."""

    def __init__(self, config: ModelConfig, num_features: int) -> None:
        super().__init__()
        kind = GcnEncoder if config.encoder == "gcn" else MessageEncoder
        self.encoder = kind(config, num_features)
        self.projection = nn.Sequential(
            nn.Linear(config.width, config.projection), nn.ELU(), nn.Linear(config.projection, config.projection)
        )

    def encode(self, inputs: Inputs) -> Tensor:
        """Embeddings [N, width] of all nodes."""
        hidden: Tensor = self.encoder(inputs)
        return hidden

    def project(self, hidden: Tensor) -> Tensor:
        """g(h) brought to length one."""
        return normalize(self.projection(hidden), dim=-1)


def build_model(config: ModelConfig, num_features: int, seed: int) -> Model:
    """A model whose first weights depend on the seed alone."""
    with torch.random.fork_rng():
        torch.manual_seed(seeding.integer("weights", seed))
        return Model(config, num_features)
