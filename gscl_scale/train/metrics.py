"""What a step tells: to the log, to those who draw curves, and to whoever looks on."""

from dataclasses import dataclass
from typing import Any

import torch

from gscl_scale.machine import peak_memory
from gscl_scale.train.checkpoint import Position
from gscl_scale.train.step import StepResult


@dataclass(frozen=True)
class Told:
    """A step, the seconds that it took, and those of them that it waited for its batch."""

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
        """The share of time."""
        return self.waited / max(self.took, 1e-9)

    def as_event(self, position: Position) -> dict[str, Any]:
        """A line of the log."""
        result = self.result
        own = {} if result.hop_zero is None else {"hop_zero": result.hop_zero}
        return {
            "step": position.step, "epoch": position.epoch, "loss": result.loss, **own, "per_level": result.per_level,
            "gated": result.gated, "gradient_norm": result.gradient_norm, "anchors": result.anchors,
            "negatives": result.negatives, "negatives_per_anchor": result.used,
            "nodes": result.nodes, "data_wait_s": round(self.waited, 6), "step_s": round(self.took, 6),
            "peak_bytes": peak_memory(), **({"gpu_peak_bytes": self._on_gpu()} if self.device.type == "cuda" else {}),
        }  # fmt: skip

    def as_figures(self) -> dict[str, float]:
        """Curves by their names."""
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
            **({"peak memory of the GPU in bytes": float(self._on_gpu())} if self.device.type == "cuda" else {}),
        }

    def as_note(self) -> str:
        """A few words."""
        return f"loss {self.result.loss:.4f}, {self.rate:,.0f} anchors/s, {self.waiting:.0%} waiting"

    def _on_gpu(self) -> int:
        return torch.cuda.max_memory_allocated(self.device)
