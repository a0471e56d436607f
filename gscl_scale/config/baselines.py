"""The sections of the methods to compare with."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from gscl_scale.config.section import Key, Result, Section

Share = Annotated[float, Field(ge=0, lt=1)]
Views = Annotated[list[Share] | None, Field(min_length=2, max_length=2)]
Option = bool | int | float | str | list[float] | None


class BaselineConfig(Section):
    """Settings of an objective other than gscl; the default of each is that of its paper."""

    DECIDES: ClassVar[Result] = "training"

    edges: Views = Field(
        None, description="grace, gca, bgrl, blnn, cca-ssg, g-bt, costa: share of edges to drop in each view."
    )
    features: Views = Field(
        None, description="grace, gca, bgrl, blnn, cca-ssg, g-bt, costa: share of columns to mask in each view."
    )
    temperature: float | None = Field(
        None, gt=0, description="grace, gca, costa, graphacl, blnn: temperature of the similarities."
    )
    negatives: int | None = Field(
        None,
        ge=1,
        description="sugrl, gmi, af-gcl: negatives per node; grace, gca, gae, vgae, graphacl: per step, all of a small "
        "graph; s2gae: per step, as many as masked edges.",
    )
    predictor: int | None = Field(
        None, ge=1, description="bgrl, blnn, afgrl, s2gae: width of the hidden layers of the predictor."
    )
    momentum: float | None = Field(
        None,
        ge=0,
        le=1,
        description="bgrl, blnn, afgrl, graphacl, graphmae2: momentum of the target encoder, in step 1.",
    )
    decorrelation: float | None = Field(
        None, ge=0, description="cca-ssg, g-bt: weight of the decorrelation of columns; g-bt: by default 1 / width."
    )
    centrality: Annotated[Literal["degree", "pagerank", "eigenvector"] | None, Key(revision=5)] = Field(
        None, description="gca: which edges and columns count as central and are dropped less often."
    )
    most_dropped: Annotated[float | None, Key(revision=5)] = Field(
        None, gt=0, lt=1, description="gca: largest chance of an edge or column to be dropped."
    )
    masked: Annotated[Share | None, Key(revision=5)] = Field(
        None, description="graphmae, graphmae2: share of nodes whose features are masked in a step; s2gae: of edges."
    )
    replaced: Annotated[Share | None, Key(revision=5)] = Field(
        None, description="graphmae: share of the masked nodes that get the features of another node."
    )
    sharpness: Annotated[float | None, Key(revision=5)] = Field(
        None, gt=0, description="graphmae, graphmae2: power of the cosine error (gamma in the paper)."
    )
    margin: Annotated[float | None, Key(revision=5)] = Field(
        None, ge=0, description="sugrl: how much farther negatives should be than positives (alpha in the paper)."
    )
    bound: Annotated[float | None, Key(revision=5)] = Field(
        None, ge=0, description="sugrl: how much farther than that they may be (beta in the paper)."
    )
    weight: Annotated[float | None, Key(revision=5)] = Field(
        None, ge=0, description="sugrl: weight of both triplet losses; graphmae2: of the latent error."
    )
    sketched: Annotated[float | None, Key(revision=5)] = Field(
        None, gt=0, le=1, description="costa: rows of the sketch as a share of the nodes."
    )
    nearest: Annotated[int | None, Key(revision=5)] = Field(
        None,
        ge=1,
        description="afgrl: most similar nodes, itself too, among which positives are; af-gcl: that are positives.",
    )
    clusters: Annotated[int | None, Key(revision=5)] = Field(
        None, ge=1, description="afgrl: clusters of k-means; autossl: of the search."
    )
    pool: Annotated[int | None, Key(revision=5)] = Field(
        None, ge=1, description="af-gcl: nodes that are compared with each other in a step."
    )
    remasked: Annotated[Share | None, Key(revision=5)] = Field(
        None, description="graphmae2: share of nodes whose rows are masked before a decoding."
    )
    decodings: Annotated[int | None, Key(revision=5)] = Field(
        None, ge=1, description="graphmae2: decodings in a step, each with other masked rows."
    )
    teleport: Annotated[float | None, Key(revision=5)] = Field(
        None, gt=0, lt=1, description="mvgrl: chance that the walk of the diffusion returns to its start."
    )
    terms: Annotated[list[Annotated[float, Field(ge=0)]] | None, Key(revision=5)] = Field(
        None, min_length=3, max_length=3, description="gmi: weights of the terms of features, neighbors and edges."
    )
    options: Annotated[dict[str, Option], Key(revision=5, neutral={})] = Field(
        {}, description="Settings of a method of another package, such as {alpha: 0.5}."
    )

    @model_validator(mode="before")
    @classmethod
    def _drop_old_keys(cls, values: Any) -> Any:
        """Records of earlier versions have an empty `dropout`, for a classifier that supervised had."""
        if isinstance(values, dict) and values.get("dropout", "") is None:
            return {key: value for key, value in values.items() if key != "dropout"}
        return values


class CompareConfig(Section):
    """Settings of `gscl-scale compare`."""

    settings: dict[str, list[str]] = Field(
        {}, description="Settings of single methods, such as {grace: [model.layers=2, baseline.temperature=0.4]}."
    )
