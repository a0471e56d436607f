"""The size of a graph that is planned for: of a folder, of a source that is counted, or as given."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NotRequired

from gscl_scale.config.graph_size import FeatureBlocks, GraphSize
from gscl_scale.config.graphs import GraphConfig, SyntheticGraph, TablesGraph
from gscl_scale.graph.features import feature_blocks
from gscl_scale.graph.sources.read import read, source_size
from gscl_scale.graph.sources.synthetic import PRESETS
from gscl_scale.graph.types import SourceSize
from gscl_scale.io.json import read_json
from gscl_scale.io.validate import Count, FileEntry
from gscl_scale.run.record import Counts, size_in

_CLASSES = 50  # of a large graph of which nothing is known: more cost the evaluation more
_PER_CLASS = 100  # nodes, where that gives fewer classes
_VALUE = 4  # bytes of a stored feature


class _Manifest(Counts):
    num_entries: Count
    undirected: bool
    classes: list[str]
    files: dict[str, FileEntry]
    self_loops: NotRequired[Count]


@dataclass(frozen=True)
class GraphShape:
    """What memory, disk and time of the stages follow from.

    entries     stored neighbours: an undirected edge is two
    blocks      how many features of which kind
    values      stored values of sparse features; None: they are dense
    labelled    nodes with a label, of so many `classes`
    source      what is known of the source
    """

    num_nodes: int
    entries: int
    blocks: FeatureBlocks
    undirected: bool
    labelled: int
    classes: int
    source: SourceSize
    values: int | None = None
    rare: bool = False

    @classmethod
    def of_folder(cls, folder: Path) -> "GraphShape":
        """Of a finished graph folder."""
        found = read_json(folder / "manifest.json", _Manifest)
        nodes, means, structural = (
            found["num_nodes"], found.get("neighbour_means", 0), found.get("structural_features", 0)
        )  # fmt: skip
        stored = found["files"].get("feature_values.arrow")
        edges = found["num_entries"] // (2 if found["undirected"] else 1)
        own = found["num_features"] - means - structural
        return cls(
            nodes, found["num_entries"], FeatureBlocks(own, means, structural), found["undirected"],
            nodes if found["classes"] else 0, len(found["classes"]), SourceSize(nodes, edges, own),
            stored["bytes"] // _VALUE if stored else None, size_in(found).rare,
        )  # fmt: skip

    @classmethod
    def of_size(cls, size: SourceSize, config: GraphConfig) -> "GraphShape":
        """Of a graph of which only counts are known; every node counts as labelled, unless no column has labels."""
        nodes, edges = size.num_nodes or 0, size.num_edges or 0
        blocks = feature_blocks(size.num_features, config)
        shape = cls(nodes, edges * (2 if config.undirected else 1), blocks, config.undirected, 0, 0, size)
        if isinstance(config, SyntheticGraph):
            return replace(shape, labelled=nodes, classes=PRESETS[config.preset].num_classes)
        if isinstance(config, TablesGraph) and not (config.nodes and config.label_columns):
            return shape
        return replace(shape, labelled=nodes, classes=min(_CLASSES, max(2, nodes // _PER_CLASS)))

    @property
    def num_features(self) -> int:
        """Features of a node, of all kinds."""
        return sum(self.blocks)

    @property
    def degree(self) -> float:
        """Mean number of neighbours."""
        return self.entries / max(1, self.num_nodes)

    @property
    def item(self) -> int:
        """Bytes of a stored neighbour."""
        return 4 if self.num_nodes < 2**31 else 8

    @property
    def feature_bytes(self) -> int:
        """Bytes of the features on disk."""
        if self.values is not None:
            return 2 * _VALUE * self.values + 8 * self.num_nodes
        return _VALUE * self.num_features * self.num_nodes

    @property
    def folder_bytes(self) -> int:
        """Bytes of the graph folder: rows of neighbours, features, ids and labels."""
        weights = _VALUE * self.entries * self.source.weighted
        return (self.item * self.entries + weights) + 8 * self.num_nodes + self.feature_bytes + 16 * self.num_nodes

    @property
    def size(self) -> GraphSize:
        """What settings that are `auto` follow from."""
        return GraphSize(self.num_nodes, self.rare)


def counted_source(config: GraphConfig) -> SourceSize:
    """The size of the source; a source that does not know it is read once."""
    size = source_size(config)
    if size.num_nodes is not None and size.num_edges is not None:
        return size
    draft = read(config)
    features = draft.features
    width = size.num_features if features is None else features.shape[1]
    edges = sum(ends[0].size for ends in draft.edges)
    return replace(size, num_nodes=draft.num_nodes, num_edges=edges, num_features=width)


def given_size(config: GraphConfig, nodes: int, edges: int, features: int) -> SourceSize:
    """The size of a graph that is not there yet, as tables would bring it."""
    from gscl_scale.graph.sources.tables import size_of_tables  # with pyarrow: only where it is needed

    tables = config if isinstance(config, TablesGraph) else TablesGraph(source="tables", edges=Path(), nodes=Path())
    return size_of_tables(tables, nodes, edges, features or None)
