"""All figures of a run, each with its protocol."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch

from gscl_scale import seeding
from gscl_scale.config.evaluate import EvaluateConfig
from gscl_scale.errors import RunError
from gscl_scale.evaluate import link_schema, schema
from gscl_scale.evaluate.clusters import N_INIT, cluster_nmi
from gscl_scale.evaluate.label_probe import labels_protocol
from gscl_scale.evaluate.label_summary import FIGURES
from gscl_scale.evaluate.linear_probe import ProbeResult, or_none
from gscl_scale.evaluate.link_schema import LINK_TASKS
from gscl_scale.evaluate.links import (
    NON_EDGES,
    LinkPairs,
    Score,
    by_adamic_adar,
    by_cosine,
    by_preferential_attachment,
    link_figures,
    validation_auc,
)
from gscl_scale.evaluate.ranking import PAIRS_PER_HOP as RANKING_PAIRS
from gscl_scale.evaluate.ranking import ring_ranking
from gscl_scale.evaluate.schema import METHODS, NMI, RANKING, SIM_AT_5, SIMILARITY, Method, Metrics
from gscl_scale.evaluate.search import most_queries, sim_at_5
from gscl_scale.evaluate.similarity import BINS, PAIRS_PER_HOP, QUANTILES, RingLists, ring_similarity, spread
from gscl_scale.evaluate.splits import MIN_TEST, TEST, Split, make_splits, why_no_class, why_no_splits
from gscl_scale.evaluate.validation import Selection, probe
from gscl_scale.evaluate.vectors import Vectors, blocks, num_rows, rows_per_block, width
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.held_out_edges import HeldOutEdges
from gscl_scale.runtime.console import Console

_T = TypeVar("_T")

_MANY_ROWS = 500_000  # that the probe reads at each step, over all splits and initialisations: minutes for every method


def evaluate_run(
    graph: Graph,
    vectors: Mapping[Method, Vectors],
    rings: RingLists | None,
    config: EvaluateConfig,
    device: torch.device | str = "cpu",
    label_seed: int | None = None,
    console: Console | None = None,
    selection: Selection | None = None,
) -> Metrics:
    """The figures of `trained`, `untrained` and `raw` vectors; `missing` names what cannot be measured, and why.

    `label_seed` is that of `make_splits`: clusters and search are then of the split's test nodes. The nodes of
    `selection` are test nodes of no split.
    """
    methods = {name: vectors[name] for name in METHODS if name in vectors}
    for name, rows in methods.items():
        _check(name, rows, graph)
    metrics: Metrics = {
        "graph": measured_graph(graph),
        "width": {name: width(rows) for name, rows in methods.items()},
        "missing": {},
    }
    reason = why_no_splits(graph, config)
    splits = [] if reason else make_splits(graph, config, label_seed)
    console = console or Console(quiet=True)
    if note := _long_probe(splits, config, graph):
        console.say(note)
    held_out = HeldOutEdges.of(graph)
    no_class = why_no_class(graph)
    evaluation = _Evaluation(graph, methods, config, device, console)
    if reason:
        metrics["missing"] |= dict.fromkeys(("probe", "clusters", "search"), reason)
    else:
        evaluation.add_probes(metrics, splits, selection)
    if no_class:
        metrics["missing"] |= dict.fromkeys(("clusters", "search"), no_class)
    elif not reason:
        labels = _labels_to_measure(graph, None if label_seed is None else splits[0])
        metrics["clusters"] = evaluation.clusters(labels)
        metrics["search"] = evaluation.search(labels)
    if rings is None:
        metrics["missing"]["rings"] = "no ring samples were given"
    else:
        metrics["rings"] = evaluation.rings(rings)
    if held_out:
        evaluation.add_links(metrics, held_out)
    metrics["spread"] = {name: spread(rows, config.seed) for name, rows in methods.items()}
    return metrics


def measured_graph(graph: Graph) -> schema.MeasuredGraph:
    """What is told of a graph beside its figures."""
    found: schema.MeasuredGraph = {"name": graph.name, "nodes": graph.num_nodes, "fingerprint": graph.fingerprint}
    if (seed := graph.manifest.get("shuffled_labels")) is not None:
        found["shuffled_labels"] = seed
    return found


def _long_probe(splits: list[Split], config: EvaluateConfig, graph: Graph) -> str | None:
    """A sentence on what makes the probe faster, where it takes long."""
    rows = sum(split.counts()["train"] for split in splits)
    fewer = max(1, config.initialisations // 10)
    if graph.label_sets is not None or fewer == config.initialisations or rows * config.initialisations <= _MANY_ROWS:
        return None
    return (
        f"evaluate: the probe learns {rows:,} training nodes from {config.initialisations} initialisations; "
        f"--set evaluate.initialisations={fewer} is about {config.initialisations // fewer} times as fast"
    )


def _check(name: str, rows: Vectors, graph: Graph) -> None:
    if num_rows(rows) != graph.num_nodes:
        raise RunError(
            f"{name} vectors have {num_rows(rows):,} rows, expected one for each of the {graph.num_nodes:,} nodes; "
            "embed the graph again"
        )
    if isinstance(rows, np.ndarray):
        for nodes in blocks(np.arange(graph.num_nodes), rows_per_block(rows)):
            finite = np.isfinite(rows[nodes]).all(axis=1)
            if not finite.all():
                raise RunError(
                    f"{name} vectors are not finite, first at node {nodes[np.argmin(finite)]:,}; "
                    "training diverged: lower train.learning_rate or set train.clip, and train again"
                )


def _labels_to_measure(graph: Graph, learned_from: Split | None) -> npt.NDArray[np.int64]:
    """The labels [N]; if a training learned from the labels of a split, those of its test nodes alone."""
    assert graph.labels is not None
    return graph.labels if learned_from is None else np.where(learned_from.codes == TEST, graph.labels, -1)


@dataclass(frozen=True)
class _Evaluation:
    """Measures every figure for each method in turn."""

    graph: Graph
    methods: dict[Method, Vectors]
    config: EvaluateConfig
    device: torch.device | str
    console: Console

    def each(self, what: str, figure: Callable[[Vectors], _T]) -> dict[Method, _T]:
        """The figure of each method, with a progress of its own: the time of one figure tells nothing of another's."""
        values = {}
        with self.console.progress(f"evaluate, {what}", len(self.methods)) as advance:
            for name, rows in self.methods.items():
                values[name] = figure(rows)
                advance()
        return values

    def add_probes(self, metrics: Metrics, splits: list[Split], selection: Selection | None) -> None:
        """Probe the splits of every fraction; `probe` is the first of them, or that of the published splits."""
        chose = selection.chose if selection else ""
        apart = [split.without(selection.nodes) for split in splits] if selection else splits
        probes = {}
        for fraction in dict.fromkeys(split.fraction for split in apart):
            some = [split for split in apart if split.fraction == fraction]
            if measurable := [split for split in some if split.is_measurable]:
                probes[fraction] = self.probe(measurable)
                if any(split.left_out for split in some):
                    probes[fraction]["protocol"]["left_out"] = _left_out(some, chose)
        if probes:
            metrics["probe"] = next(iter(probes.values()))
        else:
            metrics["missing"]["probe"] = f"no split keeps {MIN_TEST} test nodes whose labels did not choose {chose}"
        if len(probes) > 1:
            metrics["probe_by_fraction"] = {f"{fraction:g}": probe for fraction, probe in probes.items()}

    def probe(self, splits: list[Split]) -> schema.Probe:
        graph, config = self.graph, self.config
        results = self.each("probe", lambda rows: probe(rows, graph, splits, config, self.device))
        on_splits = [
            {"name": split.name, **split.counts(), **{name: one.on_split(number) for name, one in results.items()}}
            for number, split in enumerate(splits)
        ]
        accuracies = {name: result.figures() for name, result in results.items()}
        protocol = _probe_protocol(splits, results, config)
        if graph.label_sets is not None:
            del protocol["learning_rate"]
            protocol = cast(schema.ProbeProtocol, {**protocol, **labels_protocol(graph.label_sets, splits[0])})
        return cast(schema.Probe, {**accuracies, "splits": on_splits, "protocol": protocol})

    def clusters(self, labels: npt.NDArray[np.int64]) -> schema.Clusters:
        seed = self.config.seed
        nodes = seeding.sample(np.flatnonzero(labels >= 0), self.config.sample, "cluster nodes", seed)
        values = self.each("clusters", lambda rows: cluster_nmi(rows, labels, nodes, seed))
        protocol: schema.ClustersProtocol = {
            "algorithm": "k-means on rows of length one",
            "k": int(np.unique(labels[nodes]).size),
            "n_init": N_INIT,
            "seed": seed,
            **_sampling(nodes, labels),
        }
        return cast(schema.Clusters, {**_keyed(NMI, values), "protocol": protocol})

    def search(self, labels: npt.NDArray[np.int64]) -> schema.Search:
        labelled = np.flatnonzero(labels >= 0)
        most = most_queries(labelled.size, self.config.sample)
        queries = seeding.sample(labelled, most, "search queries", self.config.seed)
        values = self.each("search", lambda rows: sim_at_5(rows, labels, queries, self.device))
        protocol: schema.SearchProtocol = {
            "algorithm": "exact cosine search among all labelled nodes, the query apart",
            "seed": self.config.seed,
            **_sampling(queries, labels),
        }
        return cast(schema.Search, {**_keyed(SIM_AT_5, values), "protocol": protocol})

    def rings(self, rings: RingLists) -> schema.Rings:
        """Mean cosine per hop and of nodes beyond, and how often the nearer node is the more similar one."""
        seed = self.config.seed
        values = self.each("rings", lambda rows: (ring_similarity(rows, rings, seed), ring_ranking(rows, rings, seed)))
        protocol: schema.RingsProtocol = {
            "levels": [*(f"hop {hop}" for hop in range(1, len(rings.levels))), "beyond"],
            "anchors": int(rings.anchors.size),
            "anchors_held_out": rings.held_out,
            "members": "as stored in the ring samples",
            "pairs_per_hop": PAIRS_PER_HOP,
            "ranking": f"a member of each hop against a farther node, {RANKING_PAIRS} pairs per hop; 0.5 is chance",
            "quantiles": list(QUANTILES),
            "histogram": f"{BINS} bins over cosines from -1 to 1",
            "seed": seed,
        }
        distribution = {name: levels for name, (levels, _) in values.items()}
        means = {name: [level["mean"] for level in levels] for name, levels in distribution.items()}
        ranking = {name: ranked for name, (_, ranked) in values.items()}
        figures = {**_keyed(SIMILARITY, means), **_keyed(RANKING, ranking)}
        return cast(schema.Rings, {**figures, "distribution": distribution, "protocol": protocol})

    def add_links(self, metrics: Metrics, held_out: HeldOutEdges) -> None:
        """Score the held-out edges for test by each method, and by the remaining edges alone."""
        seed, edges = self.config.seed, held_out.test
        drawn = {task: LinkPairs.draw(self.graph, edges, task, seed) for task in LINK_TASKS}
        if not all(pairs.near.size for pairs in drawn.values()):
            metrics["missing"]["links"] = "too few edges are held out (evaluate.held_out_edges)"
            return

        validation = validation_auc(self.graph, seed)

        def figures(score: Score) -> link_schema.LinkTasks:
            tasks: dict[str, object] = {task: link_figures(score, pairs) for task, pairs in drawn.items()}
            chosen = {"validation_auc": validation(score)} if validation else {}
            return cast(link_schema.LinkTasks, {**tasks, **chosen})

        measured = min(pairs.near.size for pairs in drawn.values())
        protocol: link_schema.LinksProtocol = {
            "edges": measured,
            "test": len(edges),
            "validation": len(held_out.validation),
            "sampled": measured < len(edges),
            "non_edges": NON_EDGES,
            "score": "cosine",
            "seed": seed,
        }
        by_vectors = self.each("held-out edges", lambda rows: figures(by_cosine(rows)))
        by_edges = {
            "adamic_adar": figures(by_adamic_adar(self.graph)),
            "preferential_attachment": figures(by_preferential_attachment(self.graph)),
        }
        metrics["links"] = cast(link_schema.Links, {**by_vectors, **by_edges, "protocol": protocol})


