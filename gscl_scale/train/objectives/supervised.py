"""The supervised GCN (Kipf and Welling, ICLR 2017): cross entropy on the training nodes of one split.

Shapes: N nodes, K of them with a known class, D width, C classes.
"""

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor
from torch.nn.functional import cross_entropy

from gscl_scale.errors import ConfigError
from gscl_scale.model.inputs import Inputs
from gscl_scale.model.model import Model
from gscl_scale.train.objectives.objective import Objective, ObjectiveInputs, Sections
from gscl_scale.train.objectives.views import View


class Supervised(Objective):
    """The first columns of the last layer are the scores of the classes, the others zero; dropout before each layer.

    A linear classifier behind that layer cost three points on Citeseer. The length of a row is the model's confidence,
    so the probe takes rows as they are: rows of length one cost two points on Photo.
    """

    title = "supervised encoder"
    paper: ClassVar = {
        "train": {"epochs": 200, "learning_rate": 1e-2, "weight_decay": 5e-4},
        "model": {"feature_dropout": 0.5, "hidden_dropout": 0.5, "last_activation": False, "bias": False},
        "evaluate": {"probe_scaling": "none"},
    }
    #: the supervised GAT (Velickovic et al., ICLR 2018), whose code stops by the validation loss within 100,000 epochs
    gat: ClassVar[Sections] = {
        "train": {"objective": "supervised", "epochs": 1000, "learning_rate": 5e-3, "weight_decay": 5e-4},
        "model": {
            "encoder": "gat", "normalisation": "symmetric", "self_loops": True, "message_dropout": 0.0,
            "feature_dropout": 0.6, "hidden_dropout": 0.6, "last_activation": False, "bias": True,
        },
        "evaluate": {"probe_scaling": "none"},
    }  # fmt: skip
    views = (View(),)
    known_K: Tensor
    targets_K: Tensor

    def __init__(self, given: ObjectiveInputs) -> None:
        super().__init__(given)
        assert given.targets is not None
        if given.model.width < given.num_classes:
            raise ConfigError(
                f"model.width: supervised needs a column for each of {given.num_classes} classes, "
                f"got {given.model.width}; set it to {given.num_classes} or more (of this method alone: "
                f"compare.settings: {{supervised: [model.width={given.num_classes}]}})"
            )
        self._num_classes = given.num_classes
        known = given.targets >= 0
        self.register_buffer("known_K", known.nonzero().squeeze(1), persistent=False)
        self.register_buffer("targets_K", given.targets[known], persistent=False)

    def loss(self, model: Model, views: Sequence[Inputs], hidden_ND: Sequence[Tensor], key: int) -> Tensor:
        """Mean cross entropy of the training nodes."""
        scores_KC = hidden_ND[0][self.known_K][:, : self._num_classes]
        return cross_entropy(scores_KC, self.targets_K)

    def after_step(self, model: Model, done: float) -> None:
        """Columns without a class would keep their first weights and be part of the embeddings."""
        model.encoder.layer(-1).clear(self._num_classes)
