"""A cell: one configuration with all its seeds, run to its figures, which are kept with everything they depend on."""

import contextlib
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from typing_extensions import TypedDict

from gscl_scale import pipeline
from gscl_scale.config.config import Config
from gscl_scale.config.graphs import NpzGraph
from gscl_scale.config.identity import named
from gscl_scale.config.read import apply_setting, read_yaml
from gscl_scale.config.section import RESULTS
from gscl_scale.errors import FolderError
from gscl_scale.evaluate.schema import Finite, flaw_of_metrics
from gscl_scale.io.checksum import fingerprint_of
from gscl_scale.io.json import read_json, write_json
from gscl_scale.io.validate import of_kind
from gscl_scale.machine import processor_name, usable_cores
from gscl_scale.run.record import open_run
from gscl_scale.runtime.console import Console
from gscl_scale.stages.evaluate import stats
from gscl_scale.stages.ingest import ingest
from gscl_scale.stages.repeats import each_repeat
from gscl_scale.studies.reproduce.tables import DATA, OF_PYG, Line, Table
from gscl_scale.train.objectives.methods import configured
from gscl_scale.version import __version__

_LARGE = ("distribution",)  # what pictures of single runs are drawn from
_BEGUN = 1  # the revision of the configuration when cells were first kept
_CURE = "delete it to measure it again"


class _Record(TypedDict):
    """A kept cell, as far as it is read."""

    figures: dict[str, Any]
    seeds: list[Any]
    split: Literal["published", "random"] | None
    seconds: float
    finished: str
    version: str
    commit: str | None
    machine: str


class _Consistency(TypedDict):
    lc: list[Finite] | None


class _Attempts(TypedDict):
    """The code and the machines that have worked at a cell, and for how long."""

    commits: list[str]
    machines: list[str]
    seconds: float


@dataclass(frozen=True)
class Cell:
    """A configuration of a graph; lines of several tables may share it.

    graph     the name of its config file
    trained   False: only the graph is looked at
    """

    graph: str
    config: Config
    trained: bool = True

    @property
    def name(self) -> str:
        """Names the graph and, by a fingerprint, all that changes a figure."""
        values = self.settings()
        if self.config.train.reads_samples and self.config.rings.hops == 1:
            values["loss"].pop("ranking")  # one ring and what is beyond: both rankings are the same loss
        return f"{self.graph}-{fingerprint_of([values, self.trained])[:12]}"

    def settings(self) -> dict[str, Any]:
        """All that changes a figure, the same on every machine: of a path only the last name."""
        sections = ("graph", "rings", "model", "loss", "train", "baseline", "evaluate")
        values = {name: named(getattr(self.config, name), *RESULTS, begun=_BEGUN) for name in sections}
        if not self.config.train.reads_samples:
            del values["rings"], values["loss"]
        if self.config.train.objective != "supervised":
            values["baseline"]["dropout"] = None  # was a setting of it, with a classifier that is gone
        if "path" in values["graph"]:
            values["graph"]["path"] = Path(values["graph"]["path"]).name
        return values


def cells_of(
    table: Table, configs: Path, graphs: list[str], settings: list[str], repeats: int, at_hand: bool = True
) -> dict[Line, list[Cell]]:
    """The cells of each line, for these graphs; what a line sets comes after what the user sets.

    Those whose graphs need not be at hand are good for their names alone.
    """
    trained = table.measures != ("consistency",)
    cells = {}
    for line in table.lines:
        wanted = [f"train.repeats={repeats if trained else 1}", *line.defaults, *settings, *line.settings]
        of = {graph: _config_of(configs / f"{graph}.yaml", wanted, at_hand) for graph in graphs}
        if line.method:
            of = {graph: configured(config, line.method) for graph, config in of.items()}
        cells[line] = [Cell(graph, _one_ranking(config), trained) for graph, config in of.items()]
    return cells


def _config_of(path: Path, settings: list[str], at_hand: bool) -> Config:
    """The configuration of a graph; without a folder of data sets, torch-geometric brings those that it knows."""
    values = read_yaml(path, "configs")
    for setting in settings:
        apply_setting(values, setting)
    graph = values.get("graph") or {}
    where = str(graph.get("path") or "")
    if where.startswith(f"${DATA}/") and DATA not in os.environ:
        if path.stem in OF_PYG:
            graph = {**graph, "source": "pyg", "dataset": OF_PYG[path.stem]}
            graph.pop("path")
        elif not at_hand:
            graph = {**graph, "path": Path(where).name}
        values["graph"] = graph
    return Config.parse(values)


def _one_ranking(config: Config) -> Config:
    """With one ring and what is beyond both rankings are the same loss: they share a cell, and its run."""
    if config.rings.hops > 1:
        return config
    return config.model_copy(update={"loss": config.loss.model_copy(update={"ranking": "listwise"})})


