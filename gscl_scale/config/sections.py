"""The sections of the stages after the graph."""

import contextlib
import math
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from gscl_scale.config.graph_size import GraphSize
from gscl_scale.config.objectives import OwnObjective, check_objective
from gscl_scale.config.section import AutoOrBool, Key, Result, Section, positive

_STEPS, _STEPS_RARE, MOST_EPOCHS = 300, 120, 100  # of a training with train.epochs=auto
_DROPOUT_RARE = 0.3  # of features with model.feature_dropout=auto


def _check_per_ring(value: Any) -> Any:
    if number := positive(value):
        return number
    if value == "all" or _is_ratio(value):
        return value
    raise ValueError("expected a number from 1, 'all', or 'ratio:' and a share, such as ratio:0.2")


def _is_ratio(value: Any) -> bool:
    with contextlib.suppress(ValueError):
        return isinstance(value, str) and value.startswith("ratio:") and 0 < float(value.removeprefix("ratio:")) <= 1
    return False


def _check_rounds(value: Any) -> Any:
    rounds = value if value == "epoch" else positive(value)
    if rounds is None:
        raise ValueError("expected a number from 1, or 'epoch' for one round per epoch")
    return rounds


def _check_epochs(value: Any) -> Any:
    epochs = value if value == "auto" else positive(value)
    if epochs is None:
        raise ValueError("expected a number from 1, or auto")
    return epochs


def _check_dropout(value: Any) -> Any:
    if value == "auto":
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1:
        return float(value)
    raise ValueError("expected a share from 0 to less than 1, or auto")


class RingsConfig(Section):
    """Sampling of the rings."""

    DECIDES: ClassVar[Result] = "samples"

    hops: int = Field(2, ge=1, le=8, description="Rings per anchor (k in the paper).")
    engine: Annotated[Literal["auto", "exact", "sketch"], Key("ring sizes")] = Field(
        "auto",
        description="exact: search from every anchor; sketch: one pass over the graph per hop, with the same samples; "
        "auto: whichever is faster.",
    )
    sampling: Literal["uniform", "pagerank"] = Field("uniform", description="Sample members uniformly or by PageRank.")
    width: int = Field(
        64,
        ge=1,
        description="Lowest-priority nodes per neighbourhood that decide what is stored; 8 x width nodes can be "
        "negatives. Larger: more negatives, fewer estimated ring sizes, larger files.",
    )
    per_ring: Annotated[int | str, BeforeValidator(_check_per_ring)] = Field(
        16, description="Fewest members to store per ring: a number, all, or a ratio of the ring such as ratio:0.2."
    )
    beyond: int = Field(64, ge=1, description="Nodes farther than k hops to store for each anchor.")
    rounds: Annotated[int | Literal["epoch"], BeforeValidator(_check_rounds), Key("rounds")] = Field(
        "epoch", description="Independent samples of all rings; epoch: one for each epoch of training."
    )
    disk_gb: Annotated[float, Key("rounds")] = Field(
        20.0, gt=0, description="Disk space for the samples in GB; where it ends, training reuses earlier rounds."
    )
    ahead: Annotated[int, Key("nothing")] = Field(
        0, ge=0, description="Rounds to prepare while training runs (used rounds are deleted). 0 prepares all first."
    )
    sharing: Literal["shared", "independent"] = Field(
        "shared", description="shared: one priority per node and round; independent: one per anchor as well (slow)."
    )
    part_anchors: int = Field(16384, ge=1, description="Anchors per part file, the unit of work and of restart.")
    seed: int = Field(0, ge=0, description="Seed of the priorities.")

    def sketchable(self) -> bool:
        """Whether the sketch engine supports these settings."""
        return isinstance(self.per_ring, int) and self.sharing == "shared"

    @model_validator(mode="after")
    def _keys_fit_together(self) -> Self:
        if self.engine == "sketch" and not self.sketchable():
            raise ValueError(
                "the sketch engine needs a number in rings.per_ring and shared priorities; "
                "set rings.engine to exact, or change these"
            )
        if self.part_anchors * self.width >= 1 << 31:
            raise ValueError(
                f"rings.part_anchors x rings.width is {self.part_anchors * self.width:,}, expected at most "
                "2,147,483,647; lower one of them"
            )
        return self


