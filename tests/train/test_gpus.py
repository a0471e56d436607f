"""Each process of a training has a GPU of its own; no GPU is needed to test who gets which."""

import pytest
import torch
import torch.distributed as dist

from gscl_scale.errors import ConfigError
from gscl_scale.train.process_group import gpu_of, join_world


@pytest.mark.parametrize(("rank", "sharing", "gpus", "expected"), [(0, 1, 1, 0), (3, 4, 4, 3), (1, 2, 8, 1)])
def test_each_process_has_the_gpu_of_its_number(rank, sharing, gpus, expected):
    assert gpu_of(rank, sharing, gpus) == expected


def test_a_process_that_sees_only_its_own_gpu_takes_that(monkeypatch):
    assert gpu_of(3, 1, 1) == 0  # started by another program than torchrun, with CUDA_VISIBLE_DEVICES of its own


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_more_processes_than_gpus_are_refused_on_every_rank(rank):
    says = r"torchrun has started 3 processes .* sees 2 GPUs.* \(--nproc-per-node 2\), or add --set runtime\.device=cpu"
    with pytest.raises(ConfigError, match=says):
        gpu_of(rank, 3, 2)


class Joined(Exception):
    """The process group would be joined now."""


@pytest.fixture
def taken(monkeypatch):
    """A process of torchrun, the second of two on a machine with one GPU, and the GPUs that it takes."""
    gpus = []
    for name, value in {
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "LOCAL_RANK": "1",
        "TORCHELASTIC_RUN_ID": "x",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "set_device", gpus.append)

    def join(backend, **_):
        raise Joined(backend)

    monkeypatch.setattr(dist, "init_process_group", join)
    return gpus


@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_of_two_processes_on_a_machine_with_one_gpu_none_takes_it(taken, device):
    with pytest.raises(ConfigError, match=r"started 2 processes .* sees 1 GPU, "), join_world(60, device):
        pass
    assert taken == []


def test_on_the_cpu_there_may_be_any_number(taken):
    with pytest.raises(Joined, match=r"^gloo$"), join_world(60, "cpu"):
        pass
    assert taken == []


def test_as_many_processes_as_gpus_take_one_each(taken, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(Joined, match=r"^cpu:gloo,cuda:nccl$"), join_world(60, "auto"):
        pass
    assert taken == [1]


def test_processes_of_other_launchers_that_see_one_gpu_each_take_it(taken, monkeypatch):
    monkeypatch.delenv("TORCHELASTIC_RUN_ID")
    with pytest.raises(Joined), join_world(60, "auto"):
        pass
    assert taken == [0]
