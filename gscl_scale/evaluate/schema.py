"""The shape of figures and statistics that are read again: what is shown of them must be there, and be numbers."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from gscl_scale.errors import FolderError
from gscl_scale.io.json import read_json
from gscl_scale.io.validate import Count, of_kind

Finite = Annotated[float, Field(ge=-1e12, le=1e12)]
Number = Finite | None
Several = Annotated[Count, Field(ge=1)]


def _share(text: str) -> str:
    float(text)
    return text


def read_metrics(path: Path) -> dict[str, Any]:
    """The figures of a run."""
    return _read(path, Metrics, flaw_of_metrics, "delete it and run gscl-scale evaluate again")


def read_statistics(path: Path) -> dict[str, Any]:
    """The statistics of a graph."""
    return _read(path, Statistics, _flaw_of_statistics, "delete it and run gscl-scale stats again")


def _read(path: Path, kind: Any, flaw: Callable[[dict[str, Any]], str], cure: str) -> dict[str, Any]:
    values = read_json(path, kind, cure)
    if found := flaw(values):
        raise FolderError(f"{path} is damaged: {found}; {cure}")
    return values


def flaw_of_metrics(metrics: dict[str, Any]) -> str:
    """What does not fit together in figures; "" where all does."""
    if hindrance := of_kind(Metrics, metrics):
        return hindrance
    if "probe" in metrics and (flaw := _flaw_of_probe(metrics)):
        return flaw
    if rings := metrics.get("rings"):
        levels = {len(rings["protocol"]["levels"]), len(rings["similarity"])}
        levels |= {len(part) for part in rings.get("distribution", {}).values()}
        if len(levels) > 1:
            return "rings: expected as many levels everywhere"
    return "spread: expected a width" if "spread" in metrics and "width" not in metrics else ""


def _flaw_of_probe(metrics: dict[str, Any]) -> str:
    probe = metrics["probe"]
    names = {name for name in ("trained", "untrained", "raw") if name in probe}
    if any(not names <= set(part) for part in metrics.get("probe_by_fraction", {}).values()):
        return "probe_by_fraction: expected the methods of probe"
    pairs = [*metrics.get("repeats", {}).get("runs", []), *probe.get("splits", [])]
    measured = {name for name in names if probe[name]["test_mean"] is not None}
    if any(name not in pair or pair[name]["test_mean"] is None for pair in pairs for name in measured):
        return "probe: expected a figure of each method for each split and run"
    return ""


def _flaw_of_statistics(statistics: dict[str, Any]) -> str:
    hops = len(statistics["ring_size"])
    columns = [statistics[name] for name in ("ring_size_se", "lc", "lc_se")]
    return "expected a number for each hop" if any(one and len(one) != hops for one in columns) or hops > _HOPS else ""


_HOPS = 100


class _Mean(TypedDict):
    val_mean: Number
    test_mean: Number
    best_epoch_mean: NotRequired[Number]


class _Accuracy(_Mean):
    val_std: NotRequired[Number]
    test_std: NotRequired[Number]
    val_se: NotRequired[Number]
    test_se: NotRequired[Number]
    weight_decay: NotRequired[Finite]
    scaling: NotRequired[Literal["none", "l2", "standard"]]


class _Three(TypedDict):
    trained: _Accuracy
    untrained: NotRequired[_Accuracy]
    raw: NotRequired[_Accuracy]


class _Compared(TypedDict):
    trained: _Mean
    untrained: NotRequired[_Mean]
    raw: NotRequired[_Mean]


class _Counts(TypedDict):
    train: Finite
    val: Finite
    test: Finite


class _LeftOut(TypedDict):
    chose: str
    share: Finite
    most: Count
    too_few: list[str]


class _ProbeProtocol(TypedDict):
    kind: str
    num_splits: Count
    counts: _Counts
    least_val: Count
    initialisations: Several
    epochs: Count
    rows_per_step: Count
    scaling: Literal["none", "l2", "standard", "auto"]
    selection: str
    left_out: NotRequired[_LeftOut]


class _Probe(_Three):
    splits: NotRequired[list[_Compared]]
    protocol: _ProbeProtocol


class _Nodes(TypedDict):
    algorithm: str
    nodes: Count
    labelled: Count
    sampled: bool
    seed: Any


class _Centres(_Nodes):
    k: Count
    n_init: Count


class _Clusters(TypedDict):
    nmi: Number
    nmi_untrained: NotRequired[Number]
    nmi_raw: NotRequired[Number]
    protocol: _Centres


class _Search(TypedDict):
    sim_at_5: Number
    sim_at_5_untrained: NotRequired[Number]
    sim_at_5_raw: NotRequired[Number]
    protocol: _Nodes


class _Level(TypedDict):
    pairs: Finite
    mean: Number
    quantiles: list[Finite]
    histogram: list[Finite]


class _RingsProtocol(TypedDict):
    levels: list[str]
    anchors: Count


class _Ranking(TypedDict):
    accuracy: Number


class _Rings(TypedDict):
    similarity: list[Number]
    ranking: NotRequired[_Ranking]
    ranking_untrained: NotRequired[_Ranking]
    ranking_raw: NotRequired[_Ranking]
    distribution: NotRequired[dict[str, list[_Level]]]
    protocol: _RingsProtocol


class _Spread(TypedDict):
    mean_cosine: Finite
    effective_rank: Number


class _Widths(TypedDict):
    trained: Count


class _Repeats(TypedDict):
    count: Count
    runs: list[dict[str, _Mean]]


class Metrics(TypedDict):
    """metrics.json of a run."""

    graph: NotRequired[dict[str, Any]]
    width: NotRequired[_Widths]
    missing: NotRequired[dict[str, str]]
    probe: NotRequired[_Probe]
    probe_by_fraction: NotRequired[dict[Annotated[str, AfterValidator(_share)], _Three]]
    clusters: NotRequired[_Clusters]
    search: NotRequired[_Search]
    rings: NotRequired[_Rings]
    spread: NotRequired[dict[str, _Spread]]
    repeats: NotRequired[_Repeats]
    made_from: NotRequired[dict[str, Any]]


class _Degrees(TypedDict):
    min: Finite
    mean: Finite
    median: Finite
    max: Finite


class _Walk(TypedDict):
    anchors: Count
    exact: bool
    seed: Any
    walk: str


class _Components(TypedDict):
    count: Count
    largest: Count


class Statistics(TypedDict):
    """statistics.json of a graph."""

    name: str
    nodes: Count
    edges: Count
    directed: bool
    features: Count
    classes: Count
    labelled: Count
    isolated: Count
    components: NotRequired[_Components]
    degree: _Degrees
    homophily: Number
    ring_size: list[Finite]
    ring_size_se: list[float] | None
    lc: list[Finite] | None
    lc_se: list[float] | None
    protocol: _Walk
    graph_fingerprint: str
