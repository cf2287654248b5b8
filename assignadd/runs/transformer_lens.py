"""State dicts of TransformerLens 2.x (`.pth`) as a finished run.

The one place where a pickle is read, with `weights_only`, which builds tensors and nothing else. What our model
does not have (biases, an MLP after a layer without one) must be present as zeros or not at all.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import math
import re
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from assignadd.config import PRESETS, Config, Member
from assignadd.errors import RunError
from assignadd.model.stack import Stack, flatten, weight_shapes
from assignadd.runs.atomic import reason
from assignadd.runs.environment import Environment
from assignadd.runs.files import read_input
from assignadd.runs.folder import Run
from assignadd.runs.writer import Writer
from assignadd.task.splits import authors_split, pair_split

PLAIN = (torch.bool, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64)
# Masks and zero biases come with the weights.
MOST_BESIDES = 64 << 20
NUMBERED = re.compile(r"checkpoint_step_([0-9]{1,9})\.pth")
LAST, LAST_STEP = "model_state_dict.pth", 40_000
ABSENT = re.compile(r"blocks\.[0-9]+\.(attn\.b_[QKVO]|mlp\.(W_in|b_in|W_out|b_out)|ln2\.[wb])|unembed\.b_U")
MASK, IGNORE = re.compile(r"blocks\.[0-9]+\.attn\.mask"), re.compile(r"blocks\.[0-9]+\.attn\.IGNORE")


def import_state_dicts(paths: Sequence[Path], config: Config, destination: Path) -> Run:
    """One run from the checkpoints of one model; `config` gives the task and the shapes.

    The split is that of the authors' own run for their task; for another it is the one of seed 0, since the files do
    not tell theirs.
    """
    found = {_step(path): path for path in paths}
    if len(found) < len(paths) or not found:
        raise RunError(f"{len(paths)} files for {len(found)} different steps; give each step once, and at least one")
    config = dataclasses.replace(config, optim=dataclasses.replace(config.optim, steps=max(found)))
    sources = {}
    # All are checked before anything is written, and read again for it: they may be hundreds.
    for _, path in sorted(found.items()):
        content = _bytes(path, config)
        _stack(path, content, config)
        sources[path.name] = hashlib.sha256(content).hexdigest()
    authors = config.task == PRESETS["authors"].task
    seen = (authors_split(config.task) if authors else pair_split(config.task, 0))[None]
    environment = Environment.here("cpu", torch.get_num_threads())
    with Writer.hold(destination, config, [Member(0)], seen, environment, sources) as run:
        if not run.finished:
            for step, path in sorted(found.items()):
                run.commit(step, checkpoint=_stack(path, _bytes(path, config), config), finished=step == max(found))
    return Run.open(destination)


def _step(path: Path) -> int:
    match = NUMBERED.fullmatch(path.name)
    if match is None and path.name != LAST:
        raise RunError(
            f"{path}: expected a file named checkpoint_step_N.pth (the weights after N updates) or {LAST} (the last)"
        )
    return int(match[1]) if match else LAST_STEP


def _bytes(path: Path, config: Config) -> bytes:
    """The file's bytes; one of several times the size of the weights is not read."""
    weights = sum(math.prod(shape) for shape in weight_shapes(config).values())
    try:
        return read_input(path, MOST_BESIDES + 4 * 8 * weights)
    except OSError as error:
        raise RunError(f"{path} could not be read: {reason(error)}") from error


def _stack(path: Path, data: bytes, config: Config) -> Stack:
    try:
        if zipfile.is_zipfile(io.BytesIO(data)):
            size = sum(entry.file_size for entry in zipfile.ZipFile(io.BytesIO(data)).infolist())
            if size > len(data):
                raise RunError(f"{path} is not a file of plain tensors: it unpacks to {size:,} bytes, more than it has")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what PyTorch thinks of a damaged pickle
            loaded: Any = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except RunError:
        raise
    except Exception as error:  # whatever a foreign file makes the reader raise; PyTorch advises to run its code
        raise RunError(f"{path} is not a file of plain tensors: it is damaged, or holds something else") from error
    if not isinstance(loaded, dict) or not all(isinstance(k, str) and isinstance(t, Tensor) for k, t in loaded.items()):
        raise RunError(f"{path} is not a state dict: expected names and tensors")
    if problem := state_dict_problem(loaded, config):
        raise RunError(f"{path} does not fit the configuration: {problem}")
    weights = {name: loaded[name].detach()[None] for name in weight_shapes(config)}  # (1, ...)
    return Stack(config, flatten(config, weights))


def _is_plain(tensor: Tensor) -> bool:
    """Whether a tensor is numbers in memory, each of its own: not sparse, nested, quantized or repeated by a stride."""
    return (
        type(tensor) in (Tensor, Parameter)
        and not tensor.is_nested
        and tensor.layout == torch.strided
        and tensor.device.type == "cpu"
        and tensor.dtype in PLAIN
        and tensor.numel() * tensor.element_size() <= tensor.untyped_storage().nbytes()
    )


def state_dict_problem(loaded: Mapping[str, Tensor], config: Config) -> str | None:
    shapes, T = weight_shapes(config), config.task.length
    for name in shapes:
        if name not in loaded:
            return f"{name} is missing"
    for name, tensor in loaded.items():
        if not _is_plain(tensor):
            return f"{name} is not a plain tensor"
        if name in shapes:
            if tuple(tensor.shape) != shapes[name]:
                return f"{name} has shape {tuple(tensor.shape)}, expected {shapes[name]}"
            if str(tensor.dtype) != f"torch.{config.numerics.dtype}":
                return f"{name} is {tensor.dtype}, expected {config.numerics.dtype}"
            if not tensor.isfinite().all():
                return f"{name} has entries that are not finite"
        elif ABSENT.fullmatch(name):
            if tensor.count_nonzero():
                return f"{name} is not zero, and the model has none"
        elif MASK.fullmatch(name):
            if tensor.shape != (T, T) or not torch.equal(tensor, torch.ones(T, T, dtype=torch.bool).tril()):
                return f"{name} is not the causal mask of {T} positions"
        elif not IGNORE.fullmatch(name):
            return f"{name} is not a weight of the model"
    return None