def kept(cell: Cell, out: Path) -> dict[str, Any] | None:
    """What was measured of a cell, None where it was not yet."""
    path = out / "cells" / f"{cell.name}.json"
    if not path.exists():
        return None
    record = read_json(path, _Record, _CURE)
    figures = record["figures"]
    flaw = flaw_of_metrics(figures) if "statistics" not in figures else of_kind(_Consistency, figures["statistics"])
    if flaw:
        raise FolderError(f"{path} is damaged: {flaw}; {_CURE}")
    return record


def refuse_other_graph(cell: Cell, record: dict[str, Any], out: Path, known: dict[str, str]) -> None:
    """Refuse figures of another graph than the file at hand holds; `known`: fingerprints of files looked at before."""
    graph, figures = cell.config.graph, record["figures"]
    measured = {**figures.get("graph", {}), **figures.get("statistics", {})}
    if not isinstance(graph, NpzGraph) or not graph.path.exists():
        return
    where = fingerprint_of(graph.model_dump(mode="json"))
    if where not in known:
        with tempfile.TemporaryDirectory() as folder:
            run = open_run(cell.config, Path(folder) / "run")
            known[where] = ingest(cell.config, run, Console(quiet=True)).fingerprint
    if known[where] not in (measured.get("fingerprint"), measured.get("graph_fingerprint")):
        raise FolderError(
            f"{out / 'cells' / cell.name}.json was measured on another graph than {graph.path} holds; "
            f"choose another --out, or {_CURE}"
        )


def measure(cell: Cell, out: Path, console: Console) -> dict[str, Any]:
    """Run a cell, or go on with it, and keep its figures; the run itself goes."""
    folder = out / "runs" / cell.name
    with _attempt(_journal(folder)) as attempts:
        if cell.trained:
            figures: dict[str, Any] = {**pipeline.run(cell.config, folder, console, pages=False)}
        else:
            _, run, _ = next(each_repeat(cell.config, folder, console))
            figures = {"statistics": stats(run)}
    record = {
        "graph": cell.graph,
        "figures": {name: _without(part, _LARGE) for name, part in figures.items()},
        "config": cell.settings(),
        "seeds": [cell.config.train.seed + number for number in range(cell.config.train.repeats)],
        "split": figures.get("probe", {}).get("protocol", {}).get("kind"),
        "version": __version__,
        "commit": " and ".join(attempts["commits"]) or None,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": " and ".join(attempts["machines"]),
        "python": platform.python_version(),
        "seconds": round(attempts["seconds"], 1),
    }
    write_json(out / "cells" / f"{cell.name}.json", record)
    discard(cell, out)
    return record


def discard(cell: Cell, out: Path) -> None:
    """Remove the run of a kept cell, at once by its name: a kill in between leaves nothing that looks like a run."""
    folder = out / "runs" / cell.name
    leaving = folder.with_name(f".{cell.name}.tmp")
    shutil.rmtree(leaving, ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        folder.replace(leaving)
    shutil.rmtree(leaving, ignore_errors=True)
    _journal(folder).unlink(missing_ok=True)


def _journal(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.attempts.json")


@contextlib.contextmanager
def _attempt(journal: Path) -> Iterator[_Attempts]:
    """What this attempt at a cell and those before it have in all; kept until the cell is."""
    before: Any = read_json(journal, _Attempts, _CURE) if journal.exists() else {}
    commit, machine = _commit(), f"{len(usable_cores())} cores of {processor_name()}"
    attempts: _Attempts = {
        "commits": list(dict.fromkeys([*before.get("commits", ()), *([commit] if commit else [])])),
        "machines": list(dict.fromkeys([*before.get("machines", ()), machine])),
        "seconds": before.get("seconds", 0.0),
    }
    write_json(journal, attempts)
    began = time.monotonic()
    try:
        yield attempts
    finally:
        attempts["seconds"] += time.monotonic() - began
        write_json(journal, attempts)


def _without(part: Any, names: tuple[str, ...]) -> Any:
    return {name: value for name, value in part.items() if name not in names} if isinstance(part, dict) else part


def _commit() -> str | None:
    """The commit of the code, with a plus where files have changed since; None where it is not a checkout."""
    place = Path(__file__).parent
    if shutil.which("git") is None:
        return None
    found = [
        subprocess.run(["git", "-C", place, *command], capture_output=True, text=True, check=False)
        for command in (("rev-parse", "--short=12", "HEAD"), ("status", "--porcelain", "--", "."))
    ]
    if found[0].returncode:
        return None
    return found[0].stdout.strip() + "+" * bool(found[1].stdout.strip())
