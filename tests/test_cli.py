import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gscl_scale.cli.help import GROUPS
from gscl_scale.config.config import Config
from gscl_scale.io.json import read_json, write_json
from gscl_scale.run.folder import Run
from gscl_scale.run.record import claim
from gscl_scale.studies.reproduce.tables import TABLES
from tests.cluster.test_commands import parses
from tests.commands import COMMAND, cli
from tests.forked import begin_command
from tests.golden.adapters import verbs

QUICK = """
graph: {source: tables, edges: edges.csv, nodes: nodes.parquet}
rings: {hops: 2, per_ring: 4, width: 16, beyond: 8, rounds: 2}
model: {width: 16, projection: 16}
train: {epochs: 3, batch_size: 64, negatives: 32}
evaluate: {train_fractions: [0.2], random_splits: 1, initialisations: 2, probe_epochs: 20, probe_weight_decay: [0.0]}
runtime: {workers: 1, device: cpu}
"""


def write_tables(folder: Path, num_nodes=90):
    """Shuffled string ids, two communities, labels, and features."""
    rng = np.random.default_rng(0)
    names = np.array([f"user-{v}" for v in rng.permutation(num_nodes)])
    community = np.arange(num_nodes) % 2
    edges = rng.integers(0, num_nodes, (700, 2))
    edges = edges[(community[edges[:, 0]] == community[edges[:, 1]]) | (rng.random(700) < 0.1)]
    lines = [f"{names[a]},{names[b]}" for a, b in edges]
    (folder / "edges.csv").write_text("source,target\n" + "\n".join(lines) + "\n")
    features = rng.normal(size=(num_nodes, 3)) + community[:, None]
    table = {"id": names, "label": np.where(community, "odd", "even")}
    pq.write_table(pa.table({**table, **{f"f{i}": features[:, i] for i in range(3)}}), folder / "nodes.parquet")
    (folder / "quick.yaml").write_text(QUICK)
    return names


