"""Run the seeds of a cell that are not measured yet, and store its record."""

import contextlib
import platform
import shutil
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from typing_extensions import TypedDict

from gscl_scale import pipeline
from gscl_scale.evaluate.repeats import combine_repeats
from gscl_scale.evaluate.schema import Metrics, Rings, read_metrics
from gscl_scale.io.json import read_json, write_json
from gscl_scale.runtime.console import Console
from gscl_scale.stages.evaluate import stats
from gscl_scale.stages.repeats import each_repeat
from gscl_scale.studies.peers.measure import measure_peer
from gscl_scale.studies.reproduce.cells import (
    CURE,
    Cell,
    CellFigures,
    Record,
    figures_by_seed,
    machine,
    record_to_continue,
)
from gscl_scale.version import __version__

_AND = " and "  # between the names in a record


class _Attempts(TypedDict):
    """The code and the machines that have worked at a cell, and for how long."""

    versions: list[str]
    commits: list[str]
    machines: list[str]
    seconds: float


def measure(cell: Cell, out: Path, console: Console) -> None:
    """Run a cell, or resume it, and store its figures; the run itself is deleted.

    Seeds that a record of fewer seeds has are not run again.
    """
    earlier = record_to_continue(cell, out)
    known = figures_by_seed(earlier) if earlier else []
    rest = cell.without_first(len(known))
    folder = rest.run_folder(out)
    with _attempt(_journal(folder), earlier) as attempts:
        figures = known + _measure_seeds(rest, folder, console)
    write_json(cell.file(out), _record_of(cell, figures, attempts))
    cell.failure(out).unlink(missing_ok=True)
    delete_runs(cell, out)


def _measure_seeds(cell: Cell, folder: Path, console: Console) -> list[CellFigures]:
    """The figures of each seed of a cell."""
    config, metrics = cell.config, list[Metrics]()
    if not cell.trained:
        _, run, _ = next(each_repeat(config, folder, console))
        return [cast(CellFigures, {"statistics": stats(run)})]
    if cell.peer:
        metrics = [measure_peer(one, cell.peer, run, part) for one, run, part in each_repeat(config, folder, console)]
    else:
        pipeline.run(config, folder, console, pages=False, measured=cell.measured)
        metrics = [read_metrics(run.metrics) for _, run, _ in each_repeat(config, folder, console)]
    return [_without_distribution(one) for one in metrics]


def _without_distribution(metrics: Metrics) -> CellFigures:
    """Without the distributions of the rings, which only pages of single runs draw."""
    figures = cast(CellFigures, {**metrics})
    if rings := metrics.get("rings"):
        figures["rings"] = cast(Rings, {name: value for name, value in rings.items() if name != "distribution"})
    return figures


def _record_of(cell: Cell, by_seed: list[CellFigures], attempts: _Attempts) -> Record:
    """The record of a cell, with the figures of its seeds."""
    figures = cast(CellFigures, combine_repeats(by_seed)) if len(by_seed) > 1 else by_seed[0]
    record = {
        "graph": cell.graph,
        "figures": figures,
        "config": cell.settings(),
        "seeds": [cell.config.train.seed + number for number in range(len(by_seed))],
        "split": figures["probe"]["protocol"]["kind"] if "probe" in figures else None,
        "version": _AND.join(attempts["versions"]),
        "commit": _AND.join(attempts["commits"]) or None,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": _AND.join(attempts["machines"]),
        "python": platform.python_version(),
        "seconds": round(attempts["seconds"], 1),
        **({"by_seed": by_seed} if len(by_seed) > 1 else {}),
    }
    return cast(Record, record)


def delete_runs(cell: Cell, out: Path) -> None:
    """Remove the runs of a stored cell, each at once by its name: a kill leaves nothing that looks like a run."""
    for folder in cell.run_folders(out):
        leaving = folder.with_name(f".{folder.name}.tmp")
        shutil.rmtree(leaving, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            folder.replace(leaving)
        shutil.rmtree(leaving, ignore_errors=True)
        _journal(folder).unlink(missing_ok=True)


def _journal(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.attempts.json")


@contextlib.contextmanager
def _attempt(journal: Path, earlier: Record | None) -> Iterator[_Attempts]:
    """This attempt at a cell added to those before it, and to an earlier record; stored until the cell is."""
    attempts: _Attempts = {"versions": [], "commits": [], "machines": [], "seconds": 0.0}
    if earlier:
        attempts = {
            "versions": earlier["version"].split(_AND),
            "commits": earlier["commit"].split(_AND) if earlier["commit"] else [],
            "machines": earlier["machine"].split(_AND),
            "seconds": earlier["seconds"],
        }
    if journal.exists():
        attempts = read_json(journal, _Attempts, CURE)
    commit = _commit()
    attempts["versions"] = list(dict.fromkeys([*attempts["versions"], __version__]))
    attempts["commits"] = list(dict.fromkeys([*attempts["commits"], *([commit] if commit else [])]))
    attempts["machines"] = list(dict.fromkeys([*attempts["machines"], machine()]))
    write_json(journal, attempts)
    began = time.monotonic()
    try:
        yield attempts
    finally:
        attempts["seconds"] += time.monotonic() - began
        write_json(journal, attempts)


def _commit() -> str | None:
    """The commit of the code, with a plus where files have changed since; None where it is not a checkout."""
    if shutil.which("git") is None:
        return None
    head, changes = (
        subprocess.run(["git", "-C", Path(__file__).parent, *command], capture_output=True, text=True, check=False)
        for command in (("rev-parse", "--short=12", "HEAD"), ("status", "--porcelain", "--", "."))
    )
    return None if head.returncode else head.stdout.strip() + "+" * bool(changes.stdout.strip())
