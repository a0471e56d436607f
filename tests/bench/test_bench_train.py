import json

import pytest
from typer.testing import CliRunner

from gscl_scale.bench.steps import FORMS, WITHOUT
from gscl_scale.cli.main import app

SMALL = ["graph.source=synthetic", "graph.preset=tiny", "rings.width=16", "rings.per_ring=4", "rings.beyond=8"]
MODEL = ["model.layers=2", "model.width=16", "model.projection=16", "train.batch_size=64", "train.negatives=0"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]  # a process for each way to take a step


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    out = tmp_path_factory.mktemp("bench")
    options = [word for setting in [*SMALL, *MODEL] for word in ("--set", setting)]
    done = CliRunner().invoke(app, ["bench", "train", *options, "--steps", "2", "--turns", "1", "--out", str(out)])
    assert done.exit_code == 0, done.output
    return json.loads((out / "train.json").read_text()), (out / "train.md").read_text(), done.stdout


def test_every_way_to_take_a_step_has_a_row(results):
    found, page, printed = results
    names = [row["name"] for row in found["rows"]]
    assert names[:2] == ["gscl-scale", "gscl-scale, bfloat16"]
    assert names[2:-2] == [f"without: {idea}" for idea in WITHOUT]
    assert names[-2:] == [f"torch-geometric, {form}" for form in FORMS]
    assert all(name in page for name in names)
    assert page in printed


def test_ratios_are_those_of_the_times(results):
    rows = {row["name"]: row for row in results[0]["rows"]}
    slow, fast = (rows[f"torch-geometric, {form}"]["step_s"] for form in FORMS)
    for row in rows.values():
        assert row["times_edge_index"] == pytest.approx(slow / row["step_s"])
        assert row["times_csr"] == pytest.approx(fast / row["step_s"])
        assert row["anchors_per_s"] == pytest.approx(64 / row["step_s"])


def test_all_come_to_about_the_same_loss(results):
    losses = {row["name"]: row["unseen_loss"] for row in results[0]["rows"]}
    same = [loss for name, loss in losses.items() if "torch-geometric" not in name and "bfloat16" not in name]
    assert same == pytest.approx([same[0]] * len(same), abs=1e-4)  # the same steps by other ways
    assert losses["torch-geometric, edge_index"] == pytest.approx(losses["torch-geometric, sparse CSR"], abs=1e-4)
    assert list(losses.values()) == pytest.approx([same[0]] * len(losses), rel=0.1)
