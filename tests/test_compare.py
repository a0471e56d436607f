import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from gscl_scale.config.config import Config
from gscl_scale.errors import ConfigError, FolderError
from gscl_scale.evaluate.splits import make_splits
from gscl_scale.io.json import read_json, write_json
from gscl_scale.report.compare_methods import best_sentence, comparison_page, validation_figure
from gscl_scale.run.folder import Run
from gscl_scale.runtime.console import Console
from gscl_scale.studies.compare import _Cost, _cost, _reference, compare, measured_methods, named_methods
from gscl_scale.studies.paired import best_row
from gscl_scale.studies.peers.table import PEERS
from gscl_scale.train.objectives.methods import METHODS, OBJECTIVES, USUAL
from tests.commands import cli

QUIET = Console(quiet=True)
VALUES = {
    "graph": {"source": "synthetic", "preset": "tiny", "num_nodes": 80, "num_features": 6},
    "rings": {"hops": 2, "per_ring": 4, "width": 16, "beyond": 8, "rounds": 1},
    "model": {"width": 8, "projection": 8},
    "train": {"epochs": 2, "batch_size": 64, "negatives": 16, "validate_every": 1},
    "evaluate": {
        "train_fractions": [0.2], "random_splits": 2, "initialisations": 2, "probe_epochs": 5,
        "probe_weight_decay": [0.0],
    },
    "runtime": {"workers": 1, "device": "cpu"},
    "compare": {
        "settings": {
            **{name: ["train.epochs=4"] for name in (*OBJECTIVES, "gat")},
            **{name: ["train.epochs=4", "baseline.predictor=8"] for name in ("bgrl", "blnn", "afgrl")},
            **{name: ["walks=1", "length=5", "window=2"] for name in ("deepwalk", "node2vec")},
        }
    },
}  # fmt: skip


def asked(**changes):
    return Config.parse({**VALUES, **changes})


def rows_of(result):
    return {row["method"]: row for row in result["methods"]}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare") / "run"
    config = asked(train={**VALUES["train"], "repeats": 2})
    return config, folder, compare(config, folder, [], QUIET)


