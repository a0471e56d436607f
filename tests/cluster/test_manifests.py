"""The manifests are what KubeRay and Kubernetes accept, and fit each other, the image and the configuration."""

import copy
import re
import tomllib

import pytest
import yaml
from pydantic import ValidationError

from gscl_scale.config.config import Config
from tests.cluster.crd import ROOTS, VERSIONS, flaws
from tests.cluster.kube import (
    FOLDER,
    ROOT,
    amount,
    data_of,
    manifests,
    nightly_template,
    parsed,
    pods,
    ray_clusters,
    ray_jobs,
)

CONFIG = Config.parse(yaml.safe_load(data_of("shared", "gscl-scale-config")["config.yaml"]))


def test_every_manifest_has_only_fields_that_exist():
    kinds = {name: [one.kind for one in objects] for name, objects in manifests().items()}
    assert kinds == {
        "cronjob": ["ServiceAccount", "Role", "RoleBinding", "ConfigMap", "CronJob"],
        "raycluster": ["RayCluster"],
        "raycronjob": ["RayCronJob"],
        "rayjob": ["RayJob"],
        "shared": ["PersistentVolumeClaim", "ConfigMap"],
    }
    assert nightly_template().kind == "RayJob"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "backofflimit"), 0),  # misspelt
        (("spec", "backoffLimit"), "0"),
        (("spec", "submissionMode"), "SidecarMode"),
        (("spec", "shutdownAfterJobFinishes"), False),
        (("spec", "rayClusterSpec", "rayVersion"), "2.51.0"),
        (("spec", "rayClusterSpec", "workerGroupSpecs", 0, "minReplicas"), 9),
        (("spec", "rayClusterSpec", "workerGroupSpecs", 0, "rayStartParams"), {"num-cpus": "4"}),
        (("spec", "rayClusterSpec", "headGroupSpec", "template", "spec", "volumes", 0, "name"), "other"),
    ],
)
def test_the_model_refuses_what_kuberay_would(path, value):
    broken = copy.deepcopy(yaml.safe_load((FOLDER / "rayjob.yaml").read_text()))
    place = broken
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(ValidationError):
        parsed(broken)


def objects_of_kuberay():
    """All of them as plain values, with the file that each is in."""
    found = [
        (path.stem, values)
        for path in sorted(FOLDER.glob("*.yaml"))
        for values in yaml.safe_load_all(path.read_text())
        if values["kind"] in ROOTS
    ]
    return [*found, ("cronjob", yaml.safe_load(data_of("cronjob", "gscl-scale-nightly")["rayjob.yaml"]))]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_manifest_fits_the_schemas_of_kuberay(version):
    objects = objects_of_kuberay()
    assert sorted(name for name, _ in objects) == ["cronjob", "raycluster", "raycronjob", "rayjob"]
    assert [flaw for _, values in objects for flaw in flaws(values, version)] == []


WORKER = ("spec", "rayClusterSpec", "workerGroupSpecs", 1)


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("spec", "activeDeadlineSecond"), 5, "spec.activeDeadlineSecond is no field of RayJobSpec in KubeRay {}"),
        (("spec", "activeDeadlineSeconds"), "5", "spec.activeDeadlineSeconds: expected integer, got '5'"),
        (("spec", "suspend"), 1, "spec.suspend: expected boolean, got 1"),
        (("spec", "backoffLimit"), True, "spec.backoffLimit: expected integer, got True"),
        ((*WORKER, "maxReplica"), 2, "spec.rayClusterSpec.workerGroupSpecs[1].maxReplica is no field of WorkerGroup"),
        (
            (*WORKER, "template", "spec", "tolerations", 0, "effects"),
            "NoSchedule",
            "spec.rayClusterSpec.workerGroupSpecs[1].template.spec.tolerations[0].effects is no field of Toleration",
        ),
        (
            (*WORKER, "template", "spec", "nodeSelector", "gpu"),
            True,
            "spec.rayClusterSpec.workerGroupSpecs[1].template.spec.nodeSelector.gpu: expected string, got True",
        ),
        (
            ("spec", "rayClusterSpec", "authOptions", "mode"),
            "tokens",
            "spec.rayClusterSpec.authOptions.mode: expected disabled|token, got 'tokens'",
        ),
    ],
)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_wrong_field_is_found_by_its_path(version, path, value, says):
    broken = yaml.safe_load((FOLDER / "rayjob.yaml").read_text())
    place = broken
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    [flaw] = flaws(broken, version)
    assert flaw.startswith(says.format(version))


def test_a_field_of_a_later_kuberay_is_none_of_an_earlier_one():
    later = yaml.safe_load((FOLDER / "raycronjob.yaml").read_text())
    later["spec"]["timeZone"] = "Etc/UTC"
    assert flaws(later, "1.7") == []
    assert flaws(later, "1.6") == ["spec.timeZone is no field of RayCronJobSpec in KubeRay 1.6"]


def test_pods_with_gpus_pass_the_taint_of_their_machines_and_only_they():
    for _, pod in pods():
        [container] = pod.containers
        has_gpus = "nvidia.com/gpu" in container.resources.limits
        assert [toleration.key for toleration in pod.tolerations] == ["nvidia.com/gpu"] * has_gpus
        assert bool(pod.nodeSelector) == has_gpus


def test_copies_of_an_object_store_are_where_all_machines_see_them_and_its_keys_may_be_absent():
    for cluster in ray_clusters().values():
        [head] = cluster.headGroupSpec.template.spec.containers
        cache = {env.name: env.value for env in head.env}["GSCL_SCALE_CACHE"]
        assert any(cache.startswith(f"{mount.mountPath}/") for mount in head.volumeMounts if mount.name == "shared")
        assert [(source.secretRef.name, source.secretRef.optional) for source in head.envFrom] == [
            ("gscl-scale-store", True)
        ]


