"""Reports how a night ended: to Prometheus by a file, to anybody else by a command."""

import contextlib
import json
import subprocess
import time
from pathlib import Path

from gscl_scale.config.config import Config
from gscl_scale.io.atomic import write_text
from gscl_scale.io.validate import lines_of
from gscl_scale.registry.history import figures_in
from gscl_scale.retrain.night import Outcome, retrain
from gscl_scale.runtime.console import Console

_PREFIX = "gscl_scale_retrain"
_NOTIFY_S = 60.0
_RESULTS = ("promoted", "unchanged", "candidate", "refused", "failed")
_LAST_SUCCESS = "last_success_timestamp_seconds"
_HELP = {
    "last_run_timestamp_seconds": "When the last run ended.",
    "duration_seconds": "How long the last run took.",
    "result": "1 for the result of the last run: promoted, unchanged, candidate, refused or failed.",
    "figure": "What the gate compared in the last run.",
    "holds": "Whether the figure was good enough.",
    _LAST_SUCCESS: "When a run last ended with a promoted version, a candidate, or with nothing to do.",
    "version": "Number of the current version.",
    "sampled_again_ratio": "Share of the anchors whose rings were sampled again.",
    "rows_changed": "Nodes whose neighbours changed since the current version.",
    "nodes_come": "Nodes that are new since the current version.",
    "nodes_gone": "Nodes that are gone since the current version.",
    "edges_come": "New edges between nodes that the current version knows.",
    "version_figure": "Figures of each of the last versions.",
    "version_passed": "Whether the gate accepted each of the last versions.",
    "foreseen_auc": "AUC of the current version on new edges, against nodes drawn by degree.",
    "foreseen_mrr": "Mean reciprocal rank of new edges by the current version.",
}


def nightly(config: Config, where: str, console: Console) -> Outcome:
    """Retrain, write the metrics and run the command of the configuration, also where it fails."""
    began = time.monotonic()
    try:
        outcome = retrain(config, where, console)
    except Exception as error:
        seconds, reason = round(time.monotonic() - began, 3), str(error) or type(error).__name__
        _report(config, Outcome(where, "failed", seconds, reason=reason), console)
        raise
    _report(config, outcome, console)
    return outcome


def _report(config: Config, outcome: Outcome, console: Console) -> None:
    if config.retrain.metrics:
        write_metrics(Path(config.retrain.metrics), outcome)
    if config.retrain.notify:
        _notify(config.retrain.notify, outcome, console)


def _notify(command: list[str], outcome: Outcome, console: Console) -> None:
    """Run a command with the outcome as JSON on its standard input; a failure of it is printed, and changes nothing."""
    try:
        ended = subprocess.run(
            command, input=json.dumps(outcome.dump()), encoding="utf-8", errors="replace", capture_output=True,
            timeout=_NOTIFY_S, check=False,
        )  # fmt: skip
        trouble = f"it ended with {ended.returncode}: {ended.stderr.strip()[-200:]}" if ended.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        trouble = str(error)
    if trouble:
        console.say(f"retrain.notify: {command[0]} failed, {trouble}")


def write_metrics(path: Path, outcome: Outcome) -> None:
    """Publish the figures of the last night for the textfile collector of Prometheus."""
    success = time.time() if outcome.result in ("promoted", "unchanged", "candidate") else _last_success(path)
    version, changes = outcome.current.removeprefix("v"), outcome.changes
    since = outcome.links.get("since")
    metrics: dict[str, list[tuple[dict[str, str], float]]] = {  # labels and value of each sample
        "last_run_timestamp_seconds": [({}, time.time())],
        "duration_seconds": [({}, outcome.seconds)],
        "result": [({"result": name}, name == outcome.result) for name in _RESULTS],
        "figure": [({"check": check["name"]}, check["figure"]) for check in outcome.checks],
        "holds": [({"check": check["name"]}, check["holds"]) for check in outcome.checks],
        _LAST_SUCCESS: [({}, success)] if success else [],
        "version": [({}, float(version))] if version else [],
        "sampled_again_ratio": [({}, changes["sampled_again"])] if "sampled_again" in changes else [],
        "rows_changed": [({}, changes["rows_changed"])] if "rows_changed" in changes else [],
        "nodes_come": [({}, changes["nodes_come"])] if "nodes_come" in changes else [],
        "nodes_gone": [({}, changes["nodes_gone"])] if "nodes_gone" in changes else [],
        "edges_come": [({}, since["edges"])] if since else [],
        "version_figure": [
            ({"version": row["version"], "figure": name}, value)
            for row in outcome.history
            for name, value in figures_in(row).items()
        ],
        "version_passed": [({"version": row["version"]}, not row["refused_by"]) for row in outcome.history],
        "foreseen_auc": [({}, since["current"]["auc"])] if since else [],
        "foreseen_mrr": [({}, since["current"]["mrr"])] if since else [],
    }
    lines = []
    for name, text in _HELP.items():
        if values := metrics[name]:
            lines += [f"# HELP {_PREFIX}_{name} {text}", f"# TYPE {_PREFIX}_{name} gauge"]
            lines += [_sample(name, {"registry": outcome.registry, **labels}, value) for labels, value in values]
    write_text(path, "\n".join(lines) + "\n")


def _sample(name: str, labels: dict[str, str], value: float) -> str:
    pairs = ",".join(f"{key}={json.dumps(text)}" for key, text in labels.items())
    return f"{_PREFIX}_{name}{{{pairs}}} {float(value)!r}"


def _last_success(path: Path) -> float:
    """When the last success was, by the file of the run before."""
    for line in lines_of(path) if path.exists() else ():
        if line.startswith(f"{_PREFIX}_{_LAST_SUCCESS}".encode()):
            with contextlib.suppress(ValueError):
                return float(line.rpartition(b" ")[2])
    return 0.0
