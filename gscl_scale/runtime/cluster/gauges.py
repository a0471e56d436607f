"""Figures of a training among Ray's own metrics, for the dashboard and for Prometheus."""

import re

from ray.util.metrics import Gauge

_PREFIX = "gscl_scale_train_"  # Ray puts ray_ before it


class Gauges:
    """A meter: every figure is a gauge with the name of the run and the number of the process."""

    def __init__(self, run: str, process: int) -> None:
        self._tags = {"run": run, "process": str(process)}
        self._gauges: dict[str, Gauge] = {}

    def __call__(self, figures: dict[str, float]) -> None:
        """Set the figures to what they are now."""
        for name, value in figures.items():
            if name not in self._gauges:
                self._gauges[name] = Gauge(_PREFIX + re.sub(r"\W+", "_", name), name, tuple(self._tags))
            self._gauges[name].set(value, self._tags)