def test_a_comparison_has_no_report_but_those_of_its_methods(whole, tmp_path):
    refused = cli("report", "--run", whole[1], cwd=tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert refused.stderr.endswith(
        f"for the page of one method: gscl-scale report --run {whole[1]}/compare/METHOD/seed-0\n"
    )


def test_methods_are_compared_by_held_out_edges_too(tmp_path):
    evaluated = {**VALUES["evaluate"], "held_out_edges": 0.2}
    config = asked(evaluate=evaluated, graph={**VALUES["graph"], "mean_degree": 12})
    result = compare(config, tmp_path / "run", ["dgi"], QUIET)
    assert [row["method"] for row in result["methods"]] == ["raw", "untrained", "dgi"]
    aucs = [f"{100 * row['links']['random']['auc']:.1f} / " for row in result["methods"]]
    (remark,) = [one for one in comparison_page(result).splitlines() if one.startswith("AUC of held-out edges in %")]
    assert all(auc in remark for auc in aucs)


@pytest.fixture(scope="module")
def dgi_alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dgi") / "run"
    return folder, compare(asked(), folder, ["dgi"], QUIET)


@pytest.fixture
def dgi(dgi_alone, tmp_path):
    """A folder where DGI has been measured, and its result."""
    return shutil.copytree(dgi_alone[0], tmp_path / "run"), dgi_alone[1]


def test_every_method_has_its_figures_time_and_memory_in_the_order_of_the_table(whole):
    _, folder, result = whole
    assert [row["method"] for row in result["methods"]] == ["raw", "untrained", *PEERS, *USUAL]
    assert result["seeds"] == [0, 1]
    for row in result["methods"]:
        assert 0 <= row["test_mean"] <= 1
        assert row["test_std"] >= 0
        if row["method"] in METHODS:
            assert row["training_s"] > 0
            assert row["steps"] == 4
        if row["method"] in (*PEERS, *USUAL):
            assert row["cpu_s"] > 0
            assert row["peak_bytes"] > 1 << 20
    assert read_json(folder / "compare.json") == result
    page = (folder / "compare.md").read_text()
    assert all(row["title"] in page for row in result["methods"])
    assert (folder / "compare.png").read_bytes()[:4] == b"\x89PNG"


def test_the_method_that_validation_nodes_find_best_is_named_with_its_run_and_none_that_learns_labels_is(whole):
    _, folder, result = whole
    without_labels = [row for row in result["methods"] if row["method"] not in ("raw", "untrained", "supervised")]
    best = max(without_labels, key=lambda row: row["val_mean"])
    assert result["best"] == {key: best[key] for key in ("method", "title")} | {
        "run": f"compare/{best['method']}/seed-0"
    }
    assert (folder / result["best"]["run"] / "embeddings/embeddings.parquet").exists()
    assert f"{best_sentence(result)} Its run: `{result['best']['run']}`." in (folder / "compare.md").read_text()


def test_what_is_better_than_the_best_method_is_named_and_nothing_is_best_without_validation(whole):
    *_, result = whole
    assert max(validation_figure(row) for row in result["methods"] if row["method"] in ("raw", "untrained")) < 1
    rows = [{**row, "val_mean": 1.0} if row["method"] == "raw" else row for row in result["methods"]]
    says = best_sentence({**result, "methods": rows})
    assert says.startswith(f"Best method without labels, on validation nodes: {result['best']['title']}, below input f")
    assert best_row([{**row, "val_mean": None} for row in rows]) is None
    assert best_row([{**row, "error": "no memory"} for row in rows]) is None


def test_no_name_asks_for_the_usual_methods_and_all_for_every_one():
    assert named_methods([]) == [*PEERS, *USUAL]
    assert set(USUAL) < set(METHODS)
    assert named_methods(["dgi", "gae"]) == ["dgi", "gae"]
    assert named_methods(["raw", "all"]) == ["raw", *measured_methods()]


@pytest.mark.parametrize(
    ("measured", "beside"),
    [
        (list(METHODS), "gscl-listwise"),
        (["supervised", "dgi", "cca-ssg"], "dgi"),
        (["supervised", "cca-ssg"], "cca-ssg"),
        (["supervised"], "supervised"),
        (["spectral"], None),
    ],
)
def test_features_and_untrained_encoder_count_beside_a_method_that_has_the_protocol_that_is_asked_for(measured, beside):
    assert _reference(asked(), {name: {} for name in measured}) == beside


def test_what_was_compared_is_measured_again_by_another_probe(tmp_path):
    for initialisations in (1, 3):
        evaluate = {**VALUES["evaluate"], "initialisations": initialisations}
        result = compare(asked(evaluate=evaluate), tmp_path / "run", ["supervised", "dgi"], QUIET)
        assert "error" not in rows_of(result)["supervised"]
        assert result["protocol"]["initialisations"] == initialisations


def test_a_method_whose_folder_cannot_be_used_leaves_the_others(dgi):
    folder, _ = dgi
    (folder / "compare/dgi/seed-0/checkpoints/manifest.json").write_text("{")
    rows = rows_of(compare(asked(), folder, ["dgi", "gscl-listwise"], QUIET))
    assert "json" in rows["dgi"]["error"]
    assert rows["gscl-listwise"]["test_mean"] > 0


def test_the_figures_are_means_over_the_runs_of_all_seeds(whole):
    _, folder, result = whole
    for name in ("dgi", "gscl-pairwise"):
        found = [json.loads((folder / "compare" / name / f"seed-{n}" / "metrics.json").read_text()) for n in (0, 1)]
        mean = np.mean([one["probe"]["trained"]["test_mean"] for one in found])
        assert rows_of(result)[name]["test_mean"] == pytest.approx(mean)


def test_each_method_has_its_own_settings_over_the_same_encoder_and_protocol(whole):
    _, folder, result = whole
    rows = rows_of(result)
    assert rows["gscl-pairwise"]["settings"] == {"loss.ranking": "pairwise"}
    assert rows["first-hop"]["settings"] == {"rings.hops": 1, "loss.positives": "each"}
    assert rows["grace"]["settings"]["train.learning_rate"] == 5e-4
    configs = [json.loads(path.read_text())["config"] for path in (folder / "compare").glob("*/seed-0/run.json")]
    assert len(configs) == len(USUAL) + len(PEERS)
    evaluate = asked().dump()["evaluate"]
    for one in configs:
        paper = METHODS[one["train"]["objective"]].settings if one["train"]["objective"] in METHODS else {}
        scaling = paper.get("evaluate", evaluate)["probe_scaling"]
        assert (one["model"]["width"], one["evaluate"]) == (8, {**evaluate, "probe_scaling": scaling})


def test_methods_with_equal_rings_share_their_samples_and_no_graph_is_made_twice(whole):
    _, folder, _ = whole
    runs = folder / "compare"
    assert (runs / "gscl-pairwise/seed-1/samples").resolve() == (runs / "gscl-listwise/seed-1/samples").resolve()
    assert (runs / "first-hop/seed-1/samples").resolve() != (runs / "gscl-listwise/seed-1/samples").resolve()
    assert len(list((runs / "samples").glob("*/samples/manifest.json"))) == 4  # two kinds of rings, two seeds
    assert not (runs / "dgi/seed-0/samples").exists()
    assert len(list(folder.rglob("graph/manifest.json"))) == 1


def test_what_is_finished_is_not_done_again(whole):
    config, folder, result = whole
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*.pt")}
    again = compare(config, folder, ["gscl-listwise", "dgi"], QUIET)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.pt")} == before
    assert again == result  # the others have their rows too


def test_a_study_of_another_configuration_is_refused_and_left_as_it_is(whole):
    config, folder, _ = whole
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    other = asked(train=config.train.model_dump(), model={"width": 16, "projection": 8})
    says = r"supervised/seed-0 was made with model\.width=8, but the config now says 16; .* or delete "
    with pytest.raises(FolderError, match=says):
        compare(other, folder, ["dgi"], QUIET)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("least", "claimed", "care"),
    [(0, False, "no validation nodes"), (1, True, "only 1 validation node"), (30, True, "")],
)
def test_what_validation_nodes_have_chosen_is_told_where_there_are_some(whole, least, claimed, care):
    _, _, result = whole
    rows = [{**row, "best_step": 1} for row in result["methods"]]
    page = comparison_page({**result, "methods": rows, "protocol": {**result["protocol"], "least_val": least}})
    assert ("chosen on validation nodes" in page) == claimed
    assert ("Take care: " in page) == bool(care)
    assert care in page


