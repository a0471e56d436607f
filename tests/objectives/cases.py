"""An objective on a small graph, with everything that its loss reads."""

from dataclasses import dataclass

import numpy as np
import torch

from gscl_scale.config.config import Config
from gscl_scale.model.inputs import Inputs, prepare_inputs
from gscl_scale.model.model import Model, build_model
from gscl_scale.train.objectives.methods import build_objective
from gscl_scale.train.objectives.objective import Objective
from gscl_scale.train.objectives.views import ViewStream
from tests.model.graphs import EDGES, NUM_NODES, graph_of, random_features

WIDTH, FEATURES = 4, 6
KEY = 5  # of what is drawn in a step
TARGETS = np.array([0, 1, 2, -1, 0, -1, 1, -1])


@dataclass
class Case:
    """A model in training with the views of a step, and the encoder's rows for each."""

    model: Model
    objective: Objective
    views: list[Inputs]
    hidden: list[torch.Tensor]

    def loss(self, key=KEY):
        return float(self.objective.loss(self.model, self.views, self.hidden, key).detach())

    def rows(self, of=None):
        """The encoder's rows as numpy, in double precision."""
        return [rows.detach().numpy().astype(np.float64) for rows in of or self.hidden]


def case_of(name, step=3, width=WIDTH, layers=1, given_features=None, **settings):
    values = {
        "graph": {"source": "memory"},
        "model": {"width": width, "projection": 3, "layers": layers},
        "train": {"objective": name},
        "baseline": settings,
    }
    config = Config.parse(values)
    graph = graph_of(EDGES, random_features(NUM_NODES, FEATURES) if given_features is None else given_features)
    model = build_model(config.model, FEATURES, seed=0).train()
    inputs = prepare_inputs(graph, config.model, torch.device("cpu"))
    objective = build_objective(config, graph, 3, torch.from_numpy(TARGETS))
    views = ViewStream(graph, inputs, config, objective.views).views(step)
    objective.begin(model)
    return Case(model, objective, views, [objective.encode(model, view, 1) for view in objective.prepare(views, KEY)])
