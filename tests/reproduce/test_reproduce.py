"""Tables measured cell by cell on tiny graphs, and what is written of them."""

import inspect
import json
import re
import shlex
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

from gscl_scale import pipeline
from gscl_scale.cli import main as cli
from gscl_scale.config.config import Config
from gscl_scale.errors import ConfigError, DivergedError, FolderError, RunError, StoppedError, UserError
from gscl_scale.io.json import read_json, write_json
from gscl_scale.report.plots import plot_panels
from gscl_scale.runtime.console import Console
from gscl_scale.studies.compare import FREE
from gscl_scale.studies.peers.table import PEERS
from gscl_scale.studies.reproduce import cells
from gscl_scale.studies.reproduce.cells import Cell
from gscl_scale.studies.reproduce.measure import measure
from gscl_scale.studies.reproduce.page import draw, page, values_of
from gscl_scale.studies.reproduce.reproduce import CONFIGS, reproduce
from gscl_scale.studies.reproduce.tables import BETTER, TABLES, Line, Table
from gscl_scale.train.objectives.methods import METHODS as METHODS_OF_COMPARE
from gscl_scale.train.objectives.methods import OBJECTIVES
from gscl_scale.version import __version__
from tests.graphs import random_edges
from tests.slow import slow

GRAPH = "source: synthetic, preset: tiny, num_nodes: 90"
REST = """
rings: {hops: 2, width: 8, per_ring: 4, beyond: 8, rounds: 1}
model: {width: 8, projection: 8}
train: {epochs: 2, batch_size: 200, negatives: 16}
evaluate: {random_splits: 1, initialisations: 2, probe_epochs: 20, probe_weight_decay: [0.0]}
"""
CONFIG = f"graph: {{{GRAPH}}}{REST}"
SLOW, FAST = Line("slow", ("train.learning_rate=1e-4",)), Line("fast", ("train.learning_rate=1e-2",))
TINY = Table(
    "A tiny table",
    ("one", "two"),
    (Line("untrained encoder", FAST.settings, "untrained"), SLOW, FAST),
    ("accuracy", "nmi"),
    {("fast", "one", "accuracy"): 50.0, ("fast", "one", "nmi"): 0.5},
    better=("slow", "fast"),
    against="slow",
    shape="along lines",
)


PLOT_PANELS = "gscl_scale.studies.reproduce.page.plot_panels"

METHODS = Table(
    "Methods",
    ("one",),
    (Line("raw features", FAST.settings, "raw"), Line("DGI", (), method="dgi"), SLOW, FAST),
    better=("slow", "fast"),
    ahead=BETTER,
)


def set_up(folder, monkeypatch):
    """(folder of configs, folder of results) with a table named tiny, whose picture is not drawn."""
    monkeypatch.setattr(PLOT_PANELS, lambda *_: None)
    monkeypatch.setitem(TABLES, "tiny", TINY)
    (folder / "configs").mkdir()
    for name in TINY.graphs:
        (folder / f"configs/{name}.yaml").write_text(CONFIG)
    return folder / "configs", folder / "results"