def test_methods_that_the_probe_had_not_done_with_are_named(whole):
    _, _, result = whole
    steps = result["protocol"]["epochs"]
    assert all(0 < row["best_step"] <= steps for row in result["methods"])
    rows = [{**row, "best_step": steps if row["method"] == "dgi" else 1} for row in result["methods"]]
    early = [{**row, "best_step": 1} for row in rows]
    assert f"on average: DGI {steps})" in comparison_page({**result, "methods": rows})
    assert "still getting better" not in comparison_page({**result, "methods": early})


def test_a_method_whose_log_is_gone_has_neither_times_nor_memory(whole, tmp_path):
    _, _, result = whole
    gone = _cost([Run.at(tmp_path)], [])
    rows = [{**row, **gone} if row["method"] == "dgi" else row for row in result["methods"]]
    page = comparison_page({**result, "methods": rows})
    title = rows_of(result)["dgi"]["title"]
    line = next(line for line in page.splitlines() if line.startswith(f"| {title}"))  # its settings have a line too
    assert [cell.strip() for cell in line.strip("|").split("|")][-3:] == ["-", "-", "-"]


def test_a_method_that_fails_is_named_the_others_go_on_and_the_command_fails(tmp_path):
    settings = {"settings": {"cca-ssg": ["train.epochs=4", "train.learning_rate=1e30"], "dgi": ["train.epochs=2"]}}
    (tmp_path / "mine.yaml").write_text(json.dumps({**VALUES, "compare": settings}))
    command = ("compare", "--config", "mine.yaml", "--run", "run", "--methods")
    failed = cli(*command, "dgi, cca-ssg", cwd=tmp_path)
    assert failed.returncode == 1
    assert "cca-ssg failed, for the reasons above; the figures of the others are kept" in failed.stderr
    assert "CCA-SSG failed: seed 0: step" in failed.stdout
    rows = rows_of(read_json(tmp_path / "run/compare.json"))
    assert "lower train.learning_rate" in rows["cca-ssg"]["error"]
    assert rows["dgi"]["test_mean"] > 0
    assert "CCA-SSG failed: seed 0: step" in cli(*command, "dgi", cwd=tmp_path).stdout
    assert rows_of(read_json(tmp_path / "run/compare.json"))["cca-ssg"] == rows["cca-ssg"]


