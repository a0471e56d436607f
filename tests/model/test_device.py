import os

import pytest
import torch

from gscl_scale.config.sections import TrainConfig
from gscl_scale.model.device import gpu_arithmetic

GPU, CPU = torch.device("cuda", 0), torch.device("cpu")


def arithmetic():
    return torch.get_float32_matmul_precision(), torch.are_deterministic_algorithms_enabled()


@pytest.fixture(autouse=True)
def _no_workspace(monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")


@pytest.mark.parametrize(("tf32", "precision"), [(False, "highest"), (True, "high")])
@pytest.mark.parametrize("deterministic", [False, True])
def test_a_gpu_computes_as_the_settings_say_and_afterwards_as_before(tf32, precision, deterministic):
    before, config = arithmetic(), TrainConfig(tf32=tf32, deterministic=deterministic)
    with gpu_arithmetic(config, GPU):
        assert arithmetic() == (precision, deterministic)
        assert ("CUBLAS_WORKSPACE_CONFIG" in os.environ) == deterministic
    assert arithmetic() == before


def test_a_cpu_computes_as_ever():
    before = arithmetic()
    with gpu_arithmetic(TrainConfig(tf32=True, deterministic=True), CPU):
        assert arithmetic() == before
    assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ
