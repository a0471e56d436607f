"""Methods compared without labels, by the edges that were held out of the graph that all of them read."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gscl_scale.config.config import Config
from gscl_scale.embed.store import read_embeddings
from gscl_scale.errors import ConfigError
from gscl_scale.evaluate.link_schema import LINK_TASKS
from gscl_scale.evaluate.links import LinkPairs, by_cosine, link_figures, validation_auc
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.held_out_edges import HeldOutEdges
from gscl_scale.report.compare_methods import comparison_headers
from gscl_scale.runtime.console import Console
from gscl_scale.studies.compare import compare
from gscl_scale.studies.peers.measure import embed_peer, structure_of
from gscl_scale.studies.peers.table import PEERS
from gscl_scale.train.objectives.methods import USUAL
from tests.commands import cli
from tests.test_compare import VALUES, rows_of

QUIET = Console(quiet=True)
HEADERS = ["", "AUC %", "AP %", "Hits@10 %", "MRR %", "training", "CPU", "memory"]


@pytest.fixture
def asked(tmp_path):
    """Settings for a graph of customers in groups, without labels or features."""
    draw = np.random.default_rng(0)
    left = draw.integers(0, 120, 700)
    right = left // 20 * 20 + draw.integers(0, 20, 700)
    pq.write_table(pa.table({"source": left, "target": right}), tmp_path / "edges.parquet")
    graph = {"source": "tables", "edges": str(tmp_path / "edges.parquet"), "structural_features": 16}

    def settings(share=0.3, **changes):
        evaluate = {**VALUES["evaluate"], "held_out_edges": share}
        return Config.parse({**VALUES, "graph": graph, "evaluate": evaluate, **changes})

    return settings


def test_without_labels_every_method_is_measured_on_the_same_held_out_edges(asked, tmp_path):
    folder = tmp_path / "run"
    result = compare(asked(), folder, [], QUIET)
    rows = rows_of(result)
    expected = [*PEERS, *(name for name in USUAL if name != "supervised")]
    assert list(rows) == ["preferential_attachment", "adamic_adar", "raw", "untrained", *expected]
    assert not any("error" in row for row in rows.values())
    graph = Graph.open(folder / "graph")
    for name in ("prone", "dgi", "gscl-listwise"):
        vectors = read_embeddings(folder / "compare" / name / "seed-0/embeddings")[1]
        for task in LINK_TASKS:
            pairs = LinkPairs.draw(graph, HeldOutEdges.of(graph).test, task, 0)
            assert rows[name]["links"][task] == pytest.approx(link_figures(by_cosine(vectors), pairs))
    assert all(rows[name]["cpu_s"] > 0 for name in expected)
    assert result["links_protocol"]["test"] == len(HeldOutEdges.of(graph).test)
    page = (folder / "compare.md").read_text()
    assert comparison_headers(result) == HEADERS
    figures = rows["cleora"]["links"]["degree_matched"]
    assert f"| Cleora | {100 * figures['auc']:.2f} | {100 * figures['average_precision']:.1f} |" in page
    for words in ("The table is against nodes drawn by degree.", "measured on the same edges and pairs", "Adamic-Adar"):
        assert words in page
    assert "logistic" not in page
    assert (folder / "compare.png").read_bytes()[:4] == b"\x89PNG"


def test_figures_of_several_seeds_have_their_standard_error(asked, tmp_path):
    config = asked(train={**VALUES["train"], "repeats": 2})
    result = compare(config, tmp_path / "run", ["cleora"], QUIET)
    figures = rows_of(result)["cleora"]["links"]["degree_matched"]
    assert figures["auc_se"] > 0
    row = f"| Cleora | {100 * figures['auc']:.2f} ± {100 * figures['auc_se']:.2f} |"
    assert row in (tmp_path / "run/compare.md").read_text()


def test_without_labels_and_held_out_edges_the_refusal_says_what_to_type(asked, tmp_path):
    says = r"the graph has no labels; bring labels .*use a new run folder \(--run\) and add --set evaluate.held_out_edg"
    with pytest.raises(ConfigError, match=says):
        compare(asked(share=0), tmp_path / "run", ["cleora"], QUIET)
    assert not (tmp_path / "run/compare").exists()


@pytest.mark.slow
def test_differences_are_paired_by_parts_of_the_edges_and_the_other_row_is_chosen_by_validation_edges(asked, tmp_path):
    names = ["spectral", "dgi", "gscl-listwise"]
    result = compare(asked(0.6, train={**VALUES["train"], "repeats": 2}), tmp_path / "run", names, QUIET)
    rows = rows_of(result)
    parts = {
        name: np.mean([list(one.values()) for one in row["test_by_split"].values()], axis=0)
        for name, row in rows.items()
    }
    assert {one.size for one in parts.values()} == {20}
    for name, row in rows.items():
        assert row["interval"]["n"] == 20
        assert row["interval"]["low"] <= row["links"]["degree_matched"]["auc"] <= row["interval"]["high"]
        other = row["against"]
        assert other["difference"] == pytest.approx(np.mean(parts[name] - parts[other["method"]]))
        assert other["error"] == pytest.approx(np.std(parts[name] - parts[other["method"]], ddof=1) / 20**0.5)
    validated = {name: row["links"]["validation_auc"] for name, row in rows.items()}
    best = max((name for name in rows if name != "gscl-listwise"), key=validated.get)
    assert {name: row["against"]["method"] for name, row in rows.items()} == {
        name: best if name == "gscl-listwise" else "gscl-listwise" for name in rows
    }
    page = (tmp_path / "run/compare.md").read_text()
    assert "test AUC %, 95 % interval" in page
    assert "Paired differences at 95 % (t over parts of the edges): " in page
    assert "on the same seeds and edges" in page


def test_fewer_than_a_hundred_held_out_edges_have_no_interval(asked, tmp_path):
    result = compare(asked(), tmp_path / "run", ["spectral"], QUIET)
    assert not any("interval" in row for row in result["methods"])
    assert "There are no intervals: fewer than 100 edges are held out" in (tmp_path / "run/compare.md").read_text()


def test_validation_edges_choose_among_several_values_of_a_peer_and_no_test_edge_does(asked, tmp_path):
    several = {"settings": {"cleora": ["iterations=[1, 4, 40]", "width=[4, 32]"]}}
    result = compare(asked(compare=several), tmp_path / "run", ["cleora"], QUIET)
    graph = Graph.open(tmp_path / "run/graph")
    choices = [{"width": width, "iterations": number} for width in (4, 32) for number in (1, 4, 40)]
    auc = validation_auc(graph, 0)
    rows = [embed_peer("cleora", structure_of(graph), choice, 0, QUIET) for choice in choices]
    best = int(np.argmax([auc(by_cosine(one)) for one in rows]))
    assert len({auc(by_cosine(one)) for one in rows}) == len(rows)
    row = rows_of(result)["cleora"]
    assert row["chosen"] == [choices[best]]
    assert (read_embeddings(tmp_path / "run/compare/cleora/seed-0/embeddings")[1] == rows[best]).all()
    assert row["settings"] == {"width": [4, 32], "iterations": [1, 4, 40]}
    words = "; ".join(["`iterations=[1, 4, 40]`", "chosen by held-out edges for validation: `width="])
    assert words in (tmp_path / "run/compare.md").read_text()


def test_several_values_of_a_peer_need_held_out_edges(tmp_path):
    several = {"settings": {"cleora": ["iterations=[1, 4]"]}}
    result = compare(Config.parse({**VALUES, "compare": several}), tmp_path / "run", ["cleora"], QUIET)
    error = rows_of(result)["cleora"]["error"]
    assert "held-out edges choose one, and no edges are held out; give one value, or use a new run folder" in error


def test_the_command_prints_the_table_of_held_out_edges(asked, tmp_path):
    config = asked().dump()
    options = [f"{section}.{key}={value}" for section in ("graph", "evaluate") for key, value in config[section].items()
               if key in ("source", "edges", "structural_features", "held_out_edges")]  # fmt: skip
    words = [word for option in options for word in ("--set", option)]
    ended = cli("compare", "--run", "run", "--methods", "cleora,spectral", *words, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    for expected in ("AUC %", "Hits@10 %", "Cleora", "spectral", "Adamic-Adar", "kept to choose epochs and settings"):
        assert expected in ended.stdout