def test_the_cluster_is_the_same_in_every_manifest():
    clusters = ray_clusters()
    assert len(clusters) == 4
    assert all(cluster == clusters["raycluster"] for cluster in clusters.values())
    jobs = ray_jobs()
    assert jobs["raycronjob"] == jobs["cronjob"]
    assert jobs["rayjob"] == jobs["cronjob"].model_copy(update={"entrypoint": jobs["rayjob"].entrypoint})


def test_every_pod_has_the_image_of_the_version_that_is_released_next():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools_scm"]["fallback_version"]
    images = {container.image for _, pod in pods() for container in pod.containers}
    assert images == {f"gscl-scale:{version}"}


def test_the_version_of_ray_is_the_one_that_the_image_installs():
    [pinned] = re.findall(r"^ray==(.*)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert {cluster.rayVersion for cluster in ray_clusters().values()} == {pinned}


def test_every_claim_config_map_and_account_that_is_named_is_there():
    files = manifests()
    there = {(one.kind, one.metadata.name) for objects in files.values() for one in objects}
    for _, pod in pods():
        for volume in pod.volumes:
            if volume.persistentVolumeClaim:
                assert ("PersistentVolumeClaim", volume.persistentVolumeClaim.claimName) in there
            if volume.configMap:
                assert ("ConfigMap", volume.configMap.name) in there
        assert pod.serviceAccountName is None or ("ServiceAccount", pod.serviceAccountName) in there
    [binding] = [one for one in files["cronjob"] if one.kind == "RoleBinding"]
    assert ("Role", binding.roleRef.name) in there
    assert [("ServiceAccount", subject.name) in there for subject in binding.subjects] == [True]


def test_every_machine_mounts_the_shared_folder_at_the_same_path_and_has_memory_for_its_objects():
    [claim] = [one for one in manifests()["shared"] if one.kind == "PersistentVolumeClaim"]
    assert claim.spec.accessModes == ["ReadWriteMany"]
    for cluster in ray_clusters().values():
        for group in (cluster.headGroupSpec, *cluster.workerGroupSpecs):
            [container] = group.template.spec.containers
            sources = {volume.name: volume for volume in group.template.spec.volumes}
            mounts = {mount.mountPath: sources[mount.name] for mount in container.volumeMounts}
            assert mounts["/shared"].persistentVolumeClaim.claimName == claim.metadata.name
            shm = amount(mounts["/dev/shm"].emptyDir.sizeLimit)
            assert 2**30 < shm <= amount(container.resources.limits["memory"]) / 3  # Ray takes 30 % for objects


def test_commands_read_and_write_where_something_is_mounted():
    for job in ray_jobs().values():
        [head] = job.rayClusterSpec.headGroupSpec.template.spec.containers
        mounts = {mount.mountPath: mount for mount in head.volumeMounts}
        words = job.entrypoint.split()
        config, target = words[words.index("--config") + 1], words[-1]
        folder, _, file = config.rpartition("/")
        assert mounts[folder].readOnly
        assert file in data_of("shared", "gscl-scale-config")
        assert target.startswith("/shared/")
        assert not mounts["/shared"].readOnly


def test_the_settings_fit_the_groups():
    cluster = ray_clusters()["raycluster"]
    groups = {group.groupName: group for group in cluster.workerGroupSpecs}
    cores = {name: amount(group.template.spec.containers[0].resources.limits["cpu"]) for name, group in groups.items()}
    [(resource, each)] = CONFIG.runtime.task_resources.items()
    offered = {name: group.resources.get(resource) for name, group in groups.items()}
    assert offered == {"precompute": str(int(cores["precompute"] * each)), "train": None}
    assert amount(groups["precompute"].resources["CPU"]) == cores["precompute"]
    assert CONFIG.runtime.engine == "ray"
    assert "nvidia.com/gpu" not in groups["precompute"].template.spec.containers[0].resources.limits
    assert most_processes(groups["train"]) >= CONFIG.runtime.for_training().workers[1]
    assert cluster.headGroupSpec.rayStartParams == {"num-cpus": "0"}


def most_processes(group):
    """The training processes that the machines of a group have room for, as their GPUs and cores allow."""
    limits, training = group.template.spec.containers[0].resources.limits, CONFIG.runtime.for_training()
    per_machine = min(amount(limits["nvidia.com/gpu"]) // training.gpus, amount(limits["cpu"]) // training.cpus)
    return group.maxReplicas * int(per_machine)


def test_a_machine_with_several_gpus_has_room_for_a_process_on_each_if_its_cores_are_multiplied_too():
    group = ray_clusters()["raycluster"].workerGroupSpecs[1]
    limits = group.template.spec.containers[0].resources.limits
    alone = most_processes(group)
    limits["nvidia.com/gpu"] = "8"
    assert most_processes(group) == alone
    limits["cpu"] = str(8 * int(limits["cpu"]))
    assert most_processes(group) == 8 * alone


def test_the_nightly_job_never_overlaps_itself_and_may_only_make_ray_jobs():
    [cron] = [one for one in manifests()["cronjob"] if one.kind == "CronJob"]
    assert cron.spec.concurrencyPolicy == "Forbid"
    [rule] = cron.spec.jobTemplate.spec.podFailurePolicy.rules
    assert (rule.action, rule.onExitCodes.values) == ("FailJob", [1])  # what the script ends with after a failure
    [role] = [one for one in manifests()["cronjob"] if one.kind == "Role"]
    assert [(rule.apiGroups, rule.resources, rule.verbs) for rule in role.rules] == [
        (["ray.io"], ["rayjobs"], ["create", "get"])
    ]
    assert all(job.backoffLimit == 0 for job in ray_jobs().values())