@pytest.fixture
def places(tmp_path, monkeypatch):
    return set_up(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def cells_of_one(tmp_path_factory):
    """The folder of the cells of graph one, with one seed."""
    with pytest.MonkeyPatch.context() as patch:
        places = set_up(tmp_path_factory.mktemp("measured"), patch)
        run(places, only=["one"])
    return places[1] / "cells"


@pytest.fixture
def measured(places, cells_of_one):
    """The same places after graph one was measured."""
    shutil.copytree(cells_of_one, places[1] / "cells")
    return places


def run(places, only=(), settings=(), seeds=1, name="tiny", page_only=False, methods=()):
    return reproduce(name, *places, list(only), list(settings), seeds, Console(quiet=True), page_only, methods)


def run_stopped(places, monkeypatch, **arguments):
    def asked_to_stop(*_):
        raise StoppedError("asked to stop")

    with monkeypatch.context() as patch:
        patch.setattr("gscl_scale.stages.embed.embed", asked_to_stop)
        with pytest.raises(StoppedError):
            run(places, **arguments)


def written(places):
    return {path.name: path.stat().st_mtime_ns for path in (places[1] / "cells").iterdir()}


@pytest.mark.parametrize("name", list(TABLES))
def test_every_table_is_of_settings_that_there_are_and_published_figures_have_their_place(name):
    table = TABLES[name]
    for line in table.lines:
        Config.load(None, list(line.settings))
    lines = [line.name for line in table.lines]
    assert len(set(lines)) == len(lines)
    assert {*table.better, *([table.against] if table.against else [])} <= set(lines)
    for line, graph, figure in table.published:
        assert line in lines
        assert graph in table.graphs
        assert figure in table.measures


def test_methods_are_trained_with_their_settings_and_ours_is_compared_with_the_best_of_them(measured, monkeypatch):
    before = written(measured)
    (measured[0] / "one.yaml").write_text(CONFIG + "compare: {settings: {dgi: [train.epochs=3]}}\n")
    run(measured, only=["one"])
    assert written(measured) == before  # the settings of `compare` change no other cell
    monkeypatch.setitem(TABLES, "methods", METHODS)
    text = run(measured, name="methods")
    rows = {row["line"]: row for row in read_json(measured[1] / "methods.json")["rows"]}
    assert rows["DGI"]["config"]["train"]["objective"] == "dgi"
    assert rows["DGI"]["config"]["train"]["epochs"] == 3
    assert rows["fast"]["config"]["train"]["objective"] == "gscl"
    others = {
        "raw features": rows["fast"]["figures"]["probe"]["raw"],
        "DGI": rows["DGI"]["figures"]["probe"]["trained"],
    }
    ranked = [rows[line]["figures"]["probe"]["trained"] for line in ("slow", "fast")]
    ours, gaps = max(ranked, key=lambda probe: probe["val_mean"]), []
    for part in ("test_mean", "val_mean"):
        best = max(others, key=lambda line: others[line][part])
        gaps.append(f"{100 * (ours[part] - others[best][part]):+.2f} against {best}")
    assert f"- one: {gaps[0]}, the best of 2 others; on validation nodes {gaps[1]}\n" in text


def test_the_cells_of_named_methods_alone_are_measured_and_all_that_are_there_stay_in_the_table(measured, monkeypatch):
    monkeypatch.setitem(TABLES, "methods", METHODS)
    before = written(measured)
    text = run(measured, name="methods", methods=["raw"])
    assert written(measured) == before  # what the raw features are in
    assert "Not measured: one (DGI)" in text
    text = run(measured, name="methods", methods=["dgi"])
    assert len(written(measured)) == len(before) + 1
    assert all(f"| {line.name} |" in text for line in METHODS.lines)


def test_of_a_method_nothing_is_measured_that_no_row_reads_and_its_figures_stay_the_same(places, tmp_path, monkeypatch):
    monkeypatch.setitem(TABLES, "methods", METHODS)
    run(places, name="methods", methods=["dgi"])
    [row] = read_json(places[1] / "methods.json")["rows"]
    [line] = [line for line in METHODS.lines if line.method]
    [cell] = cells.cells_of(METHODS, places[0], ["one"], [], 1)[line]
    whole = pipeline.run(cell.config, tmp_path / "whole", Console(quiet=True), pages=False)
    assert row["figures"]["probe"]["trained"] == whole["probe"]["trained"]
    assert row["figures"]["clusters"]["nmi"] == whole["clusters"]["nmi"]
    assert "untrained" in whole["probe"]
    assert not {"untrained", "raw"} & row["figures"]["probe"].keys()


def test_rows_have_the_names_that_compare_knows():
    of_compare = {*FREE, *PEERS, *METHODS_OF_COMPARE}
    named = {name: [line.compared_as for line in table.lines] for name, table in TABLES.items()}
    assert sorted(named["methods"]) == sorted(of_compare)
    assert all(set(rows) <= {*of_compare, None} for rows in named.values())
    assert named["main"] == ["raw", "untrained", "gscl-pairwise", "gscl-listwise"]
    assert set(named["gates"]) == {None}


def test_settings_of_the_user_stand_between_the_defaults_of_a_line_and_what_makes_it(places):
    line = Line("one", ("train.epochs=3",), defaults=("train.epochs=4", "model.width=4"))
    table = Table("Widths", ("one",), (line,))
    for settings, width in (([], 4), (["train.epochs=5"], 4), (["model.width=6"], 6)):
        (cell,) = cells.cells_of(table, places[0], ["one"], settings, 1)[line]
        assert (cell.config.train.epochs, cell.config.model.width) == (3, width)


def test_a_cell_of_a_method_that_reads_no_samples_depends_on_nothing_of_them(places):
    def names(*settings):
        lines = cells.cells_of(TABLES["methods"], places[0], ["one"], settings, 1)
        return {line.name: one.name for line, (one,) in lines.items()}

    plain, ranked = names(), names("loss.temperature=0.3", "rings.width=8")
    same = {name for name in plain if plain[name] == ranked[name]}
    others = [METHODS_OF_COMPARE[name].title for name in (*OBJECTIVES, "gat")]
    assert same == {*others, *(peer.title for peer in PEERS.values())}


def test_the_page_alone_is_written_from_what_is_stored_and_replaces_no_other(measured):
    before = written(measured)
    text = run(measured, page_only=True)
    assert written(measured) == before
    assert "one" in text
    assert "| two" not in text
    files = {path: path.read_bytes() for path in measured[1].iterdir() if path.is_file()}
    with pytest.raises(UserError, match="has no cell of this table with 3 seeds"):
        run(measured, seeds=3, page_only=True)
    assert {path: path.read_bytes() for path in measured[1].iterdir() if path.is_file()} == files


def test_the_results_in_the_docs_are_those_of_the_cells(tmp_path, monkeypatch):
    monkeypatch.setenv("GSCL_DATA", str(tmp_path))  # cells are the same wherever graphs lie
    root = Path(__file__).parents[2]
    monkeypatch.chdir(root)
    monkeypatch.setattr(PLOT_PANELS, lambda *_: None)  # the text is compared
    for kept in ("cells", "notes"):
        shutil.copytree(root / "docs/results" / kept, tmp_path / "results" / kept)
    tables = Path(shutil.copy(root / "docs/results/tables", tmp_path / "results"))
    for table in (line.split()[0] for line in tables.read_text().splitlines()):
        run((CONFIGS, tmp_path / "results"), seeds=None, name=table, page_only=True)
        assert (tmp_path / f"results/{table}.md").read_text() == (root / f"docs/results/{table}.md").read_text()
    page = re.sub(r"\]\((\w+\.(png|md))", r"](results/\1", (tmp_path / "results/results.md").read_text())
    assert page.replace("](../", "](") == (root / "docs/results.md").read_text()


def test_a_cell_is_the_same_wherever_its_graph_lies(tmp_path):
    names = set()
    for folder in ("here", "there"):
        settings = ["graph.source=npz", f"graph.path={tmp_path / folder / 'cora.npz'}"]
        cell = Cell("cora", Config.load(None, settings))
        names.add(cell.name)
        assert str(tmp_path) not in json.dumps(cell.settings())
    other = Cell("cora", Config.load(None, ["graph.source=npz", f"graph.path={tmp_path / 'other.npz'}"]))
    assert len({*names, other.name}) == 2


def test_with_one_hop_both_rankings_share_a_cell_and_its_run(places, monkeypatch):
    lines = (Line("pairwise", ("loss.ranking=pairwise",)), Line("listwise", ("loss.ranking=listwise",)))
    monkeypatch.setitem(TABLES, "tiny", Table("Rankings", ("one",), lines))
    monkeypatch.setitem(TABLES, "turned", Table("Rankings", ("one",), lines[::-1]))
    run_stopped(places, monkeypatch, settings=["rings.hops=1"])
    run(places, settings=["rings.hops=1"], name="turned")
    [path] = (places[1] / "cells").iterdir()
    write_json(path, {**read_json(path), "seconds": 3600})
    assert ", 1.0 hours, " in run(places, settings=["rings.hops=1"], page_only=True)  # once
    run(places)
    assert len(written(places)) == 3


def test_notes_stand_below_their_table_where_the_figures_are_those_that_they_are_about(measured):
    (measured[1] / "notes").mkdir(parents=True)
    (measured[1] / "notes/tiny.md").write_text("What was tried: **nothing\nat all.** Nor **later**.\n")
    (measured[1] / "notes/results.md").write_text("How this was measured.\n")
    assert run(measured, only=["one"]).endswith("\n\nWhat was tried: **nothing\nat all.** Nor **later**.")
    overview = (measured[1] / "results.md").read_text()
    assert overview.startswith("# Results\n\nHow this was measured.\n\n## Further tables\n")
    title = TABLES["tiny"].title
    assert overview.endswith(f"| [{title}](tiny.md) | Nothing at all |\n")
    changed = run(measured, only=["one"], settings=["train.epochs=3", "model.width=4"])
    assert "What was tried" not in changed
    assert " --set train.epochs=3 --set model.width=4`" in changed


def test_a_table_goes_on_with_the_seeds_that_it_has(measured):
    text = run(measured, only=["one"])
    before = written(measured)
    assert run(measured, only=["one"], seeds=None) == text
    assert written(measured) == before
    assert "`gscl-scale reproduce tiny --seeds 1 " in text
    table = measured[1] / "tables"
    assert table.read_text() == "tiny 1\n"
    table.write_text("main 5\ntiny 1\n")
    grown = run(measured, only=["two"], seeds=2)
    assert table.read_text() == "main 5\ntiny 2\n"
    figure = re.search(r"\| fast \| ([^|]*) \|", text)[1]  # accuracy, the first table
    assert f"| fast | {figure} | " in grown
    assert "- Measured with 1 seed so far: untrained encoder, one; slow, one; fast, one.\n" in grown
    assert "1 seed so far" not in run(measured, only=["one"], seeds=2)
    table.write_text("main five\n")
    with pytest.raises(FolderError, match=r"tables: expected the name of a table and its number of seeds, got .main"):
        run(measured, only=["one"], seeds=None)


def test_more_seeds_of_a_cell_run_only_those_that_are_not_measured(places, measured, tmp_path, monkeypatch):
    ran = []

    def watched(config, *rest, **named):
        ran.append([config.train.seed + number for number in range(config.train.repeats)])
        return whole(config, *rest, **named)

    whole = pipeline.run
    monkeypatch.setattr("gscl_scale.pipeline.run", watched)
    run_stopped(measured, monkeypatch, only=["one"], seeds=2)
    grown = [run(measured, only=["one"], seeds=seeds) for seeds in (2, 4)][-1]
    assert ran == [[1], [1], [1], [2, 3], [2, 3]]
    assert not any(path.is_dir() or "attempts" in path.name for path in (measured[1] / "runs").iterdir())
    at_once = places[0], tmp_path / "at once"
    run(at_once, only=["one"], seeds=4)
    assert ran[5:] == [[0, 1, 2, 3]] * 2
    for path in (at_once[1] / "cells").iterdir():
        cell, whole_cell = read_json(measured[1] / "cells" / path.name), read_json(path)
        assert cell["by_seed"] == whole_cell["by_seed"]
        assert cell["figures"] == whole_cell["figures"]
        assert (cell["seeds"], cell["version"], cell["commit"]) == ([0, 1, 2, 3], __version__, whole_cell["commit"])
    assert "so far" not in grown


def test_a_cell_of_another_graph_with_the_same_name_is_refused(places, tmp_path):
    def brought(seed):
        labels = np.arange(120) % 3
        edges = random_edges(120, 300, seed)
        np.savez(tmp_path / "mine.npz", edge_index=edges.T, x=np.eye(120, dtype=np.float32), y=labels)

    config = CONFIG.replace(GRAPH, f"source: npz, path: {tmp_path / 'mine.npz'}")
    (places[0] / "one.yaml").write_text(config)
    brought(seed=1)
    text = run(places, only=["one"])
    brought(seed=1)  # the same bytes at another time
    assert run(places, only=["one"]) == text
    brought(seed=2)
    with pytest.raises(FolderError, match=r"one-\w+\.json was measured on another graph than .*mine\.npz holds"):
        run(places, only=["one"])
    (tmp_path / "mine.npz").unlink()
    assert run(places, only=["one"]) == text


def test_a_table_is_measured_cell_by_cell_and_what_is_stored_is_not_measured_again(places, monkeypatch):
    monkeypatch.setattr(PLOT_PANELS, plot_panels)
    monkeypatch.setattr(
        "gscl_scale.stages.report.report", lambda *_: pytest.fail("a page was drawn that nobody would see")
    )
    text = run(places, only=["one"], seeds=2)
    assert text == (places[1] / "tiny.md").read_text().rstrip("\n")
    assert "(tiny.md) |  |" in (places[1] / "results.md").read_text()
    cells = [json.loads(path.read_text()) for path in (places[1] / "cells").iterdir()]
    assert len(cells) == 2  # two lines share one
    for cell in cells:
        assert cell["seeds"] == [0, 1]
        assert cell["split"] == "random"
        assert cell["config"]["train"]["repeats"] == 2
        assert cell["figures"]["probe"]["trained"]["test_mean"] > 0
        assert "distribution" not in cell["figures"]["rings"]
        assert {"version", "commit", "finished", "machine", "seconds"} <= set(cell)
    assert not any(path.is_dir() for path in (places[1] / "runs").iterdir())
    before = written(places)
    assert run(places, only=["one"], seeds=2) == text
    assert written(places) == before
    both = run(places, only=["two"], seeds=2)
    assert both == run(places, seeds=2)
    assert "| one | two |" in both.replace("  ", " ")
    assert len(written(places)) == 4
    assert before.items() <= written(places).items()
    with Image.open(places[1] / "tiny.png") as picture:
        assert picture.width > 500
    rows = read_json(places[1] / "tiny.json")["rows"]
    assert [(row["line"], row["graph"]) for row in rows] == [
        (line.name, graph) for line in TINY.lines for graph in TINY.graphs
    ]


def test_similarities_are_drawn_along_the_hops_line_by_line(places, monkeypatch):
    lines = Line("untrained encoder", (), "untrained"), Line("GSCL")
    table = Table("Mean cosine", ("one",), lines, ("similarity",), shape="along hops")
    monkeypatch.setitem(TABLES, "similarity", table)
    drawn = []
    monkeypatch.setattr(PLOT_PANELS, lambda *given: drawn.append(given))
    assert "![Mean cosine](similarity.png)" in run(places, name="similarity")
    (cell,) = [read_json(path) for path in (places[1] / "cells").iterdir()]
    rings = cell["figures"]["rings"]
    assert len(rings["similarity"]) == 3
    panels, names, title, x, y, path = drawn[-1]
    assert panels == {
        "one": {
            "untrained encoder": [(value, 0.0) for value in rings["similarity_untrained"]],
            "GSCL": [(value, 0.0) for value in rings["similarity"]],
        }
    }
    assert (names, title, x, y) == (["1", "2", "beyond"], "Mean cosine", "hop", "")
    assert path == places[1] / "similarity.png"


def test_other_settings_are_other_cells_but_not_other_machines(measured):
    for setting, number in (("runtime.workers=1", 2), ("runtime.npy=true", 2), ("loss.temperature=0.3", 4)):
        run(measured, only=["one"], settings=[setting])
        assert len(written(measured)) == number


def test_two_commands_at_once_share_the_cells(places, monkeypatch):
    measured, both = [], threading.Barrier(2)

    def slow(cell, out, console):
        measured.append(cell.name)
        if len(measured) <= 2:
            both.wait(30)  # neither goes on before the other has a cell of its own
        return measure(cell, out, console)

    monkeypatch.setattr("gscl_scale.studies.reproduce.reproduce.measure", slow)
    with ThreadPoolExecutor(2) as pool:
        pages = list(pool.map(lambda _: run(places), range(2)))
    assert pages[0] == pages[1]
    assert len(measured) == len(set(measured)) == 4


def test_a_graph_that_is_not_at_hand_is_named_and_the_others_are_measured(places):
    absent = CONFIG.replace(GRAPH, "source: npz, path: none.npz")
    (places[0] / "one.yaml").write_text(absent)
    says = r"one could not be measured, because none\.npz does not exist"
    with pytest.raises(UserError, match=says + r"[^;]*(; \w[^;]*)?$"):
        run(places, only=["one"])
    assert not [path for path in places[1].iterdir() if path.is_file()]
    with pytest.raises(UserError, match=says + ".*; what could is"):
        run(places)
    text = (places[1] / "tiny.md").read_text()
    assert "- one: not measured, " in text
    assert "| fast |" in text
    assert len(written(places)) == 2


@pytest.mark.parametrize(
    "failure", [DivergedError("the loss is not finite"), *slow(RuntimeError("no memory"), MemoryError())]
)
def test_a_line_that_fails_is_named_and_all_others_of_its_graph_are_measured(places, monkeypatch, failure):
    def failing(config, folder, console, pages, measured):
        figures = whole(config, folder, console, pages, measured)
        if config.train.learning_rate == 1e-4:
            raise failure
        return figures

    whole = pipeline.run
    monkeypatch.setattr(pipeline, "run", failing)
    with pytest.raises(RunError, match=r"slow, one could not be measured, because (the|no|there).*, and 1 more; what"):
        run(places)
    assert len(written(places)) == 2
    text = (places[1] / "tiny.md").read_text()
    assert re.search(r"- slow, two: not measured, \w+", text)
    assert re.search(r"\| fast \| [\d.]+ .*\| [\d.]+ ", text)
    assert run(places, page_only=True) == text.strip()  # the reasons are stored
    monkeypatch.undo()
    monkeypatch.setitem(TABLES, "tiny", TINY)
    assert "not measured" not in run(places).lower()
    assert not [*(places[1] / "failed").iterdir()]


def test_a_cell_names_the_code_of_all_attempts_at_it_and_their_time(places, monkeypatch):
    monkeypatch.setattr("gscl_scale.studies.reproduce.measure._commit", lambda: "a1")
    run_stopped(places, monkeypatch, only=["one"])
    [journal] = (places[1] / "runs").glob("*.attempts.json")  # no other cell was begun
    assert read_json(journal)["seconds"] > 0
    write_json(journal, {**read_json(journal), "seconds": 3600.0})
    monkeypatch.setattr("gscl_scale.studies.reproduce.measure._commit", lambda: "b2")
    run(places, only=["one"])
    first, second = sorted(
        (read_json(path) for path in (places[1] / "cells").iterdir()), key=lambda one: -one["seconds"]
    )
    assert (first["commit"], second["commit"]) == ("a1 and b2", "b2")
    assert first["seconds"] > 3600 > second["seconds"]
    assert not list((places[1] / "runs").glob("*.attempts.json"))


def test_what_a_kill_has_left_of_a_kept_cell_goes_and_is_in_the_way_of_nothing(measured):
    text = run(measured, only=["one"])
    kept = sorted(path.stem for path in (measured[1] / "cells").iterdir())
    for name in kept:
        (measured[1] / f"runs/{name}/embeddings").mkdir(parents=True)
        (measured[1] / f"runs/{name}/embeddings/half").write_text("half")
        (measured[1] / f"runs/.{name}.tmp").mkdir()
        (measured[1] / f"runs/.{name}.tmp/run.json").write_text("half")
        (measured[1] / f"runs/{name}.attempts.json").write_text("half")
    assert run(measured, only=["one"]) == text
    assert {path.suffix for path in (measured[1] / "runs").iterdir()} == {".lock"}
    shutil.rmtree(measured[1] / "cells")
    run(measured, only=["one"])
    assert sorted(path.stem for path in (measured[1] / "cells").iterdir()) == kept


def test_a_page_ends_in_the_command_that_made_it(measured):
    run(measured, only=["one"], settings=["runtime.npy= true"])
    (command,) = re.findall(r"- By `gscl-scale (.*)`", (measured[1] / "tiny.md").read_text())
    verb, name, *words = shlex.split(command)
    assert (verb, name) == ("reproduce", "tiny")
    assert words == ["--seeds", "1", "--configs", str(measured[0]), "--set", "runtime.npy= true"]
    assert inspect.signature(cli.reproduce).parameters["configs"].default == CONFIGS


def test_without_a_folder_of_data_sets_torch_geometric_brings_them(tmp_path, monkeypatch):
    monkeypatch.delenv("GSCL_DATA", raising=False)
    root = Path(__file__).parents[2]

    def config_of(name, at_hand):
        return cells._config_of(cells._values_of(TABLES["main"], name, root / "configs/paper"), name, [], at_hand)

    known = [name for name in TABLES["main"].graphs if name != "wikics"]
    for name in [*known, "chameleon", "squirrel", "actor"]:
        config = config_of(name, True)
        own = yaml.safe_load((root / f"configs/paper/{name}.yaml").read_text())["graph"]
        assert config.graph.source == "pyg"
        assert config.graph.undirected == own.get("undirected", True)
    with pytest.raises(ConfigError, match="GSCL_DATA is not set"):
        config_of("squirrel_filtered", True)
    named = config_of("squirrel_filtered", False)
    monkeypatch.setenv("GSCL_DATA", str(tmp_path))
    there = config_of("squirrel_filtered", True)
    assert Cell("squirrel_filtered", named).name == Cell("squirrel_filtered", there).name


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"only": ["three"]}, "--only three: this table has one, two"),
        ({"name": "maine"}, "expected one of main, "),
        ({"methods": ["untrained", "grace"]}, "--methods grace: reproduce tiny has rows of untrained$"),
        ({"name": "hops", "methods": ["dgi"]}, "reproduce hops are settings, not methods; leave --methods out"),
        ({"settings": ["train.repeats=3"]}, "--set train.repeats: .* have the seeds that --seeds gives them"),
    ],
)
def test_what_there_is_not_is_refused(places, arguments, words):
    for page_only in (False, True):
        with pytest.raises(ConfigError, match=words):
            run(places, **arguments, page_only=page_only)


