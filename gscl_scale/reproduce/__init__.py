"""The paper's tables and figures, and our own: measured cell by cell, kept, and set beside what is published."""

from pathlib import Path

from gscl_scale.checked import shortened
from gscl_scale.errors import ConfigError, GsclError, RunError, StoppedError
from gscl_scale.files import locked, write_json, write_text
from gscl_scale.reproduce.cells import Cell, cells_of, kept, measure
from gscl_scale.reproduce.page import Records, draw, page
from gscl_scale.reproduce.tables import TABLES, Line, Table
from gscl_scale.runtime import Console

__all__ = ["TABLES", "Line", "Table", "reproduce"]


def reproduce(
    name: str,
    configs: Path,
    out: Path,
    only: list[str],
    settings: list[str],
    repeats: int,
    console: Console,
    page_only: bool = False,
) -> str:
    """Measure what is not kept of a table, write it into `out`, and return the Markdown; RunError if a cell failed.

    With `page_only` nothing is measured: the table is written from what is kept.
    """
    if name not in TABLES:
        raise ConfigError(f"reproduce {name}: expected one of {', '.join(TABLES)}")
    table = TABLES[name]
    asked = {} if page_only else cells_of(table, configs, only or list(table.graphs), settings, repeats)
    there = [graph for graph in table.graphs if (configs / f"{graph}.yaml").exists()]
    cells = cells_of(table, configs, there, settings, repeats, at_hand=False)
    reasons: dict[str, str] = {}  # of a graph that cannot be read, or of one line on it
    failed: set[str] = set()
    notes = configs / "notes" / f"{name}.md"
    for wait in (False, True):  # first what nobody else is at
        for line, cell in ((line, cell) for line, of in asked.items() for cell in of):
            if cell.graph in reasons or cell.name in failed or kept(cell, out):
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
                    console.say(f"{what} is passed over: {reasons[what]}")
            _write(name, table, cells, reasons, out, notes)
    text = _write(name, table, cells, reasons, out, notes)
    if reasons:
        (what, reason), *more = reasons.items()
        raise RunError(
            f"reproduce {name}: {what} could not be measured, because {reason}"
            f"{f', and {len(more)} more' * bool(more)}; what could is in {out / f'{name}.md'}"
        )
    return text


def _write(
    name: str, table: Table, cells: dict[Line, list[Cell]], reasons: dict[str, str], out: Path, notes: Path
) -> str:
    """The page, its figures and its picture from the cells that are kept; and results.md, the pages of all tables.

    What somebody has found and written into `notes` stands below the table.
    """
    found = {cell.name: kept(cell, out) for of in cells.values() for cell in of}  # a cell may be in several lines
    records: Records = {
        (line.name, cell.graph): record
        for line in table.lines for cell in cells[line] if (record := found[cell.name])
    }  # fmt: skip
    noted = f"\n\n{notes.read_text(encoding='utf-8').strip()}" if notes.exists() else ""
    text = page(name, table, records, reasons) + noted
    with locked(out / "runs" / "page.lock"):
        write_text(out / f"{name}.md", text + "\n")
        write_json(out / f"{name}.json", {"rows": [{"line": key[0], **record} for key, record in records.items()]})
        if table.shape != "table" and records:
            draw(table, records, out / f"{name}.png")
        pages = [out / f"{each}.md" for each in TABLES]
        texts = [path.read_text(encoding="utf-8") for path in pages if path.exists()]
        write_text(out / "results.md", "\n".join(["# Results\n", *texts]))
    return text
