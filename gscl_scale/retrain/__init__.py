"""One safe step of scheduled retraining, for any scheduler and at any time."""

from gscl_scale.retrain.gate import Figures, Verdict, judge
from gscl_scale.retrain.night import Outcome, retrain
from gscl_scale.retrain.telling import Told, nightly, notify, write_metrics

__all__ = ["Figures", "Outcome", "Told", "Verdict", "judge", "nightly", "notify", "retrain", "write_metrics"]
