"""Text for readers: Markdown tables, numbers with units, and values from outside as part of a sentence."""

import re
from collections.abc import Sequence


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = ()) -> str:
    """A Markdown table; columns are aligned right unless `left` has their number."""
    rule = ["---" if number in left else "---:" for number in range(len(headers))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [headers, rule, *rows])


def format_count(value: float) -> str:
    """A large count in a few characters.

    >>> format_count(1_234_000), format_count(95), format_count(2.5e9)
    ('1.2 million', '95', '2.5 billion')
    """
    for size, name in ((1e9, "billion"), (1e6, "million")):
        if value >= size:
            return f"{value / size:,.1f} {name}"
    return f"{value:,.0f}"


_LONGEST = 300
_SECRET = re.compile(
    r"://[^/\s]*@|\bbearer\s+\S|\bbasic\s+[a-z0-9+/]{8}|(secret|token|passw(or)?d|signature|credential|api_?key|access_?key)[\w-]*\s*[=:]\s*\S",
    re.IGNORECASE,
)


def holds_secret(text: str) -> bool:
    """Whether a text has a password in a URL, or a value for a key with the name of a secret.

    >>> holds_secret("s3://key:word@bucket/run"), holds_secret("Authorization: Bearer abc"), holds_secret("s3://bucket/run")
    (True, True, False)
    """
    return bool(_SECRET.search(text))


def shortened(text: object, most: int = _LONGEST) -> str:
    """Text of another program or a file on one line, cut after `most` characters.

    >>> shortened("first line\\n  second line"), shortened("abcdef", 4)
    ('first line second line', 'abc…')
    """
    line = " ".join("".join(char if char.isprintable() else " " for char in str(text)[: 4 * most]).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def quoted(value: object) -> str:
    """A value of a file or a user as Python writes it, cut after 80 characters.

    >>> quoted("text"), quoted(7)
    ("'text'", '7')
    """
    return shortened(repr(value), 80)


def join_names(names: Sequence[str], most: int = 12) -> str:
    """Names with commas between them; after `most` of them, how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(shortened(name, 60) for name in names[:most]) + more


def counted(number: int, one: str, many: str) -> str:
    """A number with the words for one and for many.

    >>> counted(1, "node has", "nodes have"), counted(2000, "node has", "nodes have")
    ('1 node has', '2,000 nodes have')
    """
    return f"{number:,} {one if number == 1 else many}"


def format_bytes(size: float) -> str:
    """A number of bytes with its unit.

    >>> format_bytes(3 << 30), format_bytes(5 << 20), format_bytes(7000)
    ('3.0 GiB', '5 MiB', '7 KiB')
    """
    if size >= 2**40:
        return f"{size / 2**40:,.1f} TiB"
    if size >= 2**30 / 10:
        return f"{size / 2**30:,.1f} GiB"
    return f"{size / 2**20:,.0f} MiB" if size >= 2**20 else f"{size / 2**10:,.0f} KiB"


def format_duration(seconds: float) -> str:
    """A time in its largest unit.

    >>> format_duration(7.4), format_duration(600), format_duration(9000)
    ('7 s', '10 min', '2.5 h')
    """
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:,.1f} h"
