"""What the settings that are `auto` depend on, and how many features of which kind nodes have."""

from typing import NamedTuple

FEW = 64  # a graph with fewer features gets those of its structure beside them
_RARE = 0.2  # of the values of features: where no more differ from zero, an encoder learns single nodes by heart


class FeatureBlocks(NamedTuple):
    """How many features of a node are of which kind, in their order.

    own         the user's
    means       means of these over the neighbours
    structural  of the structure
    """

    own: int
    means: int = 0
    structural: int = 0


class GraphSize(NamedTuple):
    """The size of a graph.

    rare   whether nodes have many features, all the user's, of which few differ from zero, as words of texts
    """

    num_nodes: int
    rare: bool = False

    @classmethod
    def of(cls, num_nodes: int, blocks: FeatureBlocks, nonzero: int | None) -> "GraphSize":
        """Of a graph whose features have so many values that differ from zero; None: unknown."""
        alone = blocks.own >= FEW and not blocks.structural
        return cls(num_nodes, alone and nonzero is not None and nonzero <= _RARE * num_nodes * blocks.own)
