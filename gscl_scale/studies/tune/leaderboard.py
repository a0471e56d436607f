"""The leaderboard of a search, and the config file of the best trial."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

import yaml

from gscl_scale.config.config import Config
from gscl_scale.config.evaluate import SplitsConfig, TunedOn
from gscl_scale.evaluate.label_summary import FIGURES
from gscl_scale.evaluate.validation import MOST_SPLITS
from gscl_scale.graph.graph import Graph
from gscl_scale.io.atomic import write_text
from gscl_scale.io.json import write_json
from gscl_scale.studies.tune.records import Book, Trial, ranked
from gscl_scale.studies.tune.space import Settings, Space, with_settings
from gscl_scale.text import counted, table
from gscl_scale.version import __version__

TOP = 10
_TRIED_ON = {
    "links": "Chosen by the AUC of held-out edges for validation, against nodes drawn by degree; those for test were "
    "not read.",
    "ranking": "Chosen by the ranking accuracy of one half of the held-out nodes; the other half was not read.",
}
_UNREAD = "Of each split, its test nodes were not read."
_WITHOUT_LABELS = {"links": "AUC", "ranking": "ranking accuracy"}


def measure_of(config: Config, graph: Graph) -> str:
    """The name of the figure that trials are compared by; `evaluate.select_by` is settled."""
    of_probe = FIGURES[config.evaluate.measure] if graph.label_sets is None else "micro-F1"
    return _WITHOUT_LABELS.get(config.evaluate.select_by, of_probe)


def headers(measure: str) -> list[str]:
    """The names of the columns of `leaderboard_rows`."""
    return ["", "trial", f"validation {measure} %", "epoch", "seconds", "ended", "settings that differ"]


def leaderboard_rows(trials: Sequence[Trial]) -> list[tuple[str, ...]]:
    """The best trials, best first, with the settings that are not the same in all of them."""
    best = ranked(trials)[:TOP]
    differ = [key for key in best[0].settings if len({trial.settings[key] for trial in best}) > 1] if best else []
    return [
        (
            str(place),
            str(trial.number),
            _percent(trial),
            str(trial.epoch or "-"),
            f"{trial.seconds:,.0f}",
            trial.ended,
            settings_text({key: trial.settings[key] for key in differ}) if trial.ended != "failed" else trial.reason,
        )
        for place, trial in enumerate(best, start=1)
    ]


def trial_line(trial: Trial, measure: str) -> str:
    """A trial that has ended, in a line."""
    if trial.ended == "failed":
        return f"trial {trial.number} failed: {trial.reason}"
    how = "" if trial.ended == "finished" else f", stopped in epoch {trial.epoch}"
    return f"trial {trial.number}: validation {measure} {_percent(trial)} % in {trial.seconds:,.0f} s{how}"


def settings_text(settings: Settings) -> str:
    """Settings by the last part of their keys.

    >>> settings_text({"train.learning_rate": 0.00123456, "model.width": 256})
    'learning_rate 0.00123, width 256'
    """
    return ", ".join(
        f"{key.partition('.')[2]} {f'{value:.3g}' if isinstance(value, float) else value}"
        for key, value in settings.items()
    )


def counts(trials: Sequence[Trial]) -> str:
    """How many trials have ended how."""
    number = Counter(trial.ended for trial in trials)
    words = f"{number['finished']} finished, {number['stopped']} stopped early, {number['failed']} failed"
    return f"{counted(len(trials), 'trial', 'trials')}: {words}"


def best_of(trials: Sequence[Trial]) -> Trial | None:
    """The finished trial with the highest figure, the first of equals."""
    return next((trial for trial in ranked(trials) if trial.ended == "finished"), None)


def write_leaderboard(config: Config, space: Space, book: Book) -> None:
    """Write leaderboard.json with all trials, leaderboard.md with the best, and best.yaml."""
    trials = book.ended()
    write_json(book.folder / "leaderboard.json", {"trials": [asdict(trial) for trial in ranked(trials)]})
    remark = f"Figures in brackets are by the quick probe of a training that was stopped. {_UNREAD}"
    remark = _TRIED_ON.get(config.evaluate.select_by, remark)
    rows = table(headers(book.measure), leaderboard_rows(trials), left=(5, 6))
    write_text(book.folder / "leaderboard.md", f"{counts(trials)}. {remark}\n\n{rows}\n")
    if best := best_of(trials):
        write_text(book.folder / "best.yaml", _best_yaml(config, space, book, best))


def _best_yaml(config: Config, space: Space, book: Book, best: Trial) -> str:
    """A complete config file whose head says how it was found."""
    plain = {key: domain.plain() for key, domain in space.items()}
    varied = yaml.safe_dump(plain, sort_keys=False, default_flow_style=None, width=1000)
    trial = f"Trial {best.number} with seed {config.train.seed}: validation {book.measure} {_percent(best)} %"
    by_probe = [
        f"{trial}, mean over at most {MOST_SPLITS} splits",
        f"with the settings of `evaluate` below. {_UNREAD} In a run with this config the",
        "validation nodes of the splits in `evaluate.tuned_on` are test nodes of no split. The space:",
    ]
    other = _TRIED_ON.get(config.evaluate.select_by)
    head = [
        f"Found by gscl-scale tune {__version__}: the best of {counts(book.ended())}.",
        *([f"{trial}. {other}", "The space:"] if other else by_probe),
        *(f"  {line}" for line in varied.splitlines()),
    ]
    values = with_settings(tuned_on_its_splits(config), best.settings).dump()
    return "\n".join(f"# {line}" for line in head) + "\n" + yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


def tuned_on_its_splits(config: Config) -> Config:
    """The configuration with the splits of this search, if any, beside earlier ones in `evaluate.tuned_on`."""
    if config.evaluate.select_by in _TRIED_ON:
        return config
    own = TunedOn(**config.evaluate.model_dump(include=set(SplitsConfig.model_fields)), learnt=config.train.label_seed)
    known = config.evaluate.tuned_on
    evaluate = config.evaluate.model_copy(update={"tuned_on": [*known, *([own] if own not in known else [])]})
    return config.model_copy(update={"evaluate": evaluate})


def _percent(trial: Trial) -> str:
    if trial.accuracy is None:
        return "-"
    return f"{100 * trial.accuracy:.2f}" if trial.ended == "finished" else f"({100 * trial.accuracy:.2f})"
