"""The paper's tables and figures, and our own: measured cell by cell, kept, and set beside what is published."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from gscl_scale.errors import ConfigError, FolderError, GsclError, RunError, StoppedError, UserError
from gscl_scale.io.atomic import locked, write_text
from gscl_scale.io.json import write_json
from gscl_scale.io.validate import lines_of
from gscl_scale.runtime.console import Console
from gscl_scale.studies.reproduce.cells import Cell, cells_of, discard, kept, measure, refuse_other_graph
from gscl_scale.studies.reproduce.page import Records, draw, page
from gscl_scale.studies.reproduce.tables import TABLES, Line, Table
from gscl_scale.text import quoted, shortened

__all__ = ["TABLES", "Line", "Table", "reproduce"]

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
) -> str:
    """Measure what is not kept of a table, write it into `out`, and return the Markdown.

    RunError if a cell failed, UserError if no more than input is wrong; what could be measured is written all the same.
    With `page_only` nothing is measured: the table is written from what is kept. Where no number of seeds is asked
    for, it is that of the table that is there.
    """
    if name not in TABLES:
        raise ConfigError(f"reproduce {name}: expected one of {', '.join(TABLES)}")
    if any(setting.partition("=")[0].strip() == "train.repeats" for setting in settings):
        raise ConfigError("--set train.repeats: the cells of a table have the seeds that --seeds gives them; use that")
    table = TABLES[name]
    if unknown := [graph for graph in only if graph not in table.graphs]:
        raise ConfigError(f"--only {unknown[0]}: this table has {', '.join(table.graphs)}")
    repeats = repeats or _seeds_in(out).get(name, _SEEDS)
    asked = {} if page_only else cells_of(table, configs, only or list(table.graphs), settings, repeats)
    there = [graph for graph in table.graphs if (configs / f"{graph}.yaml").exists()]
    cells = cells_of(table, configs, there, settings, repeats, at_hand=False)
    reasons: dict[str, str] = {}  # of a graph that cannot be read, or of one line on it
    failed: set[str] = set()
    raised: type[GsclError] = UserError
    shown = _Shown(name, table, cells, out, repeats, _command(name, configs, settings, repeats), settings)
    if page_only and shown.path.exists() and not any(kept(cell, out) for of in cells.values() for cell in of):
        raise UserError(
            f"reproduce {name}: {out} keeps no cell of this table with {repeats} seeds and these settings, and "
            f"{shown.path} shows others; measure it without --page, or use --seeds as it was measured"
        )
    graphs: dict[str, str] = {}  # fingerprints
    for wait in (False, True):  # first what nobody else is at
        for line, cell in ((line, cell) for line, of in asked.items() for cell in of):
            if cell.graph in reasons or cell.name in failed:
                continue
            if record := kept(cell, out):
                refuse_other_graph(cell, record, out, graphs)
                discard(cell, out)
                continue
            with locked(out / "runs" / f"{cell.name}.lock", wait) as ours:
                if not ours or kept(cell, out):
                    continue
                console.say(f"{name}: {line.name}, {cell.graph}")
                try:
                    measure(cell, out, console)
                except StoppedError:
                    raise
                except (GsclError, RuntimeError, MemoryError) as error:  # torch tells with the second of short memory
                    read = (out / "runs" / cell.name / "graph" / "manifest.json").exists()
                    what = f"{line.name}, {cell.graph}" if read else cell.graph
                    reasons[what] = shortened(error) or "there is not enough memory"
                    failed.add(cell.name)
                    raised = raised if isinstance(error, UserError) else RunError
                    console.say(f"{what} is passed over: {reasons[what]}")
            shown.write(reasons)
    text = shown.write(reasons)
    if reasons:
        (what, reason), *more = reasons.items()
        raise raised(
            f"reproduce {name}: {what} could not be measured, because {reason}"
            f"{f', and {len(more)} more' * bool(more)}{f'; what could is in {shown.path}' * bool(text)}"
        )
    return text


def _command(name: str, configs: Path, settings: list[str], seeds: int) -> str:
    """What writes a table again."""
    words = ["gscl-scale", "reproduce", name, "--seeds", str(seeds)]
    words += ["--configs", str(configs)] if configs != CONFIGS else []
    return shlex.join([*words, *(word for setting in settings for word in ("--set", setting))])


def _seeds_in(out: Path) -> dict[str, int]:
    """The seeds of the tables that are there: a table a line."""
    path, seeds = out / "tables", {}
    for line in lines_of(path) if path.exists() else ():
        told = line.decode(errors="replace").strip()
        name, _, number = told.partition(" ")
        if not number.isdecimal() or int(number) < 1:
            raise FolderError(
                f"{path}: expected the name of a table and its number of seeds, got {quoted(told)}; delete it"
            )
        seeds[name] = int(number)
    return seeds


@dataclass(frozen=True)
class _Shown:
    """A table to be written from the cells that are kept."""

    name: str
    table: Table
    cells: dict[Line, list[Cell]]
    out: Path
    seeds: int
    command: str
    settings: list[str]

    @property
    def path(self) -> Path:
        """The page."""
        return self.out / f"{self.name}.md"

    def write(self, reasons: dict[str, str]) -> str:
        """The page, its figures and its picture; and results.md, the pages of all tables.

        Nothing where there is nothing to show but reasons. What was found of the figures and written into `notes` of
        the results stands below the table; with settings of the user the figures are others.
        """
        with locked(self.out / "runs" / "page.lock"):
            found = {cell.name: kept(cell, self.out) for of in self.cells.values() for cell in of}  # some are in many
            records: Records = {
                (line.name, cell.graph): record
                for line in self.table.lines for cell in self.cells[line] if (record := found[cell.name])
            }  # fmt: skip
            if reasons and not records:
                return ""
            text = page(self.name, self.table, records, reasons, self.command)
            notes = self.out / f"notes/{self.name}.md"
            if notes.exists() and not self.settings:
                text += f"\n\n{notes.read_text(encoding='utf-8').strip()}"
            write_text(self.path, text + "\n")
            rows = [{"line": key[0], **record} for key, record in records.items()]
            write_json(self.out / f"{self.name}.json", {"settings": self.settings, "rows": rows})
            if (seeds := _seeds_in(self.out)).get(self.name) != self.seeds:
                told = "".join(f"{table} {number}\n" for table, number in {**seeds, self.name: self.seeds}.items())
                write_text(self.out / "tables", told)
            if self.table.shape != "table" and records:
                draw(self.table, records, self.out / f"{self.name}.png")
            pages = [self.out / f"{each}.md" for each in TABLES]
            texts = [path.read_text(encoding="utf-8") for path in pages if path.exists()]
            write_text(self.out / "results.md", "\n".join(["# Results\n", *texts]))
        return text
