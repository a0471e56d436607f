"""metrics.json of a run: its types, for those who write and for those who read.

What is not required is absent from older files, or where it was not measured.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, cast

from pydantic import AfterValidator
from typing_extensions import TypedDict

from gscl_scale.errors import FolderError
from gscl_scale.evaluate.link_schema import Links
from gscl_scale.io.json import read_json
from gscl_scale.io.validate import Count, Finite, Positive, schema_error

Method = Literal["trained", "untrained", "raw"]  # whose vectors are measured
METHODS: tuple[Method, ...] = ("trained", "untrained", "raw")
ScalingKind = Literal["none", "l2", "standard"]

# the methods in words
TITLES: dict[Method, str] = {"raw": "input features", "untrained": "untrained encoder", "trained": "trained encoder"}
# the keys of figures that each method has one of
NMI: dict[Method, Literal["nmi", "nmi_untrained", "nmi_raw"]] = {
    "trained": "nmi", "untrained": "nmi_untrained", "raw": "nmi_raw",
}  # fmt: skip
SIM_AT_5: dict[Method, Literal["sim_at_5", "sim_at_5_untrained", "sim_at_5_raw"]] = {
    "trained": "sim_at_5", "untrained": "sim_at_5_untrained", "raw": "sim_at_5_raw",
}  # fmt: skip
SIMILARITY: dict[Method, Literal["similarity", "similarity_untrained", "similarity_raw"]] = {
    "trained": "similarity", "untrained": "similarity_untrained", "raw": "similarity_raw",
}  # fmt: skip
RANKING: dict[Method, Literal["ranking", "ranking_untrained", "ranking_raw"]] = {
    "trained": "ranking", "untrained": "ranking_untrained", "raw": "ranking_raw",
}  # fmt: skip


def _number(text: str) -> str:
    float(text)
    return text


Number = Finite | None  # None where there is nothing to measure
Fraction = Annotated[str, AfterValidator(_number)]  # of the labelled nodes, such as "0.2"


# --- metrics.json: the probe -----------------------------------------------------------------------------------------


class MeanAccuracy(TypedDict):
    """Mean accuracies of the probe.

    Where a node has many labels they are micro-F1, and `macro_mean` is the macro-F1 on test nodes. Where the protocol
    has a `measure`, they are that.
    """

    val_mean: Number
    test_mean: Number
    best_epoch_mean: NotRequired[Number]
    macro_mean: NotRequired[Number]


class Accuracy(MeanAccuracy):
    """Accuracies of the probe: `_std` within a run, `_se` the standard error of the mean."""

    val_std: NotRequired[Number]
    test_std: NotRequired[Number]
    val_se: NotRequired[Number]
    test_se: NotRequired[Number]
    macro_std: NotRequired[Number]
    macro_se: NotRequired[Number]
    weight_decay: NotRequired[Finite]
    scaling: NotRequired[ScalingKind]


class Accuracies(TypedDict):
    """The accuracy of each method."""

    trained: Accuracy
    untrained: NotRequired[Accuracy]
    raw: NotRequired[Accuracy]


class SplitAccuracy(TypedDict):
    """The accuracy of each method on one split, and the number of nodes in its parts."""

    trained: MeanAccuracy
    untrained: NotRequired[MeanAccuracy]
    raw: NotRequired[MeanAccuracy]
    name: NotRequired[str]
    train: NotRequired[Finite]
    val: NotRequired[Finite]
    test: NotRequired[Finite]


class SplitCounts(TypedDict):
    """The number of nodes in each part of a split."""

    train: Count
    val: Count
    test: Count


class LeftOut(TypedDict):
    """Test nodes that are left out, because their labels chose something."""

    chose: str
    share: Finite
    most: Count
    too_few: list[str]


class LabelsProtocol(TypedDict):
    """What is different where a node has many labels; `labels` is their number."""

    labels: NotRequired[Count]
    val_fraction: NotRequired[Number]
    initialisations: Positive
    epochs: Count
    weight_decays: NotRequired[list[Finite]]
    selection: str


class ProbeProtocol(LabelsProtocol):
    """How accuracy was measured."""

    kind: Literal["published", "random"]
    measure: NotRequired[Literal["roc_auc"]]
    train_fraction: NotRequired[Number]
    num_splits: Count
    counts: SplitCounts
    least_val: Count
    learning_rate: NotRequired[Finite]
    rows_per_step: Count
    val_by_decay: NotRequired[dict[Method, dict[Fraction, Number]]]
    scaling: Literal["none", "l2", "standard", "auto"]
    seed: NotRequired[int]
    left_out: NotRequired[LeftOut]


class Probe(Accuracies):
    """The probe on all splits of one train fraction, or on the published splits."""

    splits: NotRequired[list[SplitAccuracy]]
    protocol: ProbeProtocol


# --- metrics.json: clusters, search, rings ---------------------------------------------------------------------------


class Sampling(TypedDict):
    """The number of labelled nodes, of those measured, and whether these are a sample."""

    nodes: Count
    labelled: Count
    sampled: bool


class SearchProtocol(Sampling):
    """How nodes were searched."""

    algorithm: str
    seed: int


class ClustersProtocol(Sampling):
    """How clusters were made."""

    algorithm: str
    seed: int
    k: Count
    n_init: Count


class Clusters(TypedDict):
    """Normalised mutual information of clusters and classes."""

    nmi: Number
    nmi_untrained: NotRequired[Number]
    nmi_raw: NotRequired[Number]
    nmi_se: NotRequired[Number]
    nmi_untrained_se: NotRequired[Number]
    nmi_raw_se: NotRequired[Number]
    protocol: ClustersProtocol


class Search(TypedDict):
    """Share of the 5 nearest nodes that have the class of the query."""

    sim_at_5: Number
    sim_at_5_untrained: NotRequired[Number]
    sim_at_5_raw: NotRequired[Number]
    sim_at_5_se: NotRequired[Number]
    sim_at_5_untrained_se: NotRequired[Number]
    sim_at_5_raw_se: NotRequired[Number]
    protocol: SearchProtocol


class RingLevel(TypedDict):
    """Cosines of anchors and the members of one ring."""

    pairs: Finite
    mean: Number
    quantiles: list[Finite]
    histogram: list[Finite]


class Ranking(TypedDict):
    """Share of pairs in which the nearer node is the more similar one; `by_hop` for each ring."""

    accuracy: Number
    by_hop: list[Number]


class RingsProtocol(TypedDict):
    """How rings were compared."""

    levels: list[str]
    anchors: Count
    anchors_held_out: NotRequired[bool]
    members: NotRequired[str]
    pairs_per_hop: NotRequired[Count]
    ranking: NotRequired[str]
    quantiles: NotRequired[list[Finite]]
    histogram: NotRequired[str]
    seed: NotRequired[int]


class Rings(TypedDict):
    """Similarity of anchors and the members of their rings, one number per hop and a last one for nodes beyond."""

    similarity: list[Number]
    similarity_untrained: NotRequired[list[Number]]
    similarity_raw: NotRequired[list[Number]]
    ranking: NotRequired[Ranking]
    ranking_untrained: NotRequired[Ranking]
    ranking_raw: NotRequired[Ranking]
    distribution: NotRequired[dict[Method, list[RingLevel]]]
    protocol: RingsProtocol


# --- metrics.json: the whole file ------------------------------------------------------------------------------------


class MeasuredGraph(TypedDict):
    """The graph whose nodes were embedded."""

    name: NotRequired[str]
    nodes: NotRequired[Count]
    fingerprint: NotRequired[str]
    shuffled_labels: NotRequired[Count]


class Spread(TypedDict):
    """Signs of collapsed vectors."""

    mean_cosine: Finite
    effective_rank: Number


class Repeat(TypedDict, total=False):
    """The accuracy of each method in one repeat."""

    trained: MeanAccuracy
    untrained: MeanAccuracy
    raw: MeanAccuracy


class Repeats(TypedDict):
    """The runs whose means the figures are."""

    count: Count
    seeds: NotRequired[list[int | None]]
    runs: list[Repeat]


class MadeFrom(TypedDict, total=False):
    """What the figures were measured on and with: if it is the same again, they are not measured again."""

    embeddings: str
    evaluate: dict[str, object]
    selection: str


class Metrics(TypedDict):
    """metrics.json of a run; `missing` gives the reason for each section that was not measured.

    cure   what to set, where the embeddings have collapsed
    """

    graph: NotRequired[MeasuredGraph]
    width: NotRequired[dict[Method, Count]]
    missing: NotRequired[dict[str, str]]
    probe: NotRequired[Probe]
    probe_by_fraction: NotRequired[dict[Fraction, Accuracies]]
    clusters: NotRequired[Clusters]
    search: NotRequired[Search]
    rings: NotRequired[Rings]
    links: NotRequired[Links]
    spread: NotRequired[dict[Method, Spread]]
    cure: NotRequired[str]
    repeats: NotRequired[Repeats]
    made_from: NotRequired[MadeFrom]


# --- reading ---------------------------------------------------------------------------------------------------------


def read_metrics(path: Path) -> Metrics:
    """The figures of a run."""
    cure = "delete it and run gscl-scale evaluate again"
    values: Any = read_json(path, Metrics, cure)
    if flaw := _flaw_of_metrics(values):
        raise FolderError(f"{path} is damaged: {flaw}; {cure}")
    return values


def flaw_of_metrics(values: object) -> str:
    """Why these values are no metrics; "" where they are."""
    return schema_error(Metrics, values) or _flaw_of_metrics(cast(Metrics, values))


def _flaw_of_metrics(metrics: Metrics) -> str:
    if "probe" in metrics and (flaw := _flaw_of_probe(metrics, metrics["probe"])):
        return flaw
    if rings := metrics.get("rings"):
        levels = {len(rings["protocol"]["levels"]), len(rings["similarity"])}
        levels |= {len(part) for part in rings.get("distribution", {}).values()}
        if len(levels) > 1:
            return "rings: expected as many levels everywhere"
    return "spread: expected a width" if "spread" in metrics and "trained" not in metrics.get("width", {}) else ""


def _flaw_of_probe(metrics: Metrics, probe: Probe) -> str:
    names = [name for name in METHODS if name in probe]
    if any(name not in part for part in metrics.get("probe_by_fraction", {}).values() for name in names):
        return "probe_by_fraction: expected the methods of probe"
    pairs: list[Repeat | SplitAccuracy] = [*metrics.get("repeats", {}).get("runs", []), *probe.get("splits", [])]
    measured = [name for name in names if probe[name]["test_mean"] is not None]
    if any(name not in pair or pair[name]["test_mean"] is None for pair in pairs for name in measured):
        return "probe: expected a figure of each method for each split and run"
    return ""
