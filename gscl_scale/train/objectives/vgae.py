"""VGAE (Kipf and Welling, 2016): a GAE of embeddings that are drawn from a normal distribution for each node.

    z_i  = mu_i + sigma_i * noise
    loss = loss of GAE at z - (1 / 2 N^2) sum_i sum_d (1 + 2 log sigma_id - mu_id^2 - sigma_id^2)

The last term is that of its code, the divergence from a standard normal distribution. The rows of the shared encoder
are mu; log sigma has an encoder of its own, where the paper shares the layers below the last.

Shapes: N nodes, D width.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from gscl_scale import seeding
from gscl_scale.model.encoder import Encoder
from gscl_scale.model.inputs import Inputs
from gscl_scale.model.model import Model
from gscl_scale.train.objectives.gae import Gae
from gscl_scale.train.objectives.objective import ObjectiveInputs


class Vgae(Gae):
    """Defaults are those of its code, as for GAE."""

    title = "VGAE"
    defaults: ClassVar = Gae.defaults

    def __init__(self, given: ObjectiveInputs) -> None:
        super().__init__(given)
        self.log_sigma = Encoder(given.model, given.graph.num_features)

    def loss(self, model: Model, views: Sequence[Inputs], hidden_ND: Sequence[Tensor], key: int) -> Tensor:
        """The loss of GAE at embeddings that are drawn, and their divergence from a standard normal distribution."""
        mean_ND, log_sigma_ND = hidden_ND[0], self.log_sigma(views[0], key).float()
        noise = seeding.generator("noise", key).standard_normal(tuple(mean_ND.shape), "float32")
        sigma_ND = log_sigma_ND.exp()
        drawn_ND = mean_ND + sigma_ND * torch.from_numpy(noise).to(mean_ND.device)
        divergence = (1 + 2 * log_sigma_ND - mean_ND**2 - sigma_ND**2).sum(dim=1).mean() / (2 * mean_ND.shape[0])
        return self.reconstruction(drawn_ND, key) - divergence