def test_a_failure_of_other_settings_is_not_told_of_these(tmp_path):
    settings = {"settings": {**VALUES["compare"]["settings"], "dgi": ["train.learning_rate=1e30", "train.epochs=4"]}}
    failed = rows_of(compare(asked(compare=settings), tmp_path / "run", ["dgi"], QUIET))["dgi"]
    assert "lower train.learning_rate" in failed["error"]
    for config, kept in ((asked(compare=settings), True), (asked(), False)):
        rows = rows_of(compare(config, tmp_path / "run", ["gscl-listwise"], QUIET))
        assert ("dgi" in rows) == kept


def test_a_failure_is_not_told_of_a_method_that_was_measured_since(dgi):
    folder, result = dgi
    row = rows_of(result)["dgi"]
    stale = {key: row[key] for key in ("method", "title", "settings")} | {"error": "seed 0: there is not enough memory"}
    write_json(folder / "compare.json", {**result, "methods": [stale]})  # as after a stop before the page was written
    assert rows_of(compare(asked(), folder, ["gscl-listwise"], QUIET))["dgi"]["test_mean"] == row["test_mean"]


def test_a_damaged_row_of_an_earlier_comparison_is_refused(dgi):
    write_json(dgi[0] / "compare.json", {"methods": [{"method": ["dgi"], "error": "x"}]})
    with pytest.raises(FolderError, match="delete it, and compare again"):
        compare(asked(), dgi[0], ["gscl-listwise"], QUIET)


OF_DGI = {
    "train.epoch=1": r"train\.epoch: unknown key",
    "baseline.momentum=1": r"baseline\.momentum: dgi reads no such",
    **{
        f"{key}=1": rf"compare\.settings: dgi: {key} cannot differ between methods"
        for key in ("graph.undirected", "evaluate.split", "train.objective", "train.repeats", "train.seed")
    },
    "rings.hops=4": r"dgi ignores rings\.hops, because it uses no ring",
    "loss.gate=0.1": r"dgi ignores loss\.gate, because it uses no ring",
    "train.epochs=abc": r"^compare\.settings: dgi: train\.epochs: ",
    "train.epochs": r"^compare\.settings: dgi: 'train\.epochs': expected",
}


@pytest.mark.parametrize(
    ("changes", "methods", "says"),
    [
        ({}, ["dgj"], r"--methods: there is no method 'dgj'; did you mean dgi\?"),
        ({}, ["gscl"], r"there is no method 'gscl'; did you mean gscl-pairwise or gscl-listwise\?"),
        ({}, ["lightgcn"], "there is no method 'lightgcn'; known ones are raw, untrained, spectral, cleora,"),
        ({}, ["raw"], "--methods: raw and untrained are measured with a trained method"),
        (
            {"compare": {"settings": {"cleora": ["hops=2"]}}},
            [],
            r"^compare\.settings: cleora: there is no setting 'hops'",
        ),
        ({"compare": {"settings": {"raw": []}}}, [], r"compare\.settings: there is no method 'raw'"),
        *(({"compare": {"settings": {"dgi": [setting]}}}, [], says) for setting, says in OF_DGI.items()),
        (
            {"model": {"propagation": "sampled"}},
            ["dgi"],
            r"^compare\.settings: dgi: train\.objective: dgi takes a step",
        ),
        ({"baseline": {"momentum": 0.9}}, [], r"put settings of one method into compare\.settings"),
    ],
)
def test_a_wrong_request_is_refused_before_anything_is_made(tmp_path, changes, methods, says):
    with pytest.raises(ConfigError, match=says):
        compare(asked(**changes), tmp_path / "run", methods, QUIET)
    assert not (tmp_path / "run").exists()


