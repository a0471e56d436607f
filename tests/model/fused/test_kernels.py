"""The kernels in Triton: their results in its interpreter, and machine code for two generations of GPUs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gscl_scale.model.fused import attention, noise, pairs, product, ranking, rows

triton = pytest.importorskip("triton", reason="Triton is not installed; the extra dev has it")

from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

from gscl_scale.model.fused.triton_kernels import attention as attention_kernels  # noqa: E402
from gscl_scale.model.fused.triton_kernels import noise as noise_kernels  # noqa: E402
from gscl_scale.model.fused.triton_kernels import pairs as pairs_kernels  # noqa: E402
from gscl_scale.model.fused.triton_kernels import product as product_kernels  # noqa: E402
from gscl_scale.model.fused.triton_kernels import ranking as ranking_kernels  # noqa: E402
from gscl_scale.model.fused.triton_kernels import rows as rows_kernels  # noqa: E402
from tests.slow import slow  # noqa: E402

TYPES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.int64: "i64", torch.int32: "i32", torch.bool: "i1"}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("marked", "least"), [("not slow", 60), *slow(("slow", 8))])
def test_all_kernels_equal_plain_torch_in_the_interpreter(marked, least):
    """In a process of its own: Triton reads the variable when it is imported."""
    file = Path(__file__).with_name("interpreted.py")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", marked, str(file)],
        env=os.environ | {"TRITON_INTERPRET": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert int(re.search(r"(\d+) passed", ran.stdout)[1]) >= least


class Compiled:
    """Stands for a kernel: a launch compiles it for a GPU, with the types of the arguments, and starts nothing."""

    def __init__(self, kernel, capability):
        self.kernel, self.target, self.made = kernel, GPUTarget("cuda", capability, 32), []

    def __getitem__(self, grid):
        return self.compile

    def compile(self, *arguments, **options):
        signature, constants = {}, {}
        for parameter, argument in zip(self.kernel.params, arguments, strict=True):
            if parameter.is_constexpr or argument is None:
                signature[parameter.name], constants[parameter.name] = "constexpr", argument
            else:
                signature[parameter.name] = parameter.annotation_type or kind_of(argument)
        source = ASTSource(fn=self.kernel, signature=signature, constexprs=constants)
        self.made.append(triton.compile(source, target=self.target, options=options).asm["cubin"])


def kind_of(argument):
    """The type of an argument in Triton's words."""
    if isinstance(argument, torch.Tensor):
        return f"*{TYPES[argument.dtype]}"
    return "fp32" if isinstance(argument, float) else "i32"


def launch_all(dtypes):
    """Call every operation, with rows of these types."""
    for dtype in dtypes:
        launch_on_rows(torch.zeros(3, 8, dtype=dtype), torch.arange(3), dtypes)
    left, right, words = torch.zeros(3, 8), torch.zeros(5, 8), torch.zeros(6, dtype=torch.int32)
    member, parts = torch.ones(3, 4, dtype=torch.bool), (words, words, words, words, words)
    pairs.member_products(left, right, member, *parts)
    pairs._member_products_gradient(torch.zeros(3, 4), left, right, member, *parts)
    for beside, step, *ways in ((False, 0.0, False, False), (True, 0.1, True, True)):
        weight, own = (torch.zeros(3, 3), torch.zeros(3)) if beside else (None, None)
        options = (weight, own, [1, 1, 2], 0.5, step, 0.0, *ways)
        ranking._ring_terms(torch.zeros(3, 4), member, *options)
        ranking._ring_terms_gradient(torch.zeros(3, 3), torch.zeros(3, 4), member, *options)


def launch_on_rows(hidden, nodes, dtypes):
    base, words = torch.tensor(2**62), torch.zeros(4, dtype=torch.int32)
    noise.uniform_entries(None, 5, nodes, nodes)
    noise.uniform_entries(base, 5, nodes, nodes)
    for slopes, share, read, key in (((0.1, 0.3), 0.0, None, None), ((1.0, 1.0), 0.2, nodes, base)):
        noise.noise(hidden, read, key, 2**62, *slopes, 5, share)
        noise._noise_gradient(hidden, hidden if slopes[0] < 1 else None, read, key, 2**62, *slopes, 5, share)
    for pointers in (torch.zeros(4, dtype=torch.int32), torch.zeros(4, dtype=torch.int64)):
        for dtype in dtypes:
            product.csr_product(pointers, pointers, torch.zeros(4), hidden, dtype)
            long = product.LongRows(words, pointers, words)
            product.csr_product(pointers, pointers, torch.zeros(4), hidden, dtype, long)
        given = (hidden, torch.zeros(3, 2), torch.zeros(3, 2), pointers, pointers)
        out, state = attention._attend(*given, 0.2)
        attention._attend_gradient(out, out, state, *given, pointers, pointers, 0.2)
    rows.unit_rows(hidden, 1e-12)
    rows._unit_rows_gradient(hidden.float(), hidden, 1e-12)
    rows.prelu_gradient(hidden, hidden, torch.zeros(1))


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("capability", "dtypes"),
    [(90, [torch.bfloat16]), *slow(*((capability, [torch.float32, torch.bfloat16]) for capability in (80, 90)))],
)
def test_every_kernel_compiles_for_a_gpu_without_one(tmp_path, monkeypatch, capability, dtypes):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    stand_ins = []
    for module in (attention_kernels, noise_kernels, rows_kernels, pairs_kernels, product_kernels, ranking_kernels):
        for name in [name for name in vars(module) if is_started(module, name)]:
            stand_ins.append(Compiled(getattr(module, name), capability))
            monkeypatch.setattr(module, name, stand_ins[-1])
    launch_all(dtypes)
    assert len(stand_ins) == 16
    for one in stand_ins:
        assert one.made, one.kernel.fn.__name__
        assert all(code[:4] == b"\x7fELF" for code in one.made)


def is_started(module, name):
    """Whether a name is that of a kernel which is launched, in place of called by others."""
    return isinstance(getattr(module, name), triton.JITFunction) and not name.startswith("_") and name != "uniform"
