"""`python -m tools.reference` writes docs/reference; `--check` fails where it is out of date."""

import sys
from pathlib import Path

from tools.reference import files, names, settings, verbs

FOLDER = Path(__file__).parents[2] / "docs" / "reference"


def all_pages() -> dict[str, str]:
    """{name: text} of everything that is written."""
    return {**settings.pages(), **verbs.pages(), **names.pages(), **files.pages(FOLDER)}


def outdated(pages: dict[str, str]) -> list[str]:
    """Names of pages that differ from the files, and of files that no page has any more."""
    there = {
        path.relative_to(FOLDER).as_posix() for part in ("config", "verbs") for path in (FOLDER / part).glob("*.md")
    }
    written = {name: FOLDER / name for name in pages}
    differ = [
        name for name, path in written.items() if not path.exists() or path.read_text(encoding="utf-8") != pages[name]
    ]
    return sorted([*differ, *(there - set(pages))])


def main() -> int:
    """Write or compare all pages; 1 where one is out of date."""
    pages = all_pages()
    behind = outdated(pages)
    if "--check" in sys.argv[1:]:
        print(
            "\n".join(f"docs/reference/{name} is out of date: run make reference" for name in behind),
            end="\n" * bool(behind),
        )
        return int(bool(behind))
    for name in behind:
        path = FOLDER / name
        if name not in pages:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(pages[name], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
