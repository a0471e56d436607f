"""From a checkpoint to the embeddings of all nodes, layer by layer, keyed by the user's ids."""

from gscl_scale.embed.layers import Workplace, encode_nodes
from gscl_scale.embed.rotation import (
    alignment,
    best_rotation,
    common_nodes,
    read_rotation,
    write_rotation,
)
from gscl_scale.vectors import (
    FILE,
    Embeddings,
    clear_away,
    export,
    fingerprint_in,
    is_complete,
    open_embeddings,
    read_embeddings,
    refuse_taken,
    scratch_folder,
    take_rows,
    turned,
    write_embeddings,
)

__all__ = [
    "FILE",
    "Embeddings",
    "Workplace",
    "alignment",
    "best_rotation",
    "clear_away",
    "common_nodes",
    "encode_nodes",
    "export",
    "fingerprint_in",
    "is_complete",
    "open_embeddings",
    "read_embeddings",
    "read_rotation",
    "refuse_taken",
    "scratch_folder",
    "take_rows",
    "turned",
    "write_embeddings",
    "write_rotation",
]