class ModelConfig(Section):
    """The encoder and the projection head."""

    DECIDES: ClassVar[Result] = "training"

    encoder: Literal["gcn", "sage", "gat"] = Field("gcn", description="Type of the layers.")
    normalisation: Annotated[Literal["symmetric", "mean"], Key(revision=1, neutral="symmetric")] = Field(
        "symmetric", description="gcn: weight neighbours by the degrees of both ends, or take their plain mean."
    )
    self_loops: Annotated[bool, Key(revision=1, neutral=True)] = Field(True, description="gcn: add self-loops.")
    layers: int = Field(1, ge=1, le=8, description="Number of layers.")
    width: int = Field(
        256,
        ge=1,
        description="Width of every layer, and of the embeddings; structural features add their columns to these.",
    )
    activation: Literal["relu", "prelu", "rrelu"] = Field("prelu", description="Activation after every layer.")
    last_activation: Annotated[bool, Key(revision=1, neutral=True)] = Field(
        True, description="Apply the activation after the last layer too."
    )
    bias: Annotated[bool, Key(revision=2, neutral=True)] = Field(
        True, description="Add a learnt bias in every layer; the formula of the paper has none."
    )
    norm: Annotated[Literal["none", "batch"], Key(revision=1, neutral="none")] = Field(
        "none", description="Normalisation before every activation; batch: columns over all nodes, not with gscl."
    )
    skip: Annotated[Literal["auto", "none"], Key(revision=4, neutral="auto")] = Field(
        "auto",
        description="auto: structural features also stand beside the encoder's output, and so do few columns of the "
        "user and their means over neighbours; none: they do not.",
    )
    feature_scaling: Literal["none", "row", "standard"] = Field(
        "none", description="row: scale each node's features to sum 1; standard: each column to mean 0, deviation 1."
    )
    feature_dropout: Annotated[float | Literal["auto"], BeforeValidator(_check_dropout)] = Field(
        "auto",
        description="Share of feature values to drop in each step; auto: for gscl 0.3 where the graph brings 64 or "
        "more features and at most a fifth of their values differ from zero, otherwise none.",
    )
    hidden_dropout: Annotated[float, Key(revision=1, neutral=0.0)] = Field(
        0.0, ge=0, lt=1, description="Share of the values between layers to drop in each step."
    )
    message_dropout: Annotated[float, Key(revision=1, neutral=0.0)] = Field(
        0.0, ge=0, lt=1, description="gcn, sage: share of the messages between nodes to drop in each step."
    )
    projection: int = Field(256, ge=0, description="Width of the two-layer projection head; 0: no head.")
    propagation: Literal["full", "sampled"] = Field("full", description="Read all neighbours, or at most fanout.")
    fanout: list[Annotated[int, Field(ge=1)]] = Field(
        [10], min_length=1, description="sampled: neighbours per node in each layer, first layer first; or one for all."
    )
    product: Annotated[Literal["auto", "numba", "torch", "torch-sparse", "triton"], Key("nothing")] = Field(
        "auto",
        description="Backend of sparse matrix products; auto: numba on a CPU; on a GPU our kernel where Triton is "
        "installed, else torch; triton: as auto.",
    )
    recompute: Annotated[bool, Key("nothing")] = Field(
        False, description="Compute layers again in the backward pass: less memory, a third more time."
    )

    def feature_dropout_for(self, rare: bool) -> float:
        """The share of feature values to drop where few values differ from zero, or not."""
        if self.feature_dropout == "auto":
            return _DROPOUT_RARE if rare else 0.0
        return self.feature_dropout

    @property
    def dropped_features(self) -> float:
        """The share of feature values to drop; `auto` is none until the graph is known (`Config.sized`)."""
        return self.feature_dropout_for(rare=False)

    @model_validator(mode="after")
    def _keys_fit_together(self) -> Self:
        if len(self.fanout) not in (1, self.layers):
            raise ValueError(
                f"fanout has {len(self.fanout)} numbers, expected one, or one for each of the {self.layers} layers"
            )
        if self.encoder != "gcn" and (self.normalisation != "symmetric" or not self.self_loops):
            raise ValueError(
                f"only gcn has normalisation and self_loops, and the encoder is {self.encoder}; leave them out"
            )
        if self.encoder == "gat" and self.message_dropout:
            raise ValueError("gat has no message dropout; set message_dropout to 0")
        return self

    def messages(self) -> tuple[str, str, bool]:
        """The settings that decide the adjacency of the layers: encoder, normalisation, self-loops."""
        return self.encoder, self.normalisation, self.self_loops

    def fanouts(self) -> list[int] | None:
        """Neighbours per node in each layer; None where all are read."""
        if self.propagation == "full":
            return None
        return self.fanout * self.layers if len(self.fanout) == 1 else self.fanout


