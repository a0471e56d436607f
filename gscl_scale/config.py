"""The configuration: one frozen section per stage, checked before anything starts."""

import difflib
import os
import string
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from gscl_scale.errors import ConfigError


class Section(BaseModel):
    """A frozen part of the configuration that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class _GraphSection(Section):
    name: str = Field("", description="Name of the graph in figures and folders; by default taken from the source.")
    undirected: bool = Field(True, description="Walk every edge both ways; false keeps the direction of the edges.")
    structural_features: int = Field(
        128, ge=8, description="Width of the features made from the structure where the graph brings none."
    )
    memory_mb: int = Field(1024, ge=16, description="Memory that sorting the edges may take; the rest waits on disk.")


class DigitsGraph(_GraphSection):
    """scikit-learn's bundled digits as a graph of nearest neighbours."""

    source: Literal["digits"] = Field("digits", description="The quick start: 1,797 images, no download.")
    neighbours: int = Field(10, ge=1, le=100, description="Each image is joined to this many nearest others.")


class SyntheticGraph(_GraphSection):
    """A seeded graph with communities and power-law degrees."""

    source: Literal["synthetic"] = Field(description="A seeded graph with communities and power-law degrees.")
    preset: Literal["tiny", "small", "arxiv", "large"] = Field(
        "small", description="tiny: 300 nodes; small: 3,000; arxiv: 169,343; large: 10,000,000."
    )
    num_nodes: int | None = Field(None, ge=10, description="Number of nodes, in place of the preset's.")
    mean_degree: float | None = Field(None, gt=0, description="Undirected edges drawn per node times two.")
    num_features: int | None = Field(None, ge=1, description="Width of the features, in place of the preset's.")
    seed: int = Field(0, ge=0, description="Seed of the graph.")


class NpzGraph(_GraphSection):
    """One numpy file; see docs/graphs.md for its arrays."""

    source: Literal["npz"] = Field(description="One numpy file in our import format, see docs/graphs.md.")
    path: Path = Field(description="The .npz file.")


class TablesGraph(_GraphSection):
    """Edge and node tables, Parquet or CSV."""

    source: Literal["tables"] = Field(description="Edge and node tables, Parquet or CSV.")
    edges: Path = Field(description="Edge table: a Parquet or CSV file, or a folder of them.")
    nodes: Path | None = Field(None, description="Node table; without one the nodes are those that edges name.")
    source_column: str = Field("source", description="Edge table: column of the source's id.")
    target_column: str = Field("target", description="Edge table: column of the target's id.")
    id_column: str = Field("id", description="Node table: column of the node's id.")
    label_column: str | None = Field("label", description="Node table: column of the label, if there is one.")
    split_column: str | None = Field("split", description="Node table: column with train, val or test, if any.")
    feature_columns: list[str] | None = Field(
        None, description="Node table: feature columns, numbers or lists of numbers; by default all that remain."
    )


class OgbGraph(_GraphSection):
    """A node-property data set of the Open Graph Benchmark."""

    source: Literal["ogb"] = Field(description="A node-property data set of the Open Graph Benchmark.")
    dataset: str = Field(description="The data set's name, such as ogbn-arxiv.")
    path: Path = Field(Path("data"), description="Folder where the ogb package keeps its data sets.")


class PygGraph(_GraphSection):
    """A data set of torch-geometric."""

    source: Literal["pyg"] = Field(description="A data set of torch-geometric.")
    dataset: str = Field(description="Class and name, such as Planetoid/Cora, WikiCS, Amazon/Photo or Actor.")
    path: Path = Field(Path("data"), description="Folder where torch-geometric keeps its data sets.")


class MemoryGraph(_GraphSection):
    """A graph that a Python program handed over."""

    source: Literal["memory"] = Field("memory", description="A graph handed to gscl_scale.fit; not for files.")


GraphConfig = Annotated[
    DigitsGraph | SyntheticGraph | NpzGraph | TablesGraph | OgbGraph | PygGraph | MemoryGraph,
    Field(discriminator="source"),
]


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


