"""Settings of the graph section for a file that a user points at: what its kind, its names and its first rows say."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gscl_scale.errors import GraphError
from gscl_scale.graph.sources.column_names import counts_rows, find_ends, find_id, find_weight, labels_among
from gscl_scale.graph.sources.conversions import advice
from gscl_scale.graph.sources.dialect import MATRIX, TEXT
from gscl_scale.graph.sources.head import Asked, Head, are_dates, head_of, integers_in, numbers_of
from gscl_scale.storage.urls import url_of
from gscl_scale.text import join_names, quoted

Settings = dict[str, object]

_TABLES = (".parquet", ".pq", *TEXT, *MATRIX)
_EDGES = ("edges", "edge", "links", "link", "edgelist", "relationships")
_NODES = ("nodes", "node", "vertices", "vertex")
_MOST_LIKELY_WEIGHT = 1e6  # larger numbers without a name are rather times or ids
_FEW_PER_LABEL = 2
_FEWEST_PER_LIKELY_LABEL = 5
_FEWEST_OF_A_LIST = 4
_FEWEST_OF_NODES = 10  # rows: fewer may have different ends by chance
_FEWEST_SERIAL = 10  # consecutive numbers: fewer may be nodes by chance


@dataclass(frozen=True)
class Recognized:
    """Settings of the graph section, and in words what was recognized."""

    graph: Settings
    lines: list[str] = field(default_factory=list)


def recognize(file: Path, nodes: Path | None, given: Mapping[str, object]) -> Recognized:
    """Look at a file or folder, and at a node table; what is `given` is not recognized but taken."""
    set_nodes = given.get("nodes")
    if nodes is None and isinstance(set_nodes, str) and not url_of(Path(set_nodes)):
        nodes = Path(set_nodes)
    if not file.exists():
        raise GraphError(f"{file} does not exist; name an edge list, such as gscl-scale run edges.csv")
    if nodes and not nodes.exists():
        raise GraphError(f"{nodes} does not exist; check --nodes or graph.nodes")
    if file.suffix.lower() in (".yaml", ".yml"):
        raise GraphError(f"{file} is a config file; give it with --config {file}")
    if file.suffix.lower() == ".npz":
        if nodes:
            raise GraphError(f"--nodes {nodes}: {file} holds its nodes itself; leave --nodes out")
        return Recognized({"source": "npz", "path": str(file)})
    if file.is_dir():
        file, nodes = _tables_in(file, nodes)
    graph: Settings = {"source": "tables", "edges": str(file)}
    columns, lines = _edge_table(file, given)
    graph |= columns
    if nodes:
        settings, line = recognize_nodes(nodes, given)
        graph |= {"nodes": str(nodes), **settings}
        lines.append(line)
    return Recognized({**graph, **given}, lines)


def _tables_in(folder: Path, nodes: Path | None) -> tuple[Path, Path | None]:
    """The edge table and the node table of a folder; one without names is an edge table as a whole."""
    if (folder / "run.json").exists():
        raise GraphError(f"{folder} is a run; name it with --run {folder}")
    inside = sorted(path for path in folder.iterdir() if path.name[0] not in "._")
    edges = [path for path in inside if path.name.split(".")[0].lower() in _EDGES]
    found = [path for path in inside if path.name.split(".")[0].lower() in _NODES]
    if len(edges) > 1 or len(found) > 1:
        twice = edges if len(edges) > 1 else found
        raise GraphError(
            f"{folder} has {join_names([path.name for path in twice])}; name one: gscl-scale run {twice[0]}"
            + (f" --nodes {found[0]}" if found and twice is edges else "")
        )
    if found and not edges:
        raise GraphError(f"{folder} has {found[0].name} and no edges; name the edge table of the folder edges")
    return (edges[0] if edges else folder), nodes or (found[0] if found else None)


def _files(path: Path) -> list[Path]:
    """The files of a table, each of a kind that can be read."""
    files = [path]
    if path.is_dir():
        below = sorted(one.relative_to(path) for one in path.rglob("*") if one.is_file())
        files = [path / one for one in below if all(part[0] not in "._" for part in one.parts)]
    for one in files:
        if not one.name.lower().endswith(_TABLES):
            raise GraphError(
                f"{one}: unknown kind of file; expected {join_names(_endings())} or .npz, a text also as .gz or .zst; "
                + advice(one)
            )
    if not files:
        raise GraphError(f"{path} is an empty folder; expected tables of edges")
    return files


def _endings() -> list[str]:
    return [ending for ending in _TABLES if ending.count(".") == 1]


def _head(path: Path, asked: Asked) -> Head:
    """The first rows of a table; its files must be alike."""
    first, *others = _files(path)
    head = head_of(first, asked)
    for other in others:
        found = head_of(other, asked)
        if (found.names, found.settings) != (head.names, head.settings):
            raise GraphError(
                f"{other} has columns {join_names(found.names)} ({found.how}), {first} has {join_names(head.names)} "
                f"({head.how}); write all files of a folder alike, or name one of them"
            )
    return head


def _asked(prefix: str, given: Mapping[str, object]) -> Asked:
    separator, header = given.get(f"{prefix}separator"), given.get(f"{prefix}header")
    comment = str(given["comment"] or "") if "comment" in given and not prefix else None
    return Asked(
        prefix,
        str(separator) if separator else None,
        header if isinstance(header, bool) else None,
        comment,
        comments=not prefix,
    )


def _edge_table(path: Path, given: Mapping[str, object]) -> tuple[Settings, list[str]]:
    head = _head(path, _asked("", given))
    source, target = ends_of(head, path, given)
    graph: Settings = {**head.settings, "source_column": source, "target_column": target}
    weight = given["weight_column"] if "weight_column" in given else weight_of(head, source, target)
    if weight is not None:
        graph["weight_column"] = weight
    others = [name for name in head.names if name not in (source, target, weight)]
    line = f"{path}: {head.how}; edges from {quoted(source)} to {quoted(target)}"
    line += f", weights {quoted(weight)}" if weight else ", no weights"
    line += f", not read: {join_names(others, 6)}" if others else ""
    return graph, [f"{line} (by the first {len(head.rows):,} rows)"]


def _set(key: str, name: object) -> str:
    """The option that names a column, quoted for a shell.

    >>> print(_set("label_column", "kind"), _set("label_column", "Sector (desk)"))
    --set graph.label_column=kind --set 'graph.label_column="Sector (desk)"'
    """
    text = str(name)
    if text.replace("_", "").isalnum() and not text.isdigit():
        return f"--set graph.{key}={text}"
    return f"--set 'graph.{key}=\"{text}\"'"


def ends_of(head: Head, path: Path | str, given: Mapping[str, object]) -> tuple[str, str]:
    """The columns of both ends of an edge: as named by the user, by their names, or the first two."""
    named = [given.get("source_column"), given.get("target_column")]
    if all(isinstance(name, str) for name in named):
        return str(named[0]), str(named[1])
    known = find_ends(head.names)
    if any(named) and not (known and set(filter(None, named)) <= {*known}):
        raise GraphError(f"{path}: name both ends: {_naming(head.names[:2])}")
    if known:
        return known if named[0] in (None, known[0]) and named[1] in (None, known[1]) else (known[1], known[0])
    return _first_two(head, path)


def _first_two(head: Head, path: Path | str) -> tuple[str, str]:
    """The first two columns that do not number the rows, where these are the ends without doubt."""
    names = [name for name in head.names if name.strip() or not _counts(head.column(name))]
    if len(names) < 2:
        raise GraphError(f"{path} has one column, {join_names(names)}; expected two columns of ids")
    if not head.named and _may_be_lists(head):
        raise GraphError(
            f"{path}: rows of {len(names)} numbers may be lists of neighbours; write one edge per line, or if the "
            f"first two are an edge: {_naming(names[:2])}"
        )
    more = len(names) > 2
    odd = {name: why for name in names if (why := _why_no_end(head, name, more and name == names[0]))}
    if first := next((name for name in names[:2] if name in odd), None):
        likely = [name for name in names if name not in odd] if more else names
        sure = "" if more else "if these are nodes, "
        raise GraphError(f"{path}: {odd[first]}; {sure}name both ends: {_naming(likely)}")
    source, target = names[:2]
    if more and _may_be_nodes(head, source, target):
        cure = "fit(EDGES, nodes=...)" if head.in_memory else f"gscl-scale run EDGES --nodes {path}"
        raise GraphError(
            f"{path}: each row has a {quoted(source)} of its own, as in a table of nodes, which is read beside one of "
            f"edges: {cure}; if it has edges, name both ends: {_naming([source, target])}"
        )
    both = integers_in(head.column(source)) & integers_in(head.column(target))
    if head.named and both:
        one = min(both)
        raise GraphError(
            f"{path}: {quoted(source)} and {quoted(target)} both hold {one}; if that is the same node, name both ends: "
            f"{_naming([source, target])}; otherwise write ids that differ, such as a{one} and b{one}"
        )
    return source, target


def _why_no_end(head: Head, name: str, first: bool) -> str:
    """Why a column is hardly one of ids: it has dates, or is the first one and numbers the rows; "" otherwise."""
    cells = head.column(name)
    if are_dates(cells):
        return f"column {quoted(name)} has dates"
    counted = counts_rows(name) or _goes_up(cells) if head.named else _counts(cells)
    return f"the first column ({quoted(name)}) may only number the rows" if first and counted else ""


def _may_be_nodes(head: Head, source: str, target: str) -> bool:
    """Whether no two rows begin with the same node, and none of these is the other end of a row."""
    nodes = set(head.column(source))
    one_each = head.named and len(nodes) == len(head.rows) >= _FEWEST_OF_NODES
    return one_each and nodes.isdisjoint(head.column(target))


def _naming(names: list[str]) -> str:
    source, target = [*names, "NAME", "NAME"][:2]
    return f"{_set('source_column', source)} {_set('target_column', target)}"


def _counts(cells: list[str]) -> bool:
    """Whether cells are whole numbers that count the rows."""
    start = int(cells[0]) if cells and cells[0] in ("0", "1") else None
    return start is not None and len(cells) > 1 and cells == [str(start + at) for at in range(len(cells))]


def _goes_up(cells: list[str]) -> bool:
    """Whether cells are consecutive whole numbers, such as those of orders."""
    if len(cells) < _FEWEST_SERIAL or not integers_in(cells):
        return False
    return all(int(cell) == int(cells[0]) + at for at, cell in enumerate(cells))


def _may_be_lists(head: Head) -> bool:
    """Whether all numbers of a row may be nodes: four or more, as many and as large in each column as in the second."""
    columns = [integers_in(head.column(name)) for name in head.names]
    if len(columns) < _FEWEST_OF_A_LIST or not all(columns):
        return False
    largest = max(map(int, columns[0] | columns[1]))
    return all(2 * len(one) >= len(columns[1]) and max(map(int, one)) <= 2 * largest for one in columns[2:])


def weight_of(head: Head, source: str, target: str) -> str | None:
    """The column of weights: by its name; without names the third of three, if it has positive numbers."""
    others = [name for name in head.names if name not in (source, target)]
    if head.named:
        return find_weight(others)
    if len(others) != 1 or others[0] == "":
        return None
    numbers = numbers_of(head.column(others[0]))
    likely = numbers is not None and min(numbers) > 0 and max(numbers) <= _MOST_LIKELY_WEIGHT
    return others[0] if likely else None


def recognize_nodes(path: Path, given: Mapping[str, object]) -> tuple[Settings, str]:
    """Settings of a node table, and in words what was recognized."""
    head = _head(path, _asked("nodes_", given))
    ids = str(given.get("id_column") or find_id(head.names) or likely_id(head))
    label = given["label_column"] if "label_column" in given else _label(head, ids)
    settings: Settings = {**head.settings, "id_column": ids, "label_column": label}
    line = f"{path}: {head.how}; ids {quoted(ids)}, "
    if label is None and (likely := _likely_label(head, ids, given)) and "label_column" not in given:
        return settings, (
            f"{line}no labels; {quoted(likely)} has few values and most rows have none: if you want to predict it, "
            f"{_set('label_column', likely)}, else it is a feature"
        )
    if label is None:
        return settings, f"{line}no labels (if there are some: --set graph.label_column=NAME)"
    return settings, f"{line}labels {quoted(label)} (--set graph.label_column=null makes it a feature)"


def likely_id(head: Head) -> str:
    """The first column with a value of its own in each row that is neither a date nor a decimal; else the first."""
    for name in head.names:
        cells = head.column(name)
        decimals = numbers_of(cells) is not None and not integers_in(cells)
        if len({*cells}) == len(cells) and all(map(str.strip, cells)) and not decimals and not are_dates(cells):
            return name
    return head.names[0]


def _likely_label(head: Head, ids: str, given: Mapping[str, object]) -> str | None:
    """The column with few, repeated values that most rows lack: rather what is to be predicted than a feature."""
    for name in head.names if head.named else ():
        values = [value for value in head.column(name) if value.strip()]
        few = len(set(values)) * _FEWEST_PER_LIKELY_LABEL <= len(values) and len(set(values)) > 1
        if name not in (ids, given.get("split_column", "split")) and few and len(values) <= len(head.rows) // 2:
            return name
    return None


def _label(head: Head, ids: str) -> str | None:
    """The column of labels, by its name, if its values repeat; one without names is the second of two."""
    names = labels_among(head.names) if head.named else head.names[1:2] if len(head.names) == 2 else []
    for name in names:
        values = [value for value in head.column(name) if value.strip()]
        if name != ids and values and len(set(values)) * _FEW_PER_LABEL <= len(values):
            return name
    return None
