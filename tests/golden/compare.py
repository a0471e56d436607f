"""Which pinned values differ: exactly for text and whole numbers, within a tolerance for floats."""

import json
from itertools import zip_longest
from pathlib import Path

GOLDEN = Path(__file__).with_name("golden.json")
TOLERANCES = {  # relative, absolute; of all that stands below a key of this name, or at this place
    "losses": (1e-4, 1e-6),
    "curve: autossl / losses": (3e-3, 0.0),  # clusters and nearest nodes: the rounding of a processor decides some
    "curve: autossl / gradient norms": (1e-2, 0.0),
    "curve: afgrl / losses": (3e-3, 0.0),
    "curve: afgrl / gradient norms": (1e-2, 0.0),
    "gradient norms": (1e-3, 1e-6),
    "last step": (1e-3, 1e-5),
    "vectors": (2e-3, 1e-3),
    "features": (1e-5, 1e-6),
    "message weights": (1e-4, 1e-4),
    "log weights": (1e-4, 1e-4),
    "metrics": (1e-3, 0.01),  # a node of a small split may change sides
}
_EXACT = (1e-9, 0.0)
_ABSENT = "nothing"
_LINE = 100  # characters of a table that is written on one line


def differences(old, new, name: str = "", tolerance: tuple[float, float] = _EXACT) -> list[str]:
    """A line for each value that is not as it was."""
    tolerance = TOLERANCES.get(name) or TOLERANCES.get(name.rpartition(" / ")[2], tolerance)
    if isinstance(old, dict) and isinstance(new, dict):
        pairs = [(f"{name} / {key}", old.get(key, _ABSENT), new.get(key, _ABSENT)) for key in {**old, **new}]
    elif isinstance(old, list) and isinstance(new, list):
        pairs = [(f"{name}[{at}]", *pair) for at, pair in enumerate(zip_longest(old, new, fillvalue=_ABSENT))]
    else:
        return [] if _same(old, new, tolerance) else [f"{name}: was {_shown(old)}, is now {_shown(new)}"]
    return [line for key, was, now in pairs for line in differences(was, now, key, tolerance)]


def shortened(lines: list[str], most: int) -> list[str]:
    """The first lines, and how many more there are."""
    return lines if len(lines) <= most else [*lines[:most], f"... and {len(lines) - most} more"]


def _same(old, new, tolerance: tuple[float, float]) -> bool:
    if isinstance(old, float) and isinstance(new, float):
        relative, absolute = tolerance
        return abs(new - old) <= absolute + relative * abs(old)
    return type(old) is type(new) and old == new


def _shown(value) -> str:
    text = value if value is _ABSENT else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]} ..."


def as_text(value, indent: int = 0) -> str:
    """JSON with a line for each value: lists and small tables stay on one, so that a change is a line of the diff."""
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict) or len(flat) < _LINE:
        return flat
    space = "  " * indent
    lines = [
        f"{space}  {json.dumps(key, ensure_ascii=False)}: {as_text(part, indent + 1)}" for key, part in value.items()
    ]
    return "{\n" + ",\n".join(lines) + f"\n{space}}}"
