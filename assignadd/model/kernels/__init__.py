"""The large matrix products of a training step and the operations between them, with a choice of kernels for them.

`tensor` has them in tensor operations: this is the specification, and runs on every device in every precision.
`numba_functions` and `triton_gpu` (with `cuda_attention`) are the same operations compiled for a CPU and for a GPU, in
single precision. `numba_step` is a whole training step of one model on a CPU, with `numba_heads` for several heads.
`triton_attention` is attention on a GPU for architectures that have no tables.
docs/names.md has their words, in "Words of the fast pass".
"""

from __future__ import annotations

import importlib.util

import torch

from assignadd.config import Config
from assignadd.model.kernels.tensor import TensorKernels
from assignadd.task.vocabulary import sizes_of

# The longest sequences of a GPU's kernels, with one head and with several, and the most heads: a program has a warp of
# 32 threads for each position, and a block of at most 1,024 threads, each of which has numbers of all heads.
LONGEST_OF_ONE_HEAD, LONGEST_OF_SEVERAL, MOST_HEADS = 32, 16, 8


def kernels_for(config: Config, device: torch.device, stacked: bool) -> TensorKernels:
    """The fastest kernels there are for models of this configuration on this device.

    `stacked` says whether weights and tokens have the axis M, which the GPU kernels require.
    """
    sizes = sizes_of(config.task)
    K, T, H = sizes.n_tokens, sizes.length, config.model.n_heads
    single_precision = config.numerics.dtype == "float32"
    if H == 1 and has_step(config, device):  # `CompiledKernels` are for one head alone
        from assignadd.model.kernels.numba_functions import CompiledKernels

        return CompiledKernels(K, T, device)
    longest = LONGEST_OF_ONE_HEAD if H == 1 else LONGEST_OF_SEVERAL
    fits = longest >= T and H <= MOST_HEADS
    if single_precision and stacked and fits and has_programs(device):
        from assignadd.model.kernels.triton_gpu import TritonKernels

        return TritonKernels(K, T, device, H, config.numerics.tf32)
    return TensorKernels(K, T, device, H)


def has_step(config: Config, device: torch.device) -> bool:
    """Whether compiled code can train a model that is alone on a CPU, and compute its answers (`cpu_step`).

    Numba has to be installed, and there have to be matrix products that compiled code can call.
    """
    if config.numerics.dtype != "float32" or device.type != "cpu" or not _installed("numba"):
        return False
    from assignadd.model.kernels.blas import available

    return available()


def has_programs(device: torch.device) -> bool:
    """Whether this device, an NVIDIA GPU, runs our programs, which Triton compiles."""
    is_nvidia = device.type == "cuda" and torch.version.cuda is not None  # on AMD's, the device is "cuda" too
    return is_nvidia and _installed("triton")


def _installed(package: str) -> bool:
    """Whether a package can be imported; it is not imported here."""
    return importlib.util.find_spec(package) is not None
