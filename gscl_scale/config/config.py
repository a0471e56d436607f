"""The configuration as a whole: read, checked before anything starts, and written down."""

from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from gscl_scale.config.baselines import BaselineConfig, CompareConfig
from gscl_scale.config.evaluate import EvaluateConfig
from gscl_scale.config.explain import explain, refuse_true_as_number
from gscl_scale.config.graph_size import GraphSize
from gscl_scale.config.graphs import DigitsGraph, GraphConfig
from gscl_scale.config.loss import LossConfig
from gscl_scale.config.read import apply_setting, expand_paths, read_yaml, refuse_secrets
from gscl_scale.config.retrain import GateConfig, RetrainConfig
from gscl_scale.config.runtime import RuntimeConfig
from gscl_scale.config.section import Section
from gscl_scale.config.sections import ModelConfig, RingsConfig, TrainConfig
from gscl_scale.errors import ConfigError
from gscl_scale.text import join_names


class Config(Section):
    """The whole configuration.

    Examples
    --------
    >>> from gscl_scale import Config
    >>> Config.parse({"train": {"epochs": 50}}).train.epochs
    50
    """

    graph: GraphConfig = Field(default_factory=DigitsGraph, description="Source of the graph.")
    rings: RingsConfig = Field(default_factory=RingsConfig, description="Sampling of the rings.")
    model: ModelConfig = Field(default_factory=ModelConfig, description="Encoder and projection head.")
    loss: LossConfig = Field(default_factory=LossConfig, description="The ranking loss.")
    train: TrainConfig = Field(default_factory=TrainConfig, description="The training loop.")
    baseline: BaselineConfig = Field(
        default_factory=BaselineConfig, description="Settings of an objective other than gscl."
    )
    evaluate: EvaluateConfig = Field(default_factory=EvaluateConfig, description="The evaluation protocol.")
    compare: CompareConfig = Field(default_factory=CompareConfig, description="Comparison of methods.")
    retrain: RetrainConfig = Field(default_factory=RetrainConfig, description="Scheduled retraining.")
    gate: GateConfig = Field(default_factory=GateConfig, description="Limits that a new version must keep.")
    runtime: RuntimeConfig = Field(default_factory=RuntimeConfig, description="How the work runs.")

    @model_validator(mode="after")
    def _sections_fit_together(self) -> Self:
        sampled = self.model.propagation == "sampled"
        if sampled and self.rings.sharing == "independent":
            raise ValueError(
                "model.propagation: sampled needs shared priorities; set it to full, or rings.sharing to shared"
            )
        if sampled and not self.train.reads_samples:
            raise ValueError(
                f"train.objective: {self.train.objective} takes a step over the whole graph and cannot read samples of "
                "the neighbours; set model.propagation to full"
            )
        if self.runtime.embed_scratch and self.model.encoder == "gat":
            raise ValueError(
                "runtime.embed_scratch: the encoder gat reads rows of neighbours in no order, from the run folder; "
                "leave it empty"
            )
        for key in ("features", "edges"):
            if getattr(self.runtime, key) == "owned" and not sampled:
                raise ValueError(
                    f"runtime.{key}: owned needs model.propagation: sampled; with full each process reads all {key}"
                )
        if self.model.norm == "batch" and self.train.reads_samples:
            raise ValueError(
                "model.norm: with gscl a node's embedding must not depend on the others of its batch; set it to none"
            )
        return self

    def lacking_for_cuda_graphs(self) -> list[str]:
        """The settings under which a step could be recorded as a CUDA graph, of those that are not set so."""
        needed = {
            "runtime.device=auto": self.runtime.device != "cpu",
            "model.propagation=full": self.model.propagation == "full",
            "model.recompute=false": not self.model.recompute,
            "loss.hop_zero=0": not self.loss.hop_zero,
            "train.accumulate=1": self.train.accumulate == 1,
        }
        return [setting for setting, fits in needed.items() if not fits]

    @model_validator(mode="after")
    def _cuda_graphs_fit(self) -> Self:
        lacking = self.lacking_for_cuda_graphs()
        if self.train.cuda_graphs is True and self.train.reads_samples and lacking:
            raise ValueError(
                "train.cuda_graphs: a CUDA graph is one pass over the whole graph per step, on a GPU; "
                f"set {join_names(lacking)}, or train.cuda_graphs to false"
            )
        return self

    @classmethod
    def load(
        cls, path: Path | None, settings: list[str] | None = None, start: dict[str, Any] | None = None
    ) -> "Config":
        """Read a YAML file, or start from given values; apply `section.key=value` settings and check everything."""
        values = read_yaml(path) if path else start or {}
        for setting in settings or []:
            apply_setting(values, setting)
        return cls.parse(values)

    @classmethod
    def parse(cls, values: dict[str, Any]) -> "Config":
        """Check plain values, as read from YAML."""
        if isinstance(values.get("graph"), dict):
            values = {**values, "graph": {"source": "digits", **expand_paths(values["graph"])}}
        refuse_secrets(values)
        refuse_true_as_number(cls, values)
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise ConfigError(explain(cls, error)) from None

    def sized(self, size: GraphSize) -> Self:
        """The configuration with the numbers that `auto` leaves to the size of the graph."""
        train = self.train.model_copy(update={"epochs": self.train.epochs_for(size)})
        model = self.model.model_copy(
            update={"feature_dropout": self.model.feature_dropout_for(size.rare and self.train.reads_samples)}
        )
        return self.model_copy(update={"train": train, "model": model})

    def among(self, num_processes: int) -> Self:
        """The configuration with the batch of a training by so many processes."""
        return self.model_copy(update={"train": self.train.among(num_processes)})

    def dump(self) -> dict[str, Any]:
        """Plain values, ready for JSON or YAML."""
        return self.model_dump(mode="json")
