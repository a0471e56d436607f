"""Tests that need a GPU: `make test-gpu` runs them. Without one they are skipped."""

import pytest
import torch

DEVICE = torch.device("cuda")  # test code that is tried without a GPU sets it to cpu


@pytest.fixture(autouse=True)
def _needs_a_gpu():
    if DEVICE.type == "cuda" and not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
