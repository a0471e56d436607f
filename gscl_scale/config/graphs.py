"""The section `graph`: one class for each kind of source."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self, get_args

from pydantic import BeforeValidator, Field, field_serializer, field_validator, model_validator

from gscl_scale.config.section import Key, Result, Section
from gscl_scale.storage.urls import url_of

ColumnType = Literal["number", "category", "date", "text", "skip"]

_PACKAGES = (
    "PIL", "aiohttp", "fsspec", "jinja2", "joblib", "matplotlib", "networkx", "numba", "numpy", "pydantic", "rich",
    "scipy", "sklearn", "sympy", "torch", "torch_geometric",
)  # fmt: skip

Structure = Literal["auto", "none", "always", "only"]
_STRUCTURE = (
    "Structural features: auto: where a graph has no features, few, or dense ones that tell nothing of its edges; "
    "none; always: beside all dense ones; only: in place of all others."
)


_SEPARATOR = (
    "comma, tab, semicolon, pipe, blanks or one character; comma+blanks drops blanks around it. By default comma, in "
    ".tsv files tab."
)
_SEPARATORS = ("comma", "tab", "semicolon", "pipe")


def _as_written(values: object) -> object:
    """Numbers in a list as text, which YAML reads as numbers."""
    if not isinstance(values, list):
        return values
    return [str(one) if isinstance(one, (int, float)) and not isinstance(one, bool) else one for one in values]


class _GraphSection(Section):
    DECIDES: ClassVar[Result] = "graph"
    INPUT_FILES: ClassVar[tuple[str, ...]] = ()  # settings that name files or folders whose change a run must notice

    name: str = Field("", description="Name of the graph on pages and in folders; by default that of its source.")
    undirected: bool = Field(True, description="Follow every edge in both directions; false: only in its own.")
    structure: Annotated[Structure, Key(revision=4, neutral="auto")] = Field("auto", description=_STRUCTURE)
    structural_features: int = Field(128, ge=8, description="Width of the structural features.")
    memory_mb: Annotated[int, Key("nothing")] = Field(1024, ge=16, description="Memory for sorting the edges in MB.")


class DigitsGraph(_GraphSection):
    """The digits of scikit-learn as a graph of nearest neighbours."""

    structure: Annotated[Structure, Key(revision=4, neutral="none")] = Field("none", description=_STRUCTURE)
    source: Literal["digits"] = Field("digits", description="The quick start: 1,797 images, no download.")
    neighbours: int = Field(10, ge=1, le=100, description="Nearest images to connect each image with.")


class PackagesGraph(_GraphSection):
    """Modules of installed Python packages; edges are imports."""

    source: Literal["packages"] = Field(description="Modules of installed Python packages; edges are their imports.")
    packages: list[str] = Field(list(_PACKAGES), description="Packages to read; those not installed are left out.")


class SyntheticGraph(_GraphSection):
    """A random graph with communities and power-law degrees."""

    structure: Annotated[Structure, Key(revision=4, neutral="none")] = Field("none", description=_STRUCTURE)
    source: Literal["synthetic"] = Field(description="A random graph with communities and power-law degrees.")
    preset: Literal["tiny", "small", "arxiv", "large"] = Field(
        "small", description="tiny: 300 nodes; small: 3,000; arxiv: 169,343; large: 10,000,000."
    )
    num_nodes: int | None = Field(None, ge=10, description="Number of nodes; by default that of the preset.")
    mean_degree: float | None = Field(None, gt=0, description="Mean degree: undirected edges per node, times two.")
    num_features: int | None = Field(None, ge=1, description="Width of the features; by default that of the preset.")
    seed: int = Field(0, ge=0, description="Seed of the graph.")


class NpzGraph(_GraphSection):
    """One NumPy file."""

    INPUT_FILES: ClassVar[tuple[str, ...]] = ("path",)

    source: Literal["npz"] = Field(description="One NumPy file, see docs/graphs_sources.md for its arrays.")
    path: Path = Field(description="The .npz file.")


class TablesGraph(_GraphSection):
    """Edge and node tables, Parquet or text."""

    INPUT_FILES: ClassVar[tuple[str, ...]] = ("edges", "nodes")

    source: Literal["tables"] = Field(description="Edge and node tables, Parquet or text.")
    edges: Path = Field(description="Edge table: a Parquet or text file, or a folder of them; or an s3:// URL.")
    nodes: Path | None = Field(None, description="Node table; by default the nodes are the ends of the edges.")
    source_column: str = Field("source", description="Edge table: column with the id of the source node.")
    target_column: str = Field("target", description="Edge table: column with the id of the target node.")
    separator: Annotated[str | None, Key(revision=4, neutral=None)] = Field(
        None, description=f"Edge table that is text: {_SEPARATOR}"
    )
    header: Annotated[bool, Key(revision=4, neutral=True)] = Field(
        True, description="Edge table that is text: the first row names the columns; else column_1, column_2, ..."
    )
    comment: Annotated[str | None, Field(max_length=8), Key(revision=4, neutral=None)] = Field(
        None,
        description="Edge table that is text: what begins a comment line, such as '#%' or '//'; '' if nothing does.",
    )
    nodes_separator: Annotated[str | None, Key(revision=4, neutral=None)] = Field(
        None, description=f"Node table that is text: {_SEPARATOR}"
    )
    nodes_header: Annotated[bool, Key(revision=4, neutral=True)] = Field(
        True, description="Node table that is text: the first row names the columns; else column_1, column_2, ..."
    )
    weight_column: Annotated[str | None, Key(revision=4, neutral=None)] = Field(
        None, description="Edge table: column with the weight of the edge, above 0; by default all weights are 1."
    )
    id_column: str = Field("id", description="Node table: column with the id of the node.")
    label_column: str | Annotated[list[str], Field(min_length=1)] | None = Field(
        "label", description="Node table: column with the label, or the labels in a list; or columns of 0 and 1."
    )
    label_separator: Annotated[str | None, Field(min_length=1), Key(revision=4, neutral=None)] = Field(
        None,
        description="Node table: what is between the labels of a node in the text of label_column: comma, semicolon, "
        "pipe, tab, blanks or other characters.",
    )
    split_column: str | None = Field("split", description="Node table: column with train, val or test, if any.")
    feature_columns: list[str] | None = Field(
        None, description="Node table: feature columns; by default all others except those that look like ids or codes."
    )
    column_types: Annotated[dict[str, ColumnType], Key(revision=4, neutral={})] = Field(
        {}, description="Node table: number, category, date, text or skip for columns that are not read as they should."
    )
    missing: Annotated[Literal["mean", "zero", "refuse"], Key(revision=4, neutral="mean")] = Field(
        "mean", description="What to put where a feature is missing; a column that marks these nodes is added."
    )
    missing_values: Annotated[list[str], BeforeValidator(_as_written), Key(revision=5, neutral=[])] = Field(
        [], description="Node table: cells that mean that a value is missing, such as [-999, not asked]."
    )
    unknown_ids: Annotated[Literal["refuse", "add", "drop"], Key(revision=4, neutral="refuse")] = Field(
        "refuse",
        description="With a node table, edges to ids without a row in it: refuse them, add the nodes, or drop them.",
    )
    encoding: Annotated[Path | None, Key(revision=4, neutral=None)] = Field(
        None, description="Run or graph folder whose encoding of columns is reused, so that its encoder can read them."
    )

    @field_serializer("edges", "nodes", when_used="json")
    def _with_both_slashes(self, path: Path | None) -> str | None:
        return None if path is None else url_of(path) or str(path)

    @property
    def label_columns(self) -> list[str]:
        """The columns with labels."""
        return [self.label_column] if isinstance(self.label_column, str) else list(self.label_column or ())

    @field_validator("separator", "nodes_separator")
    @classmethod
    def _separates(cls, value: str | None) -> str | None:
        name = (value or "comma").removesuffix("+blanks")
        if (
            value == "blanks"
            or name in _SEPARATORS
            or (len(name) == 1 and not name.isalnum() and name not in "\"'\r\n ")
        ):
            return value
        raise ValueError(f"expected {', '.join(_SEPARATORS)}, blanks, or one character that is no letter")

    @model_validator(mode="after")
    def _labels_fit_together(self) -> Self:
        if self.label_separator is not None and len(self.label_columns) != 1:
            raise ValueError(
                f"label_separator splits the text of one column, label_column names {len(self.label_columns)}; "
                "leave label_separator out"
            )
        if len(set(self.label_columns)) < len(self.label_columns):
            raise ValueError("label_column names a column twice; name each once")
        return self

    @model_validator(mode="after")
    def _ends_differ(self) -> Self:
        if self.source_column == self.target_column:
            raise ValueError(
                f"source_column and target_column are both {self.source_column!r}; name the column of each end"
            )
        if self.weight_column in (self.source_column, self.target_column):
            raise ValueError(
                f"weight_column is {self.weight_column!r}, which holds ids; name the column of the weights"
            )
        return self


class OgbGraph(_GraphSection):
    """A node-property data set of the Open Graph Benchmark."""

    source: Literal["ogb"] = Field(description="A node-property data set of the Open Graph Benchmark.")
    dataset: str = Field(description="Name of the data set, such as ogbn-arxiv.")
    path: Path = Field(Path("data"), description="Folder in which the ogb package stores its data sets.")


class PygGraph(_GraphSection):
    """A data set of torch-geometric."""

    source: Literal["pyg"] = Field(description="A data set of torch-geometric.")
    dataset: str = Field(description="Class and name, such as Planetoid/Cora, WikiCS, Amazon/Photo or Actor.")
    path: Path = Field(Path("data"), description="Folder in which torch-geometric stores its data sets.")


class MemoryGraph(_GraphSection):
    """A graph that a Python program passes to `gscl_scale.fit`."""

    source: Literal["memory"] = Field("memory", description="A graph passed to gscl_scale.fit; not for files.")


GraphConfig = Annotated[
    DigitsGraph | PackagesGraph | SyntheticGraph | NpzGraph | TablesGraph | OgbGraph | PygGraph | MemoryGraph,
    Field(discriminator="source"),
]

SOURCES = {get_args(kind.model_fields["source"].annotation)[0]: kind for kind in get_args(get_args(GraphConfig)[0])}

TABLES = TablesGraph.INPUT_FILES  # settings that may be URLs

PATHS = sorted(
    {
        name
        for kind in SOURCES.values()
        for name, key in kind.model_fields.items()
        if key.annotation in (Path, Path | None)
    }
)