class TrainConfig(Section):
    """The training loop."""

    DECIDES: ClassVar[Result] = "training"

    objective: Annotated[OwnObjective | str, AfterValidator(check_objective), Key(revision=1, neutral="gscl")] = Field(
        "gscl",
        description="Training objective, ours or of an installed package (docs/own_method.md); all but gscl read no "
        "samples and take one step over the graph per epoch.",
    )
    epochs: Annotated[int | Literal["auto"], BeforeValidator(_check_epochs)] = Field(
        "auto",
        description="Passes over all anchors; auto: about 300 steps, for gscl 120 where features are as for "
        "feature_dropout, in 1 to 100 passes.",
    )
    batch_size: int = Field(1024, ge=0, description="Anchors per step; 0: by batch_size_per_worker.")
    batch_size_per_worker: Annotated[int, Key(revision=4, neutral=0)] = Field(
        0, ge=0, description="Anchors per step and process; multiplies learning_rate by the processes' square root."
    )
    accumulate: Annotated[int, Key("nothing")] = Field(1, ge=1, description="Micro-batches per step; saves memory.")
    negatives: int = Field(512, ge=0, description="Shared negatives to draw per step; needs rings.sharing=shared.")
    held_out: Annotated[float, Key(revision=2, neutral=0.0)] = Field(
        0.0, ge=0, lt=1, description="Share of the nodes that are never anchors and measure the ranking of rings."
    )
    members: Literal["lowest", "random", "stored"] = Field(
        "lowest", description="Which stored members of a ring to use: the lowest per_ring, a random per_ring, or all."
    )
    learning_rate: float = Field(1e-3, gt=0, description="Learning rate of Adam.")
    weight_decay: float = Field(0.0, ge=0, description="Weight decay of Adam.")
    clip: float = Field(0.0, ge=0, description="Largest norm of the gradient; 0: no clipping.")
    validate_every: int = Field(0, ge=0, description="Epochs between validations, of which the best is kept; 0: none.")
    patience: int = Field(0, ge=0, description="Stop after this many validations without improvement; 0: never.")
    checkpoint_every: Annotated[int, Key("nothing")] = Field(10, ge=1, description="Epochs between checkpoints.")
    checkpoint_steps: Annotated[int, Key("nothing")] = Field(0, ge=0, description="Steps between checkpoints; 0: none.")
    checkpoint_minutes: Annotated[float, Key("nothing")] = Field(10.0, gt=0, description="Minutes between checkpoints.")
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="Precision of the dense layers in training; auto: bfloat16 on a GPU, float32 on a CPU."
    )
    tf32: Annotated[bool, Key(revision=4, neutral=False)] = Field(
        False,
        description="On a GPU: round the factors of float32 matrix products to TF32; faster and less exact.",
    )
    deterministic: Annotated[bool, Key("nothing", revision=4, neutral=False)] = Field(
        False, description="On a GPU: use only algorithms that give the same bits each time; may be slower."
    )
    cuda_graphs: Annotated[AutoOrBool, Key("nothing", revision=5, neutral=False)] = Field(
        "auto",
        description="gscl on a GPU: start all kernels of the encoder's pass over the whole graph at once, as a CUDA "
        "graph; auto: where the settings and the memory allow it.",
    )
    seed: int = Field(0, ge=0, description="Seed of weights, order, dropout and negatives.")
    repeats: Annotated[int, Key(revision=1, neutral=1)] = Field(
        1,
        ge=1,
        le=1000,
        description="Repeat the run with this many seeds; figures are then means with standard errors.",
    )

    @property
    def num_epochs(self) -> int:
        """The number of epochs, once the size of the graph is known (`Config.sized`)."""
        assert isinstance(self.epochs, int)
        return self.epochs

    def epochs_for(self, size: GraphSize) -> int:
        """The number of epochs on a graph of this size."""
        if isinstance(self.epochs, int):
            return self.epochs
        each = -(-size.num_nodes // (self.batch_size or self.batch_size_per_worker)) if self.reads_samples else 1
        return max(1, min(MOST_EPOCHS, -(-(_STEPS_RARE if size.rare and self.reads_samples else _STEPS) // each)))

    def among(self, num_processes: int) -> Self:
        """The settings of a training by so many processes, with the anchors of a step of all of them, and their rate.

        The rate of Adam grows with the square root of the batch: arXiv:2205.10287.
        """
        if not self.batch_size_per_worker:
            return self
        size, rate = num_processes * self.batch_size_per_worker, math.sqrt(num_processes) * self.learning_rate
        return self.model_copy(update={"batch_size": size, "learning_rate": rate})

    @property
    def reads_samples(self) -> bool:
        """Whether the objective trains on ring samples."""
        return self.objective == "gscl"

    @property
    def label_seed(self) -> int | None:
        """The seed of a training on labels; None for all other objectives."""
        return self.seed if self.objective == "supervised" else None

    def uses_bfloat16(self, device: str) -> bool:
        """Whether the dense layers compute in bfloat16 on a type of device."""
        return self.precision == "bfloat16" or (self.precision == "auto" and device == "cuda")

    @model_validator(mode="before")
    @classmethod
    def _leave_out_batch_size(cls, values: Any) -> Any:
        given = isinstance(values, dict) and values.get("batch_size_per_worker")
        return {"batch_size": 0, **values} if given else values

    @model_validator(mode="after")
    def _one_batch_size(self) -> Self:
        if self.batch_size and self.batch_size_per_worker:
            raise ValueError(
                f"batch_size ({self.batch_size}) counts the anchors of all processes and batch_size_per_worker "
                f"({self.batch_size_per_worker}) those of each; set one of them to 0"
            )
        if not (self.batch_size or self.batch_size_per_worker):
            raise ValueError("a step needs anchors; set batch_size or batch_size_per_worker to 1 or more")
        return self

    @model_validator(mode="after")
    def _patience_needs_validation(self) -> Self:
        if self.patience and not self.validate_every:
            raise ValueError("patience needs validate_every; set train.validate_every to 1 or more")
        return self
