"""The code blocks of README.md and docs/, the commands in them, and what they print."""

import re
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parent.parent.parent
PAGES = ["README.md", *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))]

NEAR, RELATIVE, SHARE = 0.06, 0.12, 0.6
SPREAD = 2.0  # how often larger or smaller the deviation of a few runs may be


@dataclass(frozen=True)
class Block:
    """A code block; `number` counts the blocks of its page from 1."""

    page: str
    number: int
    language: str
    text: str

    @property
    def name(self):
        """The page and the first words: what the plan calls it."""
        words = " ".join(self.text.splitlines()[0].split())
        return f"{self.page} {self.number}: {words[:50].rstrip()}"

    def script(self):
        """Its commands as a script of bash: the lines after a prompt, or all where there is no prompt."""
        if self.language != "console":
            return self.text
        return "".join(command + "\n" for command, _ in self.steps())

    def steps(self):
        """[(command, what it prints)] of a console block."""
        steps, goes_on = [], False
        for line in self.text.splitlines():
            if line.startswith("$ "):
                steps.append([line[2:], ""])
            elif goes_on:
                steps[-1][0] += f"\n{line}"
            else:
                steps[-1][1] += f"{line}\n"
            goes_on = line.endswith("\\") and (goes_on or line.startswith("$ "))
        return [tuple(step) for step in steps]


def blocks(page):
    """All code blocks of a page, fenced or indented."""
    tokens = MarkdownIt("commonmark").parse((ROOT / page).read_text())
    found = [token for token in tokens if token.type in ("fence", "code_block")]
    return [Block(page, number, token.info.strip(), token.content) for number, token in enumerate(found, start=1)]


def inline(page):
    """All code within the text of a page."""
    tokens = MarkdownIt("commonmark").enable("table").parse((ROOT / page).read_text())
    children = [child for token in tokens for child in token.children or []]
    return [child.content for child in children if child.type == "code_inline"]


def assert_alike(shown, printed):
    """What a page shows is what is printed: word by word, fractions nearly, times not at all, ids of nodes mostly;
    `...` stands for what is not shown.

    Machines round differently, so fractions may differ a little (by 0.06, or by 12 per cent; deviations after a ± by a
    factor of two), and so may some ids of neighbours.
    """
    ours, theirs = (_words(text) for text in (shown, printed))
    if "..." in ours:
        at = ours.index("...")
        assert len(theirs) >= len(ours) - 1
        ours, theirs = [*ours[:at], *ours[at + 1 :]], [*theirs[:at], *theirs[len(theirs) - (len(ours) - at - 1) :]]
    masked = [[_masked(word) for word in words] for words in (ours, theirs)]
    assert masked[0] == masked[1], f"the page shows\n{shown}\nand printed is\n{printed}"
    for before, one, other in zip(["", *ours], ours, theirs, strict=False):
        if _is_fraction(one):
            assert _near(float(one), float(other), before == "±"), f"the page shows {one}, printed is {other}"
    ids = [{word for word in words if _is_id(word)} for words in (ours, theirs)]
    assert len(ids[0] & ids[1]) >= SHARE * len(ids[0]), f"the page shows {ids[0]}, printed is {ids[1]}"


def _near(one, other, is_deviation):
    if is_deviation and min(one, other) > 0:
        return max(one / other, other / one) <= SPREAD
    return abs(one - other) <= max(NEAR, RELATIVE * abs(one))


def _words(text):
    text = re.sub(r"[─━┏┳┓┡╇┩└┴┘┃│├┼┤]+", " ", text)
    return re.sub(r"\b\d+ s\b", "TIME", text).split()


def _masked(word):
    return "FRACTION" if _is_fraction(word) else "ID" if _is_id(word) else word


def _is_fraction(word):
    return bool(re.fullmatch(r"-?\d+\.\d+", word))


def _is_id(word):
    return bool(re.fullmatch(r"P-\d+", word))
