"""The section `graph`: one class for each kind of source."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field, model_validator

from gscl_scale.config.section import Key, Result, Section


class _GraphSection(Section):
    DECIDES: ClassVar[Result] = "graph"

    name: str = Field("", description="Name of the graph in figures and folders; by default taken from the source.")
    undirected: bool = Field(True, description="Walk every edge both ways; false keeps the direction of the edges.")
    structural_features: int = Field(
        128, ge=8, description="Width of the features made from the structure where the graph brings none."
    )
    memory_mb: Annotated[int, Key("nothing")] = Field(
        1024, ge=16, description="Memory that sorting the edges may take; the rest waits on disk."
    )


class DigitsGraph(_GraphSection):
    """scikit-learn's bundled digits as a graph of nearest neighbours."""

    source: Literal["digits"] = Field("digits", description="The quick start: 1,797 images, no download.")
    neighbours: int = Field(10, ge=1, le=100, description="Each image is joined to this many nearest others.")


class SyntheticGraph(_GraphSection):
    """A seeded graph with communities and power-law degrees."""

    source: Literal["synthetic"] = Field(description="A seeded graph with communities and power-law degrees.")
    preset: Literal["tiny", "small", "arxiv", "large"] = Field(
        "small", description="tiny: 300 nodes; small: 3,000; arxiv: 169,343; large: 10,000,000."
    )
    num_nodes: int | None = Field(None, ge=10, description="Number of nodes, in place of the preset's.")
    mean_degree: float | None = Field(None, gt=0, description="Undirected edges drawn per node times two.")
    num_features: int | None = Field(None, ge=1, description="Width of the features, in place of the preset's.")
    seed: int = Field(0, ge=0, description="Seed of the graph.")


class NpzGraph(_GraphSection):
    """One numpy file; see docs/graphs.md for its arrays."""

    source: Literal["npz"] = Field(description="One numpy file in our import format, see docs/graphs.md.")
    path: Path = Field(description="The .npz file.")


class TablesGraph(_GraphSection):
    """Edge and node tables, Parquet or CSV."""

    source: Literal["tables"] = Field(description="Edge and node tables, Parquet or CSV.")
    edges: Path = Field(description="Edge table: a Parquet or CSV file, or a folder of them.")
    nodes: Path | None = Field(None, description="Node table; without one the nodes are those that edges name.")
    source_column: str = Field("source", description="Edge table: column of the source's id.")
    target_column: str = Field("target", description="Edge table: column of the target's id.")
    id_column: str = Field("id", description="Node table: column of the node's id.")
    label_column: str | None = Field("label", description="Node table: column of the label, if there is one.")
    split_column: str | None = Field("split", description="Node table: column with train, val or test, if any.")
    feature_columns: list[str] | None = Field(
        None, description="Node table: feature columns, numbers or lists of numbers; by default all that remain."
    )

    @model_validator(mode="after")
    def _two_ends(self) -> "TablesGraph":
        if self.source_column == self.target_column:
            raise ValueError(
                f"source_column and target_column are both {self.source_column!r}; name the columns of both ends"
            )
        return self


class OgbGraph(_GraphSection):
    """A node-property data set of the Open Graph Benchmark."""

    source: Literal["ogb"] = Field(description="A node-property data set of the Open Graph Benchmark.")
    dataset: str = Field(description="The data set's name, such as ogbn-arxiv.")
    path: Path = Field(Path("data"), description="Folder where the ogb package keeps its data sets.")


class PygGraph(_GraphSection):
    """A data set of torch-geometric."""

    source: Literal["pyg"] = Field(description="A data set of torch-geometric.")
    dataset: str = Field(description="Class and name, such as Planetoid/Cora, WikiCS, Amazon/Photo or Actor.")
    path: Path = Field(Path("data"), description="Folder where torch-geometric keeps its data sets.")


class MemoryGraph(_GraphSection):
    """A graph that a Python program handed over."""

    source: Literal["memory"] = Field("memory", description="A graph handed to gscl_scale.fit; not for files.")


GraphConfig = Annotated[
    DigitsGraph | SyntheticGraph | NpzGraph | TablesGraph | OgbGraph | PygGraph | MemoryGraph,
    Field(discriminator="source"),
]

SOURCES = {get_args(kind.model_fields["source"].annotation)[0]: kind for kind in get_args(get_args(GraphConfig)[0])}
