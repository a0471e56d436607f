import json

import pytest
from typer.testing import CliRunner

from gscl_scale.bench.steps import FORMS, WITHOUT
from gscl_scale.cli.main import app
from tests.bench.conftest import TINY

MODEL = ["model.layers=2", "model.width=16", "model.projection=16", "train.batch_size=64", "train.negatives=0"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]  # a process for each way to take a step


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    out = tmp_path_factory.mktemp("bench")
    options = [word for setting in [*TINY, *MODEL] for word in ("--set", setting)]
    done = CliRunner().invoke(app, ["bench", "train", *options, "--steps", "2", "--turns", "1", "--out", str(out)])
    assert done.exit_code == 0, done.output
    page = (out / "train.md").read_text()
    assert page in done.stdout
    return {row["name"]: row for row in json.loads((out / "train.json").read_text())["rows"]}, page


def test_every_way_to_take_a_step_has_a_row_and_ratios_of_its_time(results):
    rows, page = results
    peers = [f"torch-geometric, {form}" for form in FORMS]
    assert list(rows) == ["gscl-scale", "gscl-scale, bfloat16", *(f"without: {idea}" for idea in WITHOUT), *peers]
    assert all(name in page for name in rows)
    slow, fast = (rows[peer]["step_s"] for peer in peers)
    for row in rows.values():
        assert row["times_edge_index"] == pytest.approx(slow / row["step_s"])
        assert row["times_csr"] == pytest.approx(fast / row["step_s"])
        assert row["anchors_per_s"] == pytest.approx(64 / row["step_s"])


def test_all_come_to_about_the_same_loss(results):
    losses = {name: row["unseen_loss"] for name, row in results[0].items()}
    same = [loss for name, loss in losses.items() if "torch-geometric" not in name and "bfloat16" not in name]
    assert same == pytest.approx([same[0]] * len(same), abs=1e-4)  # the same steps by other ways
    assert losses["torch-geometric, edge_index"] == pytest.approx(losses["torch-geometric, sparse CSR"], abs=1e-4)
    assert list(losses.values()) == pytest.approx([same[0]] * len(losses), rel=0.1)
