"""The table of faults that were tried and survived, from the records of campaigns."""

from collections import defaultdict
from collections.abc import Sequence

from gscl_scale.text import table
from tests.chaos.campaign import Fallen

BEGIN, END = "<!-- campaign -->", "<!-- end of campaign -->"


def summary(fallen: Sequence[Fallen], seed: int, minutes: float, machine: str) -> str:
    """How many of how many kinds, and a row for each kind on each pipeline."""
    kinds: dict[tuple[str, str], list[Fallen]] = defaultdict(list)
    for one in fallen:
        kinds[one.lane, one.kind].append(one)
    wrong = sum(bool(one.wrong) for one in fallen)
    rows = [
        (
            lane,
            kind,
            str(len(ones)),
            str(sum(one.code == 0 for one in ones)),
            str(sum(one.code < 0 for one in ones)),
            str(sum(one.code > 0 for one in ones)),
            str(sum(bool(one.wrong) for one in ones)),
        )
        for (lane, kind), ones in sorted(kinds.items())
    ]
    head = ["on", "what befell it", "times", "went on", "ended by the signal", "told in one sentence", "not survived"]
    return "\n\n".join(
        [
            f"{len(fallen)} faults of {len({kind for _, kind in kinds})} kinds on {len({lane for lane, _ in kinds})} "
            f"pipelines, seed {seed}, {minutes:.0f} minutes on {machine}: {wrong} not survived.",
            table(head, rows, left=[0, 1]),
        ]
    )


def replaced(page: str, text: str) -> str:
    """A page with another summary between its marks."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}"
