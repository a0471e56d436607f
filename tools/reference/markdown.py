"""Markdown of a reference page."""

from collections.abc import Iterable, Sequence

from gscl_scale.text import table

NOTE = "<!-- Written by `make reference` from the code. -->"


def page(title: str, *parts: str) -> str:
    """A whole page; parts that are empty are left out."""
    return "\n\n".join([f"# {title}", NOTE, *filter(None, parts)]) + "\n"


def rows(headers: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table aligned left; a bar within a cell does not end it."""
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return table(headers, cells, range(len(headers)))


def code(text: str) -> str:
    """Code within text; "" for none."""
    return f"`{text}`" if text else ""


def choice(words: Sequence[str]) -> str:
    """Words of which one is taken: "a, b or c"."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last