@pytest.fixture
def tables(tmp_path):
    """A folder with edges.csv, nodes.parquet and quick.yaml."""
    write_tables(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    names = write_tables(folder)
    result = cli("run", "--config", "quick.yaml", cwd=folder)
    assert result.returncode == 0, result.stderr
    return folder, names, result


def test_one_command_goes_from_tables_to_embeddings_keyed_by_the_users_ids_in_their_order(finished):
    folder, names, result = finished
    table = pq.read_table(folder / "runs/quick/embeddings/embeddings.parquet")
    assert table.column("id").to_pylist() == names.tolist()
    assert table.schema.field("embedding").type == pa.list_(
        pa.float32(), 16 + 128 + 2 * 3
    )  # those of the structure, three columns, their means
    assert "trained encoder" in result.stdout
    assert "embeddings.parquet" in result.stdout
    metrics = json.loads((folder / "runs/quick/metrics.json").read_text())
    for method in ("trained", "untrained", "raw"):
        assert {"val_mean", "val_std", "test_mean", "test_std"} <= metrics["probe"][method].keys()
    assert (folder / "runs/quick/report.html").stat().st_size > 5000


def test_a_finished_run_is_not_done_again(finished):
    folder, _, first = finished
    before = {p: p.stat().st_mtime_ns for p in (folder / "runs/quick").rglob("*.arrow")}
    again = cli("run", "--config", "quick.yaml", cwd=folder)
    assert again.returncode == 0, again.stderr
    assert {p: p.stat().st_mtime_ns for p in before} == before
    figures = [line for line in first.stdout.splitlines() if "encoder" in line]
    assert figures == [line for line in again.stdout.splitlines() if "encoder" in line]


def test_a_page_is_written_again_where_it_is_not_that_of_the_figures_and_settings(tmp_path, finished):
    run = tmp_path / "run"
    shutil.copytree(finished[0] / "runs/quick", run)
    for name in ("edges.csv", "nodes.parquet"):
        shutil.copy(finished[0] / name, tmp_path)
    page = (run / "report.html").read_bytes()
    (run / "report.html").write_bytes(page + b"more")
    for settings, again in (((), True), ((), False), (("--set", "evaluate.seed=1"), True)):
        before = (run / "report.html").stat().st_mtime_ns
        assert cli("run", "--run", "run", *settings, cwd=tmp_path).returncode == 0
        assert ((run / "report.html").stat().st_mtime_ns > before) == again
    (run / "embeddings/embeddings.parquet").write_bytes(b"damaged")
    assert cli("run", "--run", "run", cwd=tmp_path).returncode == 0
    assert pq.read_table(run / "embeddings/embeddings.parquet").num_rows == 90


def test_every_stage_can_be_run_alone_and_status_tells_which_are_complete(tables, finished):
    stages = {"graph": "ingest", **{verb: verb for verb in ("precompute", "train", "embed", "evaluate", "report")}}
    for complete, verb in enumerate(stages.values(), start=1):
        result = cli(verb, "--config", "quick.yaml", cwd=tables)
        assert result.returncode == 0, (verb, result.stderr)
        states = json.loads(cli("status", "--config", "quick.yaml", "--json", cwd=tables).stdout)
        assert [state["stage"] for state in states] == list(stages)
        assert [state["state"] for state in states] == ["complete"] * complete + ["missing"] * (6 - complete)
    assert "complete" in cli("status", "--config", "quick.yaml", cwd=tables).stdout
    mine, theirs = (json.loads((f / "runs/quick/metrics.json").read_text()) for f in (tables, finished[0]))
    assert mine["probe"] == theirs["probe"]


def test_a_run_that_is_named_alone_goes_on_with_its_own_configuration(tmp_path, finished):
    shutil.copytree(finished[0] / "runs/quick", tmp_path / "mine")
    shutil.copy(finished[0] / "edges.csv", tmp_path)
    shutil.copy(finished[0] / "nodes.parquet", tmp_path)
    for verb in (["embed", "--out", "copy.parquet"], ["evaluate"], ["report"], ["run"]):
        result = cli(*verb, "--run", "mine", cwd=tmp_path)
        assert result.returncode == 0, result.stderr
    assert pq.read_table(tmp_path / "copy.parquet").num_rows == 90
    for given, now in (("4", 4), ("auto", 100)):
        refused = cli("train", "--run", "mine", "--set", f"train.epochs={given}", cwd=tmp_path)
        assert (refused.returncode, f"train.epochs=3, but the config now says {now}" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ["embed", "--out", "s3://bucket/vectors.npy"],
        ["precompute", "--since", "s3://bucket/run"],
        ["ingest", "--config", "s3://bucket/mine.yaml"],
        ["neighbors", "runs/quick", "--all", "--out", "s3://bucket/neighbors.parquet"],
        ["ingest", "--set", "graph.source=npz", "--set", "graph.path=s3://bucket/graph.npz"],
    ],
)
def test_a_url_where_a_path_is_wanted_is_refused_and_no_folder_of_its_name_is_made(tmp_path, arguments):
    result = cli(*arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert re.search(r"s3://bucket/\S+ is a URL", result.stderr)
    assert not list(tmp_path.iterdir())


def test_a_damaged_part_stops_training_with_its_name_and_precompute_repairs_it(tables, finished):
    assert cli("precompute", "--config", "quick.yaml", cwd=tables).returncode == 0
    part = tables / "runs/quick/samples/round-001/part-00000.arrow"
    content = bytearray(part.read_bytes())
    content[-200] ^= 1
    part.write_bytes(content)
    failed = cli("train", "--config", "quick.yaml", cwd=tables)
    assert failed.returncode == 2
    assert "part-00000.arrow: expected" in failed.stderr
    assert "other content; run gscl-scale precompute again" in failed.stderr
    assert cli("precompute", "--config", "quick.yaml", cwd=tables).returncode == 0
    assert cli("train", "--config", "quick.yaml", cwd=tables).returncode == 0
    theirs = finished[0] / "runs/quick/samples/round-001/part-00000.arrow"
    assert part.read_bytes() == theirs.read_bytes()


def test_status_looks_again_until_all_is_complete(finished):
    folder = finished[0]
    report = folder / "runs/quick/report.html"
    kept = report.read_bytes()
    report.unlink()
    command = [*COMMAND, "status", "--config", "quick.yaml", "--watch", "0.1"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as watching:
        while "missing" not in watching.stdout.readline():
            assert watching.poll() is None
        report.write_bytes(kept)
        told, _ = watching.communicate(timeout=60)
    assert watching.returncode == 0
    assert "missing" not in told.rpartition("run runs/quick")[2]


def test_repeats_report_means_over_seeds_of_whole_runs(tables):
    result = cli("run", "--config", "quick.yaml", "--set", "train.repeats=2", cwd=tables)
    assert result.returncode == 0, result.stderr
    one, two, both = (
        json.loads((tables / "runs/quick" / name / "metrics.json").read_text()) for name in ("seed-0", "seed-1", ".")
    )
    means = [m["probe"]["trained"]["test_mean"] for m in (one, two)]
    assert both["probe"]["trained"]["test_mean"] == pytest.approx(np.mean(means))
    assert both["probe"]["trained"]["test_se"] == pytest.approx(np.std(means, ddof=1) / np.sqrt(2))
    assert "Means of 2 whole runs" in result.stdout


def test_stats_prints_a_table_json_and_a_plot(finished):
    folder, _, _ = finished
    table = cli("stats", "--config", "quick.yaml", "--plot", "lc.svg", cwd=folder)
    assert "homophily HM" in table.stdout
    assert (folder / "lc.svg").read_text().lstrip().startswith("<")
    values = json.loads(cli("stats", "--config", "quick.yaml", "--json", cwd=folder).stdout)
    assert values["nodes"] == 90
    assert len(values["lc"]) == 5
    assert values["lc"][0] == pytest.approx(values["homophily"])
    stored = folder / "runs/quick/statistics.json"
    stored.write_text(json.dumps({key: value for key, value in values.items() if key != "consistency"}))
    assert json.loads(cli("stats", "--config", "quick.yaml", "--json", cwd=folder).stdout) == values


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "--set", "train.epoch=3"], "train.epoch: unknown key; did you mean epochs?"),
        (["run", "--config", "nowhere.yaml"], "config file nowhere.yaml does not exist"),
        (["run", "--set", "graph.source=npz", "--set", "graph.path=no.npz"], "no.npz does not exist"),
        (["train", "--config", "quick.yaml", "--run", "fresh"], "run gscl-scale precompute first"),
        (["status", "--run", "nowhere"], "nowhere"),
        (
            ["tune", "--config", "quick.yaml", "--space", "nowhere.yaml"],
            "space file nowhere.yaml does not exist; check --space",
        ),
        (
            ["tune", "--config", "quick.yaml", "--space", "quick.yaml"],
            "space file quick.yaml: graph: expected a key of rings, model, loss, train",
        ),
        (
            ["ingest", "--config", "quick.yaml", "--set", "graph.target_column=source"],
            "graph: source_column and target_column are both 'source'; name the column of each end",
        ),
        (["run", "--config", "quick.yaml", "--run", "edges.csv"], "edges.csv is a file; give --run a folder"),
        (
            ["run", "--config", "quick.yaml", "--run", "edges.csv/mine"],
            "a part of this path is a file, expected a folder; choose another --run or --out",
        ),
        (
            ["reproduce", "main", "--only", "cora", "--configs", "nowhere"],
            "configs file nowhere/cora.yaml does not exist; check --configs",
        ),
        (
            ["reproduce", "methods", "--methods", "dgi,gea"],
            "--methods gea: reproduce methods has rows of raw, untrained, spectral, cleora,",
        ),
        (["run", "--config", "quick.yaml", "--run", "taken"], "is not empty and holds no run"),
        (["stats", "--config", "quick.yaml", "--plot", "lc.txt"], "expected a file that ends in .svg or .png or .pdf"),
        (["bench", "train", "--set", "rings.per_ring=all"], "expected a number as rings.per_ring, got all"),
        (["bench", "train"], "a first one and a batch without training need 7 batches, an epoch has 2"),
        (["bench", "train", "--set", "model.encoder=sage"], "takes model.encoder gcn and dense features"),
    ],
)
def test_bad_requests_get_one_sentence_and_exit_code_2(tables, arguments, says):
    (tables / "taken").mkdir()
    (tables / "taken/precious.txt").write_text("mine")
    result = cli(*arguments, cwd=tables)
    assert result.returncode == 2
    lines = [line for line in result.stderr.splitlines() if line.startswith("gscl-scale: ")]
    assert len(lines) == 1
    assert says in lines[0]
    assert "Traceback" not in result.stderr
    assert (tables / "taken/precious.txt").read_text() == "mine"


