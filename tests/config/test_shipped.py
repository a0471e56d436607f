"""The configurations that the project ships."""

from pathlib import Path

import pytest

from gscl_scale.config.config import Config
from gscl_scale.studies.peers.table import PEERS, peer_settings
from gscl_scale.studies.reproduce.tables import TABLES
from gscl_scale.train.objectives.methods import METHODS, configured, settings_of

ROOT = Path(__file__).parents[2] / "configs"
PAPER = sorted(path.stem for path in (ROOT / "paper").glob("*.yaml"))


@pytest.fixture(autouse=True)
def _data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GSCL_DATA", str(tmp_path))  # the graphs need not be there


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_configuration_is_valid(path: Path) -> None:
    Config.load(path, [])


@pytest.mark.parametrize("name", PAPER)
def test_every_method_is_configured_on_the_graphs_of_the_paper_with_settings_that_it_reads(name: str) -> None:
    config = Config.load(ROOT / f"paper/{name}.yaml", [])
    assert config.compare.settings.keys() <= METHODS.keys() | PEERS.keys()
    for method in METHODS:
        if not (one := configured(config, method)).train.reads_samples:
            settings_of(one)
    for peer in PEERS:
        peer_settings(config, peer)


def test_every_graph_of_the_table_of_methods_has_a_configuration() -> None:
    assert set(TABLES["methods"].graphs) <= set(PAPER)


@pytest.mark.parametrize("name", ["minesweeper", "tolokers"])
def test_graphs_whose_source_reports_roc_auc_are_measured_by_it(name: str) -> None:
    assert Config.load(ROOT / f"paper/{name}.yaml", []).evaluate.measure == "roc_auc"
