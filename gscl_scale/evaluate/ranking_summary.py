"""The ranking of neighbourhoods in words: a figure that needs neither labels nor held-out edges."""

from collections.abc import Iterator

from gscl_scale.evaluate.schema import RANKING, TITLES, Method, Metrics

_SHARPER = "use a new run folder (--run) and add --set loss.temperature=0.1 (the default is 0.5)"  # docs/training.md


def measures_ranking_alone(metrics: Metrics) -> bool:
    """Whether no labels and no held-out edges say how good the embeddings are."""
    return "probe" not in metrics and "links" not in metrics


def ranking_sentence(metrics: Metrics) -> str:
    """How often the nearer node is the more similar one; "" where it is not measured."""
    shares = ", ".join(f"{TITLES[name]} {100 * share:.2f} %" for name, share in _shares(metrics).items())
    words = f"Of two nodes around a third, the nearer one is the more similar one (50 % is chance): {shares}."
    return words if shares else ""


def ranking_warnings(metrics: Metrics) -> Iterator[str]:
    """Warn of a training that ranks no better; than the input features only where no other figure tells."""
    shares = _shares(metrics)
    others: list[Method] = ["untrained", "raw"] if measures_ranking_alone(metrics) else ["untrained"]
    for name in others:
        if "trained" in shares and name in shares and shares["trained"] <= shares[name]:
            yield (
                f"neighbourhoods are ranked no better than by the {TITLES[name]} "
                f"({100 * shares['trained']:.1f} % of pairs against {100 * shares[name]:.1f} %); {_SHARPER}"
            )


def _shares(metrics: Metrics) -> dict[Method, float]:
    """The ranking accuracy of each method that has one, in the order of a table."""
    rings = metrics.get("rings")
    found = {name: rings[RANKING[name]]["accuracy"] for name in TITLES if RANKING[name] in rings} if rings else {}
    return {name: share for name, share in found.items() if share is not None}