class RingsConfig(Section):
    """Which rings are sampled, and how."""

    hops: int = Field(2, ge=1, le=8, description="Rings per anchor: k of the paper.")
    engine: Literal["auto", "exact", "sketch"] = Field(
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
    rounds: Annotated[int | Literal["epoch"], BeforeValidator(_check_rounds)] = Field(
        "epoch", description="Independent samples of everything; epoch: a fresh one for each epoch of training."
    )
    disk_gb: float = Field(20.0, gt=0, description="Disk that the samples may take; rounds stop there and are reused.")
    ahead: int = Field(
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
        return self


class ModelConfig(Section):
    """The encoder and the projection head."""

    encoder: Literal["gcn", "sage", "gat"] = Field("gcn", description="Kind of layer.")
    layers: int = Field(1, ge=1, le=8, description="Number of layers.")
    width: int = Field(256, ge=1, description="Width of every layer, and of the embeddings.")
    activation: Literal["relu", "prelu", "rrelu"] = Field("prelu", description="After every layer.")
    feature_scaling: Literal["none", "row", "standard"] = Field(
        "none", description="row: each node's features sum to one; standard: each column has mean 0 and deviation 1."
    )
    feature_dropout: float = Field(0.0, ge=0, lt=1, description="Share of feature values dropped in each step.")
    projection: int = Field(256, ge=1, description="Width of the two-layer projection head.")


class LossConfig(Section):
    """The ranking loss."""

    ranking: Literal["listwise", "pairwise"] = Field("listwise", description="A ring against all farther, or each.")
    positives: Literal["in", "out"] = Field("in", description="Sum over the ring's members inside or outside the log.")
    temperature: float = Field(0.5, gt=0, description="Temperature of ring 1.")
    temperature_step: float = Field(0.0, ge=0, description="Added to the temperature with each ring.")
    gate: float = Field(1.0, gt=0, le=1, description="A ratio above it pulls no more; 1 means no gate.")
    weighing: Literal["raw", "size"] = Field(
        "raw", description="raw: sums over the sample; size: scaled up to the whole ring."
    )


class TrainConfig(Section):
    """The training loop."""

    epochs: int = Field(100, ge=1, description="Passes over all anchors.")
    batch_size: int = Field(1024, ge=1, description="Anchors per step.")
    negatives: int = Field(512, ge=0, description="Shared candidates drawn per step from the decided nodes beyond.")
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
    checkpoint_every: int = Field(10, ge=1, description="Epochs between checkpoints.")
    seed: int = Field(0, ge=0, description="Seed of weights, order, dropout and negatives.")
    repeats: int = Field(
        1, ge=1, description="Repeat the run with this many seeds; figures are then means with standard errors."
    )

    @model_validator(mode="after")
    def _patience_needs_validation(self) -> "TrainConfig":
        if self.patience and not self.validate_every:
            raise ValueError("patience needs validate_every; set train.validate_every to 1 or more")
        return self


class EvaluateConfig(Section):
    """The evaluation protocol."""

    split: Literal["auto", "published", "random"] = Field(
        "auto", description="Splits of the graph where it has some, else random ones; or always one kind."
    )
    train_fractions: list[Annotated[float, Field(gt=0, lt=1)]] = Field(
        [0.1], min_length=1, description="Random splits: shares of labelled nodes to train the probe on."
    )
    val_fraction: float = Field(0.1, gt=0, lt=1, description="Random splits: share of labelled nodes to validate on.")
    random_splits: int = Field(5, ge=1, description="Random splits for each train fraction.")
    initialisations: int = Field(20, ge=1, description="Random initialisations of the probe per split.")
    probe_epochs: int = Field(300, ge=1, description="Adam steps of the probe.")
    probe_learning_rate: float = Field(0.01, gt=0, description="Learning rate of the probe.")
    probe_weight_decay: list[Annotated[float, Field(ge=0)]] = Field(
        [0.0, 1e-4, 1e-3, 1e-2],
        min_length=1,
        description="Weight decays of the probe; each method keeps the best on validation.",
    )
    probe_scaling: Literal["none", "l2", "standard"] = Field(
        "l2", description="Rows before the probe: as they are, of length one, or standardised per column."
    )
    sample: int = Field(
        20000, ge=100, description="Most nodes in clustering, search and ring similarity; larger graphs are sampled."
    )
    seed: int = Field(0, ge=0, description="Seed of splits, probes and samples.")

    @model_validator(mode="after")
    def _shares_leave_test_nodes(self) -> "EvaluateConfig":
        if max(self.train_fractions) + self.val_fraction >= 1:
            raise ValueError("train_fractions and val_fraction leave no test nodes; their sum must stay below 1")
        return self


class RuntimeConfig(Section):
    """How the work runs; never changes a result."""

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
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="Where training and embedding run.")
    npy: bool = Field(False, description="Write embeddings.npy beside the Parquet file.")


class Config(Section):
    """The whole configuration."""

    graph: GraphConfig = Field(default_factory=DigitsGraph, description="Where the graph comes from.")
    rings: RingsConfig = Field(default_factory=RingsConfig, description="Which rings are sampled, and how.")
    model: ModelConfig = Field(default_factory=ModelConfig, description="Encoder and projection head.")
    loss: LossConfig = Field(default_factory=LossConfig, description="The ranking loss.")
    train: TrainConfig = Field(default_factory=TrainConfig, description="The training loop.")
    evaluate: EvaluateConfig = Field(default_factory=EvaluateConfig, description="The evaluation protocol.")
    runtime: RuntimeConfig = Field(default_factory=RuntimeConfig, description="How the work runs.")

    @classmethod
    def load(cls, path: Path | None, settings: list[str] | None = None) -> "Config":
        """Read a YAML file, apply `section.key=value` settings, and check the whole."""
        values = _read_yaml(path) if path else {}
        for setting in settings or []:
            _apply(values, setting)
        return cls.parse(values)

    @classmethod
    def parse(cls, values: dict[str, Any]) -> "Config":
        """Check plain values, as read from YAML."""
        if isinstance(values.get("graph"), dict):
            values = {**values, "graph": {"source": "digits", **_expand(values["graph"])}}
        _refuse_true_as_number(values)
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise ConfigError(_explain(error, values)) from None

    def dump(self) -> dict[str, Any]:
        """Plain values, ready for JSON or YAML."""
        return self.model_dump(mode="json")


def schema_rows() -> list[tuple[str, str, str, str]]:
    """Every key as (dotted key, type, default, sentence)."""
    rows = []
    for source in get_args(get_args(GraphConfig)[0]):
        if source is not MemoryGraph:
            kind = get_args(source.model_fields["source"].annotation)[0]
            rows += _section_rows(source, "graph", f" [source {kind}]")
    for name, field in Config.model_fields.items():
        if name != "graph":
            assert isinstance(field.annotation, type)
            rows += _section_rows(field.annotation, name, "")
    return rows


def _section_rows(section: type[BaseModel], prefix: str, note: str) -> list[tuple[str, str, str, str]]:
    rows = []
    for name, field in section.model_fields.items():
        default = "required" if field.is_required() else str(field.get_default(call_default_factory=True))
        if name == "source":
            default = "digits" if section is DigitsGraph else "-"
        rows.append((f"{prefix}.{name}{note}", _type_name(field.annotation), default, field.description or ""))
    return rows


def _type_name(annotation: Any) -> str:
    if get_origin(annotation) is Annotated:
        return _type_name(get_args(annotation)[0])
    if get_origin(annotation) is Literal:
        return " | ".join(map(str, get_args(annotation)))
    if get_origin(annotation) is list:
        return f"list of {_type_name(get_args(annotation)[0])}"
    if arguments := get_args(annotation):
        return " | ".join(_type_name(part) for part in arguments)
    return {"NoneType": "none", "str": "text", "int": "number", "float": "number", "bool": "true | false"}.get(
        annotation.__name__, annotation.__name__.lower()
    )


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"config file {path} does not exist; check --config") from None
    except IsADirectoryError:
        raise ConfigError(f"config file {path} is a folder; give --config a YAML file") from None
    except UnicodeDecodeError:
        raise ConfigError(f"config file {path} is not UTF-8 text; give --config a YAML file") from None
    except yaml.YAMLError as error:
        where = " ".join(str(error).split())
        raise ConfigError(f"config file {path} is not valid YAML: {where}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"config file {path}: expected sections such as 'graph:', got {type(values).__name__}")
    return values


def _apply(values: dict[str, Any], setting: str) -> None:
    dotted, equals, text = setting.partition("=")
    section, dot, name = dotted.strip().partition(".")
    if not (equals and dot and name):
        raise ConfigError(f"--set {setting!r}: expected section.key=value, such as --set train.epochs=50")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise ConfigError(f"{dotted}: cannot read the value {text!r}; put text with special signs in quotes") from None
    part = values.setdefault(section, {})
    if part is None:
        part = values[section] = {}
    if not isinstance(part, dict):
        raise ConfigError(f"{section}: expected a section with keys, got {part!r}; write keys below '{section}:'")
    part[name] = value


def _expand(graph: dict[str, Any]) -> dict[str, Any]:
    """Replace $NAME in the paths of the graph section by the environment's value."""
    expanded = {}
    for name, value in graph.items():
        if name in ("path", "edges", "nodes") and isinstance(value, str) and "$" in value:
            try:
                value = string.Template(value).substitute(os.environ)
            except KeyError as error:
                raise ConfigError(
                    f"graph.{name}: the environment variable {error.args[0]} is not set; "
                    f"export {error.args[0]}=FOLDER, or write the path in full with --set graph.{name}=PATH"
                ) from None
            except ValueError:
                raise ConfigError(f"graph.{name}: expected $NAME in {value!r}, got a lone $; write $$ for it") from None
        expanded[name] = value
    return expanded


def _refuse_true_as_number(values: dict[str, Any]) -> None:
    """Python counts true as 1; a config file must not."""
    for name, field in Config.model_fields.items():
        part, section = values.get(name), field.annotation
        if not (isinstance(part, dict) and isinstance(section, type) and issubclass(section, BaseModel)):
            continue
        numbers = {key for key, known in section.model_fields.items() if known.annotation in (int, float)}
        for key in numbers & set(part):
            if isinstance(part[key], bool):
                raise ConfigError(f"{name}.{key}: expected a number, got {part[key]}; see gscl-scale config --schema")


def _explain(error: ValidationError, values: dict[str, Any]) -> str:
    """One sentence for the first thing that is wrong."""
    problems = error.errors(include_url=False)
    first = problems[0]
    sources = {get_args(s.model_fields["source"].annotation)[0]: s for s in get_args(get_args(GraphConfig)[0])}
    location = [str(part) for part in first["loc"]]
    section: type[BaseModel] | None = Config
    if location[:1] == ["graph"] and len(location) > 1 and location[1] in sources:
        section = sources[location.pop(1)]
    elif len(location) > 1 and location[0] in Config.model_fields:
        annotation = Config.model_fields[location[0]].annotation
        section = annotation if isinstance(annotation, type) else None
    dotted = ".".join(part for part in location if not part.startswith("function-") and part not in ("int", "str"))
    more = f" ({len(problems) - 1} more problem{'s' * (len(problems) > 2)} after this one)" if len(problems) > 1 else ""
    kind = first["type"]
    if kind == "extra_forbidden":
        known = list((section or Config).model_fields)
        close = difflib.get_close_matches(location[-1], known, n=1)
        cure = f"did you mean {close[0]}?" if close else f"known here: {', '.join(known)}"
        return f"{dotted}: unknown key; {cure}{more}"
    if kind == "missing":
        return f"{dotted}: required and not given; add it to the config, or --set {dotted}=VALUE{more}"
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        known_sources = ", ".join(name for name in sources if name != "memory")
        got = values.get("graph", {}).get("source")
        return f"graph.source: expected one of {known_sources}, got {got!r}{more}"
    message = first["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    got = f", got {first['input']!r}" if not isinstance(first["input"], dict) else ""
    return f"{dotted}: {message}{got}; see gscl-scale config --schema{more}"
