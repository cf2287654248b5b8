"""The CUDA programs on threads of a CPU, where there is no GPU: the numbers of tensor operations in double precision.

A C++ compiler reads their text after a header with what they use of CUDA (`cuda_on_cpu.h`). A barrier that is missing
may go unnoticed here; tests/training/test_cuda.py runs the programs on a GPU.
"""

import ctypes
import functools
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from assignadd.model.kernels import cuda_attention
from assignadd.model.kernels.cuda_attention import PROGRAMS, CudaAttention, source
from assignadd.model.kernels.tensor import TensorKernels
from tests.model.test_kernels import attention_part

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")

HEADER = Path(__file__).with_name("cuda_on_cpu.h")
CPU = torch.device("cpu")


class OnCpu(CudaAttention):
    """Launches the programs here."""

    def __init__(self, n_tokens, length, n_heads):
        super().__init__(n_tokens, length, CPU, n_heads)
        self._library = built(source(self._constants))
        self.launched = []

    def _launch(self, name, grid, warps, memory, *arguments):
        self.launched.append((name, grid, warps))
        passed = [ctypes.c_void_p(a.data_ptr()) if isinstance(a, torch.Tensor) else a for a in arguments]
        getattr(self._library, f"launch_{name}")((ctypes.c_int * 3)(*grid), warps, memory, *passed)


@functools.cache
def built(text):
    """The programs as a library, with a function `launch_NAME` for each of them."""
    text = re.sub(r"extern __shared__ float (\w+)\[\];", r"float* \1 = dynamic_memory.data();", text)
    lines = [f'#include "{HEADER}"', text]
    for name in PROGRAMS:
        (parameters,) = re.findall(rf"\b{name}\(\s*(const float\* [^)]*)\)\n{{", text)
        names = ", ".join(re.findall(r"(\w+)(?=,|$)", parameters))
        lines.append(
            f'extern "C" void launch_{name}(const int* grid, int warps, int memory, {parameters})\n'
            f"{{ launch(grid, warps, memory, [&] {{ {name}({names}); }}); }}"
        )
    with tempfile.TemporaryDirectory() as folder:
        options = ["-std=c++20", "-O1", "-w", "-shared", "-fPIC", "-pthread", "-x", "c++", "-"]
        command = ["g++", *options, "-o", "programs.so"]
        subprocess.run(command, cwd=folder, input="\n".join(lines), text=True, check=True)
        return ctypes.CDLL(f"{folder}/programs.so")


@pytest.mark.parametrize(
    ("sizes", "device", "tiles", "slices", "warps"),
    [
        pytest.param((10, 6, 3, 33, 1), (4096, 1), 1, 1, 4, id="several sequences for each warp"),
        pytest.param((12, 18, 1, 70, 1), (9000, 1), 1, 1, 2, id="more than 16 positions, three rounds of patterns"),
        pytest.param((100, 7, 2, 9, 1), (6000, 1), 8, 1, 1, id="a table in tiles, tokens in two rounds"),
        pytest.param((10, 6, 3, 0, 1), (4096, 1), 1, 1, 1, id="no sequences"),
        pytest.param((10, 6, 3, 33, 2), (4096, 12), 1, 2, 4, id="two heads, slices of the sequences"),
        pytest.param((12, 5, 2, 40, 4), (4096, 1), 1, 1, 3, id="four heads"),
        pytest.param((7, 3, 1, 33, 3), (4096, 1), 1, 1, 8, id="more rows to add up than positions"),
    ],
)
def test_programs_equal_tensor_operations(monkeypatch, sizes, device, tiles, slices, warps):
    """For a device with this much shared memory and this many processors."""
    K, T, M, B, H = sizes
    of_device = SimpleNamespace(shared_memory_per_block_optin=device[0], multi_processor_count=device[1])
    monkeypatch.setattr(cuda_attention, "properties", lambda _: of_device)
    tokens = torch.randint(0, K, (M, B, T), generator=torch.Generator().manual_seed(1))
    tokens[..., 1::4] = tokens[..., -1:] = K - 1  # keys and queries with the same token
    on_cpu = OnCpu(K, T, H)
    found = attention_part(on_cpu, tokens, 1.0, torch.float32)
    for got, want in zip(found, attention_part(TensorKernels(K, T, CPU, H), tokens, 1.0, torch.float64), strict=True):
        assert (got.double() - want).norm() <= 1e-6 * want.norm()
    assert on_cpu.launched[-1] == ("table_backward", (slices, tiles, M * H), warps)


@pytest.mark.parametrize(
    ("batch", "order", "reason"), [(5, "rows first", "order in memory"), (1 << 26, "as asked", "too many at once")]
)
def test_what_a_program_would_read_wrongly_is_refused(monkeypatch, batch, order, reason):
    of_device = SimpleNamespace(shared_memory_per_block_optin=4096, multi_processor_count=1)
    monkeypatch.setattr(cuda_attention, "properties", lambda _: of_device)
    kernels, tokens = CudaAttention(10, 6, CPU), torch.zeros(1, 1, 1, dtype=torch.int32).expand(1, batch, 6)
    usage = torch.zeros(1, 1, 1).expand(1, batch, 49) if order == "as asked" else torch.zeros(1, batch, 49)
    monkeypatch.setattr(cuda_attention, "_tokens", lambda tokens: tokens.mT)  # without a copy of so many
    with pytest.raises(ValueError, match=reason):
        kernels.layer_1(torch.zeros(1, 1, 16, 16), tokens, usage)
