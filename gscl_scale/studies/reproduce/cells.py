"""A cell: one configuration with all its seeds; its figures are stored with everything that they depend on."""

import os
import tempfile
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from gscl_scale.config.config import Config
from gscl_scale.config.graphs import NpzGraph
from gscl_scale.config.identity import Sections, deciding_settings, naming_values
from gscl_scale.config.read import apply_setting, read_yaml
from gscl_scale.config.section import RESULTS
from gscl_scale.errors import FolderError
from gscl_scale.evaluate.schema import METHODS, Method, Metrics, flaw_of_metrics
from gscl_scale.io.checksum import fingerprint_of
from gscl_scale.io.json import read_json, write_json
from gscl_scale.io.validate import Finite
from gscl_scale.machine import processor_name, usable_cores
from gscl_scale.run.record import open_run, shift_seeds
from gscl_scale.runtime.console import Console
from gscl_scale.stages.ingest import ingest
from gscl_scale.studies.peers.table import peer_settings, plain_settings
from gscl_scale.studies.reproduce.tables import DATA, OF_PYG, Line, Table
from gscl_scale.train.objectives.methods import configured
from gscl_scale.version import __version__

_SECTIONS = ("graph", "rings", "model", "loss", "train", "baseline", "evaluate")
_FIRST_REVISION = 1  # the revision of the configuration when cells were first stored
CURE = "delete it to measure it again"


class _Statistics(TypedDict):
    """Statistics of a graph, as far as they are read."""

    lc: list[Finite] | None
    graph_fingerprint: NotRequired[str]


class CellFigures(Metrics):
    """The metrics of a trained cell, or the statistics of one in which only the graph is measured."""

    statistics: NotRequired[_Statistics]


class Record(TypedDict):
    """A measured cell, in cells/NAME.json.

    figures   means over the seeds
    by_seed   the figures of each seed, where there are several; absent from older records
    """

    figures: CellFigures
    seeds: list[int]
    by_seed: NotRequired[list[CellFigures]]
    split: Literal["published", "random"] | None
    seconds: float
    finished: str
    version: str
    commit: str | None
    machine: str


class _Failure(TypedDict):
    """Why a cell could not be measured, in failed/NAME.json; where it was tried is for the reader of the file."""

    reason: str
    finished: str
    version: str
    machine: str


@dataclass(frozen=True)
class Cell:
    """A configuration of a graph; lines of several tables may share it.

    graph     the name of its config file
    trained   False: only the graph is measured
    peer      embeds the structure in place of an encoder
    measured  what else than the trained rows is measured; no line reads it of a method other than ours
    """

    graph: str
    config: Config
    trained: bool = True
    peer: str | None = None
    measured: tuple[Method, ...] = METHODS

    @cached_property
    def name(self) -> str:
        """Names the graph and, by a fingerprint, all that changes a figure."""
        values = self.settings()
        if "loss" in values and self.config.rings.hops == 1:
            values["loss"].pop("ranking")  # one ring and what is beyond: both rankings are the same loss
        return f"{self.graph}-{fingerprint_of([values, self.trained])[:12]}"

    def settings(self) -> Sections:
        """All that changes a figure, the same on every machine: of a path only the last name."""
        values = {
            name: naming_values(getattr(self.config, name), *RESULTS, first_revision=_FIRST_REVISION)
            for name in _SECTIONS
        }
        if self.peer:
            seeds = {name: values["train"][name] for name in ("seed", "repeats")}
            settings = plain_settings(peer_settings(self.config, self.peer))
            values = {"graph": values["graph"], "evaluate": values["evaluate"], "train": seeds, self.peer: settings}
        elif not self.config.train.reads_samples:
            del values["rings"], values["loss"]
        if not self.peer and self.config.train.objective != "supervised":
            values["baseline"]["dropout"] = None  # was a setting of it, with a classifier that is gone
        if "path" in values["graph"]:
            values["graph"]["path"] = Path(values["graph"]["path"]).name
        return values

    def with_seeds(self, seeds: int) -> "Cell":
        """The same with another number of seeds."""
        train = self.config.train.model_copy(update={"repeats": seeds})
        return replace(self, config=self.config.model_copy(update={"train": train}))

    def without_first(self, seeds: int) -> "Cell":
        """The cell of its other seeds."""
        later = replace(self, config=shift_seeds(self.config, seeds))
        return later.with_seeds(self.config.train.repeats - seeds)

    def run_folders(self, out: Path) -> list[Path]:
        """The folders in which it may be run: one for all seeds, and one for each number of seeds measured before."""
        return [self.without_first(seeds).run_folder(out) for seeds in range(self.config.train.repeats)]

    def run_folder(self, out: Path) -> Path:
        """The folder in which all of its seeds are run."""
        return out / "runs" / self.name

    def file(self, out: Path) -> Path:
        """Where its record is stored."""
        return out / "cells" / f"{self.name}.json"

    def failure(self, out: Path) -> Path:
        """Where the reason is stored why it could not be measured."""
        return out / "failed" / f"{self.name}.json"


