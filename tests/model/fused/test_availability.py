import subprocess
import sys

import torch

from gscl_scale.model.fused import availability
from gscl_scale.model.fused.availability import has_kernels, runs_fused

PROGRAM = """
import sys
sys.modules["triton"] = None  # an import of it fails
import gscl_scale.train.step, gscl_scale.pipeline, gscl_scale.embed.layers
assert not [name for name in sys.modules if "triton_kernels" in name]
"""


def test_the_product_is_imported_without_triton():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)


def test_kernels_run_on_a_gpu_where_triton_is_installed(monkeypatch):
    for there in (True, False):
        monkeypatch.setattr(availability, "_has_triton", lambda there=there: there)
        assert has_kernels(torch.device("cuda", 0)) == there
        assert not has_kernels(torch.device("cpu"))


def test_double_precision_is_computed_by_plain_torch(monkeypatch):
    monkeypatch.setattr(availability, "has_kernels", lambda device: True)
    found = {kind: runs_fused(torch.zeros(1, dtype=kind)) for kind in (torch.float32, torch.bfloat16, torch.float64)}
    assert list(found.values()) == [True, True, False]