def test_a_process_ends_as_a_command_in_this_one_does(tmp_path):
    for words, code in ((["config"], 0), (["run", "--set", "train.epoch=3"], 2)):
        ended = subprocess.run([*COMMAND, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
        here = cli(*words, cwd=tmp_path)
        assert (ended.returncode, ended.stdout, ended.stderr) == (code, here.stdout, here.stderr)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("runtime.device=cuda", "runtime.device: cuda is asked for and torch sees no GPU"),
        ("graph.nodes=null", "train.validate_every: the graph has no labels; set it to 0, or bring labels"),
    ],
)
def test_what_a_training_would_refuse_is_refused_before_its_samples_are_made(tables, settings, says):
    sets = ("--set", "train.validate_every=1", "--set", settings)
    refused = cli("run", "--config", "quick.yaml", *sets, cwd=tables, CUDA_VISIBLE_DEVICES="")
    assert refused.returncode == 2
    assert says in refused.stderr
    assert not (tables / "runs/quick/samples").exists()


def test_a_bad_graph_leaves_nothing_behind(tmp_path):
    np.savez(tmp_path / "bad.npz", edge_index=np.array([[0, 1], [1, 7]]), num_nodes=3, x=np.ones((3, 2)))
    result = cli("run", "--set", "graph.source=npz", "--set", "graph.path=bad.npz", "--run", "out", cwd=tmp_path)
    assert result.returncode == 2
    assert "names node 7, expected 0 to 2" in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_run_of_another_configuration_is_refused_with_the_key_and_nothing_is_lost(finished):
    folder, _, _ = finished
    before = (folder / "runs/quick/run.json").read_text()
    result = cli("run", "--config", "quick.yaml", "--set", "loss.temperature=0.3", cwd=folder)
    assert result.returncode == 2
    assert "made with loss.temperature=0.5, but the config now says 0.3" in result.stderr
    assert (folder / "runs/quick/run.json").read_text() == before


