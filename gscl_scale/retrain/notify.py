"""Who is told how a night ended: Prometheus by a file, anybody else by a command."""

import contextlib
import json
import subprocess
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gscl_scale.config.config import Config
from gscl_scale.io.atomic import write_text
from gscl_scale.io.validate import lines_of
from gscl_scale.retrain.night import Outcome, retrain
from gscl_scale.runtime.console import Console

_PREFIX = "gscl_scale_retrain"
_NOTIFY_S = 60.0
_RESULTS = ("promoted", "unchanged", "refused", "failed")
_COUNTS = ("rows_changed", "nodes_come", "nodes_gone")
_HELP = {
    "last_run_timestamp_seconds": "When the last run ended.",
    "last_success_timestamp_seconds": "When a run last ended with a promoted version, or with nothing to do.",
    "duration_seconds": "How long the last run took.",
    "result": "1 for the result of the last run: promoted, unchanged, refused or failed.",
    "version": "Number of the current version.",
    "figure": "What the gate looked at in the last run.",
    "holds": "Whether the figure was good enough.",
    "sampled_again_ratio": "Share of the anchors whose rings were sampled again.",
    "rows_changed": "Nodes whose neighbours changed since the current version.",
    "nodes_come": "Nodes that are new since the current version.",
    "nodes_gone": "Nodes that are gone since the current version.",
}


@dataclass(frozen=True)
class Told:
    """What is told of a night, whichever way it ended."""

    registry: str
    result: str
    seconds: float
    version: str = ""
    current: str = ""
    reason: str = ""
    checks: list[dict[str, Any]] = field(default_factory=list)
    changes: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, registry: str, outcome: Outcome, seconds: float) -> "Told":
        """A night with a result."""
        return cls(registry, seconds=round(seconds, 3), **asdict(outcome))

    def dump(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    def sentence(self) -> str:
        """For a reader."""
        return {
            "promoted": f"{self.version} is current, after {self.seconds:.0f} s",
            "unchanged": f"nothing to do: graph and settings are those of {self.version}; {self.current} stays current",
            "refused": f"{self.version} was refused: {self.reason}; {self.current or 'nothing'} stays current. To let "
            f"it through: gscl-scale registry promote {self.version} --registry {self.registry}",
        }.get(self.result, self.reason)


def nightly(config: Config, where: str, console: Console) -> Told:
    """Retrain, and tell those who wait for it, whichever way it ends."""
    began = time.monotonic()
    try:
        told = Told.of(where, retrain(config, where, console), time.monotonic() - began)
    except Exception as error:
        reason = str(error) or type(error).__name__
        _tell(config, Told(where, "failed", round(time.monotonic() - began, 3), reason=reason), console)
        raise
    _tell(config, told, console)
    return told


def _tell(config: Config, told: Told, console: Console) -> None:
    if config.retrain.metrics:
        write_metrics(Path(config.retrain.metrics), told)
    notify(config.retrain.notify, told, console)


def notify(command: list[str], told: Told, console: Console) -> None:
    """Run a command with the outcome as JSON on its standard input; that it fails is told, and changes nothing."""
    if not command:
        return
    try:
        ended = subprocess.run(
            command, input=json.dumps(told.dump()), encoding="utf-8", errors="replace", capture_output=True,
            timeout=_NOTIFY_S, check=False,
        )  # fmt: skip
        trouble = f"it ended with {ended.returncode}: {ended.stderr.strip()[-200:]}" if ended.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        trouble = str(error)
    if trouble:
        console.say(f"retrain.notify: nobody was told by {command[0]}, {trouble}")


def write_metrics(path: Path, told: Told) -> None:
    """Publish the figures of the last night for the textfile collector of Prometheus."""
    before = _success_in(path)
    good = told.result in ("promoted", "unchanged")
    values: list[tuple[str, dict[str, str], float]] = [
        ("last_run_timestamp_seconds", {}, time.time()),
        ("duration_seconds", {}, told.seconds),
        *(("result", {"result": name}, float(name == told.result)) for name in _RESULTS),
        *(("figure", {"check": check["name"]}, float(check["figure"])) for check in told.checks),
        *(("holds", {"check": check["name"]}, float(check["holds"])) for check in told.checks),
    ]
    if success := time.time() if good else before:
        values.append(("last_success_timestamp_seconds", {}, success))
    if told.current:
        values.append(("version", {}, float(told.current.removeprefix("v"))))
    for name, key in (("sampled_again_ratio", "sampled_again"), *((key, key) for key in _COUNTS)):
        if key in told.changes:
            values.append((name, {}, float(told.changes[key])))
    write_text(path, _as_text(values, told.registry))


def _as_text(values: list[tuple[str, dict[str, str], float]], registry: str) -> str:
    lines, seen = [], set()
    for name, labels, value in values:
        if name not in seen:
            lines += [f"# HELP {_PREFIX}_{name} {_HELP[name]}", f"# TYPE {_PREFIX}_{name} gauge"]
            seen.add(name)
        told = ",".join(f"{key}={json.dumps(text)}" for key, text in {"registry": registry, **labels}.items())
        lines.append(f"{_PREFIX}_{name}{{{told}}} {value!r}")
    return "\n".join(lines) + "\n"


def _success_in(path: Path) -> float:
    """When the last success was, by the file of the run before."""
    for line in lines_of(path) if path.exists() else ():
        if line.startswith(f"{_PREFIX}_last_success_timestamp_seconds".encode()):
            with contextlib.suppress(ValueError):
                return float(line.rpartition(b" ")[2])
    return 0.0
