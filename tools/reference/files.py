"""The keys of files of a run, between marks in pages that are written by hand: `<!-- keys: MODULE.TYPE -->`."""

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, Required, get_args, get_origin, get_type_hints

from typing_extensions import is_typeddict

from tools.reference.markdown import choice, code, rows

MARK = re.compile(r"(<!-- keys: ([\w.]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
_NAMES = {
    "str": "text",
    "int": "number",
    "float": "number",
    "bool": "true or false",
    "object": "anything",
    "NoneType": "null",
}


def filled(text: str) -> str:
    """A page with the tables of today between its marks; a type within several others is described once."""
    described: set[str] = set()
    return MARK.sub(lambda found: f"{found[1]}\n{described_type(typed(found[2]), described)}\n\n{found[4]}", text)


def pages(folder: Path) -> dict[str, str]:
    """{name: text} of all pages of a folder that have marks."""
    paths = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*.md"))}
    texts = {name: path.read_text(encoding="utf-8") for name, path in paths.items()}
    return {name: filled(text) for name, text in texts.items() if MARK.search(text)}


def typed(name: str) -> Any:
    """A TypedDict by its module and name."""
    module, _, kind = name.rpartition(".")
    return getattr(import_module(module), kind)


def described_type(kind: Any, done: set[str]) -> str:
    """The keys of a TypedDict, and under a heading each those of the TypedDicts within it."""
    parts = [keys_table(kind)]
    for inner in within(kind):
        if inner.__name__ not in done:
            done.add(inner.__name__)
            about = inspect.cleandoc(inner.__doc__ or "").partition("\n\n")[0]
            parts += [f"### {_title(inner)}", about, keys_table(inner)]
    return "\n\n".join(filter(None, parts))


def keys_table(kind: Any) -> str:
    """The keys of a TypedDict, and what its docstring says of them, if it says something."""
    about, lines = sayings(kind), []
    for name, annotation in get_type_hints(kind, include_extras=True).items():
        absent = "" if name in kind.__required_keys__ else "; may be absent"
        lines.append((code(name), type_name(annotation) + absent, about.get(name, "")))
    width = 3 if about else 2
    return rows(("key", "type", "meaning")[:width], [line[:width] for line in lines])


def within(kind: Any) -> list[Any]:
    """The TypedDicts that are reached from the keys of one, in their order, each once."""
    found: list[Any] = []
    waiting = list(get_type_hints(kind).values())
    while waiting:
        one = waiting.pop(0)
        if is_typeddict(one) and one not in found:
            found.append(one)
            waiting += get_type_hints(one).values()
        waiting += get_args(one)
    return found


def sayings(kind: Any) -> dict[str, str]:
    """What a docstring says of single keys, in lines such as `fill   for numbers: what a missing value becomes`."""
    known, found, last = set(kind.__annotations__), {}, ""
    for line in inspect.cleandoc(kind.__doc__ or "").splitlines():
        first, _, rest = line.partition(" ")
        if rest.startswith("  ") and first in known:
            found[first] = rest.strip()
            last = first
        elif line.startswith("   ") and last:
            found[last] += f" {line.strip()}"
        else:
            last = ""
    return found


def _plain(annotation: Any) -> Any:
    """A type without what surrounds it."""
    while get_origin(annotation) in (Annotated, NotRequired, Required):
        annotation = get_args(annotation)[0]
    return annotation


def _title(kind: Any) -> str:
    return kind.__name__.lstrip("_")


def type_name(annotation: Any) -> str:
    """A type in words."""
    annotation = _plain(annotation)
    arguments = get_args(annotation)
    if is_typeddict(annotation):
        return f"[{_title(annotation)}](#{_title(annotation).lower()})"
    if get_origin(annotation) is Literal:
        return choice(sorted({str(one) or '""' for one in arguments}))
    if get_origin(annotation) is list:
        return f"list of {type_name(arguments[0])}"
    if get_origin(annotation) is dict:
        return f"map of {type_name(arguments[1])}"
    if arguments:
        return choice(list(dict.fromkeys(type_name(part) for part in arguments)))
    return _NAMES.get(getattr(annotation, "__name__", ""), "anything")
