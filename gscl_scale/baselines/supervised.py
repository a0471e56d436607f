"""The supervised GCN (Kipf and Welling, ICLR 2017): cross entropy on the training nodes of one split.

Shapes: N nodes, D width, C classes.
"""

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from gscl_scale.baselines.objective import Given, Objective
from gscl_scale.baselines.views import View
from gscl_scale.model import Inputs, Model, noise

_OWN = 1000  # smaller ones are added to the key by the encoder


class Supervised(Objective):
    """A linear classifier over the encoder, with dropout before each layer; it learns the labels of one split only."""

    title = "GCN, supervised"
    paper: ClassVar = {
        "train": {"epochs": 200, "learning_rate": 1e-2, "weight_decay": 5e-4},
        "model": {"feature_dropout": 0.5, "hidden_dropout": 0.5},
    }
    defaults: ClassVar = {"dropout": 0.5}
    views = (View(),)
    targets_N: Tensor

    def __init__(self, given: Given) -> None:
        super().__init__()
        assert given.targets is not None
        self.classifier = nn.Linear(given.model.width, given.num_classes)
        self.register_buffer("targets_N", given.targets, persistent=False)
        self._dropout = given.settings["dropout"]

    def loss(self, model: Model, views: Sequence[Inputs], hidden_ND: Sequence[Tensor], key: int) -> Tensor:
        """Mean cross entropy of the training nodes."""
        known = self.targets_N >= 0
        rows_ND = hidden_ND[0]
        drawn_ND = noise.uniform(key + _OWN, None, (rows_ND.shape[0], rows_ND.shape[1]), rows_ND.device)
        kept_ND = rows_ND * (drawn_ND >= self._dropout) / (1 - self._dropout)
        logits_NC: Tensor = self.classifier(kept_ND[known])
        return cross_entropy(logits_NC, self.targets_N[known])
