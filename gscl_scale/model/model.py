"""The encoder and the projection head that is only used in training."""

import torch
from torch import Tensor, nn

from gscl_scale import seeding
from gscl_scale.config.sections import ModelConfig
from gscl_scale.model.encoder import Encoder
from gscl_scale.model.inputs import Inputs
from gscl_scale.model.projection import Projection, normalise


class Model(nn.Module):
    """`encode` gives the embeddings; `project` gives rows of length one whose products are the critic's cosines."""

    def __init__(self, config: ModelConfig, num_features: int) -> None:
        super().__init__()
        self.encoder = Encoder(config, num_features)
        self.projection = Projection(config.width, config.projection) if config.projection else nn.Identity()

    def encode(self, inputs: Inputs, key: int = 0) -> Tensor:
        """Embeddings [nodes asked for, width]; in training, `key` decides what is dropped."""
        hidden: Tensor = self.encoder(inputs, key)
        return hidden

    def project(self, hidden: Tensor) -> Tensor:
        """g(h) brought to length one, or h itself where there is no projection."""
        rows: Tensor = self.projection(hidden)
        return normalise(rows if rows.dtype == torch.float64 else rows.float())


def build_model(config: ModelConfig, num_features: int, seed: int) -> Model:
    """A model whose first weights depend on the seed alone; torch's generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seeding.integer("weights", seed))
        return Model(config, num_features)
