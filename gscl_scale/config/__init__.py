"""The configuration: one frozen section per stage, checked before anything starts."""

from gscl_scale.config.baselines import BaselineConfig, CompareConfig
from gscl_scale.config.graphs import (
    DigitsGraph,
    GraphConfig,
    MemoryGraph,
    NpzGraph,
    OgbGraph,
    PygGraph,
    SyntheticGraph,
    TablesGraph,
)
from gscl_scale.config.retraining import GateConfig, RetrainConfig
from gscl_scale.config.schema import schema_rows
from gscl_scale.config.sections import (
    EvaluateConfig,
    LossConfig,
    ModelConfig,
    RingsConfig,
    RuntimeConfig,
    SplitsConfig,
    TrainConfig,
    TunedOn,
)
from gscl_scale.config.whole import Config

__all__ = [
    "BaselineConfig",
    "CompareConfig",
    "Config",
    "DigitsGraph",
    "EvaluateConfig",
    "GateConfig",
    "GraphConfig",
    "LossConfig",
    "MemoryGraph",
    "ModelConfig",
    "NpzGraph",
    "OgbGraph",
    "PygGraph",
    "RetrainConfig",
    "RingsConfig",
    "RuntimeConfig",
    "SplitsConfig",
    "SyntheticGraph",
    "TablesGraph",
    "TrainConfig",
    "TunedOn",
    "schema_rows",
]