def test_an_input_that_changed_since_is_refused(tables):
    assert cli("ingest", "--config", "quick.yaml", cwd=tables).returncode == 0
    with (tables / "edges.csv").open("a") as file:
        file.write("user-0,user-1\n")
    result = cli("run", "--config", "quick.yaml", cwd=tables)
    assert result.returncode == 2
    assert "edges.csv has changed since" in result.stderr


def test_a_place_where_nothing_may_be_written_is_bad_input(tables):
    result = cli("ingest", "--config", "quick.yaml", "--run", "/proc/nowhere/mine", cwd=tables)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "/proc/nowhere: no folder can be created here; choose another one" in result.stderr
    place = "/sys/gscl-scale"  # where the superuser may not either
    result = cli("ingest", "--config", "quick.yaml", "--run", place, cwd=tables)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert result.stderr.startswith(f"gscl-scale: {place}")
    assert result.stderr.endswith("get write access, or choose another folder\n")


@pytest.mark.parametrize("place", ["/sys/gscl-scale.npy", "/proc/nowhere/all.npy", "edges.csv/all.npy"])
def test_a_place_for_output_where_nothing_may_be_written_is_bad_input_too(finished, place):
    result = cli("embed", "--run", "runs/quick", "--out", place, cwd=finished[0])
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "choose another" in result.stderr


