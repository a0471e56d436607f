"""The paper's tables and figures, and our own: measured cell by cell, stored, and compared with what is published."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gscl_scale.errors import ConfigError, FolderError, GsclError, RunError, StoppedError, UserError
from gscl_scale.io.atomic import hold_file_lock, write_text
from gscl_scale.io.json import write_json
from gscl_scale.io.validate import lines_of
from gscl_scale.report.plots import plot_average_ranks
from gscl_scale.runtime.console import Console
from gscl_scale.studies.reproduce.cells import (
    Cell,
    cells_of,
    has_config,
    nearest_record,
    record_to_continue,
    refuse_other_graph,
    store_failure,
    stored_failure,
    stored_record,
)
from gscl_scale.studies.reproduce.measure import delete_runs, measure
from gscl_scale.studies.reproduce.overview import FILE, overview
from gscl_scale.studies.reproduce.page import draw, page
from gscl_scale.studies.reproduce.ranks import picture_of_ranks, ranks_as_json, ranks_of_table
from gscl_scale.studies.reproduce.tables import TABLES, Line, Table
from gscl_scale.text import quoted, shortened

CONFIGS = Path("configs/paper")  # where the command looks for them
_SEEDS = 5  # as the paper's tables ask for at least


def reproduce(
    name: str,
    configs: Path,
    out: Path,
    only: list[str],
    settings: list[str],
    repeats: int | None,
    console: Console,
    page_only: bool = False,
    methods: Sequence[str] = (),
) -> str:
    """Measure the cells of a table that are not stored, write it into `out`, and return the Markdown.

    Of these, those of the graphs in `only` and of the rows in `methods`. RunError if a cell failed, UserError if only
    the input is wrong; the cells that could be measured are written all the same. With `page_only` nothing is measured.
    Without a number of seeds it is that of the table that is there.
    """
    if name not in TABLES:
        raise ConfigError(f"reproduce {name}: expected one of {', '.join(TABLES)}")
    if any(setting.partition("=")[0].strip() == "train.repeats" for setting in settings):
        raise ConfigError("--set train.repeats: the cells of a table have the seeds that --seeds gives them; use that")
    table = TABLES[name]
    if unknown := [graph for graph in only if graph not in table.graphs]:
        raise ConfigError(f"--only {unknown[0]}: this table has {', '.join(table.graphs)}")
    lines = _lines_of(name, table, methods)
    repeats = repeats or _seeds_in(out).get(name, _SEEDS)
    asked = {} if page_only else cells_of(table, configs, only or list(table.graphs), settings, repeats)
    there = [graph for graph in table.graphs if has_config(table, graph, configs)]
    cells = cells_of(table, configs, there, settings, repeats, at_hand=False)
    study = _Study(name, table, cells, out, repeats, _command(name, configs, settings, repeats), settings)
    if page_only and study.path.exists() and not any(stored_record(cell, out) for of in cells.values() for cell in of):
        raise UserError(
            f"reproduce {name}: {out} has no cell of this table with {repeats} seeds and these settings, and "
            f"{study.path} shows others; measure it without --page, or use --seeds as it was measured"
        )
    for wait in (False, True):  # first what nobody else is at
        for line in lines:
            for cell in asked.get(line, ()):
                study.complete(line, cell, console, wait)
    text = study.write()
    if study.reasons:
        (what, reason), *more = study.reasons.items()
        raise study.error(
            f"reproduce {name}: {what} could not be measured, because {reason}"
            f"{f', and {len(more)} more' * bool(more)}{f'; what could is in {study.path}' * bool(text)}"
        )
    return text


def _lines_of(name: str, table: Table, methods: Sequence[str]) -> list[Line]:
    """The lines of these methods, by their names in `compare`; all lines where none is named."""
    known = dict.fromkeys(line.compared_as for line in table.lines if line.compared_as)
    if methods and not known:
        raise ConfigError(f"--methods: the rows of reproduce {name} are settings, not methods; leave --methods out")
    if unknown := [method for method in methods if method not in known]:
        raise ConfigError(f"--methods {unknown[0]}: reproduce {name} has rows of {', '.join(known)}")
    return [line for line in table.lines if not methods or line.compared_as in methods]


def _command(name: str, configs: Path, settings: list[str], seeds: int) -> str:
    """The command that writes a table again."""
    words = ["gscl-scale", "reproduce", name, "--seeds", str(seeds)]
    words += ["--configs", str(configs)] if configs != CONFIGS else []
    return shlex.join([*words, *(word for setting in settings for word in ("--set", setting))])


def _seeds_in(out: Path) -> dict[str, int]:
    """The seeds of the tables that are there: a table a line."""
    path, seeds = out / "tables", {}
    for text in lines_of(path) if path.exists() else ():
        line = text.decode(errors="replace").strip()
        name, _, number = line.partition(" ")
        if not number.isdecimal() or int(number) < 1:
            raise FolderError(
                f"{path}: expected the name of a table and its number of seeds, got {quoted(line)}; delete it"
            )
        seeds[name] = int(number)
    return seeds


@dataclass
class _Study:
    """A table, its cells, and why some could not be measured.

    reasons   of a graph that cannot be read, or of one line on it
    error     what is raised for them
    """

    name: str
    table: Table
    cells: dict[Line, list[Cell]]
    out: Path
    seeds: int
    command: str
    settings: list[str]
    reasons: dict[str, str] = field(default_factory=dict)
    error: type[GsclError] = UserError
    _failed: set[str] = field(default_factory=set)
    _graphs: dict[str, str] = field(default_factory=dict)  # fingerprints of files

    @property
    def path(self) -> Path:
        """The page."""
        return self.out / f"{self.name}.md"

    def complete(self, line: Line, cell: Cell, console: Console, wait: bool) -> None:
        """Measure a cell that is not stored, unless another command is at it and `wait` is False."""
        if cell.graph in self.reasons or cell.name in self._failed:
            return
        if record := stored_record(cell, self.out):
            refuse_other_graph(cell, record, self.out, self._graphs)
            delete_runs(cell, self.out)
            return
        with hold_file_lock(self.out / "runs" / f"{cell.name}.lock", wait) as ours:
            if not ours or stored_record(cell, self.out):
                return
            console.say(f"{self.name}: {line.name}, {cell.graph}")
            if earlier := record_to_continue(cell, self.out):
                refuse_other_graph(cell.with_seeds(len(earlier["seeds"])), earlier, self.out, self._graphs)
            try:
                measure(cell, self.out, console)
            except StoppedError:
                raise
            except (GsclError, RuntimeError, MemoryError) as error:  # torch reports a lack of memory as a RuntimeError
                read = any((folder / "graph" / "manifest.json").exists() for folder in cell.run_folders(self.out))
                what = f"{line.name}, {cell.graph}" if read else cell.graph
                self.reasons[what] = shortened(error) or "there is not enough memory"
                if read:
                    store_failure(cell, self.out, self.reasons[what])
                self._failed.add(cell.name)
                self.error = self.error if isinstance(error, UserError) else RunError
                console.say(f"{what} is skipped: {self.reasons[what]}")
        self.write()

    def write(self) -> str:
        """Write the page, its figures and its picture; and results.md, the page over all tables.

        Of a cell that was tried before, here or by another command, the reason is named. One with fewer seeds stands in
        for a cell that is not measured yet.
        Nothing where there is nothing to show but reasons. The remarks in `notes` stand below the table, unless
        settings of the user give other figures.
        """
        with hold_file_lock(self.out / "runs" / "page.lock"):
            cells = {cell.name: cell for of in self.cells.values() for cell in of}  # some are in many lines
            found = {name: nearest_record(cell, self.out) for name, cell in cells.items()}
            records = {
                (line.name, cell.graph): record
                for line in self.table.lines for cell in self.cells[line] if (record := found[cell.name])
            }  # fmt: skip
            if self.reasons and not records:
                return ""
            tried = {
                f"{line.name}, {cell.graph}": reason
                for line in self.table.lines for cell in self.cells[line]
                if not found[cell.name] and (reason := stored_failure(cell, self.out))
            }  # fmt: skip
            text = page(self.name, self.table, records, {**tried, **self.reasons}, self.command)
            notes = self.out / f"notes/{self.name}.md"
            if notes.exists() and not self.settings:
                text += f"\n\n{notes.read_text(encoding='utf-8').strip()}"
            write_text(self.path, text + "\n")
            rows = [{"line": key[0], **record} for key, record in records.items()]
            ranks = ranks_of_table(self.table, records)
            of_ranks = {"ranks": ranks_as_json(ranks)} if ranks else {}
            write_json(self.out / f"{self.name}.json", {"settings": self.settings, "rows": rows, **of_ranks})
            seeds = _seeds_in(self.out)
            if seeds.get(self.name) != self.seeds:
                lines = [f"{table} {number}\n" for table, number in {**seeds, self.name: self.seeds}.items()]
                write_text(self.out / "tables", "".join(lines))
            if self.table.shape != "table" and records:
                draw(self.table, records, self.out / f"{self.name}.png")
            if ranks:
                plot_average_ranks(ranks, self.out / picture_of_ranks(self.name))
            write_text(self.out / FILE, overview(self.out))
        return text
