"""What a verb prints: tables for a reader, JSON for a program."""

import json
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console as RichConsole
from rich.table import Table

_WIDTH = 100  # of a log file


def json_text(value: Any) -> str:
    """A value as readable JSON."""
    return json.dumps(value, indent=2, default=str)


def print_json(value: Any) -> None:
    """Print a value as readable JSON."""
    print(json_text(value))


def print_table(headers: list[str], rows: Sequence[tuple[str, ...]], title: str = "") -> None:
    """Print a table as wide as the terminal."""
    table = Table(title=title or None, title_justify="left", header_style="bold")
    for number, header in enumerate(headers):
        table.add_column(header, justify="left", no_wrap=number == 0, overflow="fold")
    for row in rows:
        table.add_row(*row)
    RichConsole(width=None if sys.stdout.isatty() else _WIDTH).print(table)
