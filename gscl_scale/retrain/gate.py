"""The gate: figures of a new version compared with those of the current one, and whether it may take its place."""

from gscl_scale.config.retrain import GateConfig
from gscl_scale.errors import FolderError
from gscl_scale.evaluate.schema import Metrics
from gscl_scale.registry.versions import Check, Figures, LinkComparison, Links

FEWEST_EDGES = 100  # that a fall is judged by; of fewer, the AUC is mostly chance
_LENGTH = "median length of the embeddings"


def figures_of(metrics: Metrics, norm: float, alignment: float | None = None) -> Figures:
    """What the gate compares, from the metrics of a run and the median length of its embeddings."""
    if "trained" not in metrics.get("spread", {}):
        raise FolderError(
            "metrics.json of the new version lacks spread.trained; delete the work folder and rerun the command"
        )
    return {
        "probe": metrics["probe"]["trained"]["val_mean"] if "probe" in metrics else None,
        "ranking": metrics["rings"]["ranking"]["accuracy"] if "ranking" in metrics.get("rings", {}) else None,
        "alignment": alignment,
        "norm": norm,
        "cosine": metrics["spread"]["trained"]["mean_cosine"],
        "rank": metrics["spread"]["trained"]["effective_rank"],
        "links": metrics["links"]["trained"]["degree_matched"]["auc"] if "links" in metrics else None,
    }


def judge(new: Figures, current: Figures | None, gate: GateConfig, links: Links | None = None) -> list[Check]:
    """The conditions that a new version has to meet; a figure that was not measured has none.

    Without a current version they are those that need no comparison.
    """
    checks = [
        *_check("mean cosine of random pairs", new["cosine"], gate.cosine_most, "gate.cosine_most", most=True),
        *_check("ring-ranking accuracy", new["ranking"], gate.ranking_least, "gate.ranking_least"),
        *_check("AUC on held-out edges", new.get("links"), gate.links_least, "gate.links_least"),
    ]
    if current is None:
        return checks
    norm, before, rank = new["norm"], current.get("norm"), current.get("rank")
    if norm is None or before is None or current.get("cosine") is None:
        raise FolderError("the current version has no metrics to compare with; run gscl-scale registry promote VERSION")
    for name, ours, theirs, fall, key in (
        ("validation score of the probe", new["probe"], current.get("probe"), gate.probe_fall, "gate.probe_fall"),
        ("ring-ranking accuracy", new["ranking"], current.get("ranking"), gate.ranking_fall, "gate.ranking_fall"),
    ):
        if theirs is not None:
            checks += _check(name, ours, theirs - fall, f"that of the current version, {theirs:.4f}, less {key}")
    checks += _link_checks(links or {}, gate)
    checks += _check(
        "alignment with the current embeddings", new["alignment"], gate.alignment_least, "gate.alignment_least"
    )
    if rank is not None:
        least = (1 - gate.rank_fall) * rank
        checks += _check("effective rank", new["rank"], least, f"of {rank:.1f} now, less gate.rank_fall")
    ratio = norm / max(before, 1e-30)
    sentence = f"{_LENGTH} is {ratio:.3g} times that of the current version (gate.norm_factor)"
    holds = 1 / gate.norm_factor <= ratio <= gate.norm_factor
    return [*checks, Check(name=_LENGTH, figure=ratio, limit=gate.norm_factor, holds=holds, sentence=sentence)]


def _link_checks(links: Links, gate: GateConfig) -> list[Check]:
    """No fall on edges that neither version learnt; and none on new ones, which only the new version has learnt."""
    both = _fall("AUC on edges that both versions held out", links.get("held_out"), gate)
    return [*both, *_fall("AUC on new edges", links.get("since"), gate)]


def _fall(name: str, compared: LinkComparison | None, gate: GateConfig) -> list[Check]:
    if not compared or compared["measured"] < FEWEST_EDGES:
        return []
    theirs = compared["current"]["auc"]
    source = f"that of the current version on the same edges, {theirs:.4f}, less gate.links_fall"
    return _check(name, compared["new"]["auc"], theirs - gate.links_fall, source)


def _check(name: str, figure: float | None, limit: float, source: str, most: bool = False) -> list[Check]:
    if figure is None:
        return []
    holds = figure <= limit if most else figure >= limit
    sentence = f"{name} is {figure:.4f}, expected at {'most' if most else 'least'} {limit:.4f} ({source})"
    return [Check(name=name, figure=figure, limit=limit, holds=holds, sentence=sentence)]
