"""What a method adds to the shared encoder.

Shapes: N nodes, D width of the embeddings.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from gscl_scale.config.sections import ModelConfig
from gscl_scale.model.inputs import Inputs
from gscl_scale.model.model import Model
from gscl_scale.train.objectives.views import View


@dataclass(frozen=True)
class Given:
    """What an objective is made from.

    settings        those of the section `baseline` that it reads, complete
    num_features    F
    num_classes     of the labels; 0: there are none
    targets [N]     class of the nodes whose labels may be learnt from, -1 of all others; None where none may
    """

    model: ModelConfig
    settings: dict[str, Any]
    num_features: int
    num_classes: int = 0
    targets: Tensor | None = None


class Objective(nn.Module, ABC):
    """A method: modules of its own, the views that it looks at in each step, and its loss.

    title       its name in tables
    paper       settings of other sections, as its paper trains
    defaults    the settings of the section `baseline` that it reads, as in its paper
    decoupled   whether weight decay stands beside the gradient (AdamW) and not in it (Adam)
    """

    title: ClassVar[str]
    paper: ClassVar[dict[str, dict[str, Any]]]
    defaults: ClassVar[dict[str, Any]] = {}
    decoupled: ClassVar[bool] = False
    views: Sequence[View]

    @abstractmethod
    def loss(self, model: Model, views: Sequence[Inputs], hidden_ND: Sequence[Tensor], key: int) -> Tensor:
        """The loss, from the views and the encoder's rows for each; `key` decides what is drawn in this step."""

    def rate(self, done: float) -> float:
        """The factor of the learning rate after this share of the training."""
        return 1.0

    def after_step(self, model: Model, done: float) -> None:
        """What is done beside the gradient."""


def two_views(settings: dict[str, Any]) -> list[View]:
    """The two views of a method that drops edges and masks columns."""
    return [View(edges, features) for edges, features in zip(settings["edges"], settings["features"], strict=True)]
