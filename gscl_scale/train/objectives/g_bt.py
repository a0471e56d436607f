"""Graph Barlow Twins (Bielak et al., 2022): the cross-correlation of two views is close to the identity.

    C_ij = sum_n z_ni z'_nj / (|z_i| |z'_j|)                            (columns have mean 0)
    loss = sum_i (1 - C_ii)^2 + lambda sum_i sum_{j != i} C_ij^2        (eq. 2)

Shapes: N nodes, D width.
"""

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor
from torch.nn.functional import normalize

from gscl_scale.model.inputs import Inputs
from gscl_scale.model.model import Model
from gscl_scale.train.objectives.objective import Objective, ObjectiveInputs
from gscl_scale.train.objectives.schedule import warm_up_then_cosine


class GraphBarlowTwins(Objective):
    """Defaults are those of its code for WikiCS; lambda is 1 / D.

    Only the loss standardises columns, and rows have any length, so validation nodes choose how the probe scales rows.
    """

    title = "G-BT"
    paper: ClassVar = {
        "train": {"epochs": 4000, "learning_rate": 5e-4, "weight_decay": 1e-5},
        "model": {"norm": "batch", "last_activation": False},
        "evaluate": {"probe_scaling": "auto"},
    }
    defaults: ClassVar = {"edges": [0.5, 0.5], "features": [0.1, 0.1], "decorrelation": None}
    decoupled = True

    def __init__(self, given: ObjectiveInputs) -> None:
        super().__init__(given)
        weight = given.decorrelation
        self._decorrelation = 1 / given.model.width if weight is None else weight

    def loss(self, model: Model, views: Sequence[Inputs], hidden_ND: Sequence[Tensor], key: int) -> Tensor:
        """Distance of the cross-correlation from the identity, eq. 2."""
        one_ND, other_ND = (normalize(rows - rows.mean(dim=0), dim=0) for rows in hidden_ND)
        correlation_DD = one_ND.T @ other_ND
        own_D = correlation_DD.diagonal()
        others = (correlation_DD**2).sum() - (own_D**2).sum()
        return ((1 - own_D) ** 2).sum() + self._decorrelation * others

    def rate(self, done: float) -> float:
        """A linear rise in 400 of 4,000 steps, then a cosine down to 0."""
        return warm_up_then_cosine(done)