PROTOCOL = {
    "scaling": "l2", "epochs": 300, "learning_rate": 0.01, "weight_decays": [0.0], "initialisations": 2,
}  # fmt: skip


def record(val, test, nmi=0.4):
    probe = {"val_mean": val, "test_mean": test, "test_std": 0.01}
    figures = {
        "probe": {"trained": probe, "untrained": {**probe, "test_mean": 0.3}},
        "clusters": {"nmi": nmi, "nmi_se": 0.1, "nmi_untrained": 0.2},
    }
    return {
        "figures": figures, "seeds": [0, 1], "split": "random", "seconds": 1800.0, "finished": "2026-01-02T00:00:00",
        "version": "1", "commit": "abc", "machine": "2 cores of X",
    }  # fmt: skip


@pytest.mark.slow
def test_graphs_without_a_config_have_the_default_settings_and_peers_stand_beside_them(tmp_path, places, monkeypatch):
    edges, draw = random_edges(60, 200, seed=1), np.random.default_rng(0)
    own, classes = draw.normal(size=(60, 3)), draw.integers(0, 2, 60)
    np.savez(tmp_path / "classes.npz", edge_index=edges.T, y=classes, x=own)
    np.savez(tmp_path / "sets.npz", edge_index=edges.T, y=draw.integers(0, 2, (60, 4)).astype(bool))
    probe = ("evaluate.random_splits=2", "evaluate.initialisations=1", "evaluate.probe_epochs=20", "train.epochs=1")
    some, more = (
        Line(
            f"spectral, {width}", (f"compare.settings={{spectral: [width={width}]}}",), peer="spectral", defaults=probe
        )
        for width in (4, 8)
    )
    lines = (Line("structure", of="raw", defaults=probe), Line("GSCL", defaults=probe), some, more)
    files = {"classes": "classes.npz", "sets": "sets.npz"}
    monkeypatch.setitem(TABLES, "tiny", Table("Tiny", tuple(files), lines, ahead="GSCL", files=files))
    monkeypatch.setenv("GSCL_DATA", str(tmp_path))
    text = run(places, seeds=2)
    rows = {(row["line"], row["graph"]): row for row in read_json(places[1] / "tiny.json")["rows"]}
    assert len(rows) == len(lines) * len(files)
    assert len(written(places)) == 3 * len(files)  # what is read has the cell of what is trained on it
    assert rows["GSCL", "classes"]["config"]["graph"]["structure"] == "only"
    assert rows["spectral, 8", "classes"]["config"]["spectral"] == {"width": 8, "iterations": 20}
    assert "model" not in rows["spectral, 8", "classes"]["config"]
    assert rows["spectral, 8", "classes"]["figures"] != rows["spectral, 4", "classes"]["figures"]
    assert all(len(row["seeds"]) == 2 and row["split"] == "random" for row in rows.values())
    assert re.search(r"- classes: [+-]\d+\.\d\d against (structure|spectral, [48]), the best of 3 others", text)
    assert (
        "Where a node has many labels: micro-F1 of one-vs-rest logistic regression, trained on 0.5 of the nodes" in text
    )
    before = written(places)
    assert run(places, seeds=2) == text
    assert written(places) == before


