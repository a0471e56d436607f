"""Which features are made from which columns of a node table."""

from collections.abc import Sequence
from dataclasses import dataclass

from gscl_scale.config.graphs import TablesGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph.sources.column_encoding import columns_of, learn, refuse_damaged, refuse_odd
from gscl_scale.graph.sources.column_kinds import Kind, forced_kind, kind_of
from gscl_scale.graph.sources.column_profile import ColumnStats
from gscl_scale.graph.sources.column_scales import scaled_apart
from gscl_scale.graph.sources.column_summary import Made
from gscl_scale.graph.sources.nodetable import NodeTable
from gscl_scale.graph.types import ColumnEncoding, ColumnSummary
from gscl_scale.text import join_names, quoted

_UNUSED = "not used by graph.encoding"
_FAMILIES = {"one-hot": "category", "hashed": "category"}
_FITTING = {
    "number": ("number", "boolean", "text", "none"),
    "days": ("time", "text", "none"),
    "numbers": ("list", "none"),
}  # storages that an encoding can read; others read all but lists


@dataclass(frozen=True)
class NodeFeatures:
    """The encodings of the columns that become features, a summary of every column, and notes."""

    encodings: list[ColumnEncoding]
    summaries: list[ColumnSummary]
    notes: list[str]

    @property
    def columns(self) -> list[str]:
        """Names of the feature columns."""
        return [name for encoding in self.encodings for name in columns_of(encoding)]


def features_of(
    table: NodeTable,
    config: TablesGraph,
    gaps: bool,
    given: Sequence[ColumnEncoding] = (),
    preferred: Sequence[ColumnEncoding] = (),
) -> NodeFeatures:
    """Decide what becomes of each column, refuse what cannot be read, and describe it.

    gaps        whether nodes without a row will be added
    given       encodings to use whatever the table is like; `preferred` only if the same columns are of the same kinds
    """
    refuse_damaged([*given, *preferred])
    kinds = {name: _kind(table, table.stats[name], config) for name in [*table.features, *_unread(table)]}
    kinds |= _kinds_given(table, given, kinds, config.encoding is not None)
    taken = [name for name in table.features if kinds[name][0] != "left out"]
    learnt = [learn(table.stats[name], kinds[name][0], config.missing, gaps) for name in ([] if given else taken)]
    encodings = list(given) or scaled_apart(learnt, table.stats, config)
    if _same_kinds(encodings, preferred):
        encodings = list(preferred)
    for encoding in encodings:
        refuse_odd(table.stats[encoding["name"]], encoding, table.in_memory)
        _refuse_missing(table.stats[encoding["name"]], encoding, config, gaps)
    reasons = {name: reason for name, (kind, reason) in kinds.items() if kind == "left out"}
    made = Made(table, config, encodings, reasons)
    notes = made.notes_on_reuse() if given or preferred else []
    notes = [*made.notes(), *([] if given else made.notes_on_left_out()), *notes]
    return NodeFeatures(encodings, made.summaries(), notes)


def _unread(table: NodeTable) -> list[str]:
    return [name for name, stats in table.stats.items() if stats.storage == "other"]


def _kind(table: NodeTable, stats: ColumnStats, config: TablesGraph) -> tuple[Kind, str]:
    if wanted := config.column_types.get(stats.name):
        return forced_kind(stats, wanted)
    kind, reason = kind_of(stats, config.feature_columns is not None)
    if kind == "left out" and config.feature_columns is not None:
        raise GraphError(
            f"{table.files[0]}: feature {quoted(stats.name)} has {reason}; leave it out of graph.feature_columns"
        )
    return kind, reason


def _kinds_given(
    table: NodeTable, given: Sequence[ColumnEncoding], found: dict[str, tuple[Kind, str]], by_setting: bool
) -> dict[str, tuple[Kind, str]]:
    """The kinds by encodings of another table: these columns are needed, and others are left out."""
    for encoding in given:
        name, kind = encoding["name"], encoding["kind"]
        storage = table.stats[name].storage if name in table.features else ""
        if storage not in _FITTING.get(kind, ("number", "boolean", "time", "text", "none")):
            raise GraphError(f"{table.files[0]}: {_why_not_given(name, kind, storage, by_setting)}")
    unknown: tuple[Kind, str] = ("left out", _UNUSED)
    left = dict.fromkeys(found, unknown) if given else {}
    return left | {encoding["name"]: (encoding["kind"], "") for encoding in given}


def bring_features(encodings: Sequence[ColumnEncoding], num_own: int) -> str:
    """What to give an encoder that was trained on so many features, or on these columns."""
    if not encodings:
        return f"bring those of the training: {num_own:,} numbers per node in the same order"
    names = join_names([encoding["name"] for encoding in encodings])
    return f"bring the columns of the training by nodes=... or features=[...]: {names}"


def _why_not_given(name: str, kind: str, storage: str, by_setting: bool) -> str:
    """Why a column cannot be read by an encoding, which the setting names or a trained encoder holds."""
    if not by_setting:
        flaw = f"was read as {kind} in the training, and has other values here" if storage else "is missing"
        cure = "give values of the same type" if storage else "the nodes had it in the training: give it too"
        return f"column {quoted(name)} {flaw}; {cure}"
    what = f"is read as {kind}" if storage else "is needed"
    has = "other values" if storage else "no such column"
    return f"column {quoted(name)} {what} by graph.encoding, and the table has {has}; bring the columns of {_AS_BEFORE}"


_AS_BEFORE = "the table that the encoding was learnt from, or leave graph.encoding out"


def _same_kinds(encodings: Sequence[ColumnEncoding], others: Sequence[ColumnEncoding]) -> bool:
    def outline(encoding: ColumnEncoding) -> tuple[str, str, int]:
        kind = encoding["kind"]
        return encoding["name"], _FAMILIES.get(kind, kind), encoding["width"] if kind == "numbers" else 0

    return bool(others) and list(map(outline, encodings)) == list(map(outline, others))


def _refuse_missing(stats: ColumnStats, encoding: ColumnEncoding, config: TablesGraph, gaps: bool) -> None:
    if config.missing != "refuse" or not (gaps or stats.num_missing(encoding["kind"], encoding["order"])):
        return
    if gaps:
        raise GraphError("graph.unknown_ids=add adds nodes without features; set graph.missing to mean or zero")
    places = [found.first_missing for found in stats.numbers_as(encoding["kind"], encoding["order"])]
    raise GraphError(
        f"{next(filter(None, places), stats.first_empty)}: feature {quoted(stats.name)} is empty; fill it, set "
        "graph.missing to mean or zero, or leave the column out of graph.feature_columns"
    )