def _keyed(keys: Mapping[Method, str], values: Mapping[Method, object]) -> dict[str, object]:
    return {keys[name]: value for name, value in values.items()}


def _sampling(nodes: npt.NDArray[np.int64], labels: npt.NDArray[np.int64]) -> schema.Sampling:
    labelled = int((labels >= 0).sum())
    return {"nodes": int(nodes.size), "labelled": labelled, "sampled": bool(nodes.size < labelled)}


def _left_out(splits: list[Split], chose: str) -> schema.LeftOut:
    """How many test nodes are left out, because their labels `chose` something."""
    shares = [split.left_out / (split.left_out + split.counts()["test"]) for split in splits]
    return {
        "chose": chose,
        "share": float(np.mean(shares)),
        "most": max(split.left_out for split in splits),
        "too_few": [split.name for split in splits if not split.is_measurable],
    }


def _probe_protocol(
    splits: list[Split], results: dict[Method, ProbeResult], config: EvaluateConfig
) -> schema.ProbeProtocol:
    counts = [split.counts() for split in splits]
    validated = all(count["val"] for count in counts)
    published = splits[0].fraction is None
    best = f"best validation {FIGURES[config.measure]}"
    protocol: schema.ProbeProtocol = {
        "kind": "published" if published else "random",
        "train_fraction": splits[0].fraction,
        "val_fraction": None if published else config.val_fraction,
        "num_splits": len(splits),
        "counts": counts[0],
        "least_val": min(count["val"] for count in counts),
        "initialisations": config.initialisations,
        "epochs": config.probe_epochs,
        "learning_rate": config.probe_learning_rate,
        "rows_per_step": next(iter(results.values())).rows_per_step,
        "weight_decays": list(config.probe_weight_decay),
        "val_by_decay": {
            name: {f"{decay:g}": or_none(mean) for decay, mean in result.val_by_decay.items()}
            for name, result in results.items()
        },
        "scaling": config.probe_scaling,
        "selection": best if validated else "last epoch where a split has no validation nodes",
        "seed": config.seed,
    }
    if config.measure != "accuracy":
        protocol["measure"] = config.measure
    return protocol
