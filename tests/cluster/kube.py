"""The fields of Kubernetes and KubeRay objects that our manifests use, and no others.

Written from the CRDs of KubeRay 1.6 (ray-operator/apis/ray/v1: raycluster_types.go, rayjob_types.go,
raycronjob_types.go; rules from controllers/ray/utils/validation.go) and the API reference of Kubernetes 1.30.
"""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "cluster" / "kuberay"

UNITS = {"": 1, "m": 1e-3, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 1e3, "M": 1e6, "G": 1e9}


def amount(quantity: str) -> float:
    """A quantity of Kubernetes as a number."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(m|Ki|Mi|Gi|Ti|k|M|G)?", quantity)
    if not match:
        raise ValueError(f"{quantity} is no quantity")
    return float(match[1]) * UNITS[match[2] or ""]


def _is_cron(schedule: str) -> str:
    ranges = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
    fields = schedule.split()
    if len(fields) != len(ranges):
        raise ValueError("a schedule has five fields")
    for value, (least, most) in zip(fields, ranges, strict=True):
        if value != "*" and not least <= int(value) <= most:
            raise ValueError(f"{value} is not within {least}-{most}")
    return schedule


def _is_quantity(quantity: str) -> str:
    amount(quantity)
    return quantity


Quantity = Annotated[str, AfterValidator(_is_quantity)]
Cron = Annotated[str, AfterValidator(_is_cron)]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
Seconds = Annotated[int, Field(gt=0)]


class Strict(BaseModel):
    """Unknown fields are refused, and a string is no number."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Metadata(Strict):
    name: Annotated[Name, StringConstraints(max_length=47)] | None = None  # KubeRay adds to it
    generateName: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][-a-z0-9]*-$", max_length=40)] | None = None

    @model_validator(mode="after")
    def _one_name(self) -> "Metadata":
        if (self.name is None) == (self.generateName is None):
            raise ValueError("name or generateName")
        return self


class Named(Strict):
    name: Name


class Seccomp(Strict):
    type: Literal["RuntimeDefault"]


class PodSecurity(Strict):
    runAsNonRoot: Literal[True]
    runAsUser: Annotated[int, Field(ge=1000)]
    runAsGroup: Annotated[int, Field(ge=1000)]
    fsGroup: Annotated[int, Field(ge=1000)]
    fsGroupChangePolicy: Literal["OnRootMismatch"]
    seccompProfile: Seccomp


class Capabilities(Strict):
    drop: list[Literal["ALL"]] = Field(min_length=1)


class ContainerSecurity(Strict):
    allowPrivilegeEscalation: Literal[False]
    capabilities: Capabilities


class Resources(Strict):
    requests: dict[Literal["cpu", "memory", "nvidia.com/gpu"], Quantity]
    limits: dict[Literal["cpu", "memory", "nvidia.com/gpu"], Quantity]

    @model_validator(mode="after")
    def _enough(self) -> "Resources":
        for name, wanted in self.requests.items():
            if name not in self.limits or amount(wanted) > amount(self.limits[name]):
                raise ValueError(f"more {name} is requested than the limit allows")
        if self.requests.get("nvidia.com/gpu") != self.limits.get("nvidia.com/gpu"):
            raise ValueError("GPUs cannot be overcommitted")
        return self


class Port(Strict):
    name: Annotated[Name, StringConstraints(max_length=15)]
    containerPort: Annotated[int, Field(gt=0, lt=65536)]


class Mount(Strict):
    name: Name
    mountPath: Annotated[str, StringConstraints(pattern="^/")]
    readOnly: bool = False


class FieldRef(Strict):
    fieldPath: str


class ValueFrom(Strict):
    fieldRef: FieldRef


class Env(Strict):
    name: str
    value: str | None = None
    valueFrom: ValueFrom | None = None


class Container(Strict):
    name: Name
    image: str
    command: list[str] | None = None
    env: list[Env] = []
    ports: list[Port] = []
    resources: Resources
    securityContext: ContainerSecurity
    volumeMounts: list[Mount] = []


class Claim(Strict):
    claimName: Name


class EmptyDir(Strict):
    medium: Literal["Memory"]
    sizeLimit: Quantity


class Volume(Strict):
    name: Name
    persistentVolumeClaim: Claim | None = None
    configMap: Named | None = None
    emptyDir: EmptyDir | None = None

    @model_validator(mode="after")
    def _one_source(self) -> "Volume":
        if len(self.model_fields_set) != 2:
            raise ValueError("a volume has one source")
        return self


