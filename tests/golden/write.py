"""Write the pinned values anew and print what changed.

    python -m tests.golden.write              all cases
    python -m tests.golden.write CASE ...     these, each by its name or the first part of it, such as `curve`

Run it from the root of the repository, after a change of behavior that is meant, and commit golden.json with it.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from tests.golden.cases import CASES
from tests.golden.compare import GOLDEN, as_text, differences, shortened


def main() -> None:
    """Measure, compare, write."""
    parser = argparse.ArgumentParser(description="Write the pinned values of tests/golden anew.")
    parser.add_argument("cases", nargs="*", help="names of cases, or how they begin; all by default")
    begun = tuple(parser.parse_args().cases)
    chosen = [name for name in CASES if not begun or name.startswith(begun)]
    if not chosen:
        sys.exit(f"no case begins with {' or '.join(begun)}; there are {', '.join(CASES)}")
    old = json.loads(GOLDEN.read_text(encoding="utf-8")) if GOLDEN.exists() else {}
    new = {name: old[name] for name in CASES if name in old}  # cases that are gone leave
    for name in chosen:
        with tempfile.TemporaryDirectory() as folder:
            found = measured(name, Path(folder))
        lines = differences(old.get(name, {}), found)
        if lines:  # within the tolerance the old values stay
            new[name] = found
        print("\n   ".join([f"{name}: {_told(name in old, len(lines))}", *shortened(lines, 20)]), flush=True)
    print(*(f"{name}: gone" for name in old.keys() - new.keys()), sep="\n", end="")
    GOLDEN.write_text(as_text({name: new[name] for name in CASES if name in new}) + "\n", encoding="utf-8")


def measured(name: str, folder: Path) -> dict:
    """The values of a case as they come out of JSON."""
    return json.loads(json.dumps(CASES[name](folder)))


def _told(known: bool, number: int) -> str:
    return f"{number} values changed" if known and number else "as before" if known else f"new, {number} values"


if __name__ == "__main__":
    main()
