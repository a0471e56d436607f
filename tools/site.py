"""What mkdocs does when it reads mkdocs.yml: a folder in the navigation stands for all of its pages."""

from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Replace folders in the navigation by their pages, the index first."""
    config.nav = expanded(config.nav, Path(config.docs_dir))
    return config


def expanded(entry: Any, folder: Path) -> Any:
    """An entry of the navigation; `reference/verbs/` becomes a list of the pages in it."""
    if isinstance(entry, dict):
        return {title: expanded(inner, folder) for title, inner in entry.items()}
    if isinstance(entry, list):
        return [expanded(inner, folder) for inner in entry]
    if not entry.endswith("/"):
        return entry
    pages = sorted((folder / entry).glob("*.md"), key=lambda path: (path.stem != "index", path.stem))
    return [path.relative_to(folder).as_posix() for path in pages]
