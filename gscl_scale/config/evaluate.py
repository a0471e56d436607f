"""The section `evaluate`: splits, probes, and what is held out."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from gscl_scale.config.section import Key, Result, Section

Measure = Literal["accuracy", "roc_auc"]


class SplitsConfig(Section):
    """The splits into training, validation and test nodes."""

    DECIDES: ClassVar[Result] = "figures"

    split: Annotated[Literal["auto", "published", "random"], Key("splits")] = Field(
        "auto", description="auto: the splits of the graph, or random ones where it has none; else always one kind."
    )
    train_fractions: Annotated[list[Annotated[float, Field(gt=0, lt=1)]], Key("splits")] = Field(
        [0.1], min_length=1, description="Random splits: shares of labelled nodes to train the probe on."
    )
    many_labels_fractions: Annotated[
        list[Annotated[float, Field(gt=0, lt=1)]], Key("splits", revision=4, neutral=[0.5, 0.1, 0.9])
    ] = Field(
        [0.5, 0.1, 0.9],
        min_length=1,
        description="Random splits where a node has many labels: shares of labelled nodes to train on; a fifth of each "
        "validates, and the first is compared and chosen by.",
    )
    val_fraction: Annotated[float, Key("splits")] = Field(
        0.1, gt=0, lt=1, description="Random splits: share of labelled nodes to validate on."
    )
    random_splits: int = Field(5, ge=1, description="Random splits for each train fraction.")
    seed: Annotated[int, Key("splits")] = Field(0, ge=0, description="Seed of splits, probes and samples.")

    @model_validator(mode="after")
    def _shares_leave_test_nodes(self) -> Self:
        if max(self.train_fractions) + self.val_fraction >= 1:
            raise ValueError("train_fractions and val_fraction leave no test nodes; their sum must stay below 1")
        return self


class TunedOn(SplitsConfig):
    """Splits on which a search chose settings; `learnt` is the `train.label_seed` of its config."""

    learnt: int | None = None


class EvaluateConfig(SplitsConfig):
    """The evaluation protocol."""

    measure: Annotated[Measure, Key("probe", revision=5, neutral="accuracy")] = Field(
        "accuracy",
        description="What the probe is chosen by on validation nodes and measured by on test nodes; roc_auc needs two "
        "classes.",
    )
    initialisations: int = Field(20, ge=1, description="Random initialisations of the probe per split.")
    probe_epochs: int = Field(300, ge=1, description="Adam steps of the probe.")
    probe_learning_rate: Annotated[float, Key("probe")] = Field(0.01, gt=0, description="Learning rate of the probe.")
    probe_weight_decay: Annotated[list[Annotated[float, Field(ge=0)]], Key("probe")] = Field(
        [0.0, 1e-4, 1e-3, 1e-2],
        min_length=1,
        description="Weight decays of the probe; each method keeps the best on validation.",
    )
    probe_scaling: Annotated[Literal["none", "l2", "standard", "auto"], Key("probe")] = Field(
        "l2",
        description="Scale nothing, rows to length 1 or columns to mean 0 and deviation 1 before the probe; auto: each "
        "method keeps the best on validation.",
    )
    sample: int = Field(
        20000, ge=100, description="Nodes to sample for clustering, search, ring similarity and validation."
    )
    held_out_edges: Annotated[float, Key("graph", revision=4, neutral=0.0)] = Field(
        0.0,
        ge=0,
        lt=1,
        description="Share of the edges to take out of the graph and measure link prediction on; no node loses its "
        "last edge.",
    )
    held_out_seed: Annotated[int, Key("graph", revision=4, neutral=0)] = Field(
        0, ge=0, description="Seed of the draw of held-out edges."
    )
    shuffle_labels: Annotated[int | None, Key("graph", revision=5)] = Field(
        None,
        ge=0,
        description="Shuffle the labels among the labelled nodes by this seed, to check that nothing leaks: every test "
        "figure must then be that of chance.",
    )
    select_by: Annotated[Literal["auto", "probe", "links", "ranking"], Key("splits", revision=4, neutral="auto")] = (
        Field(
            "auto",
            description="What validation measures: probe: accuracy; links: held-out edges; ranking: rings of "
            "train.held_out nodes; auto: the first of these that the graph allows.",
        )
    )
    tuned_on: Annotated[list[TunedOn], Key(revision=3, neutral=[])] = Field(
        [], description="Splits whose validation nodes chose the settings (written by tune); these are no test nodes."
    )
