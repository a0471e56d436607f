"""Training of an objective in the shared loop: each step is over the whole graph."""

from collections.abc import Iterable
from typing import Any

import torch

from gscl_scale import seeding
from gscl_scale.config.config import Config
from gscl_scale.config.sections import TrainConfig
from gscl_scale.model import optimizers
from gscl_scale.model.inputs import Inputs
from gscl_scale.model.model import Model
from gscl_scale.train.loop import Part, Trainer
from gscl_scale.train.objectives.objective import Objective
from gscl_scale.train.process_group import World
from gscl_scale.train.step import LaunchedStep, descend


class ObjectiveTrainer(Trainer):
    """The state of one training, with the weights of the objective."""

    def __init__(self, model: Model, objective: Objective, config: TrainConfig) -> None:
        super().__init__(model, config)
        self.objective = objective
        objective.begin(model)
        both = (*model.parameters(), *objective.parameters())
        self._parameters = [parameter for parameter in both if parameter.requires_grad]
        kind = optimizers.AdamW if objective.decoupled else optimizers.Adam
        self.optimizer = kind(self._parameters, lr=config.learning_rate, weight_decay=config.weight_decay)

    def parts(self) -> dict[str, Part]:
        """The parts of a checkpoint, by name."""
        return {**super().parts(), "objective": self.objective}

    def step(
        self, inputs: Inputs, micro_batches: Iterable[Any], config: Config, world: World, stop: bool
    ) -> LaunchedStep:
        """Take one step over the views of the whole graph; what is drawn depends on (seed, step) only."""
        (views,) = micro_batches
        step, done = self.position.step, self.position.step / config.train.num_epochs
        for group in self.optimizer.param_groups:
            group["lr"] = config.train.learning_rate * self.objective.rate(done)
        self.model.train()
        self.objective.train()
        self.optimizer.zero_grad(set_to_none=True)
        keys = [seeding.integer("step", config.train.seed, step, number) for number in range(len(views) + 1)]
        device = inputs.device.type
        with torch.autocast(device, torch.bfloat16, enabled=config.train.uses_bfloat16(device)):
            read = self.objective.prepare(views, keys[-1])
            hidden = [self.objective.encode(self.model, *pair).float() for pair in zip(read, keys, strict=False)]
        loss = self.objective.loss(self.model, views, hidden, keys[-1])
        loss.backward()
        norm = descend(self.optimizer, self._parameters, config.train)
        self.objective.after_step(self.model, done)
        none = loss.new_zeros(())  # of the terms that a gate stops, and negatives that count
        figures = torch.stack([loss.detach(), none, none, loss.new_full((), float(stop)), none, norm]).double()
        nodes = hidden[0].shape[0]
        return LaunchedStep(figures, step, hops=0, own=nodes, anchors=nodes, nodes=nodes)
