"""Ring samples on disk: Arrow parts, a manifest written last, the body of one task, and the reader."""

from gscl_scale.shards.ahead import RoundsAhead
from gscl_scale.shards.changes import match_nodes
from gscl_scale.shards.plan import read_manifest
from gscl_scale.shards.precompute import is_complete, name_of_samples, precompute, rounds_asked
from gscl_scale.shards.reader import RoundReader, Samples, SomeRounds

__all__ = [
    "RoundReader",
    "RoundsAhead",
    "Samples",
    "SomeRounds",
    "is_complete",
    "match_nodes",
    "name_of_samples",
    "precompute",
    "read_manifest",
    "rounds_asked",
]
