"""What a column of a node table is taken for, by what is in it and by its name."""

import json
import re
import shlex
from collections.abc import Sequence
from typing import Literal

from gscl_scale.config.graphs import ColumnType
from gscl_scale.errors import GraphError
from gscl_scale.graph.sources.cells import DATE_ORDERS
from gscl_scale.graph.sources.column_profile import MOST_CATEGORIES, MOST_NAMED, ColumnStats, NumberStats
from gscl_scale.text import quoted

Kind = Literal["number", "numbers", "days", "one-hot", "hashed", "text", "left out"]

_NEARLY = 0.9  # share of the cells from which a column is one of numbers or dates, and the others are mistakes
_UNLIKE = 0.5  # distinct values per cell from which texts name their rows
_FEWEST_SERIAL = 100
_YAML_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
_ROW_INDEX = re.compile(r"__index_level_\d+__|Unnamed: \d+|")  # names that pandas gives it in Parquet and in CSV files
_CODE_NAMES = {
    "id", "ids", "uuid", "guid", "zip", "zipcode", "postcode", "postal", "plz", "phone", "telephone", "tel", "mobile",
    "fax", "iban", "ssn", "ean", "isbn", "sku", "barcode",
}  # fmt: skip


def kind_of(stats: ColumnStats, named: bool) -> tuple[Kind, str]:
    """What a column becomes, and why if it is left out; a column that the config names is always taken."""
    if stats.storage == "other":
        return "left out", "neither numbers, dates nor text"
    if stats.storage == "list":
        return ("numbers", "") if stats.lists else ("left out", "no values")
    if not stats.present or not _counted(stats):
        return "left out", "no values"
    if stats.storage == "time":
        return "days", ""
    if stats.storage != "text":
        code = "" if named else _serial(stats.numbers, stats.name)
        return ("left out", code) if code else ("number", "")
    return _kind_of_text(stats, named)


def forced_kind(stats: ColumnStats, wanted: ColumnType) -> tuple[Kind, str]:
    """What a column becomes whose type the config gives."""
    if wanted == "skip" or not stats.present:
        return "left out", "graph.column_types" if wanted == "skip" else "no values"
    if wanted in ("category", "text"):
        few = stats.values is not None and len(stats.values) <= MOST_CATEGORIES
        kind: Kind = "text" if wanted == "text" else "one-hot" if few else "hashed"
        return kind, ""
    fitting = {"number": ("text", "number", "boolean", "none"), "date": ("text", "time", "none")}[wanted]
    if stats.storage not in fitting:
        raise GraphError(
            f"graph.column_types: {quoted(stats.name)} is given as {wanted}, and it holds neither {wanted}s nor text; "
            "remove it from graph.column_types"
        )
    return ("number", "") if wanted == "number" else ("days", "")


def type_option(name: str, in_python: bool = False) -> str:
    """The option that sets the type of a column, ready for a shell or for Python; YAML has names of other meaning.

    >>> print(type_option("no"))
    --set 'graph.column_types={"no": category}'
    >>> print(type_option("no", in_python=True))
    graph__column_types={'no': 'category'}
    """
    if in_python:
        return f"graph__column_types={ {name: 'category'} }"
    key = name if name.isidentifier() and name.lower() not in _YAML_WORDS else json.dumps(name, ensure_ascii=False)
    return f"--set {shlex.quote(f'graph.column_types={{{key}: category}}')}"


def missing_option(cells: Sequence[str], in_python: bool = False) -> str:
    """The option that counts cells as missing, ready for a shell or for Python; of many cells, dots stand for others.

    >>> print(missing_option(["not asked"]))
    --set 'graph.missing_values=["not asked"]'
    """
    shown = [json.dumps(cell, ensure_ascii=False) for cell in cells[:MOST_NAMED]]
    values = f"[{', '.join([*shown, '...'] if len(cells) > MOST_NAMED else shown)}]"
    return f"graph__missing_values={values}" if in_python else f"--set {shlex.quote(f'graph.missing_values={values}')}"


def date_order(stats: ColumnStats) -> str:
    """The order of day, month and year in which most cells are dates; where two fit, dots mean that days come first."""
    preferred = sorted(DATE_ORDERS, key=lambda order: order == "day first" and not stats.dotted)
    return max(preferred, key=lambda order: stats.days[order].count)


def _counted(stats: ColumnStats) -> bool:
    """Whether any cell holds more than a word for missing values."""
    first_odd = stats.numbers.first_odd
    return bool(stats.numbers.count or first_odd or any(days.count for days in stats.days.values()))


def _kind_of_text(stats: ColumnStats, named: bool) -> tuple[Kind, str]:
    few = stats.values is not None and len(stats.values) <= MOST_CATEGORIES
    ratio = stats.distinct.count / stats.present
    categories = few and ratio <= _UNLIKE
    (numbers,) = stats.numbers_as("number", stats.number_order)
    if _are(numbers, stats, categories):
        code = "leading zeros: a code" if stats.zeros else _serial(numbers, stats.name)
        return ("number", "") if not code else ("text", "") if named and stats.zeros else _unless(named, code, "number")
    if any(_are(days, stats, categories) for days in stats.days.values()):
        return "days", ""
    if categories or (few and named):
        return "one-hot", ""
    if _share(stats.phones, stats) >= _NEARLY:
        return _unless(named, "phone numbers", "text")
    if ratio <= _UNLIKE:
        return "hashed", ""
    if _share(stats.separated, stats) >= _UNLIKE:
        return "text", ""
    return _unless(named, "nearly unique: an id or a code", "text")


def _unless(named: bool, reason: str, kind: Kind) -> tuple[Kind, str]:
    return (kind, "") if named else ("left out", reason)


def _are(found: NumberStats, stats: ColumnStats, categories: bool) -> bool:
    """Whether the cells are numbers, or dates: all of them, or nearly all where they are no categories either."""
    nearly = not categories and _share(found.count, stats) >= _NEARLY
    return found.count > 0 and (found.first_odd is None or nearly)


def _share(count: int, stats: ColumnStats) -> float:
    return count / stats.present


def _serial(numbers: NumberStats, name: str) -> str:
    """Why whole numbers name their rows; "" if they seem to measure something."""
    if numbers.whole and _ROW_INDEX.fullmatch(name):
        return "the row index of a data frame"
    if not numbers.whole or numbers.distinct.count <= MOST_CATEGORIES:
        return ""
    words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}
    if words & _CODE_NAMES or name.lower() in _CODE_NAMES:
        return "named like an id or a code"
    span = numbers.high - numbers.low + 1
    if numbers.count >= _FEWEST_SERIAL and span == numbers.count and numbers.distinct.count >= _NEARLY * span:
        return "numbers the rows"
    return ""
