"""The file of the cluster launcher is one that Ray takes, and its machines fit the settings."""

import json
from pathlib import Path

import jsonschema
import pytest
import ray.autoscaler
import yaml

from tests.cluster.kube import ROOT, ray_clusters
from tests.cluster.test_manifests import CONFIG

FILE = yaml.safe_load((ROOT / "cluster" / "ray-autoscaler.yaml").read_text())
SCHEMA = json.loads((Path(ray.autoscaler.__file__).parent / "ray-schema.json").read_text())
TYPES = FILE["available_node_types"]


def test_ray_takes_the_file():
    jsonschema.validate(FILE, SCHEMA)
    assert FILE["head_node_type"] in TYPES


@pytest.mark.parametrize("broken", [{"max_worker": 3}, {"max_workers": "3"}, {"docker": {"images": "IMAGE"}}])
def test_the_schema_notices_a_mistake(broken):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(FILE | broken, SCHEMA)


def test_its_machines_take_the_work_of_the_same_settings_as_the_groups_of_kubernetes():
    offered = {name: kind["resources"] for name, kind in TYPES.items()}
    [(resource, _)] = CONFIG.runtime.task_resources.items()
    assert offered["head"] == {"CPU": 0}
    assert offered["precompute"][resource] == offered["precompute"]["CPU"]
    training = CONFIG.runtime.for_training()
    assert offered["train"]["GPU"] == training.gpus
    assert offered["train"]["CPU"] >= training.cpus
    groups = {group.groupName: group.maxReplicas for group in ray_clusters()["raycluster"].workerGroupSpecs}
    assert {name: kind["max_workers"] for name, kind in TYPES.items() if name != "head"} == groups
    assert FILE["max_workers"] == sum(groups.values())


def test_every_machine_wants_the_token_and_mounts_the_shared_folder():
    assert "--env RAY_AUTH_MODE=token" in FILE["docker"]["run_options"]  # else workers do not send the one they have
    assert list(FILE["file_mounts"]) == ["/home/ray/.ray/auth_token"]
    assert any(option.startswith("--volume /shared:/shared") for option in FILE["docker"]["run_options"])
    assert "mount -t nfs4" in FILE["initialization_commands"][-1]
    assert "--dashboard-host=127.0.0.1" in FILE["head_start_ray_commands"][-1]