def test_other_evaluation_settings_only_measure_again(finished):
    folder, _, _ = finished
    checkpoints = {p: p.stat().st_mtime_ns for p in (folder / "runs/quick/checkpoints").iterdir()}
    result = cli("evaluate", "--config", "quick.yaml", "--set", "evaluate.seed=5", "--json", cwd=folder)
    assert json.loads(result.stdout)["probe"]["protocol"]["seed"] == 5
    assert {p: p.stat().st_mtime_ns for p in checkpoints} == checkpoints
    cli("evaluate", "--config", "quick.yaml", cwd=folder)


def test_a_run_killed_at_any_moment_goes_on_to_the_same_embeddings(finished, tables):
    for marker in ("graph/manifest.json", "samples/round-001/part-00000.arrow", "checkpoints/manifest.json"):
        process = begin_command("run", "--config", "quick.yaml", cwd=tables)
        while process.is_alive() and not (tables / "runs/quick" / marker).exists():
            time.sleep(0.005)
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
    assert cli("run", "--config", "quick.yaml", cwd=tables).returncode == 0
    for name in ("graph/indices.arrow", "graph/manifest.json", "samples/manifest.json"):
        assert (tables / "runs/quick" / name).read_bytes() == (finished[0] / "runs/quick" / name).read_bytes()
    mine, theirs = (
        pq.read_table(f / "runs/quick/embeddings/embeddings.parquet").column("embedding").to_pylist()
        for f in (tables, finished[0])
    )
    assert mine == theirs