def test_the_better_line_is_chosen_on_validation_and_its_test_figure_is_told():
    records = {("slow", "one"): record(0.60, 0.50), ("fast", "one"): record(0.55, 0.58)}
    values = {(value.line, value.measure): value for value in values_of(TINY, records)}
    assert values["GSCL, better on validation", "accuracy"].values == (50.0,)
    text = page("tiny", TINY, records, {}, "made so")
    assert "| GSCL, better on validation | 50.00 ± 1.00 (published 50: +0.00) |" in text
    assert "| fast | 58.00 ± 1.00 (published 50: +8.00) |" in text
    assert "| fast | 0.4000 ± 0.1000 (published 0.5: -0.1000) |" in text
    assert "- fast, one: +8.00, **not** within one standard deviation (1.00)" in text
    shared = {**records, ("fast", "one"): records["slow", "one"]}
    assert "standard deviation (" not in page("tiny", TINY, shared, {}, "made so")
    assert "Seeds per cell: 2; random splits." in text
    assert "2026-01-02, 2 cores of X, 1.0 hours, version 1 (abc)." in text


def test_the_lead_is_told_on_test_nodes_and_on_validation_nodes():
    lines = (Line("some"), Line("more"), Line("ours"))
    table = Table("Methods", ("one",), lines, better=("ours",), ahead=BETTER)
    accuracies = {"some": (0.70, 0.50), "more": (0.60, 0.55), "ours": (0.65, 0.6)}
    records = {(line, "one"): record(*of) for line, of in accuracies.items()}
    lead = "- one: +5.00 against more, the best of 2 others; on validation nodes -5.00 against some\n"
    assert lead in page("tiny", table, records, {}, "made so")
    for line in ("some", "more"):
        records[line, "one"]["figures"]["probe"]["trained"]["val_mean"] = None
    assert "the best of 2 others\n" in page("tiny", table, records, {}, "made so")