class PodSpec(Strict):
    containers: list[Container] = Field(min_length=1)
    securityContext: PodSecurity
    volumes: list[Volume] = []
    serviceAccountName: Name | None = None
    restartPolicy: Literal["Never"] | None = None

    @model_validator(mode="after")
    def _mounts_have_volumes(self) -> "PodSpec":
        mounted = {mount.name for container in self.containers for mount in container.volumeMounts}
        if mounted != {volume.name for volume in self.volumes}:
            raise ValueError("every volume is mounted, and every mount has a volume")
        return self


class PodTemplate(Strict):
    spec: PodSpec


class AuthOptions(Strict):
    mode: Literal["token", "disabled"]


class AutoscalerOptions(Strict):
    version: Literal["v1", "v2"]
    idleTimeoutSeconds: Seconds
    securityContext: ContainerSecurity


class HeadGroup(Strict):
    rayStartParams: dict[str, str]
    template: PodTemplate


class WorkerGroup(Strict):
    groupName: Name
    minReplicas: Annotated[int, Field(ge=0)]
    maxReplicas: Annotated[int, Field(ge=0)]
    rayStartParams: dict[str, str]
    resources: dict[str, Quantity] = {}
    template: PodTemplate

    @model_validator(mode="after")
    def _as_kuberay_validates(self) -> "WorkerGroup":
        if self.minReplicas > self.maxReplicas:
            raise ValueError("minReplicas is more than maxReplicas")
        if self.resources and self.rayStartParams.keys() & {"num-cpus", "num-gpus", "memory", "resources"}:
            raise ValueError("resources are given twice")
        return self


class RayClusterSpec(Strict):
    rayVersion: Annotated[str, StringConstraints(pattern=r"^\d+\.\d+\.\d+$")]
    authOptions: AuthOptions
    enableInTreeAutoscaling: bool
    autoscalerOptions: AutoscalerOptions
    headGroupSpec: HeadGroup
    workerGroupSpecs: list[WorkerGroup]

    @model_validator(mode="after")
    def _as_kuberay_validates(self) -> "RayClusterSpec":
        if self.authOptions.mode == "token" and [int(part) for part in self.rayVersion.split(".")] < [2, 52]:
            raise ValueError("tokens need Ray 2.52")
        return self


class RayJobSpec(Strict):
    entrypoint: str
    submissionMode: Literal["K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode"]
    backoffLimit: Annotated[int, Field(ge=0)]
    activeDeadlineSeconds: Seconds
    preRunningDeadlineSeconds: Seconds
    shutdownAfterJobFinishes: bool
    ttlSecondsAfterFinished: Annotated[int, Field(ge=0)]
    submitterPodTemplate: PodTemplate
    rayClusterSpec: RayClusterSpec

    @model_validator(mode="after")
    def _as_kuberay_validates(self) -> "RayJobSpec":
        if self.submissionMode == "SidecarMode":
            raise ValueError("SidecarMode does not support submitterPodTemplate")
        if self.ttlSecondsAfterFinished and not self.shutdownAfterJobFinishes:
            raise ValueError("ttlSecondsAfterFinished needs shutdownAfterJobFinishes")
        if self.submitterPodTemplate.spec.restartPolicy is None:
            raise ValueError("the pod of a Job needs a restartPolicy")
        return self


class RayCluster(Strict):
    apiVersion: Literal["ray.io/v1"]
    kind: Literal["RayCluster"]
    metadata: Metadata
    spec: RayClusterSpec


class RayJob(Strict):
    apiVersion: Literal["ray.io/v1"]
    kind: Literal["RayJob"]
    metadata: Metadata
    spec: RayJobSpec


class RayJobTemplate(Strict):
    """A RayJob without a name: who creates it gives one."""

    apiVersion: Literal["ray.io/v1"]
    kind: Literal["RayJob"]
    spec: RayJobSpec


class RayCronJobSpec(Strict):
    schedule: Cron
    suspend: bool = False
    jobTemplate: RayJobSpec  # the specification itself, without another spec


class RayCronJob(Strict):
    apiVersion: Literal["ray.io/v1"]
    kind: Literal["RayCronJob"]
    metadata: Metadata
    spec: RayCronJobSpec


class ClaimResources(Strict):
    requests: dict[Literal["storage"], Quantity]


class ClaimSpec(Strict):
    accessModes: list[Literal["ReadWriteOnce", "ReadWriteMany"]]
    storageClassName: str | None = None
    resources: ClaimResources


class PersistentVolumeClaim(Strict):
    apiVersion: Literal["v1"]
    kind: Literal["PersistentVolumeClaim"]
    metadata: Metadata
    spec: ClaimSpec


class ConfigMap(Strict):
    apiVersion: Literal["v1"]
    kind: Literal["ConfigMap"]
    metadata: Metadata
    data: dict[Annotated[str, StringConstraints(pattern=r"^[-._a-zA-Z0-9]+$")], str]


class ServiceAccount(Strict):
    apiVersion: Literal["v1"]
    kind: Literal["ServiceAccount"]
    metadata: Metadata


