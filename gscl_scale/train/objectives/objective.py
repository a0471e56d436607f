"""The interface of a method: what it adds to the shared encoder.

Shapes: N nodes, D width of the embeddings.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor, nn

from gscl_scale.config.sections import ModelConfig
from gscl_scale.graph.graph import Graph
from gscl_scale.model.inputs import Inputs
from gscl_scale.model.model import Model
from gscl_scale.train.objectives.views import View

Value = bool | int | float | str | None | Sequence[float]
Sections = Mapping[str, Mapping[str, Value]]
"""Settings by section and key."""


@dataclass(frozen=True)
class ObjectiveInputs:
    """What an objective is built from.

    graph           the graph in which the views are drawn
    num_classes     of the labels; 0 without labels
    targets [N]     class of the nodes whose labels may be learnt from, -1 of all others; None where none may
    options         settings in the objective's `defaults` that the section `baseline` has no key for
    others          settings of the section `baseline`: those in the objective's `defaults` are given
    """

    model: ModelConfig
    graph: Graph
    num_classes: int = 0
    targets: Tensor | None = None
    options: Mapping[str, Value] = field(default_factory=dict)
    edges: Sequence[float] = ()
    features: Sequence[float] = ()
    temperature: float = 1.0
    negatives: int | None = None
    predictor: int = 1
    momentum: float = 1.0
    decorrelation: float | None = None
    centrality: str = "degree"
    most_dropped: float = 1.0
    masked: float = 0.0
    replaced: float = 0.0
    sharpness: float = 1.0
    margin: float = 0.0
    bound: float = 0.0
    weight: float = 1.0
    sketched: float = 1.0
    remasked: float = 0.0
    decodings: int = 1
    teleport: float = 0.2
    terms: Sequence[float] = ()
    nearest: int = 1
    clusters: int = 1
    pool: int = 1


class Objective(nn.Module, ABC):
    """A method: modules of its own, the views of each step, and its loss.

    title       its name in tables
    paper       settings of other sections, as its paper trains
    defaults    the settings of the section `baseline` that it reads, as in its paper
    decoupled   whether weight decay is decoupled from the gradient (AdamW instead of Adam)
    """

    title: ClassVar[str]
    paper: ClassVar[Sections]
    defaults: ClassVar[Mapping[str, Value]] = {}
    decoupled: ClassVar[bool] = False
    views: Sequence[View]

    def __init__(self, given: ObjectiveInputs) -> None:
        super().__init__()
        if given.edges:
            self.views = [View(*shares) for shares in zip(given.edges, given.features, strict=True)]

    @classmethod
    def step_bytes(cls, graph: Graph) -> int:
        """Bytes of memory that a step needs at least, beside those of the encoder."""
        return 0

    def begin(self, model: Model) -> None:
        """Take what is needed of the model before its first step."""

    def prepare(self, views: Sequence[Inputs], key: int) -> Sequence[Inputs]:
        """What the encoder reads of each view: the view itself, unless the method changes its features."""
        return views

    def encode(self, model: Model, view: Inputs, key: int) -> Tensor:
        """The rows of a view that the loss reads: those of the encoder, unless the method reads more of it."""
        return model.encode(view, key)

    @abstractmethod
    def loss(self, model: Model, views: Sequence[Inputs], hidden_ND: Sequence[Tensor], key: int) -> Tensor:
        """The loss, from the views and the rows that were encoded of each; `key` decides what is drawn in this step."""

    def rate(self, done: float) -> float:
        """The factor of the learning rate after this share of the training."""
        return 1.0

    def after_step(self, model: Model, done: float) -> None:
        """Change weights without a gradient, after the optimiser has."""
