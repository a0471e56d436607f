"""Columns of a node table whose numbers are far larger than those of others, and one scale for all of them."""

from collections.abc import Mapping, Sequence

from gscl_scale.config.graphs import TablesGraph
from gscl_scale.graph.features import columns_in, gets_structural
from gscl_scale.graph.sources.column_profile import ColumnStats
from gscl_scale.graph.types import ColumnEncoding

_SCALES_APART = 100


def largest_numbers(encodings: Sequence[ColumnEncoding], stats: Mapping[str, ColumnStats]) -> dict[str, float]:
    """The largest absolute number of each column, 1 for those of text; empty where all are of about one size."""
    largest = {}
    for one in encodings:
        found = stats[one["name"]].numbers_as(one["kind"], one["order"])
        largest[one["name"]] = max([max(abs(each.low), abs(each.high)) for each in found if each.count], default=1.0)
    least = min((value or 1.0 for value in largest.values()), default=1.0)
    return largest if max(largest.values(), default=0.0) > _SCALES_APART * least else {}


def scaled_apart(
    encodings: list[ColumnEncoding], stats: Mapping[str, ColumnStats], config: TablesGraph
) -> list[ColumnEncoding]:
    """The encodings, with the scale of each column of numbers where one of them would drown the others.

    Where structural features stand beside all columns, these are scaled with them.
    """
    alone = config.structure == "auto" and not gets_structural(columns_in(encodings), config)
    if not alone or not largest_numbers(encodings, stats):
        return encodings
    return [_scaled(one, stats[one["name"]]) for one in encodings]


def _scaled(encoding: ColumnEncoding, stats: ColumnStats) -> ColumnEncoding:
    found = stats.numbers_as(encoding["kind"], encoding["order"])
    if not found:
        return encoding
    means, deviations = [one.total.mean(one.count) for one in found], [one.deviation for one in found]
    return {**encoding, "means": means, "deviations": deviations}