def test_a_run_that_is_interrupted_says_so_in_one_sentence(tables):
    command = ["env", "--default-signal=INT", *COMMAND, "run", "--config", "quick.yaml"]
    with subprocess.Popen(command, cwd=tables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as run:
        while run.poll() is None and not (tables / "runs/quick/graph/manifest.json").exists():
            time.sleep(0.005)
        run.send_signal(signal.SIGINT)
        told = run.communicate()[1]
    assert run.returncode == 130, told
    sentences = [line for line in told.splitlines() if line.startswith("gscl-scale: ")]
    assert sentences == ["gscl-scale: stopped; finished work is kept, rerun the command to resume"]


AROUND = """
import atexit, gscl_scale.cli.main, os, signal, sys, time, weakref
from gscl_scale.__main__ import main

class Thing:
    pass

{command}
gscl_scale.cli.main.main = command
main()
"""
DROPPED = """
def command():
    thing = Thing()
    kept = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGINT) or time.sleep(0.1))
    try:
        del thing  # an interrupt that is raised now is dropped
        time.sleep(20)
    except KeyboardInterrupt:
        sys.exit("heard")
"""
BREAKS_AT_THE_END = """
def command():
    # as of a native library whose loading was interrupted
    Thing.__del__ = lambda self, kill=os.kill, me=os.getpid(): kill(me, 11)
    sys.half = Thing()
    atexit.register(lambda: print("cleared away", file=sys.stderr))
    sys.exit(130)
"""
TURNED_INTO_AN_ERROR = """
def command():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(20)
    except KeyboardInterrupt as interrupt:  # pydantic does so while it builds a schema
        raise ValueError(repr(interrupt)) from None
"""
AN_ERROR = """
def command():
    sys.tracebacklimit = 0
    raise ValueError("of the code")
"""
TWICE = """
def command():
    atexit.register(lambda: print("slow", file=sys.stderr))
    atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
    sys.exit(130)
"""
TOO_EARLY = """
import builtins, sys
def at_once(name, *rest, real=builtins.__import__):
    if name == "gscl_scale.cli.main":
        raise KeyboardInterrupt
    return real(name, *rest)
from gscl_scale.__main__ import main
builtins.__import__ = at_once
main()
"""


@pytest.mark.parametrize(
    ("program", "code", "told"),
    [
        (AROUND.format(command=BREAKS_AT_THE_END), 130, "cleared away\n"),
        (AROUND.format(command=TWICE), 130, ""),
        (AROUND.format(command=DROPPED), 1, "heard\n"),
        (
            AROUND.format(command=TURNED_INTO_AN_ERROR),
            130,
            "gscl-scale: stopped; finished work is kept, rerun the command to resume\n",
        ),
        (AROUND.format(command=AN_ERROR), 1, "ValueError: of the code\n"),
        (TOO_EARLY, 130, "gscl-scale: stopped before it started; rerun the command\n"),
    ],
)
def test_an_interrupt_is_heard_at_any_moment(tmp_path, program, code, told):
    command = ["env", "--default-signal=INT", sys.executable, "-c", program]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (code, told)


def test_the_help_of_a_narrow_terminal_has_all_verbs_in_their_order_with_whole_sentences(tmp_path):
    listed, *groups = (
        cli(*group, "--help", cwd=tmp_path, COLUMNS="80").stdout for group in ([], ["bench"], ["registry"])
    )
    lists = [listed.partition("Start here:")[2], *(shown.partition("Commands:")[2] for shown in groups)]
    assert not [shown for shown in lists if "..." in shown or not shown]
    assert re.findall(r"^(?:(\w.*):|  ([a-z]+)  .*)$", f"Start here:{lists[0]}", re.MULTILINE) == [
        word for group, verbs in GROUPS.items() for word in ((group, ""), *(("", verb) for verb in verbs))
    ]
    assert {verb for verbs in GROUPS.values() for verb in verbs} == {verb.split(" ")[0] for verb in verbs()}
    described = cli("reproduce", "--help", cwd=tmp_path).stdout
    assert all(table in described for table in TABLES)


def test_each_verb_has_two_examples_that_it_takes_and_plain_kinds_of_options(tmp_path):
    for group in GROUPS.values():
        for verb, examples in group.items():
            shown = cli(verb, "--help", cwd=tmp_path).stdout
            assert len(examples) == 2
            for example in examples:
                assert f"  gscl-scale {example}\n" in shown
                parses(example.split())
    for verb in verbs():
        shown = cli(*verb.split(), "--help", cwd=tmp_path).stdout
        options = shown.partition("Options:")[2]
        assert "--help" in options
        assert not re.findall(r"<.*>|\b(INTEGER|FLOAT|int|float|str)\b", options)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["walk"], "no such command 'walk'; see gscl-scale --help"),
        (["stat"], "no such command 'stat'. Did you mean"),
        (["run", "--fast"], "no such option: --fast"),
        (["run", "--epochs", "3"], "there is no option --epochs; it is a setting, type --set train.epochs=VALUE"),
        (["train", "--lr", "3"], "there is no option --lr; it is a setting, type --set train.learning_rate=VALUE"),
        (["train", "--batch-size=3"], "it is a setting, type --set train.batch_size=VALUE"),
        (["plan", "--loss.temperature", "1"], "it is a setting, type --set loss.temperature=VALUE"),
        (["run", "--labels", "class"], "it is a setting, type --set graph.label_column=VALUE"),
        (["tune", "--engine", "ray"], "type --set rings.engine=VALUE or --set runtime.engine=VALUE"),
        (["run", "--edges", "a.csv"], "give the edge file as an argument: gscl-scale run edges.csv"),
        (["registry", "list", "--epochs", "3"], "no such option: --epochs; see gscl-scale registry list --help"),
        (["neighbors", "--id", "a"], "neighbors: expected one run, such as gscl-scale neighbors --run runs/mine --id"),
        (
            ["neighbors", "ann b", "--run", "runs/a"],
            "got ann b and runs/a; if ann b is a node: gscl-scale neighbors --run runs/a --id 'ann b'",
        ),
        (["registry", "list"], "missing option '--registry'; see gscl-scale registry list --help"),
        (
            ["neighbors", "runs/a", "--count", "x"],
            "expected a whole number, at least 1, got 'x'; see gscl-scale neighbors",
        ),
        (["status", "runs/a"], "runs/a is a run; name it with --run runs/a"),
        (["status", "runs/b"], "got unexpected extra argument(s) (runs/b); see gscl-scale status --help"),
        (["compare", "--methods", "dgi", "grace", "cca-ssg"], "unexpected argument cca-ssg; separate methods with"),
        (["compare", "--methods", "dgi", "grace"], "separate the names with commas: --methods dgi,grace"),
        (["reproduce", "main", "--only", "cora", "photo"], "and repeat --only for more graphs"),
        (
            ["run", "nodes.csv", "--set", "graph.source=digits"],
            "nodes.csv and --set graph.source=digits both name a graph; leave one out",
        ),
        (["run", "nodes.csv", "nodes.csv"], "if it is the table of the nodes, name it with --nodes nodes.csv"),
        (["report", "runs/a"], "for the page of one run: gscl-scale report --run runs/a, without --out"),
    ],
)
def test_wrong_arguments_are_refused_in_the_same_style(tmp_path, words, says):
    (tmp_path / "runs/a").mkdir(parents=True)
    (tmp_path / "runs/a/run.json").write_text("{}")
    (tmp_path / "nodes.csv").write_text("id\n1\n")
    refused = cli(*words, cwd=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.startswith("gscl-scale: ")
    assert (refused.stderr.count("\n"), says in refused.stderr) == (1, True), refused.stderr


def test_keys_of_the_configuration_are_described_one_by_one_or_by_section(tmp_path):
    one = cli("config", "--schema", "train.epochs", cwd=tmp_path).stdout
    assert re.findall(r"^\S+", one, re.MULTILINE) == ["train.epochs"]
    section = cli("config", "--schema", "loss", "graph.separator", cwd=tmp_path).stdout
    assert {key.partition(".")[0] for key in re.findall(r"^\S+", section, re.MULTILINE)} == {"loss", "graph"}
    for words, says in (
        (["--schema", "train.epoch"], "there is no key train.epoch; did you mean train.epochs or "),
        (["foo"], "there is no key foo; gscl-scale config --schema lists all"),
        (["train.epochs"], "train.epochs is a key; describe it with gscl-scale config --schema train.epochs"),
    ):
        refused = cli("config", *words, cwd=tmp_path)
        assert (refused.returncode, says in refused.stderr) == (2, True)


def test_output_has_no_colors_where_it_is_piped_or_they_are_not_wanted(finished):
    command = [*COMMAND, "status", "--config", "quick.yaml"]
    for environment in ({"TERM": "xterm-256color"}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}):
        told = subprocess.run(
            command, cwd=finished[0], env={**os.environ, **environment}, capture_output=True, check=True
        )
        assert not re.findall(rb"\x1b\[(3|4|9)\d", told.stdout)
        assert "NO_COLOR" in environment or b"\x1b" not in told.stdout


