"""Markdown tables, and numbers in words."""

import re
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


_LONGEST_WORDS = 300


_SECRET = re.compile(
    r"://[^/\s]*@|\bbearer\s+\S|\bbasic\s+[a-z0-9+/]{8}|(secret|token|passw(or)?d|signature|credential|api_?key|access_?key)[\w-]*\s*[=:]\s*\S",
    re.IGNORECASE,
)


def holds_secret(text: str) -> bool:
    """Whether a text has a password in a URL, or the value of a key that is named as a secret.

    >>> holds_secret("s3://key:word@bucket/run"), holds_secret("Authorization: Bearer abc"), holds_secret("s3://bucket/run")
    (True, True, False)
    """
    return bool(_SECRET.search(text))


def shortened(text: object, most: int = _LONGEST_WORDS) -> str:
    """What another program or a file says, as part of one sentence.

    >>> shortened("first line\\n  second line"), shortened("abcdef", 4)
    ('first line second line', 'abc…')
    """
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in str(text)[: 4 * most]).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def quoted(value: object) -> str:
    """A value that a file or a user gives, as part of one sentence.

    >>> quoted("text"), quoted(7)
    ("'text'", '7')
    """
    return shortened(repr(value), 80)


def listed(names: Sequence[str], most: int = 12) -> str:
    """Some names with commas between them, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(shortened(name, 60) for name in names[:most]) + more


def in_words(size: float) -> str:
    """Bytes as a reader wants them.

    >>> in_words(3 << 30), in_words(5 << 20), in_words(7000)
    ('3.0 GiB', '5 MiB', '7 KiB')
    """
    if size >= 2**30 / 10:
        return f"{size / 2**30:,.1f} GiB"
    return f"{size / 2**20:,.0f} MiB" if size >= 2**20 else f"{size / 2**10:,.0f} KiB"
