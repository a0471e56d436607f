"""The sections of scheduled retraining."""

from typing import Literal

from pydantic import Field

from gscl_scale.config.section import Section


class RetrainConfig(Section):
    """A step of scheduled retraining."""

    start: Literal["warm", "fresh"] = Field(
        "warm", description="Train from the weights of the current version, or from weights drawn by train.seed."
    )
    fresh_every: int = Field(
        0, ge=0, description="warm: after so many versions in a row begin from fresh weights once; 0: never."
    )
    epochs: int = Field(0, ge=0, description="warm: epochs of such a training; 0: train.epochs.")
    rotate: bool = Field(
        True, description="Turn new embeddings into the space of the current ones, for models that were learnt on them."
    )
    keep: int = Field(3, ge=2, description="Versions that are kept, the current one among them.")
    lease_s: float = Field(
        60.0, gt=0, description="A run that shows no life for so long has lost its right to publish."
    )
    wait_s: float = Field(0.0, ge=0, description="How long to wait for another run's end before leaving.")
    minutes: float = Field(0.0, ge=0, description="Stop after so long, to be continued; 0: no limit.")
    disk_gb: float = Field(0.0, ge=0, description="Disk that registry and work may take before a run; 0: no limit.")
    notify: list[str] = Field(
        [], description="Command that is told the outcome as JSON on its standard input; program and arguments."
    )
    metrics: str = Field("", description="File for Prometheus (textfile collector) that is written after every run.")


class GateConfig(Section):
    """What a new version must fulfil before it becomes current; figures beside those of the current version."""

    probe_fall: float = Field(
        0.02, ge=0, le=1, description="Most that the probe's validation accuracy may fall; needs labels."
    )
    ranking_least: float = Field(
        0.55,
        ge=0,
        le=1,
        description="Least ring-ranking accuracy, on train.held_out anchors if there are; 0.5 is chance.",
    )
    ranking_fall: float = Field(0.02, ge=0, le=1, description="Most that the ring-ranking accuracy may fall.")
    alignment_least: float = Field(
        0.5, ge=-1, le=1, description="Least mean cosine with the current embeddings, after the best rotation."
    )
    norm_factor: float = Field(4.0, ge=1, description="Most that the median length of embeddings may grow or shrink.")
    cosine_most: float = Field(0.97, ge=-1, le=1, description="Largest mean cosine of random pairs of nodes: collapse.")
    rank_fall: float = Field(0.5, ge=0, le=1, description="Largest share of the effective rank that may be lost.")
