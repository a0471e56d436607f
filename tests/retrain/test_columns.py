"""Nights on a node table whose columns change: an encoder that starts warm reads them as it has learnt them."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gscl_scale.graph.graph import Graph
from gscl_scale.io.json import read_json_lines
from gscl_scale.registry.versions import Registry
from gscl_scale.retrain import night
from gscl_scale.retrain.night import retrain
from gscl_scale.retrain.work_folder import night_identities
from gscl_scale.runtime.console import Console
from tests.retrain.town import Town

pytestmark = pytest.mark.usefixtures("blank_curves")

OPEN = {"probe_fall": 1, "ranking_least": 0, "ranking_fall": 1, "alignment_least": -1, "cosine_most": 1, "rank_fall": 1}


def with_columns(town, plans, **more):
    """Tonight's node table, with an age that is missing here and there, and a plan."""
    path, draw = town.folder / "nodes.parquet", np.random.default_rng(len(town.names))
    table, people = pq.read_table(path), len(town.names)
    age = draw.normal(40, 10, people)
    columns = {"age": pa.array(age, mask=draw.random(people) < 0.1), "plan": draw.choice(plans, people), **more}
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values))
    pq.write_table(table, path)


def test_a_warm_night_keeps_the_encoding_and_a_new_column_begins_anew(tmp_path, capfd):
    town, where = Town(tmp_path / "town"), tmp_path / "registry"
    registry, config = Registry(where), town.config(train={"epochs": 3}, gate=OPEN)
    versions = []
    for plans, more in ((["a", "b"], []), (["a", "b", "new"], []), (["a", "b"], ["visits"])):
        with_columns(town, plans, **{name: np.arange(len(town.names)) % 7 for name in more})
        versions.append(registry.version(retrain(config, where, Console()).version))
        town.grow()
    says = "feature columns differ (new: visits)"
    assert f"{says}: the training starts from new weights" in capfd.readouterr().err
    logs = [read_json_lines(registry.folder(version.name) / "log.jsonl") for version in versions]
    assert [[line["reason"] for line in log if line["event"] == "new_weights"] for log in logs] == [[], [], [says]]
    graphs = [Graph.open(registry.folder(version.name) / "graph") for version in versions]
    assert [version.index["warm"] for version in versions] == [0, 1, 0]
    first, second, third = (graph.manifest["encoding"] for graph in graphs)
    assert first == second
    assert third[-1]["name"] == "visits"
    assert "column plan has values that its encoding does not know: new" in graphs[1].manifest["notes"]


def test_a_column_with_another_name_is_another_graph_and_versions_from_before_that_counted_are_known(
    tmp_path, monkeypatch
):
    town, where = Town(tmp_path / "town"), tmp_path / "registry"
    config = town.config(train={"epochs": 1}, gate=OPEN)
    with monkeypatch.context() as then:
        then.setattr(night, "night_identities", lambda *of: night_identities(*of)[1:])
        retrain(config, where, Console(quiet=True))
    assert retrain(config, where, Console(quiet=True)).result == "unchanged"
    town.grow()
    for name in ("f0", "height"):
        table = pq.read_table(town.folder / "nodes.parquet")
        names = [name if column == "f0" else column for column in table.column_names]
        pq.write_table(table.rename_columns(names), town.folder / "nodes.parquet")
        assert retrain(config, where, Console(quiet=True)).result == "promoted"
    assert retrain(config, where, Console(quiet=True)).result == "unchanged"
    assert "height" in Graph.open(Registry(where).current() / "graph").feature_columns


def test_ids_that_become_text_are_the_same_nodes_and_all_anchors_are_sampled_again(tmp_path, capfd, monkeypatch):
    town, where = Town(tmp_path / "town"), tmp_path / "registry"
    registry, config = Registry(where), town.config(train={"epochs": 3}, gate=OPEN)
    town.names = np.arange(1000, 1000 + len(town.names))
    town.write()
    assert retrain(config, where, Console(quiet=True)).result == "promoted"
    town.grow()  # newcomers have ids of letters
    outcome = retrain(config, where, Console())
    assert "node ids are text now and were integers in v000001: all anchors" in capfd.readouterr().err
    version = registry.version(outcome.version).index
    assert (outcome.result, version["warm"], version["changes"]) == ("promoted", 1, {"sampled_again": 1.0})
    assert outcome.links["since"]["edges"] > 0
    assert version["figures"]["alignment"] > 0.5
    monkeypatch.setattr("gscl_scale.retrain.night._MEASURED", 20)
    town.grow()
    outcome = retrain(config, where, Console())
    says = (
        "alignment with v000002 is not measured (gate.alignment_least): both versions have 20 nodes in common, expected"
    )
    assert says in capfd.readouterr().err
    assert registry.version(outcome.version).index["figures"]["alignment"] is None
