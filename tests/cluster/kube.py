"""The fields of Kubernetes and KubeRay objects that our manifests use, and no others; `crd.py` has all of KubeRay.

Written from the CRDs of KubeRay 1.6 (ray-operator/apis/ray/v1: raycluster_types.go, rayjob_types.go,
raycronjob_types.go; rules from controllers/ray/utils/validation.go) and the API reference of Kubernetes 1.30.
"""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, create_model, model_validator

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
NonNegative = Annotated[int, Field(ge=0)]
UserId = Annotated[int, Field(ge=1000)]


class Strict(BaseModel):
    """Unknown fields are refused, and a string is no number."""

    model_config = ConfigDict(extra="forbid", strict=True)


def fields(**types: Any) -> Any:
    """A model with these fields, all of them required."""
    return create_model("fields", __base__=Strict, **{name: (kind, ...) for name, kind in types.items()})


class Metadata(Strict):
    name: Annotated[Name, StringConstraints(max_length=47)] | None = None  # KubeRay adds to it
    generateName: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][-a-z0-9]*-$", max_length=40)] | None = None

    @model_validator(mode="after")
    def _one_name(self) -> "Metadata":
        if (self.name is None) == (self.generateName is None):
            raise ValueError("name or generateName")
        return self


PodSecurity = fields(
    runAsNonRoot=Literal[True],
    runAsUser=UserId,
    runAsGroup=UserId,
    fsGroup=UserId,
    fsGroupChangePolicy=Literal["OnRootMismatch"],
    seccompProfile=fields(type=Literal["RuntimeDefault"]),
)
ContainerSecurity = fields(
    allowPrivilegeEscalation=Literal[False],
    capabilities=fields(drop=Annotated[list[Literal["ALL"]], Field(min_length=1)]),
)


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


class Mount(Strict):
    name: Name
    mountPath: Annotated[str, StringConstraints(pattern="^/")]
    readOnly: bool = False


class Env(Strict):
    name: str
    value: str | None = None
    valueFrom: fields(fieldRef=fields(fieldPath=str)) | None = None


class Container(Strict):
    name: Name
    image: str
    command: list[str] | None = None
    env: list[Env] = []
    envFrom: list[fields(secretRef=fields(name=Name, optional=Literal[True]))] = []
    ports: list[
        fields(
            name=Annotated[Name, StringConstraints(max_length=15)],
            containerPort=Annotated[int, Field(gt=0, lt=65536)],
        )
    ] = []
    resources: Resources
    securityContext: ContainerSecurity
    volumeMounts: list[Mount] = []


class Volume(Strict):
    name: Name
    persistentVolumeClaim: fields(claimName=Name) | None = None
    configMap: fields(name=Name) | None = None
    emptyDir: fields(medium=Literal["Memory"], sizeLimit=Quantity) | None = None

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
    nodeSelector: dict[str, str] = {}
    tolerations: list[
        fields(key=str, operator=Literal["Exists"], effect=Literal["NoSchedule", "PreferNoSchedule", "NoExecute"])
    ] = []
    restartPolicy: Literal["Never"] | None = None

    @model_validator(mode="after")
    def _mounts_have_volumes(self) -> "PodSpec":
        mounted = {mount.name for container in self.containers for mount in container.volumeMounts}
        if mounted != {volume.name for volume in self.volumes}:
            raise ValueError("every volume is mounted, and every mount has a volume")
        return self


PodTemplate = fields(spec=PodSpec)


class WorkerGroup(Strict):
    groupName: Name
    minReplicas: NonNegative
    maxReplicas: NonNegative
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
    authOptions: fields(mode=Literal["token", "disabled"])
    enableInTreeAutoscaling: bool
    autoscalerOptions: fields(
        version=Literal["v1", "v2"], idleTimeoutSeconds=Seconds, securityContext=ContainerSecurity
    )
    headGroupSpec: fields(rayStartParams=dict[str, str], template=PodTemplate)
    workerGroupSpecs: list[WorkerGroup]

    @model_validator(mode="after")
    def _as_kuberay_validates(self) -> "RayClusterSpec":
        if self.authOptions.mode == "token" and [int(part) for part in self.rayVersion.split(".")] < [2, 52]:
            raise ValueError("tokens need Ray 2.52")
        return self


