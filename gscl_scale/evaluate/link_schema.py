"""The part of metrics.json on link prediction."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from gscl_scale.io.validate import Count, Finite, Positive

LinkMethod = Literal["trained", "untrained", "raw", "adamic_adar", "preferential_attachment"]
LinkTask = Literal["random", "degree_matched"]  # how the far ends of non-edges are drawn
LINK_TASKS: tuple[LinkTask, ...] = ("random", "degree_matched")
LinkFigure = Literal["auc", "average_precision", "hits_at_10", "mrr"]
LINK_FIGURES: tuple[LinkFigure, ...] = ("auc", "average_precision", "hits_at_10", "mrr")


class LinkFigures(TypedDict):
    """How well a score tells held-out edges from non-edges; `auc_by_part` is of equal parts of the edges."""

    auc: Finite
    average_precision: Finite
    hits_at_10: Finite
    mrr: Finite
    auc_by_part: NotRequired[list[Finite]]
    auc_se: NotRequired[Finite]
    average_precision_se: NotRequired[Finite]
    hits_at_10_se: NotRequired[Finite]
    mrr_se: NotRequired[Finite]


class LinkTasks(TypedDict):
    """The figures against both kinds of non-edges, and what a choice may rest on: the AUC of edges for validation."""

    random: LinkFigures
    degree_matched: LinkFigures
    validation_auc: NotRequired[Finite]


class LinksProtocol(TypedDict):
    """How links were measured: `edges` of `test` held-out ones; `validation` ones may choose something."""

    edges: Count
    test: Count
    validation: Count
    sampled: bool
    non_edges: Positive
    score: str
    seed: int


class Links(TypedDict):
    """Link prediction by each method's vectors, and by two figures of the remaining edges."""

    trained: LinkTasks
    untrained: NotRequired[LinkTasks]
    raw: NotRequired[LinkTasks]
    adamic_adar: LinkTasks
    preferential_attachment: LinkTasks
    protocol: LinksProtocol
