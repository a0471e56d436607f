"""The quick start: modules of installed Python packages, with an edge where one imports the other."""

import importlib.util
import re
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from gscl_scale.config.graphs import PackagesGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph.draft import GraphDraft
from gscl_scale.graph.types import SourceSize
from gscl_scale.text import join_names, quoted

_WORDS = 1024  # hashed words
_LEAST = 2
# Regular expressions in place of `ast`, which takes half a minute for 4,000 modules. An import in a text between quotes
# is read too: a few edges too many.
_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|import[ \t]+([^\n]*))", re.M)
_NAME = re.compile(r"^[ \t]*(?:async[ \t]+def|def|class)[ \t]+(\w+)", re.M)
_DOCSTRING = re.compile(r"\s*(?:#[^\n]*\s+)*[rRuU]?(\"\"\"|''')(.*?)\1", re.S)
_COMMENT = re.compile(r"#[^\n]*")
_WORD = r"[a-z]{3,}"
_SPLIT = re.compile(r"_|(?<=[a-z])(?=[A-Z])")


class _Module(NamedTuple):
    """A public module, and its text with that of the private modules that stand below it."""

    name: str
    texts: list[tuple[str, str]]  # (package that relative imports start from, source)


def size(config: PackagesGraph) -> SourceSize:
    """The width; how many modules there are is known once they are read."""
    return SourceSize(num_features=_WORDS)


def read(config: PackagesGraph) -> GraphDraft:
    """The public modules of the packages; the package is the label, the features are hashed words of a module."""
    modules = _modules(config.packages)
    imports = {module.name: _imported(module, modules) for module in modules.values()}
    imported = set().union(*imports.values())
    joined = [module for module in modules.values() if imports[module.name] or module.name in imported]
    numbers = {module.name: number for number, module in enumerate(joined)}
    ends = [(numbers[name], numbers[target]) for name in numbers for target in sorted(imports[name])]
    packages = [name.partition(".")[0] for name in numbers]
    distinct = sorted(set(packages))
    return GraphDraft(
        name="packages",
        origin="packages",
        num_nodes=len(joined),
        edges=[(np.array([a for a, _ in ends], np.int64), np.array([b for _, b in ends], np.int64))],
        features=_hashed_words(joined, distinct),
        labels=np.array(packages, dtype=object),
        ids=pa.array(list(numbers), pa.large_string()),
        notes=[
            f"modules of {join_names(distinct)}; an edge joins two of which one imports the other",
            f"modules without an edge, which are left out: {len(modules) - len(joined):,}",
        ],
    )


def _modules(packages: list[str]) -> dict[str, _Module]:
    """All public modules by name, in the order of their names; tests are left out."""
    modules: dict[str, _Module] = {}
    for package in packages:
        if (folder := _folder_of(package)) is None:
            continue
        for path in sorted(folder.rglob("*.py")):
            parts = [package, *path.relative_to(folder).with_suffix("").parts]
            if any(part.startswith("test") or part == "conftest" for part in parts):
                continue
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            inside = parts if path.stem == "__init__" else parts[:-1]
            hidden = next((at for at, part in enumerate(parts) if part.startswith("_")), len(parts))
            name = ".".join(parts[:hidden])
            module = modules.setdefault(name, _Module(name, []))
            module.texts.append((".".join(inside), path.read_text(encoding="utf-8", errors="replace")))
    found = {name.partition(".")[0] for name in modules}
    if len(found) < _LEAST:
        raise GraphError(
            f"packages: expected at least {_LEAST} installed packages, found {join_names(sorted(found)) or 'none'}; "
            "name some that are installed with --set graph.packages=[numpy,scipy]"
        )
    return dict(sorted(modules.items()))


def _folder_of(package: str) -> Path | None:
    """The folder of a package, without importing it; None where it is not installed."""
    if not package.isidentifier():
        raise GraphError(f"packages: {quoted(package)} is no name of a package; expected names such as numpy")
    spec = importlib.util.find_spec(package)
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0]) if places else None


def _imported(module: _Module, known: Container[str]) -> set[str]:
    """The other public modules that a module imports."""
    found = set()
    for inside, text in module.texts:
        for start, names, plain in _IMPORT.findall(text):
            for target in _targets(inside, start, names) if start else _named(plain):
                found.add(_public(target, known))
    return found - {module.name, ""}


def _targets(inside: str, start: str, names: str) -> Iterator[str]:
    """What `from start import names` may import: modules, or names in one."""
    dots = len(start) - len(start.lstrip("."))
    above = inside.split(".")[: len(inside.split(".")) - dots + 1] if dots else []
    base = ".".join([*above, *([start[dots:]] if start[dots:] else [])])
    for name in _named(names.strip("()")):
        yield f"{base}.{name}"


def _named(names: str) -> Iterator[str]:
    for name in _COMMENT.sub("", names).split(","):
        if words := name.split():
            yield words[0]


def _public(target: str, known: Container[str]) -> str:
    """The public module that a name stands in; "" for one of another package."""
    while target and target not in known:
        target = target.rpartition(".")[0]
    return target


def _hashed_words(modules: Iterable[_Module], packages: list[str]) -> sp.csr_array:
    """Words of docstrings, and of the names of functions and classes, but those of packages: rows of length 1."""
    from sklearn.feature_extraction.text import HashingVectorizer

    of_packages = [word for name in packages for word in re.findall(_WORD, name.lower())]
    vectorizer = HashingVectorizer(
        n_features=_WORDS, alternate_sign=False, binary=True, token_pattern=_WORD, stop_words=of_packages
    )
    return sp.csr_array(vectorizer.transform(_text_of(module) for module in modules).astype(np.float32))


def _text_of(module: _Module) -> str:
    parts = []
    for _, text in module.texts:
        docstring = _DOCSTRING.match(text)
        parts += [docstring[2] if docstring else "", *(_SPLIT.sub(" ", name) for name in _NAME.findall(text))]
    return " ".join(parts)
