"""Pieces of a page: tables, lists, figures; every text is escaped here."""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from gscl_scale.evaluate.summary import percent


def whole_page(title: str, body: Iterable[str], script: str = "") -> str:
    """The page as text; the browser is told to fetch nothing, and to run nothing but `script`."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    run = f" script-src 'sha256-{digest}';" if script else ""
    policy = f"default-src 'none'; style-src 'unsafe-inline';{run} base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)} - gscl-scale report</title>\n<style>{asset('style.css')}</style>\n</head>\n"
        "<body>\n<main>\n"
        + "\n".join(part for part in body if part)
        + "\n</main>\n"
        + (f"<script>{script}</script>\n" if script else "")
        + "</body>\n</html>\n"
    )


def asset(name: str) -> str:
    """A file of the page's look or conduct."""
    return files("gscl_scale.report").joinpath("assets", name).read_text(encoding="utf-8")


def section(title: str, *parts: str) -> str:
    """A heading and what belongs beneath it; nothing where there is nothing."""
    return f"<section><h2>{escape(title)}</h2>{''.join(parts)}</section>" if any(parts) else ""


def table(caption: str, head: str, rows: str, kind: str = "") -> str:
    """A table that can be scrolled sideways where it is too wide."""
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    region = f' tabindex="0" role="region" aria-label="{escape(caption)}"' if caption else ""
    return f'<div class="wide"{region}><table class="{kind}">{title}{head}<tbody>{rows}</tbody></table></div>'


def plain_table(caption: str, names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts; the first of each row is its name."""
    return table(caption, head(*names), "".join(row(*cells) for cells in rows))


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """A table of names and what they are."""
    return table("", "", "".join(row(*pair) for pair in pairs), "facts")


def head(*names: str) -> str:
    """The heading of a table."""
    cells = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    return f"<thead><tr>{cells}</tr></thead>"


def row(name: str, *values: str) -> str:
    """A row of a table."""
    cells = "".join(f'<td dir="auto">{escape(value)}</td>' for value in values)
    return f'<tr><th scope="row" dir="auto">{escape(name)}</th>{cells}</tr>'


def figures(*drawn: tuple[str, str, str], beside: str = "") -> str:
    """Pictures side by side, of (picture, name, words), and something else; those that are empty are left out."""
    there = "".join(
        f"<figure>{svg}<figcaption><b>{escape(name)}</b> {escape(words)}</figcaption></figure>"
        for svg, name, words in drawn
        if svg
    )
    return f'<div class="figures">{there}{beside}</div>' if there or beside else ""


def folded(title: str, content: str) -> str:
    """What is shown when it is asked for."""
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def listing(sentences: Iterable[str]) -> str:
    """Small print."""
    said = items(sentences)
    return f'<div class="small">{said}</div>' if said else ""


def items(sentences: Iterable[str]) -> str:
    """A list of whole sentences."""
    said = "".join(f"<li>{escape(sentence(text))}</li>" for text in sentences)
    return f"<ul>{said}</ul>" if said else ""


def sentence(text: str) -> str:
    """A text that begins and ends as a sentence."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def with_std(mean: float | None, std: float | None) -> str:
    """A share as per cent, and what stands after ±."""
    if mean is None or std is None:
        return percent(mean)
    return f'{percent(mean)} <span class="std">± {100 * std:.2f}</span>'


def plain(value: Any) -> str:
    """A setting as a reader wants it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(plain, value))
    return "none" if value is None else str(value)


def seconds(value: float) -> str:
    """A time in words.

    >>> seconds(3.21), seconds(75), seconds(7500)
    ('3.2 s', '75 s', '2 h 5 min')
    """
    if value < 10:
        return f"{value:.1f} s"
    if value < 600:
        return f"{value:.0f} s"
    hours, minutes = divmod(round(value / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