def test_nothing_is_trained_where_no_graph_and_no_run_is_named(tmp_path, finished):
    refused = cli("run", cwd=tmp_path)
    assert refused.returncode == 2
    assert "gscl-scale demo" in refused.stderr
    assert "gscl-scale run edges.csv" in refused.stderr
    for verb in (
        "run",
        "ingest",
        "precompute",
        "train",
        "embed",
        "evaluate",
        "report",
        "stats",
        "compare",
        "tune",
        "status",
    ):
        for words in ((), ("--run", "runs/quikc"), ("--run", "quick")):
            refused = cli(verb, *words, cwd=finished[0])
            assert refused.returncode == 2, verb
            near = "did you mean --run runs/quick?" if words else "there are runs/quick"
            assert near in refused.stderr, (verb, refused.stderr)
    assert not (tmp_path / "runs").exists()
    assert {path.name for path in (finished[0] / "runs").iterdir()} == {"quick"}


@pytest.mark.parametrize(
    ("option", "says"),
    [("--trials=0", "expected a whole number, at least 1, got '0'"), ("--minutes=x", "expected a number, at least 0")],
)
def test_a_number_out_of_its_range_is_refused_in_words(tmp_path, option, says):
    refused = cli("tune", option, cwd=tmp_path)
    assert (refused.returncode, says in refused.stderr) == (2, True)


