"""The sections of scheduled retraining."""

from typing import Literal

from pydantic import Field

from gscl_scale.config.section import Section


class RetrainConfig(Section):
    """A step of scheduled retraining."""

    start: Literal["warm", "fresh"] = Field(
        "warm", description="Train from the weights of the current version, or from weights drawn by train.seed."
    )
    fresh_every: int = Field(0, ge=0, description="warm: versions in a row until one from fresh weights; 0: no limit.")
    epochs: int = Field(0, ge=0, description="warm: epochs of the training; 0: train.epochs.")
    rotate: bool = Field(True, description="Keep new embeddings in the space of the current ones, by a rotation.")
    keep: int = Field(3, ge=2, description="Versions to keep, the current one included.")
    keep_complete: int = Field(
        0, ge=0, description="Versions to keep with samples and checkpoints, the current one included; 0: all of keep."
    )
    lease_s: float = Field(60.0, gt=0, description="Seconds without a sign of life after which a run loses its lease.")
    wait_s: float = Field(0.0, ge=0, description="Seconds to wait for the lease of another run before giving up.")
    minutes: float = Field(0.0, ge=0, description="Stop after this many minutes, to be resumed; 0: no limit.")
    disk_gb: float = Field(0.0, ge=0, description="Disk space in GB for registry and work folder; 0: no limit.")
    notify: list[str] = Field([], description="Command and arguments that get the outcome as JSON on standard input.")
    metrics: str = Field("", description="File for Prometheus (textfile collector), written after every run.")


class GateConfig(Section):
    """Limits that a new version must keep before it becomes current, most of them relative to the current version."""

    probe_fall: float = Field(0.02, ge=0, le=1, description="Largest fall of validation accuracy; needs labels.")
    ranking_least: float = Field(
        0.55, ge=0, le=1, description="Smallest ring-ranking accuracy, of held-out anchors if any; 0.5 is chance."
    )
    ranking_fall: float = Field(0.02, ge=0, le=1, description="Largest fall of the ring-ranking accuracy.")
    links_least: float = Field(
        0.55, ge=0, le=1, description="Smallest AUC on held-out edges; 0.5 is chance; needs evaluate.held_out_edges."
    )
    links_fall: float = Field(
        0.02, ge=0, le=1, description="Largest fall of the AUC, on edges held out by both versions and on new edges."
    )
    alignment_least: float = Field(
        0.5, ge=-1, le=1, description="Smallest mean cosine with the current embeddings, after the best rotation."
    )
    norm_factor: float = Field(4.0, ge=1, description="Largest factor by which the median norm grows or shrinks.")
    cosine_most: float = Field(0.97, ge=-1, le=1, description="Largest mean cosine of random pairs (1: collapse).")
    rank_fall: float = Field(0.5, ge=0, le=1, description="Largest share of the effective rank that may be lost.")