def test_roc_auc_stands_in_a_table_of_its_own_and_so_many_graphs_side_by_side():
    graphs = ("one", "two", "three", "four")
    table = Table("Methods", graphs, (SLOW, FAST), ("accuracy", "roc_auc"), better=("slow", "fast"), columns=2)
    records = {(line, graph): record(0.6, 0.5) for line in ("slow", "fast") for graph in graphs}
    for line in ("slow", "fast"):
        records[line, "two"]["figures"]["probe"]["protocol"] = {**PROTOCOL, "measure": "roc_auc"}
    text = page("tiny", table, records, {}, "made so")
    row = "| GSCL, better on validation | 50.00 ± 1.00 |"
    places = [
        text.index(part) for part in ("Test accuracy, %:", "|  | one | three |", "|  | four |", "Test ROC-AUC, %:")
    ]
    assert [*places, text.index("|  | two |")] == sorted([*places, text.index("|  | two |")])
    assert text.count("Test accuracy, %:") == text.count("Test ROC-AUC, %:") == 1
    assert text.count(row) == 3


def test_cells_that_are_not_there_are_named_together_and_those_with_a_reason_by_it():
    graphs = ("one", "two", "three", "four")
    table = Table("Methods", graphs, (SLOW, FAST))
    records = {("slow", "one"): record(0.6, 0.5), ("slow", "two"): record(0.6, 0.5), ("slow", "four"): record(0.6, 0.5)}
    text = page("tiny", table, records, {"fast, four": "there is not enough memory"}, "made so")
    assert "- Not measured: one, two (fast).\n- Not measured: three.\n" in text
    assert "- fast, four: not measured, there is not enough memory\n" in text
    assert "Not measured: three" not in page("tiny", table, records, {"three": "it does not exist"}, "made so")
    assert "Not measured" not in page("tiny", Table("Methods", ("one",), (SLOW,)), records, {}, "made so")


