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
from collections.abc import Callable, Mapping, Sequence
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
    """One run from the checkpoints of one model; `config` gives the task and the shapes.

    The split is that of the authors' run for their task; for another it is the one of seed 0, since the files do
    not tell theirs.
    """
    files = {_step(path): path for path in paths}
    if len(files) < len(paths) or not files:
        raise RunError(f"{len(paths)} files for {len(files)} different steps; give each step once, and at least one")
    config = dataclasses.replace(config, optim=dataclasses.replace(config.optim, steps=max(files)))
    sources = {}
    # All are checked before anything is written, and read again for it: they may be hundreds.
    for _, path in sorted(files.items()):
        content = _bytes(path, config)
        _stack(path, content, config)
        sources[path.name] = hashlib.sha256(content).hexdigest()
    authors = config.task == PRESETS["authors"].task
    seen = (authors_split(config.task) if authors else pair_split(config.task, 0))[None]
    environment = Environment.here("cpu", torch.get_num_threads())
    with Writer.hold(destination, config, [Member(0)], seen, environment, sources) as run:
        if run.finished and run.problems:
            raise RunError(f"{next(iter(run.problems.values()))}; remove {destination} to import it again")
        if not run.finished:
            for step, path in sorted(files.items()):
                run.commit(step, checkpoint=_stack(path, _bytes(path, config), config), finished=step == max(files))
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
    if problem := state_dict_problem(named, config):
        raise RunError(f"the state dict does not fit the configuration: {problem}")
    return Transformer(config, {name: named[name] for name in weight_shapes(config)})


def _renamed(name: str, tensor: Tensor, config: Config) -> tuple[str, Tensor]:
    """A weight by its name in TransformerLens 2.x, with the shape it has there; other names are left as they are."""

    def heads(weight: Tensor) -> Tensor:
        return weight.unflatten(0, (config.model.n_heads, config.model.d_head))

    table: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
        r"embed\.weight": ("embed.W_E", lambda w: w),
        r"pos_embed\.weight": ("pos_embed.W_pos", lambda w: w),
        r"(blocks\.\d+\.attn)\.q\.weight": (r"\1.W_Q", lambda w: heads(w).mT),  # (H dh, d) to (H, d, dh)
        r"(blocks\.\d+\.attn)\.k\.weight": (r"\1.W_K", lambda w: heads(w).mT),
        r"(blocks\.\d+\.attn)\.v\.weight": (r"\1.W_V", lambda w: heads(w).mT),
        r"(blocks\.\d+\.attn)\.o\.weight": (r"\1.W_O", lambda w: heads(w.mT)),  # (d, H dh) to (H, dh, d)
        r"(blocks\.\d+\.attn)\.q\.bias": (r"\1.b_Q", heads),
        r"(blocks\.\d+\.attn)\.k\.bias": (r"\1.b_K", heads),
        r"(blocks\.\d+\.attn)\.v\.bias": (r"\1.b_V", heads),
        r"(blocks\.\d+\.attn)\.o\.bias": (r"\1.b_O", lambda b: b),
        r"(blocks\.\d+\.mlp)\.(in|out)\.weight": (r"\1.W_\2", lambda w: w.mT),
        r"(blocks\.\d+\.mlp)\.(in|out)\.bias": (r"\1.b_\2", lambda b: b),
        r"((?:blocks\.\d+\.)?ln\w+)\.weight": (r"\1.w", lambda w: w),
        r"((?:blocks\.\d+\.)?ln\w+)\.bias": (r"\1.b", lambda b: b),
        r"unembed\.weight": ("unembed.W_U", lambda w: w.mT),
        r"unembed\.bias": ("unembed.b_U", lambda b: b),
    }
    for pattern, (name_in_2, reshaped) in table.items():
        if match := re.fullmatch(pattern, name):
            return match.expand(name_in_2), reshaped(tensor)
    return name, tensor