def cells_of(
    table: Table, configs: Path, graphs: list[str], settings: list[str], repeats: int, at_hand: bool = True
) -> dict[Line, list[Cell]]:
    """The cells of each line, for these graphs; what a line sets comes after what the user sets.

    With `at_hand` False the graphs need not be there, and the cells have right names only.
    """
    trained = table.measures != ("consistency",)
    values = {graph: _values_of(table, graph, configs) for graph in graphs}
    cells: dict[Line, list[Cell]] = {}
    for line in table.lines:
        wanted = [f"train.repeats={repeats if trained else 1}", *line.defaults, *settings, *line.settings]
        cells[line] = []
        for graph in graphs:
            config = _config_of(deepcopy(values[graph]), graph, wanted, at_hand)
            if line.method:
                config = configured(config, line.method)
            if config.rings.hops == 1:  # lines that differ in the ranking alone share a cell, and its run
                config = config.model_copy(update={"loss": config.loss.model_copy(update={"ranking": "listwise"})})
            measured: tuple[Method, ...] = ("trained",) if line.method else METHODS
            cells[line].append(Cell(graph, config, trained, line.peer, measured))
    return cells


def has_config(table: Table, graph: str, configs: Path) -> bool:
    """Whether it is known what a graph is measured with."""
    return graph in table.files or (configs / f"{graph}.yaml").exists()


def _values_of(table: Table, graph: str, configs: Path) -> dict[str, Any]:
    """The config of a graph; for one of the `files` of a table nothing but where it is."""
    if graph not in table.files:
        return read_yaml(configs / f"{graph}.yaml", "configs")
    return {"graph": {"source": "npz", "path": f"${DATA}/{table.files[graph]}", "structure": "only"}}


def _config_of(values: dict[str, Any], name: str, settings: list[str], at_hand: bool) -> Config:
    """The configuration of a graph; without a folder of data sets, torch-geometric brings those that it knows."""
    for setting in settings:
        apply_setting(values, setting)
    graph = values.get("graph") or {}
    where = str(graph.get("path") or "")
    if where.startswith(f"${DATA}/") and DATA not in os.environ:
        if name in OF_PYG:
            graph = {**graph, "source": "pyg", "dataset": OF_PYG[name]}
            graph.pop("path")
        elif not at_hand:
            graph = {**graph, "path": Path(where).name}
        values["graph"] = graph
    return Config.parse(values)


def stored_record(cell: Cell, out: Path) -> Record | None:
    """The record of a cell, None where it is not measured yet."""
    path = cell.file(out)
    if not path.exists():
        return None
    record = read_json(path, Record, CURE)
    for figures in (record["figures"], *record.get("by_seed", [])):
        if flaw := flaw_of_metrics(figures):
            raise FolderError(f"{path} is damaged: {flaw}; {CURE}")
    return record


def nearest_record(cell: Cell, out: Path) -> Record | None:
    """The record of a cell, or the one with the most seeds below its number; None where no seed is measured."""
    wanted = range(cell.config.train.repeats, 0, -1)
    return next((record for seeds in wanted if (record := stored_record(cell.with_seeds(seeds), out))), None)


def record_to_continue(cell: Cell, out: Path) -> Record | None:
    """The record with the most of the seeds of a cell, and the figures of each; None where there is no such record."""
    wanted = range(cell.config.train.repeats - 1, 0, -1)
    records = (stored_record(cell.with_seeds(seeds), out) for seeds in wanted)
    return next((record for record in records if record and figures_by_seed(record)), None)


def figures_by_seed(record: Record) -> list[CellFigures]:
    """The figures of each seed; none where an older record has only their means."""
    return [record["figures"]] if len(record["seeds"]) == 1 else record.get("by_seed", [])


def store_failure(cell: Cell, out: Path, reason: str) -> None:
    """Store why a cell could not be measured, until it can be."""
    failure: _Failure = {
        "reason": reason,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": __version__,
        "machine": machine(),
    }
    write_json(cell.failure(out), failure)


def stored_failure(cell: Cell, out: Path) -> str | None:
    """Why a cell could not be measured when it was last tried; None where nothing is known."""
    path = cell.failure(out)
    return read_json(path, _Failure, "delete it")["reason"] if path.exists() else None


def refuse_other_graph(cell: Cell, record: Record, out: Path, known: dict[str, str]) -> None:
    """Refuse figures of another graph than the file at hand holds; `known`: fingerprints of files read before."""
    graph, figures = cell.config.graph, record["figures"]
    if not isinstance(graph, NpzGraph) or not graph.path.exists():
        return
    where = fingerprint_of(deciding_settings(cell.config, "graph"))
    if where not in known:
        with tempfile.TemporaryDirectory() as folder:
            run = open_run(cell.config, Path(folder) / "run")
            known[where] = ingest(cell.config, run, Console(quiet=True)).fingerprint
    measured = figures.get("graph", {}).get("fingerprint"), figures.get("statistics", {}).get("graph_fingerprint")
    if known[where] not in measured:
        raise FolderError(
            f"{cell.file(out)} was measured on another graph than {graph.path} holds; choose another --out, or {CURE}"
        )


def machine() -> str:
    """The cores and the processor of this machine."""
    return f"{len(usable_cores())} cores of {processor_name()}"
