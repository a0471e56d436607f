"""AutoSSL (Jin et al., ICLR 2022): weights of self-supervised tasks, searched by the homophily of clusters.

    loss = sum over tasks of w_t L_t,  g_t = dL_t / d theta                         (theta: the encoder's weights)
    H    = mean over edges and clusters of |a_v - a_u|,  a_v = softmax over clusters c of -|h_v - m_c|^2 / 0.001
    w_t falls along dH / dw_t = dH / d theta* . d theta* / dg . g_t,  g = sum over tasks of w_t g_t

theta* are the weights after a step of Adam on the loss, m_c the centers of k-means over the rows that they give. This
is the differentiable variant. Its code differentiates the step twice; but g is linear in w, and Adam's step follows g
number by number, so one gradient of each task gives the same. A second Adam moves w, within 0 and 1, from 1 / 5 each.

Its code keeps the epoch whose clusters agree along most edges; here validation nodes choose it, or it is the last.
The tasks are in `pretexts.py`.

Shapes: N nodes, D width, E edges, C clusters, T tasks, W weights of the encoder.
"""

from collections.abc import Iterable, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.autograd import grad

from gscl_scale import seeding
from gscl_scale.errors import ConfigError
from gscl_scale.graph.graph import Graph
from gscl_scale.model.inputs import Inputs
from gscl_scale.model.model import Model
from gscl_scale.model.propagation import entry_rows
from gscl_scale.train.objectives.k_means import k_means
from gscl_scale.train.objectives.linked import LinkedPairs
from gscl_scale.train.objectives.objective import Objective, ObjectiveInputs
from gscl_scale.train.objectives.pretexts import TASKS, Pretexts
from gscl_scale.train.objectives.views import View

_SOFTNESS, _ITERATIONS, _RATE = 1e-3, 20, 0.05
_DECAYS, _LEAST = (0.9, 0.999), 1e-8  # of Adam
_COPIES = 3  # of the dense features at once


class AutoSsl(Objective):
    """Defaults are those of its code, 5 clusters in the search; the search knows neither weight decay nor clipping."""

    title = "AutoSSL"
    paper: ClassVar = {"train": {"epochs": 1000, "learning_rate": 1e-3, "weight_decay": 0.0}}
    defaults: ClassVar = {"clusters": 5}
    views = (View(), View(shuffled=True))
    weight_T: Tensor
    steps: Tensor
    task_moments: Tensor
    encoder_moments: Tensor

    def __init__(self, given: ObjectiveInputs) -> None:
        super().__init__(given)
        if not given.graph.indices.size:
            raise ConfigError("train.objective: autossl searches along edges, but the graph has none; choose another")
        self._clusters, self.tasks, self.edges = given.clusters, Pretexts(given), LinkedPairs(given.graph, loops=False)
        self.register_buffer("weight_T", torch.full((len(TASKS),), 1 / len(TASKS)))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("task_moments", torch.zeros(2, len(TASKS)))

    @classmethod
    def step_bytes(cls, graph: Graph) -> int:
        """Dense features, whose clusters and most similar pairs are tasks."""
        return _COPIES * 4 * graph.num_nodes * graph.num_features

    def begin(self, model: Model) -> None:
        """The moments of the encoder's gradient begin at zero."""
        weights_W = _flat(model.encoder.parameters())
        self.register_buffer("encoder_moments", weights_W.new_zeros(2, weights_W.shape[0]))

    def loss(self, model: Model, views: Sequence[Inputs], hidden_ND: Sequence[Tensor], key: int) -> Tensor:
        """Weighted sum of the tasks, whose gradients are kept until the step is made."""
        losses_T, weights = self.tasks(model, views, hidden_ND, key), list(model.encoder.parameters())
        gradients = (grad(one, weights, retain_graph=True, materialize_grads=True) for one in losses_T)
        self._gradient_TW = torch.stack([_flat(one) for one in gradients])
        self._view, self._key = views[0], seeding.integer("homophily", key)
        return (self.weight_T * losses_T).sum()

    def after_step(self, model: Model, done: float) -> None:
        """Move the weights of the tasks along the gradient of H through the step that was made."""
        model.encoder.eval()
        heterophily = disagreement(model.encode(self._view).float(), self.edges, self._clusters, self._key)
        outer_W = _flat(grad(heterophily, list(model.encoder.parameters()), materialize_grads=True))
        model.encoder.train()
        self.steps += 1
        gradient_W = (self.weight_T @ self._gradient_TW).requires_grad_()
        step_W, self.encoder_moments = _adam(gradient_W, self.encoder_moments, self.steps)
        (through_W,) = grad(-step_W @ outer_W, gradient_W)  # without the rate, which the second Adam divides out
        step_T, self.task_moments = _adam(self._gradient_TW @ through_W, self.task_moments, self.steps)
        self.weight_T.sub_(_RATE * step_T).clamp_(0, 1)


def disagreement(rows_ND: Tensor, edges: LinkedPairs, clusters: int, key: int) -> Tensor:
    """H: how much the clusters of linked nodes differ."""
    with torch.no_grad():
        cluster_N = k_means(rows_ND, clusters, _ITERATIONS, key)
        member_CN = nn.functional.one_hot(cluster_N, clusters).T.to(rows_ND.dtype)
        centers_CD = member_CN @ rows_ND / member_CN.sum(dim=1, keepdim=True).clamp(min=1)
    closeness_NC = 2 * rows_ND @ centers_CD.T - (centers_CD**2).sum(dim=1)  # |h|^2 is the same for all clusters
    share_NC = (closeness_NC / _SOFTNESS).softmax(dim=1)
    pairs = edges()
    first_E = entry_rows(pairs.indptr, pairs.indices.shape[0])
    return (share_NC[first_E] - share_NC[pairs.indices.long()]).abs().mean()


def _adam(gradient: Tensor, moments: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
    """The step of Adam at a rate of 1, and the moments after it; as its code has it, with 1e-32 below the root."""
    (one, two), (first, second) = _DECAYS, moments
    first = one * first + (1 - one) * gradient
    second = two * second + (1 - two) * gradient**2
    step = first / (1 - one**steps) / (((second + 1e-32) / (1 - two**steps)).sqrt() + _LEAST)
    return step, torch.stack([first, second]).detach()


def _flat(parts: Iterable[Tensor]) -> Tensor:
    return torch.cat([part.detach().flatten() for part in parts])
