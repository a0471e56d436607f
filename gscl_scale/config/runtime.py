"""The section `runtime`."""

from dataclasses import fields, replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from gscl_scale.config.section import AutoOrBool, Section, positive
from gscl_scale.runtime.settings import RunnerSettings, TrainingSettings


def _check_workers(value: Any) -> Any:
    if number := positive(value):
        return number
    low, _, high = value.partition("-") if isinstance(value, str) else ("", "", "")
    least, most = positive(low), positive(high)
    if least and most and least <= most:
        return value
    raise ValueError("expected a number from 1, or a range such as 2-4")


class RuntimeConfig(Section):
    """How the work runs; results differ only by the rounding of another device and its `train.precision`."""

    engine: Literal["local", "ray"] = Field("local", description="local: threads of this machine; ray: a Ray cluster.")
    workers: int = Field(0, ge=0, description="Tasks of precompute at a time; 0: one per core of machine or cluster.")
    address: str = Field("", description="Ray: address of the cluster; empty: RAY_ADDRESS, or one on this machine.")
    task_cpus: float = Field(1.0, gt=0, description="Ray: cores to reserve per task.")
    task_memory_gb: float = Field(0.0, ge=0, description="Ray: memory to reserve per task in GB; 0: none.")
    task_resources: dict[str, Annotated[float, Field(gt=0)]] = Field({}, description="Ray: custom resources per task.")
    task_retries: int = Field(3, ge=0, description="Ray: how often to retry a task after its machine was lost.")
    train_workers: Annotated[int | str, BeforeValidator(_check_workers)] = Field(
        1, description="Ray: processes that train one model; a range such as 2-4 starts as many as there is room for."
    )
    worker_cpus: float = Field(1.0, gt=0, description="Ray: cores to reserve per training process, and its threads.")
    worker_gpus: int = Field(0, ge=0, le=1, description="Ray: GPUs to reserve per training process.")
    embed_workers: int = Field(
        0, ge=0, description="Ray: processes that embed, each like one that trains; 0: as many as there is room for."
    )
    max_failures: int = Field(3, ge=0, description="Ray: how often training resumes after a process was lost.")
    wait_minutes: float = Field(
        30.0, ge=0, description="Ray: how long a training waits for machines with room for its processes."
    )
    timeout_s: float = Field(120.0, gt=0, description="Training: seconds until a silent process counts as failed.")
    features: Literal["mapped", "owned"] = Field(
        "mapped",
        description="Sampled training by several processes: mapped: each reads rows of the graph folder; owned: each "
        "keeps a share of them in memory and sends the others what they need.",
    )
    frequent_gb: float = Field(
        0.5,
        ge=0,
        description="owned: memory of a process in GB for rows that it need not ask for, of nodes with many edges.",
    )
    edges: Literal["mapped", "owned"] = Field(
        "mapped",
        description="Sampled training by several processes: mapped: each reads edges and samples in the run folder; "
        "owned: each keeps a share of them in memory and draws the neighbours of its nodes for all.",
    )
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="Device for training and embedding.")
    tensorboard: bool = Field(False, description="Write the training curves for TensorBoard as well.")
    npy: bool = Field(False, description="Write embeddings.npy as well as the Parquet file.")
    precompute_memory_gb: float = Field(
        0.0, ge=0, description="Precompute: memory of a task in GB for levels, which it reads in tiles; 0: whole ones."
    )
    embed_memory_gb: float = Field(4.0, gt=0, description="Embedding: memory in GB, without program and mapped files.")
    embed_tiles: AutoOrBool = Field(
        "auto",
        description="Embedding: read the rows of neighbours in tiles, for groups of nodes that fit embed_memory_gb; "
        "auto: where the memory that is left has no room for these rows. Same bytes.",
    )
    embed_scratch: str = Field(
        "",
        description="Ray: folder on the disk of each machine for the layers before the last one, whose rows machines "
        "fetch from each other; empty: the run folder.",
    )
    embed_part_rows: int = Field(
        2_097_152,
        ge=0,
        description="Embedding: rows of a Parquet file; with more nodes embeddings.parquet is a folder of such files, "
        "which are written side by side; 0: always one file.",
    )

    @property
    def frequent_memory(self) -> int:
        """Bytes of a training process for the rows of nodes with many edges."""
        return int(self.frequent_gb * (1 << 30))

    @property
    def precompute_memory(self) -> int:
        """Bytes of a task of precompute for levels; 0: it reads them whole."""
        return int(self.precompute_memory_gb * (1 << 30))

    def for_tasks(self) -> RunnerSettings:
        """The settings of a runner of tasks."""
        return RunnerSettings(**self.model_dump(include={field.name for field in fields(RunnerSettings)}))

    def for_embedding(self) -> RunnerSettings:
        """The settings of a runner of tasks that embed and evaluate: each has what a training process has."""
        return replace(
            self.for_tasks(), workers=self.embed_workers, task_cpus=self.worker_cpus, task_gpus=self.worker_gpus,
            task_memory_gb=0.0, task_resources={}, keys="worker",
        )  # fmt: skip

    def for_training(self) -> TrainingSettings:
        """The settings of the processes of a training."""
        low, _, high = str(self.train_workers).partition("-")
        workers = (int(low), int(high or low))
        return TrainingSettings(
            self.address,
            workers,
            self.worker_cpus,
            self.worker_gpus,
            self.timeout_s,
            self.max_failures,
            60 * self.wait_minutes,
        )