class RayJobSpec(Strict):
    entrypoint: str
    submissionMode: Literal["K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode"]
    backoffLimit: NonNegative
    activeDeadlineSeconds: Seconds
    preRunningDeadlineSeconds: Seconds
    shutdownAfterJobFinishes: bool
    ttlSecondsAfterFinished: NonNegative
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


class RayCronJobSpec(Strict):
    schedule: Cron
    suspend: bool = False
    jobTemplate: RayJobSpec  # the specification itself, without another spec


class ClaimSpec(Strict):
    accessModes: list[Literal["ReadWriteOnce", "ReadWriteMany"]]
    storageClassName: str | None = None
    resources: fields(requests=dict[Literal["storage"], Quantity])


class JobSpec(Strict):
    backoffLimit: NonNegative
    podFailurePolicy: fields(
        rules=list[
            fields(
                action=Literal["FailJob", "Ignore", "Count"],
                onExitCodes=fields(containerName=Name, operator=Literal["In", "NotIn"], values=list[int]),
            )
        ]
    )
    template: PodTemplate

    @model_validator(mode="after")
    def _as_kubernetes_validates(self) -> "JobSpec":
        if self.template.spec.restartPolicy != "Never":
            raise ValueError("podFailurePolicy needs restartPolicy Never")
        names = {container.name for container in self.template.spec.containers}
        if not all(rule.onExitCodes.containerName in names for rule in self.podFailurePolicy.rules):
            raise ValueError("podFailurePolicy names no container")
        return self


class CronJobSpec(Strict):
    schedule: Cron
    timeZone: str | None = None
    concurrencyPolicy: Literal["Allow", "Forbid", "Replace"]
    startingDeadlineSeconds: Seconds
    successfulJobsHistoryLimit: NonNegative
    failedJobsHistoryLimit: NonNegative
    jobTemplate: fields(spec=JobSpec)


RBAC = "rbac.authorization.k8s.io"
VERBS = Literal["create", "get", "list", "watch", "delete", "patch", "update"]
PARTS = {  # the version of the API, and what an object has beside its metadata
    "RayCluster": ("ray.io/v1", {"spec": RayClusterSpec}),
    "RayJob": ("ray.io/v1", {"spec": RayJobSpec}),
    "RayCronJob": ("ray.io/v1", {"spec": RayCronJobSpec}),
    "PersistentVolumeClaim": ("v1", {"spec": ClaimSpec}),
    "ConfigMap": ("v1", {"data": dict[Annotated[str, StringConstraints(pattern=r"^[-._a-zA-Z0-9]+$")], str]}),
    "ServiceAccount": ("v1", {}),
    "Role": (f"{RBAC}/v1", {"rules": list[fields(apiGroups=list[str], resources=list[str], verbs=list[VERBS])]}),
    "RoleBinding": (
        f"{RBAC}/v1",
        {
            "roleRef": fields(apiGroup=Literal[RBAC], kind=Literal["Role"], name=Name),
            "subjects": list[fields(kind=Literal["ServiceAccount"], name=Name)],
        },
    ),
    "CronJob": ("batch/v1", {"spec": CronJobSpec}),
}
KINDS = {
    kind: fields(apiVersion=Literal[version], kind=Literal[kind], metadata=Metadata, **parts)
    for kind, (version, parts) in PARTS.items()
}
RayJobTemplate = fields(apiVersion=Literal["ray.io/v1"], kind=Literal["RayJob"], spec=RayJobSpec)  # without a name


def parsed(values: dict[str, Any]) -> Any:
    """An object of Kubernetes, checked."""
    return KINDS[values["kind"]].model_validate(values)


def manifests() -> dict[str, list[Any]]:
    """All objects of our manifests by the name of their file."""
    return {
        path.stem: [parsed(values) for values in yaml.safe_load_all(path.read_text())]
        for path in sorted(FOLDER.glob("*.yaml"))
    }


def nightly_template() -> Any:
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
