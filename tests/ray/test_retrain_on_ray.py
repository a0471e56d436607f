"""Nights on a Ray cluster, with the registry on an object store."""

import pytest

from gscl_scale.embed.store import read_embeddings
from gscl_scale.io.json import read_json_lines
from gscl_scale.registry.versions import Registry
from gscl_scale.retrain.night import retrain
from gscl_scale.runtime.console import Console
from tests.ray.test_training_on_ray import on
from tests.retrain.town import Town
from tests.s3 import BUCKET, s3_server

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.data.context"),  # raised where Ray imports its own parts
]


def test_nights_on_two_machines_with_the_registry_on_s3(two, tmp_path, monkeypatch):
    monkeypatch.setenv("GSCL_SCALE_CACHE", str(tmp_path / "shared"))
    town = Town(tmp_path / "town")
    runtime = on(two, 2).runtime.model_dump(exclude_unset=True)
    config = town.config(runtime=runtime, retrain={"lease_s": 30.0})
    with s3_server():
        where = f"s3://{BUCKET}/nights"
        registry = Registry(where)
        first = retrain(config, where, Console(quiet=True))
        assert first.result == "promoted", first.reason
        town.grow()
        second = retrain(config, where, Console(quiet=True))
        assert second.result == "promoted", second.reason
        assert 0 < second.changes["sampled_again"] < 0.5
        folder = registry.current()
        assert len(read_embeddings(folder / "embeddings")[0]) == len(town.names)
        log = read_json_lines(folder / "log.jsonl")
        started = [line for line in log if line["stage"] == "train" and line["event"] == "started"]
        assert [line["processes"] for line in started] == [2]