def test_methods_that_are_not_asked_for_need_not_be_possible(tmp_path):
    sampled = {**VALUES["model"], "propagation": "sampled", "fanout": [5]}
    result = compare(asked(model=sampled), tmp_path / "run", ["gscl-listwise"], QUIET)
    assert rows_of(result)["gscl-listwise"]["test_mean"] > 0
    settings = {**VALUES["compare"]["settings"], "dgi": ["train.epochs=2", "model.propagation=full"]}
    beside = compare(asked(model=sampled, compare={"settings": settings}), tmp_path / "two", ["dgi"], QUIET)
    assert rows_of(beside)["dgi"]["test_mean"] > 0


def test_settings_that_fail_at_work_leave_the_other_methods(tmp_path):
    settings = {"gscl-listwise": ["train.held_out=0.9999"], "gscl-pairwise": ["loss.gate=0.5"]}
    config = asked(compare={"settings": settings})
    rows = rows_of(compare(config, tmp_path / "run", ["gscl-pairwise", "gscl-listwise"], QUIET))
    assert "leaves no node to train on; set a lower share" in rows["gscl-listwise"]["error"]
    assert rows["gscl-pairwise"]["test_mean"] > 0


def test_a_split_to_learn_from_without_validation_nodes_is_refused_before_the_first_training(tmp_path, monkeypatch):
    without = make_splits

    def second_has_none(graph, config, label_seed=None):
        splits = without(graph, config, label_seed)
        return [
            replace(one, codes=np.where(one.codes == 2, 0, one.codes)) if label_seed == 1 else one for one in splits
        ]

    monkeypatch.setattr("gscl_scale.evaluate.validation.make_splits", second_has_none)
    config = asked(train={**VALUES["train"], "repeats": 2})
    says = "train.validate_every: seed 1: the split that supervised learns from has no labelled validation nodes"
    with pytest.raises(ConfigError, match=says):
        compare(config, tmp_path / "run", ["supervised", "dgi"], QUIET)
    assert not (tmp_path / "run/compare").exists()


def test_methods_measured_with_fewer_seeds_keep_their_rows_and_say_so(dgi):
    folder, _ = dgi
    config = asked(train={**VALUES["train"], "repeats": 2})
    result = compare(config, folder, ["gscl-pairwise"], QUIET)
    titles = {row["method"]: row["title"] for row in result["methods"]}
    assert (titles["dgi"], titles["gscl-pairwise"]) == ("DGI (1 of 2 seeds)", "GSCL pairwise")
    assert "DGI (1 of 2 seeds)" in (folder / "compare.md").read_text()
    assert rows_of(compare(config, folder, ["dgi"], QUIET))["dgi"]["title"] == "DGI"


PEERS_ALONE = ["spectral", "deepwalk"]


@pytest.fixture(scope="module")
def peers_alone(tmp_path_factory):
    """A folder where two peers alone have been measured on a directed graph, and the result."""
    folder = tmp_path_factory.mktemp("peers") / "run"
    config = asked(graph={**VALUES["graph"], "undirected": False})
    return config, folder, compare(config, folder, PEERS_ALONE, QUIET)


