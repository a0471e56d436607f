"""Deep Graph Infomax (Velickovic et al., ICLR 2019): nodes against a summary of the graph.

Shapes: N nodes, D width.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from gscl_scale.model.inputs import Inputs
from gscl_scale.model.model import Model
from gscl_scale.train.objectives.objective import Objective, ObjectiveInputs
from gscl_scale.train.objectives.views import View


class Dgi(Objective):
    """A bilinear form with the summary tells rows of the graph from those of shuffled features.

    The paper stops when the training loss has not fallen for 20 epochs, on Cora after about 300.
    """

    title = "DGI"
    paper: ClassVar = {"train": {"epochs": 300, "learning_rate": 1e-3, "weight_decay": 0.0}}
    views = (View(), View(shuffled=True))

    def __init__(self, given: ObjectiveInputs) -> None:
        super().__init__(given)
        width = given.model.width
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, width, width))[0])
        self.bias = nn.Parameter(torch.zeros(()))

    def loss(self, model: Model, views: Sequence[Inputs], hidden_ND: Sequence[Tensor], key: int) -> Tensor:
        """Binary cross entropy, eq. 1; the summary is the sigmoid of the mean row."""
        summary_D = torch.sigmoid(hidden_ND[0].mean(dim=0))
        scores = torch.stack([rows_ND @ (self.weight @ summary_D) + self.bias for rows_ND in hidden_ND])
        truth = torch.zeros_like(scores)
        truth[0] = 1
        return binary_cross_entropy_with_logits(scores, truth)
