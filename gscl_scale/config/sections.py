"""The sections of the stages after the graph."""

from dataclasses import fields
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from gscl_scale.config.section import Key, Result, Section
from gscl_scale.runtime.settings import RunnerSettings, TrainingSettings


def _check_per_ring(value: Any) -> Any:
    number = int(value) if isinstance(value, str) and value.isdigit() else value
    if isinstance(number, int) and not isinstance(number, bool) and number >= 1:
        return number
    if value == "all":
        return value
    if isinstance(value, str) and value.startswith("ratio:"):
        try:
            share = float(value.removeprefix("ratio:"))
        except ValueError:
            share = 0.0
        if 0 < share <= 1:
            return value
    raise ValueError("expected a number from 1, 'all', or 'ratio:' and a share, such as ratio:0.2")


def _check_rounds(value: Any) -> Any:
    number = int(value) if isinstance(value, str) and value.isdigit() else value
    if value == "epoch" or (isinstance(number, int) and not isinstance(number, bool) and number >= 1):
        return number
    raise ValueError("expected a number from 1, or 'epoch' for a fresh round per epoch")


def _check_workers(value: Any) -> Any:
    text = str(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else ""
    low, _, high = text.partition("-")
    if low.isdigit() and int(low) >= 1:
        if high.isdigit() and int(high) >= int(low):
            return text
        if text == low:
            return int(low)
    raise ValueError("expected a number from 1, or a range such as 2-4")


class RingsConfig(Section):
    """Which rings are sampled, and how."""

    DECIDES: ClassVar[Result] = "samples"

    hops: int = Field(2, ge=1, le=8, description="Rings per anchor: k of the paper.")
    engine: Annotated[Literal["auto", "exact", "sketch"], Key("ring sizes")] = Field(
        "auto",
        description="exact: a search from every anchor; sketch: the whole graph in one pass per hop, same samples; "
        "auto: whichever is less work.",
    )
    sampling: Literal["uniform", "pagerank"] = Field("uniform", description="Members alike, or by PageRank.")
    width: int = Field(64, ge=1, description="S: the lowest of each ball that are kept; decides what is beyond.")
    per_ring: Annotated[int | str, BeforeValidator(_check_per_ring)] = Field(
        16, description="Least members wanted per ring: a number, all, or a ratio of the ring such as ratio:0.2."
    )
    beyond: int = Field(64, ge=1, description="Nodes farther than k hops that are stored for each anchor.")
    rounds: Annotated[int | Literal["epoch"], BeforeValidator(_check_rounds), Key("rounds")] = Field(
        "epoch", description="Independent samples of everything; epoch: a fresh one for each epoch of training."
    )
    disk_gb: Annotated[float, Key("rounds")] = Field(
        20.0, gt=0, description="Disk that the samples may take; rounds stop there and are reused."
    )
    ahead: Annotated[int, Key("nothing")] = Field(
        0, ge=0, description="0: all rounds are made before training; else so many wait while it runs, used ones go."
    )
    sharing: Literal["shared", "independent"] = Field(
        "shared", description="One priority per node and round, or one per anchor, node and round (slow)."
    )
    part_anchors: int = Field(16384, ge=1, description="Anchors per part file; the unit of work and of restart.")
    seed: int = Field(0, ge=0, description="Seed of the priorities.")

    def sketchable(self) -> bool:
        """Whether the sketch engine can make such samples."""
        return isinstance(self.per_ring, int) and self.sharing == "shared"

    @model_validator(mode="after")
    def _sketch_needs_shared_numbers(self) -> "RingsConfig":
        if self.engine == "sketch" and not self.sketchable():
            raise ValueError(
                "the sketch engine needs a number in rings.per_ring and shared priorities; "
                "set rings.engine to exact, or change these"
            )
        if self.part_anchors * self.width >= 1 << 31:
            raise ValueError(
                f"rings.part_anchors x rings.width is {self.part_anchors * self.width:,}, and a part has room for "
                "2,147,483,647 entries; lower one of them"
            )
        return self


class ModelConfig(Section):
    """The encoder and the projection head."""

    DECIDES: ClassVar[Result] = "training"

    encoder: Literal["gcn", "sage", "gat"] = Field("gcn", description="Kind of layer.")
    normalisation: Annotated[Literal["symmetric", "mean"], Key(revision=1, neutral="symmetric")] = Field(
        "symmetric", description="gcn: neighbours weighed by the degrees at both ends, or their plain mean."
    )
    self_loops: Annotated[bool, Key(revision=1, neutral=True)] = Field(
        True, description="gcn: false: a node does not gather from itself, only from neighbours."
    )
    layers: int = Field(1, ge=1, le=8, description="Number of layers.")
    width: int = Field(256, ge=1, description="Width of every layer, and of the embeddings.")
    activation: Literal["relu", "prelu", "rrelu"] = Field("prelu", description="After every layer.")
    last_activation: Annotated[bool, Key(revision=1, neutral=True)] = Field(
        True, description="false: the last layer ends without the activation."
    )
    bias: Annotated[bool, Key(revision=2, neutral=True)] = Field(
        True, description="false: layers add no learnt constant, as the paper's formula has it."
    )
    norm: Annotated[Literal["none", "batch"], Key(revision=1, neutral="none")] = Field(
        "none", description="Before every activation; batch: columns standardised over all nodes, not with gscl."
    )
    feature_scaling: Literal["none", "row", "standard"] = Field(
        "none", description="row: each node's features sum to one; standard: each column has mean 0 and deviation 1."
    )
    feature_dropout: float = Field(0.0, ge=0, lt=1, description="Share of feature values dropped in each step.")
    hidden_dropout: Annotated[float, Key(revision=1, neutral=0.0)] = Field(
        0.0, ge=0, lt=1, description="Share of the values between layers dropped per step."
    )
    message_dropout: Annotated[float, Key(revision=1, neutral=0.0)] = Field(
        0.0, ge=0, lt=1, description="gcn, sage: share of the messages between nodes dropped in each step."
    )
    projection: int = Field(
        256, ge=0, description="Width of the two-layer projection head; 0: none, embeddings themselves are compared."
    )
    propagation: Literal["full", "sampled"] = Field(
        "full", description="full: every message a batch depends on; sampled: at most fanout neighbours of each node."
    )
    fanout: list[Annotated[int, Field(ge=1)]] = Field(
        [10], min_length=1, description="sampled: neighbours per node in each layer, first layer first; one for all."
    )
    product: Annotated[Literal["auto", "numba", "torch", "torch-sparse"], Key("nothing")] = Field(
        "auto", description="Who multiplies sparse matrices; auto: numba on the CPU, torch on a GPU."
    )

    recompute: Annotated[bool, Key("nothing")] = Field(
        False, description="Compute layers again on the way back: less memory, a third more time."
    )

    @model_validator(mode="after")
    def _a_fanout_for_each_layer(self) -> "ModelConfig":
        if len(self.fanout) not in (1, self.layers):
            raise ValueError(f"fanout needs one number or one for each of the {self.layers} layers")
        return self

    @model_validator(mode="after")
    def _messages_of_gcn_alone(self) -> "ModelConfig":
        if self.encoder != "gcn" and (self.normalisation != "symmetric" or not self.self_loops):
            raise ValueError(
                f"normalisation and self_loops are settings of gcn, {self.encoder} has its own way; leave them out"
            )
        return self

    @model_validator(mode="after")
    def _messages_of_gat_stay(self) -> "ModelConfig":
        if self.encoder == "gat" and self.message_dropout:
            raise ValueError("gat weighs its messages for itself and drops none; set message_dropout to 0")
        return self

    def messages(self) -> tuple[str, str, bool]:
        """What decides which messages the layers read: encoder, normalisation, loops."""
        return self.encoder, self.normalisation, self.self_loops

    def fanouts(self) -> list[int] | None:
        """Neighbours per node in each layer; None where all are read."""
        if self.propagation == "full":
            return None
        return self.fanout * self.layers if len(self.fanout) == 1 else self.fanout


class LossConfig(Section):
    """The ranking loss."""

    DECIDES: ClassVar[Result] = "training"

    ranking: Literal["listwise", "pairwise"] = Field("listwise", description="A ring against all farther, or each.")
    positives: Literal["in", "out"] = Field("in", description="Sum over the ring's members inside or outside the log.")
    temperature: float = Field(0.5, gt=0, description="Temperature of ring 1.")
    temperature_step: float = Field(0.0, ge=0, description="Added to the temperature with each ring.")
    gate: float = Field(1.0, gt=0, le=1, description="A ratio above it pulls no more; 1 means no gate.")
    weighting: Annotated[Literal["raw", "size"], Key(formerly="weighing")] = Field(
        "raw", description="raw: sums over the sample; size: scaled up to the whole ring, as if drawn uniformly."
    )
    hop_zero: Annotated[float, Key(revision=2, neutral=0.0)] = Field(
        0.0, ge=0, description="Weight of hop 0: each anchor under other dropout above all rings; 0: as in the paper."
    )


class TrainConfig(Section):
    """The training loop."""

    DECIDES: ClassVar[Result] = "training"

    objective: Annotated[
        Literal["gscl", "supervised", "dgi", "grace", "bgrl", "cca-ssg"], Key(revision=1, neutral="gscl")
    ] = Field(
        "gscl",
        description="What is trained; all others than gscl read no samples and take one step over the graph an epoch.",
    )
    epochs: int = Field(100, ge=1, description="Passes over all anchors.")
    batch_size: int = Field(1024, ge=1, description="Anchors per step.")
    accumulate: Annotated[int, Key("nothing")] = Field(
        1, ge=1, description="Pieces of a batch that are computed one after the other: less memory, the same result."
    )
    negatives: int = Field(
        512,
        ge=0,
        description="Shared candidates drawn per step from the decided nodes beyond; only where priorities are shared.",
    )
    held_out: Annotated[float, Key(revision=2, neutral=0.0)] = Field(
        0.0, ge=0, lt=1, description="Share of the nodes that are never anchors, to measure the ranking of rings on."
    )
    members: Literal["lowest", "random", "stored"] = Field(
        "lowest", description="Which of a longer stored ring: its lowest per_ring, a random per_ring, or all."
    )
    learning_rate: float = Field(1e-3, gt=0, description="Learning rate of Adam.")
    weight_decay: float = Field(0.0, ge=0, description="Weight decay of Adam.")
    clip: float = Field(0.0, ge=0, description="Largest norm of the gradient; 0 means no clipping.")
    validate_every: int = Field(
        0, ge=0, description="Probe the validation nodes every so many epochs and keep the best; 0: keep the last."
    )
    patience: int = Field(0, ge=0, description="Stop after so many validations without gain; 0: never.")
    checkpoint_every: Annotated[int, Key("nothing")] = Field(10, ge=1, description="Epochs between checkpoints.")
    checkpoint_steps: Annotated[int, Key("nothing")] = Field(
        0, ge=0, description="Steps between checkpoints as well; 0: not by steps."
    )
    checkpoint_minutes: Annotated[float, Key("nothing")] = Field(
        10.0, gt=0, description="Minutes after which one is due, whatever the step."
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="Of the dense layers in training; auto: bfloat16 on a GPU, float32 on a CPU."
    )
    seed: int = Field(0, ge=0, description="Seed of weights, order, dropout and negatives.")
    repeats: Annotated[int, Key(revision=1, neutral=1)] = Field(
        1,
        ge=1,
        le=1000,
        description="Repeat the run with this many seeds; figures are then means with standard errors.",
    )

    @property
    def reads_samples(self) -> bool:
        """Whether the objective is trained on ring samples."""
        return self.objective == "gscl"

    @property
    def learnt(self) -> int | None:
        """The seed of a training that learns labels; None where it does not."""
        return self.seed if self.objective == "supervised" else None

    def half(self, device: str) -> bool:
        """Whether the dense layers compute in bfloat16 on a kind of device."""
        return self.precision == "bfloat16" or (self.precision == "auto" and device == "cuda")

    @model_validator(mode="after")
    def _patience_needs_validation(self) -> "TrainConfig":
        if self.patience and not self.validate_every:
            raise ValueError("patience needs validate_every; set train.validate_every to 1 or more")
        return self


class SplitsConfig(Section):
    """Which splits there are."""

    DECIDES: ClassVar[Result] = "figures"

    split: Annotated[Literal["auto", "published", "random"], Key("splits")] = Field(
        "auto", description="Splits of the graph where it has some, else random ones; or always one kind."
    )
    train_fractions: Annotated[list[Annotated[float, Field(gt=0, lt=1)]], Key("splits")] = Field(
        [0.1], min_length=1, description="Random splits: shares of labelled nodes to train the probe on."
    )
    val_fraction: Annotated[float, Key("splits")] = Field(
        0.1, gt=0, lt=1, description="Random splits: share of labelled nodes to validate on."
    )
    random_splits: int = Field(5, ge=1, description="Random splits for each train fraction.")
    seed: Annotated[int, Key("splits")] = Field(0, ge=0, description="Seed of splits, probes and samples.")

    @model_validator(mode="after")
    def _shares_leave_test_nodes(self) -> Self:
        if max(self.train_fractions) + self.val_fraction >= 1:
            raise ValueError("train_fractions and val_fraction leave no test nodes; their sum must stay below 1")
        return self


class TunedOn(SplitsConfig):
    """Splits that a search has chosen settings on; `learnt` is that of its config."""

    learnt: int | None = None


class EvaluateConfig(SplitsConfig):
    """The evaluation protocol."""

    initialisations: int = Field(20, ge=1, description="Random initialisations of the probe per split.")
    probe_epochs: int = Field(300, ge=1, description="Adam steps of the probe.")
    probe_learning_rate: Annotated[float, Key("probe")] = Field(0.01, gt=0, description="Learning rate of the probe.")
    probe_weight_decay: Annotated[list[Annotated[float, Field(ge=0)]], Key("probe")] = Field(
        [0.0, 1e-4, 1e-3, 1e-2],
        min_length=1,
        description="Weight decays of the probe; each method keeps the best on validation.",
    )
    probe_scaling: Annotated[Literal["none", "l2", "standard", "auto"], Key("probe")] = Field(
        "l2",
        description="Rows before the probe: as they are, of length one, or standardised per column; auto: each method "
        "keeps the best on validation.",
    )
    sample: int = Field(
        20000, ge=100, description="Most nodes in clustering, search and ring similarity; larger graphs are sampled."
    )
    tuned_on: Annotated[list[TunedOn], Key(revision=3, neutral=[])] = Field(
        [],
        description="Written by tune: the splits whose validation nodes chose the settings; these are no test nodes.",
    )


class RuntimeConfig(Section):
    """How the work runs; never changes a result, but for the rounding of another device and its `train.precision`."""

    engine: Literal["local", "ray"] = Field("local", description="local: threads of this machine; ray: a Ray cluster.")
    workers: int = Field(0, ge=0, description="Tasks of precompute at once; 0: one per core of machine or cluster.")
    address: str = Field(
        "", description="Ray: address of the cluster; empty: RAY_ADDRESS, or a cluster of this machine."
    )
    task_cpus: float = Field(1.0, gt=0, description="Ray: cores that a task asks for.")
    task_memory_gb: float = Field(0.0, ge=0, description="Ray: memory that a task asks for; 0: nothing is asked.")
    task_resources: dict[str, Annotated[float, Field(gt=0)]] = Field(
        {}, description="Ray: custom resources that a task asks for."
    )
    task_retries: int = Field(3, ge=0, description="Ray: how often a task is tried again after its machine was lost.")
    train_workers: Annotated[int | str, BeforeValidator(_check_workers)] = Field(
        1, description="Ray: processes that train one model; a range such as 2-4 takes as many as there is room for."
    )
    worker_cpus: float = Field(1.0, gt=0, description="Ray: cores of a training process, and threads that it uses.")
    worker_gpus: int = Field(0, ge=0, le=1, description="Ray: 1: each training process has a GPU; 0: none has.")
    max_failures: int = Field(3, ge=0, description="Ray: how often a training goes on after it has lost a process.")
    timeout_s: float = Field(120.0, gt=0, description="Training: a peer that is silent for so long has failed.")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="Where training and embedding run.")
    tensorboard: bool = Field(False, description="Write the curves of the training for TensorBoard as well.")
    npy: bool = Field(False, description="Write embeddings.npy beside the Parquet file.")
    embed_memory_gb: float = Field(
        4.0, gt=0, description="Embedding: what it may allocate, beside the program and the files that it maps."
    )

    def for_tasks(self) -> RunnerSettings:
        """What a runner of tasks is told."""
        return RunnerSettings(**self.model_dump(include={field.name for field in fields(RunnerSettings)}))

    def for_training(self) -> TrainingSettings:
        """What the processes of a training are told."""
        low, _, high = str(self.train_workers).partition("-")
        workers = (int(low), int(high or low))
        return TrainingSettings(
            self.address, workers, self.worker_cpus, self.worker_gpus, self.timeout_s, self.max_failures
        )
