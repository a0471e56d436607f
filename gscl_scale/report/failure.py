"""What a run failed at, with the cause and the cure: collapsed embeddings, or a training that brought nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

from gscl_scale.evaluate.collapse import flaw_of_embeddings
from gscl_scale.evaluate.gain import Gain, cure_of_chance, gain_warnings, gains
from gscl_scale.evaluate.ranking_summary import measures_ranking_alone, ranking_warnings
from gscl_scale.evaluate.schema import TITLES, Metrics
from gscl_scale.evaluate.summary import collapse_warnings, training_flaws
from gscl_scale.report.run_data import RunData

_MIXED = 0.5  # homophily below which most neighbours are of another class
_SMALLER = "use a new run folder (--run) and add --set model.width=64, or a lower loss.temperature"
_OTHER = "try other rings.hops, loss.temperature or train.learning_rate in a new run folder; gscl-scale tune does so"
_HELD_OUT = (
    "measure link prediction: use a new run folder (--run) and add --set evaluate.held_out_edges=0.1; gscl-scale tune "
    "then searches for better settings"
)


@dataclass(frozen=True)
class Failure:
    """What failed, the numbers that show it with the cause as far as it is known, and what to do.

    covered   the warnings that it makes superfluous
    certain   whether the figures show it; else they do not tell whether it is so
    """

    what: str
    cause: str
    cure: str
    covered: Sequence[str] = ()
    certain: bool = True


def failure_of(found: RunData) -> Failure | None:
    """The failure of a run; None where the trained encoder is clearly above what it began with."""
    metrics = found.metrics
    flaw, collapsed = flaw_of_embeddings(metrics)
    if collapsed:
        what, _, signs = flaw.partition(": ")
        cause, cure = _cure_in(metrics) or ("", _SMALLER)
        return Failure(what, "; ".join(filter(None, (signs, cause))), cure, list(collapse_warnings(metrics)))
    unclear = [one for one in gains(metrics) if not one.is_clear]
    if not unclear:
        return None
    certain = any(one.is_none for one in unclear)
    cause, cure = _why(found, unclear)
    covered = [*gain_warnings(metrics), *(ranking_warnings(metrics) if measures_ranking_alone(metrics) else ())]
    what = "training brought no gain" if certain else "it is not known whether training helped"
    return Failure(what, f"{_numbers_of(unclear)}; {cause}", cure, covered, certain)


def _numbers_of(unclear: Sequence[Gain]) -> str:
    """The gains, or losses, and their standard errors.

    >>> _numbers_of([Gain("untrained", "AUC", -0.09, 0.001), Gain("raw", "AUC", 0.001, 0.002)])
    'AUC is 9.00 ± 0.10 points below the untrained encoder and 0.10 ± 0.20 above input features'
    """
    first, *others = (
        f"{100 * abs(one.gain):.2f} ± {100 * one.error:.2f}{' points' * (one is unclear[0])} "
        f"{'below' if one.gain < 0 else 'above'} "
        f"{'the ' * (one.over == 'untrained')}{TITLES[one.over]}"
        for one in unclear
    )
    return f"{unclear[0].figure} is {' and '.join([first, *others])}"


def _cure_in(metrics: Metrics) -> tuple[str, str] | None:
    """The cause and the cure that were found when the figures were measured."""
    cause, _, cure = metrics.get("cure", "").partition(": ")
    return (cause, cure) if cure else None


def _why(found: RunData, unclear: Sequence[Gain]) -> tuple[str, str]:
    """The likeliest cause of a gain that is none or unclear, and its cure: a flaw of the training goes first."""
    metrics = found.metrics
    if flat := flaw_of_embeddings(metrics)[0]:
        cause, cure = _cure_in(metrics) or ("", _SMALLER)
        return "; ".join(filter(None, (flat, cause))), cure
    if flaw := next(training_flaws(found.curve), None):
        return flaw
    if measures_ranking_alone(metrics):
        return "no labels and no held-out edges say how useful the embeddings are", _HELD_OUT
    if not any(one.is_none for one in unclear):
        return "a gain within its standard error may be chance", cure_of_chance(metrics)
    if all(one.over == "raw" for one in unclear):
        consistency = found.statistics.get("consistency")
        return _why_not_above_raw(consistency["mean"][0] if consistency else None)
    return _why_not_above_untrained(metrics)


def _why_not_above_raw(homophily: float | None) -> tuple[str, str]:
    fewer = "use a new run folder (--run) and add --set model.layers=1, or use the input features beside the embeddings"
    if homophily is not None and homophily < _MIXED:
        return (
            f"only {100 * homophily:.0f} % of a node's neighbours have its class on average, so what the encoder "
            "gathers from them hides what the features tell",
            fewer,
        )
    return "the features alone tell what is asked, and what the encoder gathers from neighbours hides some of it", fewer


def _why_not_above_untrained(metrics: Metrics) -> tuple[str, str]:
    rings = metrics.get("rings", {})
    reached, before = rings.get("ranking", {}).get("accuracy"), rings.get("ranking_untrained", {}).get("accuracy")
    if reached is None or before is None:
        return "the run holds no sign of one", _OTHER
    shares = f"{100 * reached:.1f} % of pairs, {100 * before:.1f} % before training"
    if reached <= before:
        return f"the training did not learn to rank neighbourhoods ({shares})", _OTHER
    return (
        f"neighbourhoods are ranked better than before ({shares}), but what is measured does not follow from who is "
        "near whom",
        _OTHER,
    )