@pytest.mark.parametrize(("step", "told"), [(299, True), (150, False)])
def test_lines_that_the_probe_had_not_done_with_are_told(step, told):
    records = {("slow", "one"): record(0.60, 0.50), ("fast", "one"): record(0.55, 0.58)}
    probe = records["fast", "one"]["figures"]["probe"]
    probe |= {"splits": [{"trained": {"best_epoch_mean": step}, "untrained": {}}], "protocol": PROTOCOL}
    text = page("tiny", TINY, records, {}, "made so")
    assert ("The probe was still getting better at its last steps" in text) == told
    assert ("so that more may raise the figure: one (fast)." in text) == told


def test_the_commits_that_measured_are_told_once_each_and_counted_where_they_are_many():
    def text(*commits):
        records = {("slow", str(number)): {**record(0.5, 0.5), "commit": each} for number, each in enumerate(commits)}
        return page("tiny", TINY, records, {}, "made so")

    assert "version 1 (abc, def)." in text("abc", "abc and def")
    assert "version 1 (abc, no checkout)." in text("abc", None)
    assert "version 1 (4 commits, which the cells name)." in text("a and b", "b and c", "d")


def test_what_a_cell_did_not_measure_has_no_figure():
    trained_only = {"probe": {"trained": record(0.5, 0.5)["figures"]["probe"]["trained"]}, "clusters": {}}
    records = {
        ("untrained encoder", "one"): {**record(0.5, 0.5), "figures": trained_only},
        ("slow", "one"): {**record(0.5, 0.5), "figures": {}},
    }
    assert values_of(TINY, records) == []


