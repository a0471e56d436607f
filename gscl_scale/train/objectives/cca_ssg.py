"""CCA-SSG (Zhang et al., NeurIPS 2021): equal columns of two views correlate, and columns of one view do not.

Shapes: N nodes, D width.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from gscl_scale.model.inputs import Inputs
from gscl_scale.model.model import Model
from gscl_scale.train.objectives.objective import Objective, ObjectiveInputs

_LEAST_VARIANCE = 1e-12  # constant columns, as of dead units, do not count


class CcaSsg(Objective):
    """Defaults are those of the paper for Cora.

    Only the loss standardises columns, and rows have any length, so validation nodes choose how the probe scales rows:
    rows of length one cost 1.6 points on Photo.
    """

    title = "CCA-SSG"
    paper: ClassVar = {
        "train": {"epochs": 50, "learning_rate": 1e-3, "weight_decay": 0.0},
        "evaluate": {"probe_scaling": "auto"},
    }
    defaults: ClassVar = {"edges": [0.4, 0.4], "features": [0.1, 0.1], "decorrelation": 1e-3}

    def __init__(self, given: ObjectiveInputs) -> None:
        super().__init__(given)
        assert given.decorrelation is not None
        self._decorrelation = given.decorrelation

    def loss(self, model: Model, views: Sequence[Inputs], hidden_ND: Sequence[Tensor], key: int) -> Tensor:
        """How far the correlations of equal columns are from 1, and those within a view from the identity, eq. 4."""
        one_ND, other_ND = (_standardised(rows) for rows in hidden_ND)
        num_nodes, width = one_ND.shape
        identity_DD = torch.eye(width, device=one_ND.device)
        agreement = (one_ND * other_ND).sum() / num_nodes
        distances = [((rows.T @ rows / num_nodes - identity_DD) ** 2).sum() for rows in (one_ND, other_ND)]
        return -agreement + self._decorrelation * (distances[0] + distances[1])


def _standardised(rows_ND: Tensor) -> Tensor:
    return (rows_ND - rows_ND.mean(dim=0)) / torch.sqrt(rows_ND.var(dim=0) + _LEAST_VARIANCE)
