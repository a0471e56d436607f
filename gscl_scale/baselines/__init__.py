"""The methods to compare with, as small objectives over the shared encoder, loop, checkpoints and evaluation."""

from gscl_scale.baselines.methods import METHODS, OBJECTIVES, Method, build_objective, configured, settings_of
from gscl_scale.baselines.objective import Objective
from gscl_scale.baselines.trainer import ObjectiveTrainer
from gscl_scale.baselines.views import ViewStream

__all__ = [
    "METHODS",
    "OBJECTIVES",
    "Method",
    "Objective",
    "ObjectiveTrainer",
    "ViewStream",
    "build_objective",
    "configured",
    "settings_of",
]
