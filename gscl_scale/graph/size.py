"""What a source knows of its graph before it is read."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """What is known of a source before it is read; None is unknown.

    reading   bytes for each node that reading takes at its peak
    kept      bytes of it that stay in memory while the rows are built
    fixed     bytes in memory all the time, whatever the number of nodes
    chunks    bytes of the edges that are read or drawn at once
    waiting   bytes of each node's features that wait in a file before they are written
    """

    num_nodes: int | None = None
    num_edges: int | None = None
    num_features: int | None = None
    reading: int = 0
    kept: int = 0
    fixed: int = 0
    chunks: int = 0
    waiting: int = 0
