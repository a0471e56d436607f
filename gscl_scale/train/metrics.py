"""Metrics of one training step for the log, TensorBoard and the progress bar."""

from dataclasses import dataclass

import torch

from gscl_scale.machine import peak_memory
from gscl_scale.train.checkpoint import Position
from gscl_scale.train.step import StepResult


@dataclass(frozen=True)
class StepMetrics:
    """The result of a step, the seconds that it took, and the seconds of these that it waited for its batch."""

    result: StepResult
    took: float
    waited: float
    device: torch.device

    @property
    def rate(self) -> float:
        """Anchors per second, of all processes together."""
        return self.result.anchors / max(self.took, 1e-9)

    @property
    def waiting(self) -> float:
        """The share of the time that was spent waiting."""
        return self.waited / max(self.took, 1e-9)

    def as_event(self, position: Position) -> dict[str, object]:
        """The fields of a line in log.jsonl."""
        result = self.result
        hop_zero = {} if result.hop_zero is None else {"hop_zero": result.hop_zero}
        return {
            "step": position.step, "epoch": position.epoch, "loss": result.loss, **hop_zero,
            "per_level": result.per_level, "gated": result.gated, "gradient_norm": result.gradient_norm,
            "anchors": result.anchors, "negatives": result.negatives, "negatives_per_anchor": result.used,
            "nodes": result.nodes, "data_wait_s": round(self.waited, 6), "step_s": round(self.took, 6),
            "peak_bytes": peak_memory(), **self._gpu_memory("gpu_peak_bytes"),
        }  # fmt: skip

    def as_figures(self) -> dict[str, float]:
        """The newest value of each curve, by its name."""
        result = self.result
        return {
            "loss": result.loss,
            **({} if result.hop_zero is None else {"loss of hop 0": result.hop_zero}),
            **{f"loss of ring {level}": loss for level, loss in enumerate(result.per_level, start=1)},
            "gated": result.gated,
            "gradient norm": result.gradient_norm,
            "anchors per second": self.rate,
            "share of time waiting": self.waiting,
            "peak memory in bytes": float(peak_memory()),
            **self._gpu_memory("peak memory of the GPU in bytes"),
        }

    def as_note(self) -> str:
        """The note beside the progress bar."""
        return f"loss {self.result.loss:.4f}, {self.rate:,.0f} anchors/s, {self.waiting:.0%} waiting"

    def _gpu_memory(self, name: str) -> dict[str, int]:
        return {name: torch.cuda.max_memory_allocated(self.device)} if self.device.type == "cuda" else {}
