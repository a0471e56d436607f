"""BLNN (Liu et al., ECML-PKDD 2024): BGRL whose nodes are predicted by their neighbors too, as far as these agree.

    w_vu = exp(h'_1u . h'_2v / t) / sum over neighbors w of v of exp(h'_1w . h'_2v / t)
    loss = loss of BGRL - (1 / N) sum_v sum_u w_vu (z_1u . h'_2v + z_2u . h'_1v)           (u: neighbors of v)

z_1, z_2 are predictions and h'_1, h'_2 rows of the target encoder for both views, all of length one. Its code takes
the prediction of the first view in place of z_2; here each view has its own, as in the paper.

Shapes: N nodes, D width, P pairs of a node and a neighbor.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import normalize

from gscl_scale.model.inputs import Inputs
from gscl_scale.model.model import Model
from gscl_scale.model.pairs import pair_products
from gscl_scale.model.propagation import entry_rows
from gscl_scale.train.objectives.bgrl import Bgrl
from gscl_scale.train.objectives.linked import LinkedPairs
from gscl_scale.train.objectives.objective import ObjectiveInputs


class Blnn(Bgrl):
    """Defaults are those of its code for Photo."""

    title = "BLNN"
    paper: ClassVar = {
        "train": {"epochs": 10_000, "learning_rate": 1e-4, "weight_decay": 1e-5},
        "model": {"norm": "batch"},
    }
    defaults: ClassVar = {**Bgrl.defaults, "edges": [0.4, 0.1], "features": [0.1, 0.2], "temperature": 1.9}

    def __init__(self, given: ObjectiveInputs) -> None:
        super().__init__(given)
        self._temperature, self.pairs = given.temperature, LinkedPairs(given.graph, loops=False)

    def loss(self, model: Model, views: Sequence[Inputs], hidden_ND: Sequence[Tensor], key: int) -> Tensor:
        """The cosines of nodes with themselves, and with their neighbors by the weight of these."""
        with torch.no_grad():
            target_ND = [normalize(self.target(view, key).float()) for view in views]
        predicted_ND = [normalize(self.predictor(rows)) for rows in hidden_ND]
        pairs, num_nodes = self.pairs(), hidden_ND[0].shape[0]
        weight_P = self._weights(target_ND)
        loss = hidden_ND[0].new_full((), 2.0)
        for prediction_ND, other_ND in zip(predicted_ND, reversed(target_ND), strict=True):
            loss = loss - (prediction_ND * other_ND).sum() / num_nodes
            loss = loss - (weight_P * pair_products(other_ND, prediction_ND, pairs)).sum() / num_nodes
        return loss

    def _weights(self, target_ND: Sequence[Tensor]) -> Tensor:
        """Softmax over the neighbors of each node [P]; its exponents are cosines, so none is too large."""
        pairs = self.pairs()
        scores_P = (pair_products(target_ND[1], target_ND[0], pairs) / self._temperature).exp()
        rows_P = entry_rows(pairs.indptr, scores_P.shape[0])
        sums_N = scores_P.new_zeros(target_ND[0].shape[0]).index_add(0, rows_P, scores_P)
        return scores_P / sums_N[rows_P]
