"""All figures of a run, each with the protocol beside it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from gscl_scale.config.sections import EvaluateConfig
from gscl_scale.errors import RunError
from gscl_scale.evaluate.clusters import N_INIT, cluster_nmi, sample_labelled
from gscl_scale.evaluate.linear_probe import ProbeResult, probe_splits
from gscl_scale.evaluate.ranking import PAIRS_PER_HOP as RANKING_PAIRS
from gscl_scale.evaluate.ranking import ring_ranking
from gscl_scale.evaluate.search import most_queries, sim_at_5
from gscl_scale.evaluate.similarity import BINS, PAIRS_PER_HOP, QUANTILES, RingLists, ring_similarity, spread
from gscl_scale.evaluate.splits import MIN_TEST, TEST, Split, make_splits, why_no_splits
from gscl_scale.evaluate.validation import Selection
from gscl_scale.evaluate.vectors import Vectors, blocks, num_rows, rows_per_block, width
from gscl_scale.graph.graph import Graph
from gscl_scale.runtime.console import Console

METHODS = ("trained", "untrained", "raw")

_OfEach = Callable[[Callable[[Vectors], Any]], dict[str, Any]]  # what a function of vectors is, by method


def evaluate_run(
    graph: Graph,
    vectors: dict[str, Vectors],
    rings: RingLists | None,
    config: EvaluateConfig,
    device: torch.device | str = "cpu",
    learnt: int | None = None,
    console: Console | None = None,
    selection: Selection | None = None,
) -> dict[str, Any]:
    """The figures of `trained`, `untrained` and `raw` vectors; what cannot be measured is named under `missing`.

    Names: probe.{method}.{val_mean,val_std,test_mean,test_std}, clusters.nmi, search.sim_at_5, rings.similarity; the
    last three are of the trained vectors, and of the others with `_untrained` or `_raw` appended. `learnt` is that of
    `make_splits`: clusters and search then are of the split's test nodes. The nodes of `selection` are test
    nodes of no split.
    """
    methods = {name: vectors[name] for name in METHODS if name in vectors}
    for name, rows in methods.items():
        _check(name, rows, graph)
    metrics: dict[str, Any] = {
        "graph": {"name": graph.name, "nodes": graph.num_nodes, "fingerprint": graph.fingerprint},
        "width": {name: width(rows) for name, rows in methods.items()},
        "missing": {},
    }
    reason = why_no_splits(graph, config)
    splits = [] if reason else make_splits(graph, config, learnt)
    apart = [split.without(selection.nodes) for split in splits] if selection else splits
    figures = len({split.fraction for split in splits}) + 2 * bool(splits) + (rings is not None)
    with (console or Console(quiet=True)).progress("evaluate", figures * len(methods), "figures") as advance:

        def of_each(figure: Callable[[Vectors], Any]) -> dict[str, Any]:
            found = {}
            for name, rows in methods.items():
                found[name] = figure(rows)
                advance()
            return found

        if reason:
            metrics["missing"] |= dict.fromkeys(("probe", "clusters", "search"), reason)
        else:
            metrics |= _probes(apart, graph, of_each, config, device, selection.chose if selection else "")
            if "probe" not in metrics and selection:
                metrics["missing"]["probe"] = (
                    f"no split keeps {MIN_TEST} test nodes whose labels did not choose {selection.chose}"
                )
            labels = _unlearnt(graph, splits if learnt is not None else [])
            metrics["clusters"] = _clusters(labels, of_each, config)
            metrics["search"] = _search(labels, of_each, config, device)
        if rings is None:
            metrics["missing"]["rings"] = "no ring samples were given"
        else:
            metrics["rings"] = _rings(of_each, rings, config)
    metrics["spread"] = {name: spread(rows, config.seed) for name, rows in methods.items()}
    return metrics


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


# --- probe -----------------------------------------------------------------------------------------------------------


def _probes(
    splits: list[Split],
    graph: Graph,
    of_each: _OfEach,
    config: EvaluateConfig,
    device: torch.device | str,
    chose: str,
) -> dict[str, Any]:
    """The probe on the splits of every fraction; `probe` is the first, or the published splits."""
    sections = {}
    for fraction in dict.fromkeys(split.fraction for split in splits):
        some = [split for split in splits if split.fraction == fraction]
        if kept := [split for split in some if split.is_measurable]:
            sections[fraction] = _probe_section(graph, of_each, kept, config, device)
            sections[fraction]["protocol"] |= _left_out(some, chose)
    if not sections:
        return {}
    out = {"probe": next(iter(sections.values()))}
    if len(sections) > 1:
        out["probe_by_fraction"] = {f"{fraction:g}": section for fraction, section in sections.items()}
    return out


def _probe_section(
    graph: Graph,
    of_each: _OfEach,
    splits: list[Split],
    config: EvaluateConfig,
    device: torch.device | str,
) -> dict[str, Any]:
    assert graph.labels is not None
    labels, classes = graph.labels, max(len(graph.classes), int(graph.labels.max()) + 1)
    results = of_each(lambda rows: probe_splits(rows, labels, splits, classes, config, device))
    return {
        **{name: result.figures() for name, result in results.items()},
        "splits": [
            {
                "name": split.name,
                **split.counts(),
                **{name: _split_figures(result, number) for name, result in results.items()},
            }
            for number, split in enumerate(splits)
        ],
        "protocol": _probe_protocol(splits, results, config),
    }


def _left_out(splits: list[Split], chose: str) -> dict[str, Any]:
    """How many test nodes are left out, because their labels `chose` something; nothing where none are."""
    if not any(split.left_out for split in splits):
        return {}
    before = [split.left_out + split.counts()["test"] for split in splits]
    return {
        "left_out": {
            "chose": chose,
            "share": float(np.mean([split.left_out / number for split, number in zip(splits, before, strict=True)])),
            "most": max(split.left_out for split in splits),
            "too_few": [split.name for split in splits if not split.is_measurable],
        }
    }


def _split_figures(result: ProbeResult, number: int) -> dict[str, float | None]:
    values = {
        "val_mean": result.val[number].mean(),
        "test_mean": result.test[number].mean(),
        "best_epoch_mean": result.best_epoch[number].mean(),
    }
    return {name: None if np.isnan(value) else float(value) for name, value in values.items()}


def _probe_protocol(splits: list[Split], results: dict[str, ProbeResult], config: EvaluateConfig) -> dict[str, Any]:
    counts = [split.counts() for split in splits]
    validated = all(count["val"] for count in counts)
    first = next(iter(results.values()))
    return {
        "kind": "published" if splits[0].fraction is None else "random",
        "train_fraction": splits[0].fraction,
        "val_fraction": None if splits[0].fraction is None else config.val_fraction,
        "num_splits": len(splits),
        "counts": counts[0],
        "least_val": min(count["val"] for count in counts),
        "initialisations": config.initialisations,
        "epochs": config.probe_epochs,
        "learning_rate": config.probe_learning_rate,
        "rows_per_step": first.rows_per_step,
        "weight_decays": list(config.probe_weight_decay),
        "val_by_decay": {
            name: {f"{decay:g}": None if np.isnan(mean) else mean for decay, mean in result.val_by_decay.items()}
            for name, result in results.items()
        },
        "scaling": config.probe_scaling,
        "selection": "best validation accuracy" if validated else "last epoch where a split has no validation nodes",
        "seed": config.seed,
    }


# --- clusters, search, rings -----------------------------------------------------------------------------------------


def _unlearnt(graph: Graph, learnt: list[Split]) -> npt.NDArray[np.int64]:
    """The labels [N]; where those of a split were learnt from, of its test nodes alone."""
    assert graph.labels is not None
    return np.where(learnt[0].codes == TEST, graph.labels, -1) if learnt else graph.labels


def _clusters(labels: npt.NDArray[np.int64], of_each: _OfEach, config: EvaluateConfig) -> dict[str, Any]:
    nodes = sample_labelled(labels, config.sample, config.seed, "cluster nodes")
    values = of_each(lambda rows: cluster_nmi(rows, labels, nodes, config.seed))
    protocol = {
        "algorithm": "k-means on rows of length one",
        "k": int(np.unique(labels[nodes]).size),
        "n_init": N_INIT,
        "seed": config.seed,
        **_sampling(nodes, labels),
    }
    return {**_keyed("nmi", values), "protocol": protocol}


def _search(
    labels: npt.NDArray[np.int64], of_each: _OfEach, config: EvaluateConfig, device: torch.device | str
) -> dict[str, Any]:
    most = most_queries(int((labels >= 0).sum()), config.sample)
    queries = sample_labelled(labels, most, config.seed, "search queries")
    values = of_each(lambda rows: sim_at_5(rows, labels, queries, device))
    protocol = {
        "algorithm": "exact cosine search among all labelled nodes, the query apart",
        "seed": config.seed,
        **_sampling(queries, labels),
    }
    return {**_keyed("sim_at_5", values), "protocol": protocol}


def _sampling(nodes: npt.NDArray[np.int64], labels: npt.NDArray[np.int64]) -> dict[str, Any]:
    labelled = int((labels >= 0).sum())
    return {"nodes": int(nodes.size), "labelled": labelled, "sampled": bool(nodes.size < labelled)}


def _rings(of_each: _OfEach, rings: RingLists, config: EvaluateConfig) -> dict[str, Any]:
    """Mean cosine per hop, and last beyond, and how often nearer is more similar; distributions are for violins."""
    found = of_each(
        lambda rows: (
            ring_similarity(rows, rings.anchors, rings.levels, config.seed),
            ring_ranking(rows, rings.anchors, rings.levels, config.seed),
        )
    )
    levels = {name: similarity for name, (similarity, _) in found.items()}
    means = {name: [level["mean"] for level in similarity] for name, similarity in levels.items()}
    ranking = {name: ranked for name, (_, ranked) in found.items()}
    protocol = {
        "levels": [*(f"hop {hop}" for hop in range(1, len(rings.levels))), "beyond"],
        "anchors": int(rings.anchors.size),
        "anchors_held_out": rings.held_out,
        "members": "as stored in the ring samples",
        "pairs_per_hop": PAIRS_PER_HOP,
        "ranking": f"a member of each hop against a farther node, {RANKING_PAIRS} pairs per hop; 0.5 is chance",
        "quantiles": list(QUANTILES),
        "histogram": f"{BINS} bins over cosines from -1 to 1",
        "seed": config.seed,
    }
    return {
        **_keyed("similarity", means),
        **_keyed("ranking", ranking),
        "distribution": levels,
        "protocol": protocol,
    }


def _keyed(figure: str, values: dict[str, Any]) -> dict[str, Any]:
    return {figure if name == "trained" else f"{figure}_{name}": value for name, value in values.items()}
