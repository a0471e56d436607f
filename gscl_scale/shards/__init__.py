"""Ring samples on disk: Arrow parts, a manifest written last, the body of one task, and the reader."""

from gscl_scale.shards.precompute import is_complete, precompute
from gscl_scale.shards.reader import RoundReader, Samples

__all__ = ["RoundReader", "Samples", "is_complete", "precompute"]