class Rule(Strict):
    apiGroups: list[str]
    resources: list[str]
    verbs: list[Literal["create", "get", "list", "watch", "delete", "patch", "update"]]


class Role(Strict):
    apiVersion: Literal["rbac.authorization.k8s.io/v1"]
    kind: Literal["Role"]
    metadata: Metadata
    rules: list[Rule]


class RoleRef(Strict):
    apiGroup: Literal["rbac.authorization.k8s.io"]
    kind: Literal["Role"]
    name: Name


class Subject(Strict):
    kind: Literal["ServiceAccount"]
    name: Name


class RoleBinding(Strict):
    apiVersion: Literal["rbac.authorization.k8s.io/v1"]
    kind: Literal["RoleBinding"]
    metadata: Metadata
    roleRef: RoleRef
    subjects: list[Subject]


class OnExitCodes(Strict):
    containerName: Name
    operator: Literal["In", "NotIn"]
    values: list[int]


class FailureRule(Strict):
    action: Literal["FailJob", "Ignore", "Count"]
    onExitCodes: OnExitCodes


class FailurePolicy(Strict):
    rules: list[FailureRule]


class JobSpec(Strict):
    backoffLimit: Annotated[int, Field(ge=0)]
    podFailurePolicy: FailurePolicy
    template: PodTemplate

    @model_validator(mode="after")
    def _as_kubernetes_validates(self) -> "JobSpec":
        if self.template.spec.restartPolicy != "Never":
            raise ValueError("podFailurePolicy needs restartPolicy Never")
        names = {container.name for container in self.template.spec.containers}
        if not all(rule.onExitCodes.containerName in names for rule in self.podFailurePolicy.rules):
            raise ValueError("podFailurePolicy names no container")
        return self


class JobTemplate(Strict):
    spec: JobSpec


class CronJobSpec(Strict):
    schedule: Cron
    timeZone: str | None = None
    concurrencyPolicy: Literal["Allow", "Forbid", "Replace"]
    startingDeadlineSeconds: Seconds
    successfulJobsHistoryLimit: Annotated[int, Field(ge=0)]
    failedJobsHistoryLimit: Annotated[int, Field(ge=0)]
    jobTemplate: JobTemplate


class CronJob(Strict):
    apiVersion: Literal["batch/v1"]
    kind: Literal["CronJob"]
    metadata: Metadata
    spec: CronJobSpec


KINDS = {
    kind.__name__: kind
    for kind in (
        RayCluster, RayJob, RayCronJob, PersistentVolumeClaim, ConfigMap, ServiceAccount, Role, RoleBinding, CronJob,
    )
}  # fmt: skip


def parsed(values: dict[str, Any]) -> Any:
    """An object of Kubernetes, checked."""
    return KINDS[values["kind"]].model_validate(values)


def manifests() -> dict[str, list[Any]]:
    """All objects of our manifests by the name of their file."""
    return {
        path.stem: [parsed(values) for values in yaml.safe_load_all(path.read_text())]
        for path in sorted(FOLDER.glob("*.yaml"))
    }


def nightly_template() -> RayJobTemplate:
    """The RayJob inside of cronjob.yaml."""
    return RayJobTemplate.model_validate(yaml.safe_load(data_of("cronjob", "gscl-scale-nightly")["rayjob.yaml"]))


def data_of(file: str, name: str) -> dict[str, str]:
    """The files in a ConfigMap."""
    [found] = [one for one in manifests()[file] if one.kind == "ConfigMap" and one.metadata.name == name]
    return dict(found.data)


def ray_jobs() -> dict[str, RayJobSpec]:
    """All specifications of RayJobs by the name of their file."""
    files = manifests()
    return {
        "rayjob": files["rayjob"][0].spec,
        "raycronjob": files["raycronjob"][0].spec.jobTemplate,
        "cronjob": nightly_template().spec,
    }


def ray_clusters() -> dict[str, RayClusterSpec]:
    """All specifications of Ray clusters by the name of their file."""
    return {"raycluster": manifests()["raycluster"][0].spec} | {
        name: job.rayClusterSpec for name, job in ray_jobs().items()
    }


def pods() -> list[tuple[str, PodSpec]]:
    """Every pod that the manifests lead to, with the file that it is in."""
    [cron] = [one for one in manifests()["cronjob"] if one.kind == "CronJob"]
    found = [("cronjob", cron.spec.jobTemplate.spec.template.spec)]
    found += [(name, job.submitterPodTemplate.spec) for name, job in ray_jobs().items()]
    for name, cluster in ray_clusters().items():
        groups = (cluster.headGroupSpec, *cluster.workerGroupSpecs)
        found += [(name, group.template.spec) for group in groups]
    return found
