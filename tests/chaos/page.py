"""The table of faults that were tried and survived, from the records of campaigns."""

from collections.abc import Sequence
from dataclasses import asdict

import pandas as pd

from gscl_scale.text import table
from tests.chaos.campaign import Fallen

BEGIN, END = "<!-- campaign -->", "<!-- end of campaign -->"
HEAD = ["on", "what befell it", "times", "went on", "ended by the signal", "told in one sentence", "not survived"]


def summary(fallen: Sequence[Fallen], seed: int, minutes: float, machine: str) -> str:
    """How many of how many kinds, and a row for each kind on each pipeline."""
    ones = pd.DataFrame([asdict(one) for one in fallen])
    ends = {"times": 1, "on": ones.code == 0, "signal": ones.code < 0, "told": ones.code > 0, "wrong": ones.wrong != ""}
    counted = ones[["lane", "kind"]].assign(**ends).groupby(["lane", "kind"]).sum().reset_index()
    return (
        f"{len(fallen)} faults of {counted.kind.nunique()} kinds on {counted.lane.nunique()} pipelines, seed {seed}, "
        f"{minutes:.0f} minutes on {machine}: {counted.wrong.sum()} not survived.\n\n"
        + table(HEAD, counted.astype(str).to_numpy().tolist(), left=[0, 1])
    )


def replaced(page: str, text: str) -> str:
    """A page with another summary between its marks."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}"
