"""BGRL (Thakoor et al., ICLR 2022): one view predicts the output of a slowly following encoder for the other.

Shapes: N nodes, D width.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from gscl_scale.model.encoder import Encoder
from gscl_scale.model.inputs import Inputs
from gscl_scale.model.model import Model
from gscl_scale.train.objectives.moving_average import follow
from gscl_scale.train.objectives.objective import Objective, ObjectiveInputs
from gscl_scale.train.objectives.schedule import cosine, warm_up_then_cosine


class Bgrl(Objective):
    """Views by default as in the paper for Coauthor CS, the rate as for Computers (1e-5 for Coauthor CS).

    The target encoder has first weights of its own.
    """

    title = "BGRL"
    paper: ClassVar = {
        "train": {"epochs": 10_000, "learning_rate": 5e-4, "weight_decay": 1e-5},
        "model": {"norm": "batch"},
    }
    defaults: ClassVar = {"edges": [0.3, 0.2], "features": [0.3, 0.4], "predictor": 512, "momentum": 0.99}
    decoupled = True

    def __init__(self, given: ObjectiveInputs) -> None:
        super().__init__(given)
        self._momentum = given.momentum
        width, hidden = given.model.width, given.predictor
        self.predictor = nn.Sequential(nn.Linear(width, hidden), nn.PReLU(), nn.Linear(hidden, width))
        self.target = Encoder(given.model, given.graph.num_features).requires_grad_(False)

    def loss(self, model: Model, views: Sequence[Inputs], hidden_ND: Sequence[Tensor], key: int) -> Tensor:
        """2 minus the mean cosine of each prediction and the target of the other view, eq. 3 in both directions."""
        with torch.no_grad():
            target_ND = [self.target(view, key).float() for view in views]
        predicted_ND = [self.predictor(rows) for rows in hidden_ND]
        cosine_N = cosine_similarity(predicted_ND[0], target_ND[1]) + cosine_similarity(predicted_ND[1], target_ND[0])
        return 2 - cosine_N.mean()

    def rate(self, done: float) -> float:
        """A linear rise in 1,000 of 10,000 steps, then a cosine down to 0."""
        return warm_up_then_cosine(done)

    def after_step(self, model: Model, done: float) -> None:
        """The target follows by a moving average whose momentum rises to 1 along a cosine."""
        follow(self.target, model.encoder, 1 - (1 - self._momentum) * cosine(done))