def test_peers_are_compared_without_an_encoder_and_say_what_they_read(peers_alone):
    _, folder, result = peers_alone
    rows = rows_of(result)
    assert list(rows) == PEERS_ALONE
    assert rows["deepwalk"]["settings"] == {"width": 128, "walks": 1, "length": 5, "window": 2, "negatives": 5}
    assert not list(folder.rglob("checkpoints"))
    page = (folder / "compare.md").read_text()
    assert "spectral, DeepWalk: embeddings of the structure alone" in page
    assert "directed graph are followed both ways" in page
    assert "`walks=1`" in page
    line = next(line for line in page.splitlines() if line.startswith("| spectral"))
    assert [cell.strip()[-2:] for cell in line.strip("|").split("|")][-3:] == [" s", " s", "iB"]


def test_a_run_is_refused_in_the_folder_of_a_peer_and_its_embeddings_stay(peers_alone):
    _, folder, _ = peers_alone
    peer = folder / "compare/spectral/seed-0"
    before = (peer / "embeddings/embeddings.parquet").read_bytes()
    refused = cli("run", "--run", str(peer), cwd=folder)
    assert refused.returncode == 2
    assert "has the embeddings of spectral, a method without stages" in refused.stderr
    assert (peer / "embeddings/embeddings.parquet").read_bytes() == before
    assert not (peer / "graph").exists()


def test_peers_have_the_splits_the_probe_and_the_left_out_nodes_of_trained_encoders(whole):
    _, folder, _ = whole
    spectral, ours = (
        read_json(folder / f"compare/{name}/seed-1/metrics.json") for name in ("spectral", "gscl-listwise")
    )
    differ = {"val_by_decay"}
    protocols = [{key: one["probe"]["protocol"][key] for key in one["probe"]["protocol"].keys() - differ}
                 for one in (spectral, ours)]  # fmt: skip
    assert protocols[0] == protocols[1]
    assert protocols[0]["left_out"]["most"] > 0
    assert [split["test"] for split in spectral["probe"]["splits"]] == [
        split["test"] for split in ours["probe"]["splits"]
    ]


def test_a_peer_is_measured_again_with_other_settings_or_another_probe_alone(peers_alone, tmp_path):
    config, earlier, result = peers_alone
    folder = shutil.copytree(earlier, tmp_path / "run")
    assert compare(config, folder, ["spectral"], QUIET) == result
    embedded = folder / "compare/spectral/seed-0/embeddings/embeddings.parquet"
    before = embedded.stat().st_mtime_ns
    probed = config.model_copy(update={"evaluate": config.evaluate.model_copy(update={"initialisations": 3})})
    assert compare(probed, folder, ["spectral"], QUIET)["protocol"]["initialisations"] == 3
    assert embedded.stat().st_mtime_ns == before
    settings = {"settings": {"spectral": ["width=4"], "deepwalk": ["width=4"]}}
    rows = rows_of(compare(asked(graph=config.graph.model_dump(), compare=settings), folder, ["spectral"], QUIET))
    assert list(rows) == ["spectral"]  # that of deepwalk has other settings
    assert embedded.stat().st_mtime_ns > before
    assert read_json(folder / "compare/spectral/seed-0/metrics.json")["width"]["trained"] == 4


def test_seconds_of_all_cores_are_those_of_samples_and_training_and_unknown_after_a_kill(dgi):
    folder, result = dgi
    row, run = rows_of(result)["dgi"], Run.at(folder / "compare/dgi/seed-0")
    assert _cost([run], [_Cost(3.0, 2.0)])["cpu_s"] == pytest.approx(row["cpu_s"] + 2)
    assert _cost([run], [_Cost(3.0, None)])["cpu_s"] is None
    QUIET.with_log(run.log).event("compare", "trained: begun")  # of an attempt that was killed
    assert _cost([run], [_Cost(0.0, 0.0)])["cpu_s"] is None


def test_a_space_without_a_search_is_refused_and_leaves_nothing(tmp_path):
    (tmp_path / "space.yaml").write_text("model.width: [8, 16]\n")
    result = cli("compare", "--set", "graph.source=synthetic", "--run", "run", "--space", "space.yaml", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (
        2, "gscl-scale: --space: there is no search without --trials; add --trials 20, or leave --space out\n",
    )  # fmt: skip
    assert not (tmp_path / "run").exists()
