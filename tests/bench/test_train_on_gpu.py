"""What `bench train --device cuda` measures; here its steps run on the CPU, where there are no kernels to count."""

import json
from types import SimpleNamespace

import pytest
import torch
from torch.autograd import DeviceType

from gscl_scale.bench.device_step import WAYS, _figures
from gscl_scale.bench.options import Device, Train
from gscl_scale.bench.roofline import LeastWork, Rates, StepSizes, least_work
from gscl_scale.bench.train import bench_train
from gscl_scale.bench.train_on_gpu import bench_train_on_gpu
from gscl_scale.config.config import Config
from gscl_scale.config.sections import ModelConfig
from gscl_scale.errors import UserError
from tests.bench.conftest import TINY, quiet_bench

MODEL = ["model.layers=2", "model.width=16", "model.projection=16", "train.batch_size=64"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_one_sentence_says_so(tmp_path):
    bench = quiet_bench("train", tmp_path, config=Config.load(None, TINY), device=Device.CUDA)
    with pytest.raises(UserError, match="torch sees no GPU here; run gscl-scale doctor to see why"):
        bench_train(bench)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_every_way_has_a_row_and_the_host_its_milliseconds(tmp_path):
    config = Config.load(None, [*TINY, *MODEL])
    bench = Train(command="x", config=config, steps=2, turns=1, device=Device.CUDA, out=tmp_path)
    page = bench_train_on_gpu(bench, "cpu")
    found = json.loads((tmp_path / "train.json").read_text())
    assert [row["name"] for row in found["rows"]] == [way.name for way in WAYS]
    assert all(row["name"] in page and row["step_s"] > 0 and row["roofline"] > 0 for row in found["rows"])
    assert all(0 < found["host_work"][name] < 1000 for name in ("step", "start", "draw"))
    losses = [row["loss"] for row in found["rows"]]
    assert losses == pytest.approx([losses[0]] * len(losses), rel=0.02)


def event(name, us, device):
    return SimpleNamespace(name=name, device_type=device, time_range=SimpleNamespace(elapsed_us=lambda: us))


def test_kernels_copies_and_waits_are_counted_per_step():
    gpu, cpu = DeviceType.CUDA, DeviceType.CPU
    events = [event("gemm", 300, gpu), event("gemm", 100, gpu), event("noise", 100, gpu),
              event("Memcpy HtoD (Pinned -> Device)", 50, gpu), event("Memset (Device)", 2, gpu),
              event("cudaStreamSynchronize", 900, cpu), event("aten::mm", 900, cpu)]  # fmt: skip
    figures = _figures(events, 2)
    assert (figures.kernels, figures.copies, figures.waits) == (1.5, 0.5, 0.5)
    assert figures.busy_s == pytest.approx(552e-6 / 2)
    assert figures.named[0] == ("gemm", pytest.approx(200e-6), 1.0)


def test_the_least_work_of_a_layer_is_written_out():
    sizes = StepSizes(nodes=10, messages=50, features=4, encoded=6, anchors=3, pairs=20, candidates=5)
    one = least_work(ModelConfig(layers=1, width=8, projection=0), sizes)
    assert one.operations == 2 * 2 * 10 * 4 * 8 + 6 * 3 * 5 * 8
    assert one.bytes == 2 * 10 * (2 * 4 + 4 * 8) + 4 * 8 * 3 * 20 + 16 * 3 * 5
    two = least_work(ModelConfig(layers=2, width=8, projection=0), sizes)
    assert two.operations - one.operations == 3 * 2 * 10 * 8 * 8
    assert two.bytes - one.bytes == 2 * 2 * 8 * 50 + 2 * 10 * (2 * 8 + 4 * 8)


def test_the_least_time_is_that_of_the_slower_of_computing_and_moving():
    assert LeastWork(10, 3).seconds(Rates(10, 1)) == 3
    assert LeastWork(40, 3).seconds(Rates(10, 1)) == 4