def test_a_shell_completes_verbs_and_keys_of_the_configuration(tmp_path):
    def completed(line, number):
        words = {"COMP_WORDS": line, "COMP_CWORD": str(number), "_GSCL_SCALE_COMPLETE": "complete_bash"}
        command = Path(sys.executable).with_name("gscl-scale")
        told = subprocess.run([command], cwd=tmp_path, env={**os.environ, **words}, capture_output=True, text=True)
        return told.stdout.split()

    assert completed("gscl-scale re", 1) == ["report", "reproduce", "retrain", "registry"]
    assert completed("gscl-scale run --set rings.h", 3) == ["rings.hops="]


def test_two_runs_are_compared_on_one_page_and_one_run_alone_is_refused(tmp_path, finished):
    first = finished[0] / "runs/quick"
    shutil.copytree(finished[0], tmp_path / "copy")
    (tmp_path / "copy/runs/quick").rename(tmp_path / "second")
    record = read_json(tmp_path / "second/run.json")
    record["config"]["train"]["learning_rate"] = 0.123
    write_json(tmp_path / "second/run.json", record)
    told = cli("report", first, "second", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert told.stdout == "comparison is in comparison.html\n"
    page = (tmp_path / "comparison.html").read_text()
    for text in ("2 runs on", "train.learning_rate", "0.123", "100.0 %", "ranking accuracy"):
        assert text in page
    assert "model.width" not in page
    for wrong in ([first], [first, first], [first, "second", "--set", "train.epochs=3"], ["--out", "x.html"]):
        refused = cli("report", *wrong, cwd=tmp_path)
        assert refused.returncode == 2, wrong
        assert refused.stderr.startswith("gscl-scale: report: ")
    missing = cli("report", first, "nowhere", cwd=tmp_path)
    assert missing.returncode == 2
    assert missing.stderr == "gscl-scale: nowhere holds no run; name the folder of a finished run\n"


def test_config_prints_the_resolved_values_and_the_schema(tmp_path):
    printed = cli("config", "--set", "train.epochs=3", cwd=tmp_path).stdout
    assert "epochs: 3" in printed
    (tmp_path / "again.yaml").write_text(printed)
    assert cli("config", "--config", "again.yaml", cwd=tmp_path).stdout == printed
    run = Run.at(tmp_path / "other")
    claim(Config.load(None, ["train.epochs=7"]), run)
    of_run = cli("config", "--run", "other", "--set", "train.seed=9", cwd=tmp_path).stdout
    assert ("epochs: 7" in of_run, "seed: 9" in of_run) == (True, True)
    assert "did you mean --run other?" in cli("config", "--run", "othr", cwd=tmp_path).stderr
    schema = cli("config", "--schema", cwd=tmp_path).stdout
    assert "train.batch_size\n    number; default 1024\n    Anchors per step; 0: by batch_size_per_worker." in schema
