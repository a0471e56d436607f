"""`gscl-scale run FILE`: what is recognized in files as people have them, and what is refused."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from gscl_scale.graph.graph import Graph
from tests.commands import cli
from tests.docs.pages import blocks
from tests.graph.tables import named_rows

NODES = 30
EDGES = sorted({tuple(sorted((v, (v + hop) % NODES))) for v in range(NODES) for hop in (1, 7)})
EDGES.remove((0, 1))
EDGES.append((1, 0))  # neither sorted by source nor by target


def weight(edge):
    return 0.5 + sum(edge) % 5


def number(v):
    return str(v)


def product(v):
    return f"P-{v:02}"


def person(v):
    return ("Ann", "Bo", "Cy", "Di", "Ed")[v % 5] + " " + ("Fox", "Gray", "Hill", "Ives", "Jost", "Kent")[v // 5]


def lines(pattern, name=number, **more):
    """A line for each edge."""
    return [
        pattern.format(a=name(a), b=name(b), w=weight((a, b)), n=row, d=2000 + row % 20, **more)
        for row, (a, b) in enumerate(EDGES)
    ]


def text(*parts, end="\n"):
    return (end.join(line for part in parts for line in ([part] if isinstance(part, str) else part)) + end).encode()


# name of the file: content, name of a node, whether edges have weights, and settings that must be recognized
TEXTS = {
    "edges.csv": (text("source,target", lines("{a},{b}")), number, False, {"separator": "comma", "header": True}),
    "links.tsv": (
        text("src\tdst\tweight", lines("{a}\t{b}\t{w}", product)), product, True,
        {"source_column": "src", "target_column": "dst", "weight_column": "weight"},
    ),
    "sent.csv": (
        text("Nr;Von;An;Datum", lines("{n};{a};{b};05.03.{d}", product)), product, False,
        {"source_column": "Von", "target_column": "An"},
    ),
    "excel.csv": (
        b"\xef\xbb\xbf" + text('"From";"To";"Jahr"', lines('"{a}";"{b}";"{d}"', product), end="\r\n"), product, False,
        {"separator": "semicolon", "source_column": "From"},
    ),
    "aligned.txt": (text(lines("  {a:>4}   {b:>4}  ")), number, False, {"separator": "blanks", "header": False}),
    "ca-GrQc.txt": (
        text("# Directed graph: ca-GrQc.txt", "# Nodes: 30 Edges: 60", "# FromNodeId\tToNodeId", lines("{a}\t{b}"),
             end="\r\n"),
        number, False, {"separator": "tab", "header": False, "comment": "#"},
    ),
    "konect.edges": (
        text("% asym positive", "% 60 30 30", lines("{a} {b} {w} {d}")), number, False, {"comment": "%"},
    ),
    "weighted.edgelist": (text(lines("{a} {b} {w}", product)), product, True, {"weight_column": "column_3"}),
    "networkx.edgelist": (text(lines("{a} {b} {{}}")), number, False, {"source_column": "column_1"}),
    "gephi.csv": (
        text("Source,Target,Type,Id,Label,Weight", lines('{a},{b},Undirected,{n},"one, or two",{w}')), number, True,
        {"weight_column": "Weight"},
    ),
    "pandas.csv": (
        text(",person,friend", lines('{n},"{a}","{b}"', person)), person, False, {"source_column": "person"},
    ),
    "people.csv": (
        text("author1, author2, year", lines('"{a}", "{b}", {d}', person)), person, False,
        {"separator": "comma+blanks"},
    ),
    "pipes.txt": (text("id_a|id_b", "# half of them", lines("{a}|{b}", product)), product, False, {"comment": "#"}),
    "packed.csv.gz": (
        gzip.compress(text("u,v", lines("{a},{b}"))), number, False, {"source_column": "u", "target_column": "v"},
    ),
    "packed.txt.zst": (pa.compress(text(lines("{a} {b}")), "zstd", asbytes=True), number, False, {"header": False}),
    "no-names.csv": (text(lines("{a},{b}", product)), product, False, {"header": False}),
    "network.mtx": (
        text("%%MatrixMarket matrix coordinate pattern symmetric", "%----", "% of a collection", "30 30 60",
             [f"{max(edge) + 1} {min(edge) + 1}" for edge in EDGES]),
        lambda v: str(v + 1), False, {"source_column": "row", "target_column": "column"},
    ),
    "network.mtx.gz": (
        gzip.compress(
            text("%%MatrixMarket matrix coordinate real general", "30 30 60", lines("{a} {b}  {w}", lambda v: v + 1))
        ),
        lambda v: str(v + 1), True, {"weight_column": "value"},
    ),
}  # fmt: skip


def expected(name, weighted):
    rows = {name(v): {} for v in range(NODES)}
    for a, b in EDGES:
        rows[name(a)][name(b)] = rows[name(b)][name(a)] = weight((a, b)) if weighted else 1
    return rows


def found(graph):
    """The neighbors of each node by its id as text, with the weights of the edges."""
    ids = [str(one) for one in graph.ids.to_pylist()] if graph.ids is not None else [str(v) for v in range(NODES)]
    weights = np.ones(graph.indices.size) if graph.edge_weights is None else graph.edge_weights
    return {
        ids[v]: {ids[graph.indices[at]]: weights[at] for at in range(graph.indptr[v], graph.indptr[v + 1])}
        for v in range(graph.num_nodes)
    }


def ingested(folder, *words):
    """The graph that `gscl-scale ingest WORDS` makes, the settings that it keeps, and what it prints."""
    result = cli("ingest", *words, "--run", "run", cwd=folder)
    assert result.returncode == 0, result.stderr
    return (
        Graph.open(folder / "run/graph"),
        yaml.safe_load((folder / "run/config.yaml").read_text())["graph"],
        result.stderr,
    )


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_file_is_read_as_it_is(tmp_path, name):
    content, node, weighted, settings = TEXTS[name]
    (tmp_path / name).write_bytes(content)
    graph, kept, told = ingested(tmp_path, name)
    assert found(graph) == expected(node, weighted)
    assert (graph.edge_weights is not None) == weighted
    assert kept | settings == kept
    assert told.startswith(f"{name}: ")


def test_settings_of_tables_are_not_named_for_an_npz_file(tmp_path):
    np.savez(tmp_path / "graph.npz", edge_index=np.array(EDGES).T)
    read = cli("ingest", "graph.npz", cwd=tmp_path)
    assert read.returncode == 0
    assert "graph.KEY" not in read.stderr


def test_parquet_and_npz_files_are_read_as_they_are(tmp_path):
    ends = np.array(EDGES).T
    pq.write_table(pa.table({"head": ends[0], "tail": ends[1], "when": ends[1]}), tmp_path / "edges.parquet")
    np.savez(tmp_path / "graph.npz", edge_index=ends, num_nodes=NODES)
    for name in ("edges.parquet", "graph.npz"):
        (tmp_path / name[:3]).mkdir()
        graph, *_ = ingested(tmp_path / name[:3], f"../{name}")
        assert found(graph) == expected(number, False)


KINDS = ("tea", "bread", "tools")


@pytest.mark.parametrize(
    ("name", "content", "settings"),
    [
        (
            "products.csv",
            text("sku,price,name,category", [f"x{v},{v / 2},{product(v)},{KINDS[v % 3]}" for v in range(NODES)]),
            {"id_column": "name", "label_column": "category"},
        ),
        (
            "labels.txt",
            text([f"{product(v)} {KINDS[v % 3]}" for v in range(NODES)]),
            {"id_column": "column_1", "label_column": "column_2", "nodes_separator": "blanks", "nodes_header": False},
        ),
        (
            "gephi.csv",
            text("Id;Label;price", [f"{product(v)};{person(v)};{v / 2}" for v in range(NODES)]),
            {"id_column": "Id", "label_column": None, "nodes_separator": "semicolon"},
        ),
    ],
)
def test_a_node_table_is_recognized(tmp_path, name, content, settings):
    (tmp_path / "bought.csv").write_bytes(text("source,target", lines("{a},{b}", product)))
    (tmp_path / name).write_bytes(content)
    words = ["bought.csv", "--nodes", name]
    if settings.get("nodes_header") is False:
        words += ["--set", "graph.nodes_header=false"]
    graph, kept, told = ingested(tmp_path, *words)
    assert found(graph) == expected(product, False)
    assert kept | settings == kept
    assert graph.classes == (sorted(KINDS) if settings["label_column"] else [])
    assert f"{name}: " in told


def test_a_node_table_that_a_setting_names_is_recognized_too(tmp_path):
    (tmp_path / "bought.csv").write_bytes(text("source,target", lines("{a},{b}", product)))
    (tmp_path / "list.csv").write_bytes(text("sku;class", [f"{product(v)};{KINDS[v % 3]}" for v in range(NODES)]))
    graph, kept, told = ingested(tmp_path, "bought.csv", "--set", "graph.nodes=list.csv")
    assert (graph.num_nodes, graph.classes, kept["id_column"]) == (NODES, sorted(KINDS), "sku")
    assert "list.csv: separator semicolon, header; ids 'sku', labels 'class'" in told


def test_what_is_recognized_is_printed_as_the_page_shows_it(tmp_path):
    pairs = [f"{v % NODES};{(3 * v + 1) % NODES};{1 + v % 4};{2000 + v % 9}" for v in range(700)]
    (tmp_path / "edges.csv").write_bytes(text("from;to;weight;since", pairs))
    (tmp_path / "nodes.csv").write_bytes(text("id,class", [f"{v},{KINDS[v % 3]}" for v in range(NODES)]))
    told = cli("ingest", "edges.csv", "--nodes", "nodes.csv", cwd=tmp_path).stderr
    assert told.startswith(next(block.text for block in blocks("docs/graphs_file.md") if block.number == 2))


@pytest.mark.parametrize(("settings", "named"), [((), True), (("--set", "graph.label_column=null"), False)])
def test_a_column_that_most_rows_lack_is_named_as_what_may_be_predicted(tmp_path, settings, named):
    (tmp_path / "edges.csv").write_bytes(text("source,target", lines("{a},{b}", product)))
    rows = [
        f"{product(v)},{'train' if v % 3 else ''},{v % 5},{KINDS[v % 2] if v < NODES // 2 else ''}"
        for v in range(NODES)
    ]
    (tmp_path / "nodes.csv").write_bytes(text("id,split,stars,our segment", rows))
    told = cli("ingest", "edges.csv", "--nodes", "nodes.csv", *settings, cwd=tmp_path).stderr
    asked = "'our segment' has few values and most rows have none: if you want to predict it, "
    assert (f"{asked}--set 'graph.label_column=\"our segment\"', else it is a feature" in told) == named
    assert "labels (if there are some: --set graph.label_column=NAME)" in told or named


@pytest.mark.parametrize("inside", [("edges.csv", "nodes.csv"), ("edges/1.csv", "edges/2.csv"), ("a.csv", "b.csv")])
def test_a_folder_of_tables_is_recognized(tmp_path, inside):
    rows = lines("{a},{b}", product)
    for at, name in enumerate(inside):
        path = tmp_path / "tables" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name == "nodes.csv":
            path.write_bytes(text("id,class", [f"{product(v)},{KINDS[v % 3]}" for v in range(NODES)]))
        else:
            path.write_bytes(text("source,target", rows if "nodes.csv" in inside else rows[at::2]))
    graph, kept, _ = ingested(tmp_path, "tables")
    assert found(graph) == expected(product, False)
    assert ("nodes" in kept) == ("nodes.csv" in inside)


def test_ids_are_the_first_column_with_a_value_of_its_own_in_each_row_that_is_no_measure(tmp_path):
    (tmp_path / "edges.csv").write_bytes(text("source,target", lines("{a},{b}", product)))
    rows = [f"{'private' if v % 3 else ''};{v + 0.5};2026-01-{v % 28 + 1:02d};{product(v)};x{v}" for v in range(NODES)]
    (tmp_path / "nodes.csv").write_bytes(text("kind;balance;opened;IBAN no.;other", rows))
    graph, kept, told = ingested(tmp_path, "edges.csv", "--nodes", "nodes.csv")
    assert (kept["id_column"], graph.num_nodes) == ("IBAN no.", NODES)
    assert "nodes_separator, nodes_header, id_column or label_column; the run keeps it in run/config.yaml" in told


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        (
            "edges.csv",
            text("anna,milk", "bert,tea", "carl,jam"),
            "or is an edge; say which: --set graph.header=true or",
        ),
        ("edges.csv", text("a,b", "c,d", "e,f"), "names the columns or is an edge"),
        ("edges.csv", text("1,2", "3,4,5"), "line 2 has 3 cells (3, 4, 5), the first row has 2 (1, 2)"),
        ("edges.txt", text("1 2", "3 4 5 6"), "line 2 has 4 cells"),
        (
            "edges.txt",
            text("1;2,5", "3;4,5", "4;1,5"),
            "both cut all lines into cells; name one: --set graph.separator=comma or",
        ),
        ("edges.txt", text("1 2 0,5", "2 3 1,5"), "comma and blanks both cut all lines"),
        (
            "edges.csv",
            text("#a,#b", "c,d", "d,#b"),
            "'#a,#b' is a comment or a row; say which: --set 'graph.comment=\"#\"' or",
        ),
        (
            "edges.csv",
            text("customer,product", "1,2", "2,3"),
            "both hold 2; if that is the same node, name both ends: --set",
        ),
        (
            "edges.csv",
            text("id,person,friend", "7,ann,bo", "9,bo,cy"),
            "name both ends: --set graph.source_column=person --set graph.target_column=friend",
        ),
        ("edges.csv", text("0,5,6", "1,6,7", "2,7,5"), "the first column ('column_1') may only number the rows"),
        (
            "orders.csv",
            text("order,customer,product", *(f"{at},c{at % 3},p{at % 4}" for at in range(500, 510))),
            "may only number the rows; name both ends: --set graph.source_column=customer --set",
        ),
        (
            "sent.csv",
            text("Datum;Wer;Wem", "05.03.2026;ann;bo", ";bo;cy"),
            "column 'Datum' has dates; name both ends: --set graph.source_column=Wer --set graph.target_column=Wem",
        ),
        (
            "people.csv",
            text("name,joined,town", "ann,2026-03-05T10:11,Rome", "bo,2025-01-31,Pisa"),
            "column 'joined' has dates; name both ends: --set graph.source_column=name --set",
        ),
        (
            "people.csv",
            text("name,age,town", *(f"n{at},{30 + at % 3},Rome" for at in range(10))),
            "gscl-scale run EDGES --nodes people.csv; if it has edges, name both ends: --set graph.source_column=name",
        ),
        ("edges.csv", text("one", "two"), "no separator"),
        ("edges.csv", text(",person", "0,anna", "1,bert"), "has one column, person; expected two columns of ids"),
        ("knn.txt", text("1 2 3 4", "2 4 5 1", "3 5 1 2", "4 1 2 5"), "4 numbers may be lists of neighbours"),
        ("edges.csv", b"", "holds no rows"),
        ("edges.csv", text("# a", "# b"), "holds no rows"),
        ("edges.csv", "a,b\n".encode("utf-16"), "iconv -f UTF-16 -t UTF-8 edges.csv > edges-utf8.csv"),
        ("edges.csv", b"PAR1....", "is a Parquet file, which its name does not say"),
        ("edges.csv", "a,b\na,é\n".encode("cp1252"), "edges.csv: line 2 is not UTF-8 text; convert the file, if that"),
        ("edges.csv.gz", b"source,target\n", "cannot be read: Not a gzipped file"),
        ("edges.json", b"{}", "unknown kind of file; expected .parquet"),
        ("edges.yaml", b"graph: {}", "is a config file; give it with --config edges.yaml"),
        ("a.mtx", text("1 2", "2 3"), "expected a first line such as '%%MatrixMarket matrix coordinate"),
        ("a.mtx", text("%%MatrixMarket matrix array real general", "2 2"), "expected a first line such as"),
        (
            "a.mtx",
            text("%%MatrixMarket matrix coordinate complex general", "2 2 1"),
            "a general matrix of complex values",
        ),
        (
            "a.mtx",
            text("%%MatrixMarket matrix coordinate pattern general", "2 3 1", "1 3"),
            "the matrix has 2 rows and 3 columns",
        ),
        (
            "a.mtx",
            text("%%MatrixMarket matrix coordinate pattern general", "3 3 2", "1 3"),
            "has 1 entries, its size line says 2",
        ),
        ("none.csv", None, "none.csv does not exist; name an edge list"),
    ],
)
def test_a_file_that_may_be_read_in_two_ways_or_in_none_is_refused(tmp_path, name, content, says):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    refused = cli("ingest", name, cwd=tmp_path)
    assert refused.returncode == 2, refused.stderr
    assert says in refused.stderr
    assert len([line for line in refused.stderr.splitlines() if line.startswith("gscl-scale: ")]) == 1
    assert "Traceback" not in refused.stderr
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())


def test_a_setting_settles_what_is_ambiguous_and_is_kept(tmp_path):
    (tmp_path / "edges.csv").write_bytes(text("anna,milk", "bert,tea", "carl,jam"))
    for header, nodes in (("true", 4), ("false", 6)):
        words = ("ingest", "edges.csv", "--set", f"graph.header={header}", "--run", header)
        assert cli(*words, cwd=tmp_path).returncode == 0
        assert cli("ingest", "edges.csv", "--run", header, cwd=tmp_path).returncode == 0  # says it no more
        assert Graph.open(tmp_path / header / "graph").num_nodes == nodes
    edited = (tmp_path / "true/config.yaml").read_text().replace("header: true", "header: false")
    (tmp_path / "true/config.yaml").write_text(edited)
    for words in (("edges.csv", "--run", "true"), ("--config", "true/config.yaml")):
        refused = cli("ingest", *words, cwd=tmp_path)
        assert (refused.returncode, "graph.header=true, but the config now says false" in refused.stderr) == (2, True)


def test_with_overwrite_the_file_is_read_in_the_other_way(tmp_path):
    (tmp_path / "edges.csv").write_bytes(text("anna,milk", "bert,tea", "carl,jam"))
    for header, nodes in (("true", 4), ("false", 6)):
        told = cli("ingest", "edges.csv", "--set", f"graph.header={header}", "--overwrite", cwd=tmp_path)
        assert told.returncode == 0, told.stderr
        assert ("removed runs/edges/graph, made with other settings" in told.stderr) == (header == "false")
        assert Graph.open(tmp_path / "runs/edges/graph").num_nodes == nodes
        assert yaml.safe_load((tmp_path / "runs/edges/config.yaml").read_text())["graph"]["header"] == (nodes == 4)


def test_a_node_table_of_an_earlier_command_is_named_and_can_be_left_out(tmp_path):
    (tmp_path / "edges.csv").write_bytes(text("a,b", "anna,bert", "bert,carl"))
    (tmp_path / "nodes.csv").write_bytes(text("id,age", "anna,1", "bert,2", "carl,3"))
    assert cli("ingest", "edges.csv", "--nodes", "nodes.csv", cwd=tmp_path).returncode == 0
    again = cli("ingest", "edges.csv", cwd=tmp_path)
    says = "nodes of nodes.csv, as in runs/edges/config.yaml; to leave them out: --set graph.nodes=null\n"
    assert (again.returncode, says in again.stderr) == (0, True)
    assert "nodes of" not in cli("ingest", "edges.csv", "--nodes", "nodes.csv", cwd=tmp_path).stderr
    without = cli("ingest", "edges.csv", "--set", "graph.nodes=null", "--overwrite", cwd=tmp_path)
    assert (without.returncode, "nodes of" in without.stderr) == (0, False)
    assert Graph.open(tmp_path / "runs/edges/graph").num_features == 128


def test_a_wrong_setting_is_refused_before_the_file_is_opened(tmp_path):
    for words, says in (
        (("--set", "train.epoch=3"), "train.epoch: unknown key; did you mean epochs?"),
        (("--set", "graph.separator=ab"), "graph.separator: expected comma, tab, semicolon, pipe, blanks, or one"),
        (("--config", "mine.yaml"), "edges.csv and --config mine.yaml both name a graph"),
        (("--nodes", "nowhere.csv"), "edges.csv does not exist; name an edge list"),
    ):
        refused = cli("run", "edges.csv", *words, cwd=tmp_path)
        assert (refused.returncode, says in refused.stderr) == (2, True), refused.stderr


def test_one_command_goes_from_a_file_to_a_report_and_its_config_does_the_same(tmp_path):
    (tmp_path / "friends.txt").write_bytes(text(lines("{a} {b}", product)))
    short = [
        part for setting in ("train.epochs=1", "model.width=8", "runtime.device=cpu") for part in ("--set", setting)
    ]
    first = cli("run", "friends.txt", *short, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert "report      runs/friends/report.html" in first.stdout
    again = cli("run", "friends.txt", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    moved = cli("run", "--config", "runs/friends/config.yaml", "--run", "runs/other", cwd=tmp_path)
    assert moved.returncode == 0, moved.stderr
    graphs = [json.loads((tmp_path / "runs" / run / "graph/manifest.json").read_text()) for run in ("friends", "other")]
    assert graphs[0]["fingerprint"] == graphs[1]["fingerprint"]
    assert named_rows(Graph.open(tmp_path / "runs/other/graph"))[product(0)] == {product(v) for v in (1, 7, 23, 29)}
