"""From a checkpoint to the embeddings of all nodes, layer by layer, keyed by the user's ids."""

from gscl_scale.embed.files import (
    FILE,
    clear_away,
    fingerprint_in,
    is_complete,
    read_embeddings,
    refuse_taken,
    scratch_folder,
    write_embeddings,
)
from gscl_scale.embed.layers import Workplace, encode_nodes

__all__ = [
    "FILE",
    "Workplace",
    "clear_away",
    "encode_nodes",
    "fingerprint_in",
    "is_complete",
    "read_embeddings",
    "refuse_taken",
    "scratch_folder",
    "write_embeddings",
]
