"""The section `loss`."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gscl_scale.config.section import Key, Result, Section


class LossConfig(Section):
    """The ranking loss."""

    DECIDES: ClassVar[Result] = "training"

    ranking: Literal["listwise", "pairwise"] = Field(
        "listwise", description="Compare each ring with all farther nodes together, or with each farther ring."
    )
    positives: Literal["in", "out"] = Field("in", description="Sum over members of a ring inside or outside the log.")
    temperature: float = Field(0.5, gt=0, description="Temperature of ring 1.")
    temperature_step: float = Field(0.0, ge=0, description="Increase of the temperature with each ring.")
    gate: float = Field(1.0, gt=0, le=1, description="Terms whose ratio exceeds this get no gradient; 1 disables it.")
    weighting: Annotated[Literal["raw", "size"], Key(formerly="weighing")] = Field(
        "raw", description="raw: sum over the sample; size: scale up to the whole ring, as if drawn uniformly."
    )
    hop_zero: Annotated[float, Key(revision=2, neutral=0.0)] = Field(
        0.0, ge=0, description="Weight of hop 0: ranks each anchor under another dropout above all rings; paper: 0."
    )
