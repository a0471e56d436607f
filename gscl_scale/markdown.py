"""Markdown tables, and numbers in words."""

from collections.abc import Sequence


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = ()) -> str:
    """A Markdown table; columns hold numbers on the right unless named in `left`."""
    rule = ["---" if number in left else "---:" for number in range(len(headers))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [headers, rule, *rows])


def amount(value: float) -> str:
    """A count in a few signs.

    >>> amount(1_234_000), amount(95), amount(2.5e9)
    ('1.2 million', '95', '2.5 billion')
    """
    for size, name in ((1e9, "billion"), (1e6, "million")):
        if value >= size:
            return f"{value / size:,.1f} {name}"
    return f"{value:,.0f}"


def cores_of(number: int) -> str:
    """How many cores, in words."""
    return "one core" if number == 1 else f"{number} cores"


def turns_of(number: int) -> str:
    """How often each was measured, in words."""
    return "each measured once" if number == 1 else f"median of {number} turns"