def test_an_empty_ring_is_a_dash_in_the_table_and_a_gap_in_the_picture(tmp_path, monkeypatch):
    table = Table("Mean cosine", ("one",), (Line("GSCL"),), ("similarity",), shape="along hops")
    found = record(0.5, 0.5)
    records = {("GSCL", "one"): {**found, "figures": {**found["figures"], "rings": {"similarity": [0.5, None, 0.25]}}}}
    assert "| GSCL | 0.500, -, 0.250 |" in page("similarity", table, records, {}, "made so")
    drawn = []
    monkeypatch.setattr(PLOT_PANELS, lambda *given: drawn.append(given[0]))
    draw(table, records, tmp_path / "similarity.png")
    assert drawn == [{"one": {"GSCL": [(0.5, 0.0), None, (0.25, 0.0)]}}]
    monkeypatch.undo()
    draw(table, records, tmp_path / "similarity.png")
    with Image.open(tmp_path / "similarity.png") as picture:
        assert picture.width > 300


def test_the_overview_has_the_comparison_of_methods_in_full(measured, monkeypatch):
    monkeypatch.setattr("gscl_scale.studies.reproduce.overview._IN_FULL", "tiny")
    text = run(measured, only=["one"])
    assert text.startswith("# ")
    assert (measured[1] / "results.md").read_text() == f"# Results\n\n#{text}\n"
