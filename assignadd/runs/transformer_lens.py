"""Networks of TransformerLens: state dicts of 2.x (`.pth`) as a finished run, and models of 4 in both directions.

The one place where a pickle is read, with `weights_only`, which builds tensors and nothing else. What our model
does not have (biases, an MLP after a layer without one) must be present as zeros or not at all.

Models of TransformerLens 4 are bridges around its own ("native") architecture. They have the same weights, and
activations under the same hook names; only at `hook_attn_scores` TransformerLens 4.3 has the attention pattern instead
of the scores. A native model has an MLP in every layer and biases everywhere: what ours does not have is zero there,
which changes no bit of a sum. For models with one head and without biases and norms, as the paper's, logits are the
same bit for bit; others differ in the last rounding, as a native model adds a bias or the heads within a matrix product
and writes a norm differently.
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
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from assignadd.config import PRESETS, Config, Member
from assignadd.config.errors import ConfigError, RunError, UsageError
from assignadd.model.stack import Stack, flatten, weight_shapes
from assignadd.model.transformer import NORM_EPS, Transformer
from assignadd.runs.atomic import reason
from assignadd.runs.environment import Environment
from assignadd.runs.files import read_input
from assignadd.runs.folder import Run
from assignadd.runs.writer import Writer
from assignadd.task.splits import authors_split, pair_split
from assignadd.task.vocabulary import Vocabulary

PLAIN = (torch.bool, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64)
# Masks and zero biases come with the weights.
MOST_BESIDES = 64 << 20
NUMBERED = re.compile(r"checkpoint_step_([0-9]{1,9})\.pth")
LAST, LAST_STEP = "model_state_dict.pth", 40_000
ABSENT = re.compile(r"blocks\.[0-9]+\.(attn\.b_[QKVO]|mlp\.(W_in|b_in|W_out|b_out)|ln2\.[wb])|unembed\.b_U")
MASK, IGNORE = re.compile(r"blocks\.[0-9]+\.attn\.mask"), re.compile(r"blocks\.[0-9]+\.attn\.IGNORE")
LENS = "transformer_lens"
NORMS = {"none": None, "rms": "RMS", "layer": "LN"}


def state_dicts_in(path: Path) -> list[Path]:
    """The files of a folder whose names say their steps, in no order; a path that is no folder is itself."""
    if not path.is_dir():
        return [path]
    files = [file for file in path.iterdir() if NUMBERED.fullmatch(file.name) or file.name == LAST]
    if not files:
        raise RunError(f"{path} has no file named checkpoint_step_N.pth or {LAST}")
    return files


def import_state_dicts(paths: Sequence[Path], config: Config, destination: Path) -> Run:
    """A finished run in the folder `destination`, with a checkpoint for each of these files of one model's weights.

    `config` gives the task and the shapes. The split is that of the authors' run for their task; for another task it is
    the one of seed 0, since the files do not tell theirs.
    """
    path_of_step = {_step(path): path for path in paths}
    if not paths or len(path_of_step) < len(paths):
        n_steps = len(path_of_step)
        raise RunError(f"{len(paths)} files for {n_steps} different steps; give each step once, and at least one")
    steps = sorted(path_of_step)
    config = dataclasses.replace(config, optim=dataclasses.replace(config.optim, steps=steps[-1]))
    sha256_of_name = {}
    # All files are checked before anything is written, and read again later: hundreds may not fit into memory.
    for step in steps:
        path = path_of_step[step]
        data = _bytes(path, config)
        _stack(path, data, config)
        sha256_of_name[path.name] = hashlib.sha256(data).hexdigest()
    is_authors_task = config.task == PRESETS["authors"].task
    split = authors_split(config.task) if is_authors_task else pair_split(config.task, 0)
    environment = Environment.here("cpu", torch.get_num_threads())
    with Writer.hold(destination, config, [Member(0)], split[None], environment, sha256_of_name) as run:
        if run.finished and run.notes:  # a line for each damaged file
            raise RunError(f"{run.notes[0]}; remove {destination} to import it again")
        for step in [] if run.finished else steps:
            path = path_of_step[step]
            run.commit(step, checkpoint=_stack(path, _bytes(path, config), config), finished=step == steps[-1])
    return Run.open(destination)


def _step(path: Path) -> int:
    """The step of a file, from its name."""
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
    """The stack of one model whose state dict these bytes of a file are."""
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
    """Why these tensors, by their names in TransformerLens 2.x, are not the weights of a model with these settings."""
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


def to_transformer_lens(model: Transformer) -> Any:
    """A TransformerBridge of TransformerLens 4 with the weights of the model, as copies."""
    if not lens_installed():
        raise UsageError("TransformerLens is not installed: pip install 'assignadd[lens]'")
    native: Any = import_module(f"{LENS}.model_bridge.sources.native")
    weights = {name: weight.detach() for name, weight in model.state_dict().items()}
    bridge = native.boot(lens_config(model.config), device=model.device, dtype=model.embed.W_E.dtype)
    convert = import_module(f"{LENS}.utilities.tl_checkpoint_conversion").convert_tl_checkpoint
    with torch.no_grad():
        for parameter in bridge.parameters():
            parameter.zero_()
    bridge.load_state_dict(bridge.state_dict() | convert(weights, bridge.cfg))
    return bridge.eval()


def lens_installed() -> bool:
    return find_spec(LENS) is not None


def lens_config(config: Config) -> Any:
    """The TransformerBridgeConfig of a model with these settings."""
    model, task, widths = config.model, config.task, {width for width in config.model.d_mlp if width is not None}
    if len(widths) > 1:
        raise ConfigError("model.d_mlp", model.d_mlp, "one width: native models of TransformerLens have no other")
    if model.activation == "abs":
        raise ConfigError("model.activation", "abs", "relu or gelu: native models of TransformerLens have no other")
    if not model.direct_path:
        raise ConfigError("model.direct_path", False, "true: native models of TransformerLens add every MLP's output")
    return import_module(LENS).TransformerBridgeConfig(
        d_model=model.d_model, n_layers=model.n_layers, n_heads=model.n_heads, d_head=model.d_head,
        d_mlp=max(widths, default=None), attn_only=not widths, act_fn=model.activation, n_ctx=task.length,
        d_vocab=Vocabulary(task).size, d_vocab_out=task.modulus, normalization_type=NORMS[model.norm], eps=NORM_EPS,
        seed=0,  # of weights that are replaced: the caller's random numbers stay as they are
    )  # fmt: skip


def from_transformer_lens(state_dict: Mapping[str, Tensor], config: Config) -> Transformer:
    """The model of a state dict of TransformerLens: of a bridge (4.x), or by the names of 2.x (`blocks.0.attn.W_Q`).

    Shapes, names and zeros where the model has no weight are checked; TransformerLens need not be installed.
    """
    named = dict(_renamed(name, tensor.detach(), config) for name, tensor in state_dict.items())
    if len(named) < len(state_dict):
        raise RunError("the state dict has a weight twice, by its name in TransformerLens 2.x and by that in 4")
    if problem := state_dict_problem(named, config):
        raise RunError(f"the state dict does not fit the configuration: {problem}")
    return Transformer(config, {name: named[name] for name in weight_shapes(config)})


def _renamed(name: str, tensor: Tensor, config: Config) -> tuple[str, Tensor]:
    """A weight by its name in TransformerLens 2.x, with the shape it has there; other names are left unchanged."""

    def by_head(weight: Tensor) -> Tensor:
        return weight.unflatten(0, (config.model.n_heads, config.model.d_head))

    match name.split("."):
        case ["embed", "weight"]:
            return "embed.W_E", tensor
        case ["pos_embed", "weight"]:
            return "pos_embed.W_pos", tensor
        case ["unembed", "weight"]:
            return "unembed.W_U", tensor.mT
        case ["unembed", "bias"]:
            return "unembed.b_U", tensor
        case ["blocks", i, "attn", ("q" | "k" | "v") as letter, "weight"]:  # (H dh, d) to (H, d, dh)
            return f"blocks.{i}.attn.W_{letter.upper()}", by_head(tensor).mT
        case ["blocks", i, "attn", ("q" | "k" | "v") as letter, "bias"]:
            return f"blocks.{i}.attn.b_{letter.upper()}", by_head(tensor)
        case ["blocks", i, "attn", "o", "weight"]:  # (d, H dh) to (H, dh, d)
            return f"blocks.{i}.attn.W_O", by_head(tensor.mT)
        case ["blocks", i, "attn", "o", "bias"]:
            return f"blocks.{i}.attn.b_O", tensor
        case ["blocks", i, "mlp", ("in" | "out") as side, "weight"]:
            return f"blocks.{i}.mlp.W_{side}", tensor.mT
        case ["blocks", i, "mlp", ("in" | "out") as side, "bias"]:
            return f"blocks.{i}.mlp.b_{side}", tensor
        case [*block, norm, ("weight" | "bias") as kind] if norm.startswith("ln"):
            return ".".join([*block, norm, kind[0]]), tensor
    return name, tensor
