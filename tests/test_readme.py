import re
from pathlib import Path

import pytest
import yaml

from gscl_scale.config.config import Config

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_every_file_that_the_readme_names_exists():
    named = re.findall(r"`((?:gscl_scale|configs|docs|tests)/[\w./-]+)`", README) + re.findall(
        r"\]\(([\w./-]+)\)", README
    )
    assert len(named) > 10
    for path in named:
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_config_is_valid_and_begins_with_where_its_numbers_come_from(path, monkeypatch):
    monkeypatch.setenv("GSCL_DATA", "/data")
    Config.load(path)
    assert path.read_text().startswith("#")
    assert "Where the numbers come from" in path.read_text()


def test_the_yaml_of_the_readme_is_a_valid_config():
    for block in re.findall(r"```yaml\n(.*?)```", README, re.DOTALL):
        Config.parse(yaml.safe_load(block))
