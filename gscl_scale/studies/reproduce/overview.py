"""The page over all tables: the methods in full, and of each other table what it says."""

import re
from pathlib import Path

from gscl_scale.studies.reproduce.tables import TABLES
from gscl_scale.text import table as markdown

FILE = "results.md"
_IN_FULL = "methods"
_SENTENCE = re.compile(r"\*\*(.+?)\.?\*\*", re.DOTALL)


def overview(out: Path) -> str:
    """Markdown. `notes/results.md` comes first; the first bold words in the notes on a table are what it says."""
    pages = {name: text for name in TABLES if (text := _text(out / f"{name}.md"))}
    parts = ["# Results", _text(out / "notes" / FILE)]
    if _IN_FULL in pages:
        parts.append(f"#{pages.pop(_IN_FULL)}")
    rows = [[f"[{TABLES[name].title}]({name}.md)", _says(_text(out / "notes" / f"{name}.md"))] for name in pages]
    if rows:
        parts += ["## Further tables", markdown(["table", "what it says"], rows, left=(0, 1))]
    return "\n\n".join(part for part in parts if part) + "\n"


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8").strip() if path.exists() else ""


def _says(text: str) -> str:
    found = _SENTENCE.search(text)
    return " ".join(f"{found[1][:1].upper()}{found[1][1:]}".split()) if found else ""
