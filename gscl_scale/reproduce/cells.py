"""A cell: one configuration with all its seeds, run to its figures, which are kept with everything they depend on."""

import platform
import shutil
import subprocess
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from typing_extensions import TypedDict

from gscl_scale import __version__, pipeline
from gscl_scale.baselines import configured
from gscl_scale.checked import of_kind
from gscl_scale.config import Config
from gscl_scale.errors import ConfigError, FolderError
from gscl_scale.evaluate.kept import Finite, flaw_of_metrics
from gscl_scale.files import fingerprint_of, read_json, write_json
from gscl_scale.machine import processor_name, usable_cores
from gscl_scale.reproduce.tables import Line, Table
from gscl_scale.runtime import Console

_LARGE = ("distribution",)  # what pictures of single runs are drawn from


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
        if self.config.rings.hops == 1:
            values["loss"].pop("ranking")  # one ring and what is beyond: both rankings are the same loss
        return f"{self.graph}-{fingerprint_of([values, self.trained])[:12]}"

    def settings(self) -> dict[str, Any]:
        """All that changes a figure, the same on every machine: of a path only the last name."""
        values = self.config.dump()
        for section in ("runtime", "compare", "retrain", "gate"):
            values.pop(section)
        if not values["train"]["held_out"]:
            values["train"].pop("held_out")  # younger than some cells
        if values["model"]["bias"]:
            values["model"].pop("bias")
        if self.config.train.objective != "supervised":
            values["baseline"]["dropout"] = None  # was a setting of it, with a classifier that is gone
        if "path" in values["graph"]:
            values["graph"]["path"] = Path(values["graph"]["path"]).name
        return values


def cells_of(
    table: Table, configs: Path, graphs: list[str], settings: list[str], repeats: int
) -> dict[Line, list[Cell]]:
    """The cells of each line, for these graphs; what a line sets comes after what the user sets."""
    unknown = [graph for graph in graphs if graph not in table.graphs]
    if unknown:
        raise ConfigError(f"--only {unknown[0]}: this table has {', '.join(table.graphs)}")
    trained = table.measures != ("consistency",)
    cells = {}
    for line in table.lines:
        wanted = [f"train.repeats={repeats if trained else 1}", *settings, *line.settings]
        of = {graph: Config.load(configs / f"{graph}.yaml", wanted) for graph in graphs}
        if line.method:
            of = {graph: configured(config, line.method) for graph, config in of.items()}
        cells[line] = [Cell(graph, config, trained) for graph, config in of.items()]
    return cells


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


def measure(cell: Cell, out: Path, console: Console) -> dict[str, Any]:
    """Run a cell, or go on with it, and keep its figures; the run itself goes."""
    folder = out / "runs" / cell.name
    began = time.monotonic()
    if cell.trained:
        figures = pipeline.run(cell.config, folder, console)
    else:
        _, run, _ = next(pipeline.each_repeat(cell.config, folder, console))
        figures = {"statistics": pipeline.stats(run)}
    record = {
        "graph": cell.graph,
        "figures": {name: _without(part, _LARGE) for name, part in figures.items()},
        "config": cell.settings(),
        "seeds": [cell.config.train.seed + number for number in range(cell.config.train.repeats)],
        "split": figures.get("probe", {}).get("protocol", {}).get("kind"),
        "version": __version__,
        "commit": _commit(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{len(usable_cores())} cores of {processor_name()}",
        "python": platform.python_version(),
        "seconds": round(time.monotonic() - began, 1),
    }
    write_json(out / "cells" / f"{cell.name}.json", record)
    shutil.rmtree(folder)
    return record


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
