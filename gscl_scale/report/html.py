"""Building blocks of a page; every text is escaped here."""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from string import Template

from gscl_scale.evaluate.summary import percent


class Html(str):
    """Markup; any other text is escaped where it enters a page."""

    __slots__ = ()


def html(*parts: str) -> Html:
    """Parts of a page as one."""
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in parts))


def element(name: str, *content: str, **attributes: str) -> Html:
    """An element; an attribute that is a word of Python, or has a hyphen, is given with underscores."""
    shown = "".join(f' {key.strip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items())
    return Html(f"<{name}{shown}>{html(*content)}</{name}>")


def whole_page(title: str, head: str, sections: Iterable[tuple[str, str]], script: str = "") -> str:
    """The page as text; the browser is told to fetch nothing, and to run nothing but our scripts.

    sections   a word for the table of contents and the content, each; those without content are left out
    """
    script = asset("page.js") + script
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'"
    )
    shown = {name: content for name, content in sections if content}
    links = (element("li", element("a", name, href=f"#{_anchor(name)}")) for name in shown)
    parts = (element("section", content, id=_anchor(name)) for name, content in shown.items())
    return fill_template(
        "page.html",
        title=html(title),
        policy=policy,
        style=asset("style.css"),
        contents=element(
            "nav",
            element("span", "gscl-scale", class_="brand"),
            element("ul", *links),
            class_="contents",
            aria_label="Contents",
        ),
        body="\n".join((html(head), *parts)),
        script=script,
    )


def _anchor(name: str) -> str:
    return f"part-{name.lower().replace(' ', '-')}"


def page_head(over: str, title: str, lead: str, *below: str, kind: str = "head") -> Html:
    """The first thing on a page: its title, and the result in a sentence."""
    return element(
        "header",
        element("h1", title, dir="auto"),
        element("p", over, class_="over") if over else "",
        element("p", lead, class_="lead"),
        *below,
        class_=kind,
    )


CARE = "Take care"


def care(warnings: Sequence[str]) -> Html:
    """A box of warnings; nothing without any."""
    return element("div", element("h2", CARE), bullets(warnings), class_="note") if warnings else Html()


def care_link(warnings: Sequence[str]) -> Html:
    """A link to the box, which stands further below."""
    many, one = "s" * (len(warnings) > 1), len(warnings) == 1
    words = f"{len(warnings)} thing{many} that may mislead you {'is' if one else 'are'} below"
    return element("p", element("a", words, href=f"#{_anchor(CARE)}"), class_="more") if warnings else Html()


def asset(name: str) -> str:
    """The text of a file of style, script or markup."""
    return files("gscl_scale.report").joinpath("assets", name).read_text(encoding="utf-8")


def fill_template(name: str, **markup: str) -> str:
    """A file of markup with something in place of each `$name`."""
    return Template(asset(name)).substitute(markup)


def section(title: str, *parts: str) -> Html:
    """A heading and its content; nothing if the content is empty."""
    return html(element("h2", title), *parts) if any(parts) else Html()


def table(caption: str, names: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> Html:
    """A table that scrolls sideways if it is too wide; each row begins with its name. Nothing if there are no rows."""
    body = [
        element(
            "tr", element("th", name, scope="row", dir="auto"), *(element("td", cell, dir="auto") for cell in cells)
        )
        for name, *cells in rows
    ]
    heads = (element("th", name, scope="col") if name else element("td") for name in names)
    columns = element("thead", element("tr", *heads)) if names else ""
    shown = element(
        "table", element("caption", caption) if caption else "", columns, element("tbody", *body), class_=kind
    )
    region = {"tabindex": "0", "role": "region", "aria_label": caption} if caption else {}
    return element("div", shown, class_="wide", **region) if body else Html()


def facts(pairs: Iterable[tuple[str, str]]) -> Html:
    """A table of names and values."""
    return table("", (), pairs, "facts")


def definitions(pairs: Iterable[tuple[str, str]]) -> Html:
    """A list of words and what each stands for."""
    return element("dl", *(part for word, text in pairs for part in (element("dt", word), element("dd", text))))


def copyable(text: str, name: str, label: str) -> Html:
    """A text in a box with a button that copies it; `name` is its id."""
    button = element("button", "Copy", type="button", data_copy=name, aria_label=f"Copy: {label}", hidden="")
    box = element("pre", text, id=name, tabindex="0", role="region", aria_label=label)
    return html(element("div", button, element("span", " ", role="status"), class_="copy"), box)


def figures(*drawn: tuple[str, str, str], beside: str = "") -> Html:
    """Pictures side by side, as (picture, name, caption), and something beside them; empty ones are left out."""
    captions = [element("figcaption", element("b", name), f" {words}") for _, name, words in drawn]
    shown = [element("figure", one[0], caption) for one, caption in zip(drawn, captions, strict=True) if one[0]]
    return element("div", *shown, beside, class_="figures") if shown or beside else Html()


def collapsible(title: str, content: str) -> Html:
    """Content that is shown on a click."""
    return element("details", element("summary", title), content)


def small(*texts: str) -> Html:
    """A paragraph of small print."""
    return element("p", *texts, class_="small")


def notes(sentences: Sequence[str]) -> Html:
    """A list of sentences in small print."""
    return element("div", bullets(sentences), class_="small") if sentences else Html()


def bullets(sentences: Iterable[str]) -> Html:
    """A list of sentences, each of which begins with a capital and ends with a full stop."""
    return element("ul", *(element("li", sentence(text)) for text in sentences))


def sentence(text: str) -> str:
    """A text that begins and ends as a sentence."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def with_std(mean: float | None, std: float | None) -> Html:
    """A share as per cent with its deviation in small print."""
    if mean is None or std is None:
        return html(percent(mean))
    return html(percent(mean), " ", element("span", f"± {100 * std:.2f}", class_="std"))


def plain(value: object) -> str:
    """A setting as text.

    >>> plain(0.0012987012975410037), plain([{"seed": 0, "learnt": None}]), plain([1, 2])
    ('0.0012987', 'seed: 0; learnt: none', '1, 2')
    """
    if isinstance(value, dict):
        return "; ".join(f"{key}: {plain(one)}" for key, one in value.items())
    if isinstance(value, float):
        return f"{value:.6g}"
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
