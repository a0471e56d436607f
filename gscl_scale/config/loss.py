"""The section `loss`."""

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from gscl_scale.config.section import Key, Result, Section


def _each(value: object) -> object:
    """`out`, the paper's word, under the word of records: earlier ones have `out` for another loss.

    It had the whole ring below each member.
    """
    return "each" if value == "out" else value


class LossConfig(Section):
    """The ranking loss."""

    DECIDES: ClassVar[Result] = "training"

    ranking: Literal["listwise", "pairwise"] = Field(
        "listwise", description="Compare each ring with all farther nodes together, or with each farther ring."
    )
    positives: Annotated[Literal["in", "each", "out"], BeforeValidator(_each)] = Field(
        "in",
        description="in: the members of a ring as one sum, inside the log; each, or out as the paper has it: every "
        "member by itself against what is farther, with the sum outside the log.",
    )
    temperature: float = Field(0.5, gt=0, description="Temperature of ring 1.")
    temperature_step: float = Field(0.0, ge=0, description="Increase of the temperature with each ring.")
    gate: float = Field(1.0, gt=0, le=1, description="Terms whose ratio exceeds this get no gradient; 1 disables it.")
    weighting: Annotated[Literal["raw", "size"], Key(formerly="weighing")] = Field(
        "raw", description="raw: sum over the sample; size: scale up to the whole ring, as if drawn uniformly."
    )
    hop_zero: Annotated[float, Key(revision=2, neutral=0.0)] = Field(
        0.0, ge=0, description="Weight of hop 0: ranks each anchor under another dropout above all rings; paper: 0."
    )
