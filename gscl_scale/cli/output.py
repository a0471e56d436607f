"""Output of a command: tables for a reader, JSON for a program."""

import json
import sys
from collections.abc import Sequence
from typing import Any

_LOG_WIDTH = 100


def json_text(value: Any) -> str:
    """A value as readable JSON."""
    return json.dumps(value, indent=2, default=str)


def print_json(value: Any) -> None:
    """Print a value as readable JSON."""
    print(json_text(value))


def print_table(headers: list[str], rows: Sequence[tuple[str, ...]], title: str = "") -> None:
    """Print a table as wide as the terminal."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title or None, title_justify="left", header_style="bold")
    for number, header in enumerate(headers):
        table.add_column(header, justify="left", no_wrap=number == 0, overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else _LOG_WIDTH).print(table)
