"""The tables and figures that are reproduced: settings, graphs, and what the paper reports.

Source of all published figures: "Graph Soft-Contrastive Learning via Neighborhood Ranking", its tables of
classification, heterophily, ogbn-arxiv, clustering and search, and InfoNCE variants.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from gscl_scale.studies.peers.table import PEERS
from gscl_scale.studies.reproduce.published import OF_OTHERS
from gscl_scale.train.objectives.methods import METHODS

Measure = Literal["accuracy", "roc_auc", "validation", "nmi", "sim_at_5", "similarity", "consistency"]

HOMOPHILOUS = ("cora", "citeseer", "pubmed", "wikics", "computers", "photo", "coauthor_cs")
HETEROPHILOUS = ("chameleon", "squirrel", "actor")
FILTERED = ("chameleon_filtered", "squirrel_filtered")
FURTHER = ("coauthor_physics", "facebook_pages", *FILTERED, "amazon_ratings", "tolokers", "minesweeper")
FEATURELESS = {
    "cora": "cora.npz", "citeseer": "citeseer.npz", "pubmed": "pubmed.npz", "computers": "computers.npz",
    "photo": "photo.npz", "facebook_pages": "facebook_pages.npz", "lastfm_asia": "lastfm_asia_structure.npz",
    "flickr": "flickr_structure.npz", "blogcatalog": "blogcatalog_multilabel.npz", "ppi": "ppi_node2vec.npz",
    "wikipedia": "wikipedia_pos.npz",
}  # fmt: skip
BETTER = "GSCL, better on validation"  # the name of a line that is one of others
DATA = "GSCL_DATA"  # the folder of data sets in the configs; without it
OF_PYG = {  # torch-geometric brings these
    "cora": "Planetoid/Cora", "citeseer": "Planetoid/CiteSeer", "pubmed": "Planetoid/PubMed",
    "computers": "Amazon/Computers", "photo": "Amazon/Photo", "coauthor_cs": "Coauthor/CS",
    "coauthor_physics": "Coauthor/Physics",
    "chameleon": "WikipediaNetwork/chameleon", "squirrel": "WikipediaNetwork/squirrel", "actor": "Actor",
    "amazon_ratings": "HeterophilousGraphDataset/Amazon-ratings",
    "tolokers": "HeterophilousGraphDataset/Tolokers", "minesweeper": "HeterophilousGraphDataset/Minesweeper",
}  # fmt: skip
_TASKS = ("wikics", "computers", "photo")
_VARIANTS = ("cora", "citeseer", "wikics", "photo")


@dataclass(frozen=True)
class Line:
    """A line of a table: settings over the config of each graph, and whose figures they are.

    settings   what makes the line, whatever the user sets
    of         trained, or what every run measures too: the untrained encoder and the raw features
    method     one of those of `compare`, with its own settings and those that the config has for it
    peer       an embedding of the structure alone, with its own settings and those in `compare.settings`
    defaults   what it has where the user sets nothing else
    ours       the method of `compare` that a line without `method` is: one of GSCL's
    """

    name: str
    settings: tuple[str, ...] = ()
    of: Literal["trained", "untrained", "raw"] = "trained"
    method: str | None = None
    peer: str | None = None
    defaults: tuple[str, ...] = ()
    ours: str | None = None

    @property
    def compared_as(self) -> str | None:
        """Its name among the methods of `compare`; None where it stands for a setting."""
        return (self.method or self.peer or self.ours) if self.of == "trained" else self.of


@dataclass(frozen=True)
class Table:
    """What is measured, and what is published of it, by (line, graph, measure) in per cent or as a share.

    better     lines of which the one that is better on validation is shown in a line of its own
    ahead      the line of which it is said how far it is ahead of all others
    against    the line that the others are compared with, in standard deviations
    shape      a table, or with a picture of the first measure along the lines, or of each line along the hops
    files      of graphs without a config, in the folder of data sets; their features are of the structure alone
    columns    the most graphs that stand side by side
    """

    title: str
    graphs: tuple[str, ...]
    lines: tuple[Line, ...]
    measures: tuple[Measure, ...] = ("accuracy",)
    published: Mapping[tuple[str, str, Measure], float] = field(default_factory=dict)
    better: tuple[str, ...] = ()
    ahead: str | None = None
    against: str | None = None
    shape: Literal["table", "along lines", "along hops"] = "table"
    files: Mapping[str, str] = field(default_factory=dict)
    columns: int = 12


def _ranked(*settings: str, suffix: str = "") -> tuple[Line, Line]:
    return (
        Line(f"GSCL pairwise{suffix}", ("loss.ranking=pairwise", *settings), ours="gscl-pairwise"),
        Line(f"GSCL listwise{suffix}", ("loss.ranking=listwise", *settings), ours="gscl-listwise"),
    )


PAIRWISE, LISTWISE = _ranked()
PAIRWISE_OUT, LISTWISE_OUT = _ranked("loss.positives=out", suffix=", out")
RAW = Line("raw features", LISTWISE.settings, "raw")
UNTRAINED = Line("untrained encoder", LISTWISE.settings, "untrained")
_MEASURED = ("supervised", "dgi", "grace", "bgrl", "cca-ssg", "first-hop")  # methods with cells in these tables
_BASELINES = [Line(METHODS[name].title, method=name) for name in _MEASURED]
_GSCL = (RAW, UNTRAINED, PAIRWISE, LISTWISE)
_ALL = (RAW, UNTRAINED, *_BASELINES, PAIRWISE, LISTWISE)
_EVERY = (
    RAW,
    UNTRAINED,
    *(Line(peer.title, peer=name) for name, peer in PEERS.items()),
    *(Line(method.title, method=name) for name, method in METHODS.items() if not name.startswith("gscl")),
    PAIRWISE,
    LISTWISE,
)
_TITLES = {name: line.name for line in _EVERY if (name := line.peer or line.method)}
_RANKED = (PAIRWISE.name, LISTWISE.name)


def _published(
    graphs: tuple[str, ...], by_line: Mapping[str, tuple[float | None, ...]], measure: Measure = "accuracy"
) -> dict[tuple[str, str, Measure], float]:
    ours = {
        "raw": RAW, "pairwise": PAIRWISE, "listwise": LISTWISE, "pairwise_out": PAIRWISE_OUT,
        "listwise_out": LISTWISE_OUT,
    }  # fmt: skip
    return {
        (ours[line].name if line in ours else _TITLES[line], graph, measure): value
        for line, values in by_line.items()
        for graph, value in zip(graphs, values, strict=True)
        if value is not None
    }


def _varied(key: str, *values: str) -> tuple[Line, ...]:
    return tuple(Line(value, (f"{key}={value}",)) for value in values)


_RANDOM = ("evaluate.split=random", "evaluate.random_splits=10", "evaluate.initialisations=2")
_SHORT = ("evaluate.probe_epochs=300",)  # is enough for the trained vectors of GSCL, which alone are compared there
_ONE_PROBE = (
    "evaluate.probe_scaling=auto",
    "evaluate.initialisations=1",
    "evaluate.random_splits=10",
    "model.feature_dropout=0",  # as auto has it for features of the structure; named so that cells keep their names
)
_PEERS = (
    Line("spectral", defaults=_ONE_PROBE, peer="spectral"),
    Line("Cleora, 8 iterations", ("compare.settings={cleora: [iterations=8]}",), peer="cleora", defaults=_ONE_PROBE),
    Line("Cleora, 32 iterations", ("compare.settings={cleora: [iterations=32]}",), peer="cleora", defaults=_ONE_PROBE),
    Line("ProNE", defaults=_ONE_PROBE, peer="prone"),
    Line("DeepWalk", defaults=_ONE_PROBE, peer="deepwalk"),
    Line("node2vec", defaults=_ONE_PROBE, peer="node2vec"),
)
_SOME = ("rings.per_ring=16",)  # the sketch engine makes samples, not whole rings
_FOUR_HOPS = ("rings.hops=4", *_SOME)
_AS_IT_IS = "shared priorities, all messages, sketch engine"
_AS_CONFIGURED = "as configured"

TABLES: dict[str, Table] = {
    "main": Table(
        "Node classification on homophilous graphs",
        HOMOPHILOUS,
        _GSCL,
        published=_published(
            HOMOPHILOUS,
            {
                "raw": (47.9, 49.3, 69.1, 71.98, 73.81, 78.53, 90.37),
                "pairwise": (84.4, 73.7, 82.2, 80.14, 90.14, 93.42, 93.53),
                "listwise": (84.5, 73.6, 82.7, 80.16, 89.99, 93.40, 93.50),
            },
        ),
        better=_RANKED,
    ),
    "heterophily": Table(
        "Node classification on heterophilous graphs, as published and with duplicate nodes removed",
        (*HETEROPHILOUS, *FILTERED),
        _GSCL,
        published=_published(HETEROPHILOUS, {"pairwise": (69.25, 57.67, 30.32), "listwise": (69.06, 57.53, 30.23)}),
        better=_RANKED,
    ),
    "methods": Table(
        "GSCL and other methods under one protocol",
        (*HOMOPHILOUS, *HETEROPHILOUS, *FURTHER),
        _EVERY,
        ("accuracy", "roc_auc"),
        published=_published((*HOMOPHILOUS, *HETEROPHILOUS), OF_OTHERS),
        better=_RANKED,
        ahead=BETTER,
        columns=6,
    ),
    "random": Table(
        "The citation graphs by ten random splits for each seed, a tenth of the nodes to train and a tenth to validate",
        ("cora", "citeseer", "pubmed"),
        tuple(replace(line, settings=(*line.settings, *_RANDOM)) for line in _ALL),
        better=_RANKED,
        ahead=BETTER,
    ),
    "arxiv": Table(
        "Node classification on ogbn-arxiv",
        ("ogbn_arxiv",),
        _GSCL,
        ("accuracy", "validation"),
        published={
            **_published(("ogbn_arxiv",), {"pairwise": (72.06,), "listwise": (72.24,)}),
            **_published(("ogbn_arxiv",), {"pairwise": (72.69,), "listwise": (72.75,)}, "validation"),
        },
        better=_RANKED,
    ),
    "topology": Table(
        "The topology of ogbn-arxiv alone, with features of its structure",
        ("ogbn_arxiv_topology",),
        _ALL,
        ("accuracy", "validation"),
        better=_RANKED,
        ahead=BETTER,
    ),
    "featureless": Table(
        "Graphs without features: the default settings, what they read, and embeddings of the structure alone",
        (*FEATURELESS, "ogbn_arxiv"),
        (
            Line("structural features", of="raw", defaults=_ONE_PROBE),
            Line("untrained encoder", of="untrained", defaults=_ONE_PROBE),
            Line("GSCL", defaults=_ONE_PROBE, ours="gscl-listwise"),
            *_PEERS,
        ),
        ("accuracy", "validation"),
        ahead="GSCL",
        files={**FEATURELESS, "ogbn_arxiv": "ogbn_arxiv_structure.npz"},
    ),
    "tasks": Table(
        "Clustering and similarity search",
        _TASKS,
        _GSCL,
        ("nmi", "sim_at_5"),
        published={
            **_published(_TASKS, {"pairwise": (0.4354, 0.5643, 0.6935), "listwise": (0.4376, 0.5627, 0.6917)}, "nmi"),
            **_published(
                _TASKS, {"pairwise": (0.7919, 0.8992, 0.9302), "listwise": (0.7951, 0.8988, 0.9297)}, "sim_at_5"
            ),
        },
    ),
    "infonce": Table(
        "The sum over a ring inside the logarithm (in) or outside (out)",
        _VARIANTS,
        (PAIRWISE, PAIRWISE_OUT, LISTWISE, LISTWISE_OUT),
        published=_published(
            _VARIANTS,
            {
                "pairwise": (84.4, 73.7, 80.14, 93.42),
                "pairwise_out": (83.4, 73.1, 78.71, 93.16),
                "listwise": (84.5, 73.6, 80.16, 93.40),
                "listwise_out": (83.4, 73.3, 78.94, 93.18),
            },
        ),
    ),
    "hops": Table(
        "Number of ranked hops",
        ("cora", "citeseer", "computers", "photo", "chameleon", "actor"),
        _varied("rings.hops", "1", "2", "3", "4"),
        shape="along lines",
    ),
    "sampling": Table(
        "Whole rings, and 20 % of each ring sampled uniformly or by PageRank",
        ("wikics", "computers"),
        (
            Line("whole rings", ("rings.per_ring=all",), defaults=_SHORT),
            Line("uniform, 20 %", ("rings.per_ring=ratio:0.2", "rings.sampling=uniform"), defaults=_SHORT),
            Line("PageRank, 20 %", ("rings.per_ring=ratio:0.2", "rings.sampling=pagerank"), defaults=_SHORT),
        ),
        shape="along lines",
    ),
    "gates": Table(
        "Gate: terms whose ratio exceeds it get no gradient",
        ("cora", "photo"),
        _varied("loss.gate", "0.0001", "0.001", "0.01", "0.1", "0.3", "0.5", "0.7", "1"),
        shape="along lines",
    ),
    "width": Table(
        "Width of the embeddings",
        ("computers", "coauthor_cs"),
        _varied("model.width", "64", "128", "256", "512", "1024"),
        shape="along lines",
    ),
    "similarity": Table(
        "Mean cosine of an anchor and the members of its rings, then nodes beyond",
        ("wikics", "computers"),
        (
            Line("untrained encoder", _FOUR_HOPS, "untrained", defaults=_SHORT),
            Line("GSCL", _FOUR_HOPS, defaults=_SHORT),
        ),
        ("similarity",),
        shape="along hops",
    ),
    "consistency": Table(
        "Label consistency of the rings: share of a ring's nodes that have the anchor's label",
        (*HOMOPHILOUS, *HETEROPHILOUS),
        (Line("graph"),),
        ("consistency",),
        shape="along hops",
    ),
    "ablation": Table(
        "What each choice of the configs is worth",
        ("cora", "citeseer", "photo"),
        tuple(
            Line(name, tuple(settings), defaults=_SHORT)
            for name, *settings in (
                (_AS_CONFIGURED,),
                ("no feature dropout", "model.feature_dropout=0"),
                ("feature dropout 0.5", "model.feature_dropout=0.5"),
                ("no message dropout", "model.message_dropout=0"),
                ("message dropout 0.5", "model.message_dropout=0.5"),
                ("sums of samples", "loss.weighting=raw"),
                ("sums weighted by ring size", "loss.weighting=size"),
                ("one round of samples", "rings.rounds=1"),
                ("a projection of 512", "model.projection=512"),
                ("no bias", "model.bias=false"),
                ("a bias", "model.bias=true"),
                ("hop 0 ranked too", "loss.hop_zero=1"),
            )
        ),
        against=_AS_CONFIGURED,
    ),
    "agreement": Table(
        "What makes it fast does not make it worse",
        ("cora", "photo", "computers"),
        (
            Line(_AS_IT_IS, (*_SOME, "rings.engine=sketch")),
            Line("independent priorities", (*_SOME, "rings.sharing=independent", "rings.engine=exact")),
            Line("sampled messages, 10 neighbours", (*_SOME, "model.propagation=sampled")),
            Line("exact engine", (*_SOME, "rings.engine=exact")),
        ),
        against=_AS_IT_IS,
    ),
}
