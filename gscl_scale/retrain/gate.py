"""The gate: figures of a new version beside those of the current one, and whether it may take its place."""

from dataclasses import asdict, dataclass, fields
from typing import Any

from gscl_scale.config.retrain import GateConfig
from gscl_scale.errors import FolderError
from gscl_scale.evaluate.schema import Metrics


@dataclass(frozen=True)
class Figures:
    """What the gate looks at; None where it could not be measured.

    probe       the probe's mean validation accuracy
    ranking     share of pairs in which the nearer node is more similar to the anchor
    alignment   mean cosine with the current embeddings after the best rotation
    norm        median length of the embeddings
    cosine      mean cosine of random pairs of nodes
    rank        effective rank of the embeddings
    """

    probe: float | None
    ranking: float | None
    alignment: float | None
    norm: float
    cosine: float
    rank: float | None

    @classmethod
    def of(cls, metrics: Metrics, norm: float, alignment: float | None = None) -> "Figures":
        """From the figures of a run."""
        spread = metrics.get("spread", {}).get("trained")
        if spread is None:
            raise FolderError("metrics.json of tonight has no spread of the trained vectors; remove the work folder")
        return cls(
            probe=metrics.get("probe", {}).get("trained", {}).get("val_mean"),
            ranking=metrics.get("rings", {}).get("ranking", {}).get("accuracy"),
            alignment=alignment,
            norm=norm,
            cosine=spread["mean_cosine"],
            rank=spread["effective_rank"],
        )

    @classmethod
    def parse(cls, values: dict[str, Any]) -> "Figures":
        """From what `asdict` wrote."""
        known: dict[str, Any] = {one.name: values.get(one.name) for one in fields(cls)}
        if known["norm"] is None or known["cosine"] is None:
            raise FolderError("the current version has no figures to compare with; promote another one by hand")
        return cls(**known)


@dataclass(frozen=True)
class Check:
    """One condition: the figure, what it had to be, and whether it is."""

    name: str
    figure: float
    limit: float
    holds: bool
    sentence: str


@dataclass(frozen=True)
class Verdict:
    """All conditions that could be checked."""

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether all hold."""
        return all(check.holds for check in self.checks)

    @property
    def reason(self) -> str:
        """The conditions that do not hold, in words."""
        return "; ".join(check.sentence for check in self.checks if not check.holds)

    def dump(self) -> list[dict[str, Any]]:
        """Plain values."""
        return [asdict(check) for check in self.checks]


def judge(new: Figures, current: Figures | None, gate: GateConfig) -> Verdict:
    """Whether a new version may become current; without a current one only what needs no comparison is checked."""
    checks = [_most("mean cosine of random pairs", new.cosine, gate.cosine_most, "gate.cosine_most")]
    if new.ranking is not None:
        checks.append(_least("ring-ranking accuracy", new.ranking, gate.ranking_least, "gate.ranking_least"))
    if current is None:
        return Verdict(tuple(checks))
    for name, ours, theirs, fall, key in (
        ("validation accuracy of the probe", new.probe, current.probe, gate.probe_fall, "gate.probe_fall"),
        ("ring-ranking accuracy", new.ranking, current.ranking, gate.ranking_fall, "gate.ranking_fall"),
    ):
        if ours is not None and theirs is not None:
            checks.append(_least(name, ours, theirs - fall, f"that of the current version, {theirs:.4f}, less {key}"))
    if new.alignment is not None:
        checks.append(
            _least("alignment with the current embeddings", new.alignment, gate.alignment_least, "gate.alignment_least")
        )
    if new.rank is not None and current.rank is not None:
        least = (1 - gate.rank_fall) * current.rank
        checks.append(_least("effective rank", new.rank, least, f"of {current.rank:.1f} now, less gate.rank_fall"))
    checks.append(_length(new.norm, current.norm, gate.norm_factor))
    return Verdict(tuple(checks))


def _least(name: str, figure: float, limit: float, of: str) -> Check:
    return Check(name, figure, limit, figure >= limit, f"{name} is {figure:.4f}, at least {limit:.4f} is asked ({of})")


def _most(name: str, figure: float, limit: float, of: str) -> Check:
    return Check(name, figure, limit, figure <= limit, f"{name} is {figure:.4f}, at most {limit:.4f} is asked ({of})")


def _length(norm: float, before: float, factor: float) -> Check:
    ratio = norm / max(before, 1e-30)
    holds = 1 / factor <= ratio <= factor
    name = "median length of the embeddings"
    return Check(
        name, ratio, factor, holds, f"{name} is {ratio:.3g} times that of the current version (gate.norm_factor)"
    )
