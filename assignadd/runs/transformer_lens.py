"""Networks of TransformerLens: state dicts (`.pth`) as a finished run, and models of 2 to 4 in both directions.

The one place where a pickle is read, with `weights_only`, which builds tensors and nothing else. What our model
does not have (biases, an MLP after a layer without one) must be present as zeros or not at all.

A HookedTransformer (2 and 3) has our names and shapes. Models of TransformerLens 4 are bridges around its own
("native") architecture, with the same weights and the same hook names. There every layer has an MLP if one has, and
biases: what ours does not have is zero. How far logits agree is in docs/sharing.md.
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
from importlib.metadata import version
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
from assignadd.runs.files import read_input
from assignadd.runs.folder import Run
from assignadd.runs.manifest import Environment
from assignadd.runs.writer import Writer
from assignadd.task.splits import authors_split, pair_split
from assignadd.task.vocabulary import Vocabulary

# The types of the tensors that a file may have.
PLAIN = (torch.bool, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64)
# Bytes of a file on top of the weights, such as masks and zero biases.
MOST_BESIDES = 64 << 20  # 64 MiB
NUMBERED = re.compile(r"checkpoint_step_([0-9]{1,9})\.pth")
# The authors' file of their network after training, and its step.
LAST, LAST_STEP = "model_state_dict.pth", 40_000
# The causal mask, and the score of what it hides, which TransformerLens 2 and 3 save with the weights.
MASK = re.compile(r"blocks\.(0|[1-9][0-9]*)\.attn\.(mask|IGNORE)")
LENS = "transformer_lens"
# Our names of the norms, and theirs.
NORMS = {"none": None, "rms": "RMS", "layer": "LN"}


def state_dicts_in(path: Path) -> list[Path]:
    """The files of state dicts in a folder, in no order; for the path of a file, that file alone."""
    if not path.is_dir():
        return [path]
    files = [*path.glob("checkpoint_step_*.pth"), *path.glob(LAST)]
    if not files:
        raise RunError(f"{path} has no file named checkpoint_step_N.pth or {LAST}")
    return files


def import_state_dicts(paths: Sequence[Path], config: Config, destination: Path) -> Run:
    """A finished run in the folder `destination`, with a checkpoint for each of these files of one model's weights.

    `config` gives the task and the shapes. The files do not tell the split: it is that of the authors' run for their
    task, and that of seed 0 for another task.
    """
    path_of_step = {_step(path): path for path in paths}
    if not paths or len(path_of_step) < len(paths):
        n_steps = len(path_of_step)
        raise RunError(f"{len(paths)} files for {n_steps} different steps; give each step once, and at least one")
    last_step = max(path_of_step)
    config = dataclasses.replace(config, optim=dataclasses.replace(config.optim, steps=last_step))
    # All files are checked before anything is written, and read again later: hundreds may not fit into memory.
    sources = {}
    for path in path_of_step.values():
        data = _read_bytes(path, config)
        _decode_stack(path, data, config)  # refuses what is not such weights
        sources[path.name] = hashlib.sha256(data).hexdigest()
    is_authors_task = config.task == PRESETS["authors"].task
    seen = authors_split(config.task) if is_authors_task else pair_split(config.task, seed=0)  # (N, N)
    environment = Environment.here("cpu", torch.get_num_threads())
    with Writer.hold(destination, config, [Member(0)], seen[None], environment, sources) as run:
        if run.finished and run.notes:  # a line for each damaged file
            raise RunError(f"{run.notes[0]}; remove {destination} to import it again")
        if not run.finished:
            for step, path in sorted(path_of_step.items()):
                stack = _decode_stack(path, _read_bytes(path, config), config)
                run.commit(step, checkpoint=stack, finished=step == last_step)
    return Run.open(destination)


def _step(path: Path) -> int:
    """The step that the name of a file says; a RunError for any other name."""
    if path.name == LAST:
        return LAST_STEP
    if match := NUMBERED.fullmatch(path.name):
        return int(match[1])
    expected = f"checkpoint_step_N.pth (the weights after N updates) or {LAST} (the last)"
    raise RunError(f"{path}: expected a file named {expected}")


def _read_bytes(path: Path, config: Config) -> bytes:
    """The bytes of a file; a RunError for one that is several times as large as the weights of such a model."""
    n_weights = sum(math.prod(shape) for shape in weight_shapes(config).values())
    try:
        return read_input(path, MOST_BESIDES + 4 * 8 * n_weights)  # four times the weights in double precision
    except OSError as error:
        raise RunError(f"{path} could not be read: {reason(error)}") from error


def _decode_stack(path: Path, data: bytes, config: Config) -> Stack:
    """A stack of the one model whose state dict is in `data`, the bytes of the file `path`; a RunError if none is."""
    try:
        if zipfile.is_zipfile(io.BytesIO(data)):
            size = sum(entry.file_size for entry in zipfile.ZipFile(io.BytesIO(data)).infolist())
            if size > len(data):  # PyTorch does not compress; a small file could fill the memory
                raise RunError(f"{path} is not a file of plain tensors: it unpacks to {size:,} bytes, more than it has")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch's about a damaged pickle
            loaded: Any = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except RunError:
        raise
    except Exception as error:  # whatever a foreign file makes the reader raise; PyTorch advises to run its code
        raise RunError(f"{path} is not a file of plain tensors: it is damaged, or holds something else") from error
    if not _is_state_dict(loaded):
        raise RunError(f"{path} is not a state dict: expected names and tensors")
    if problem := state_dict_problem(loaded, config):
        raise RunError(f"{path} does not fit the configuration: {problem}")
    weights = {name: loaded[name].detach()[None] for name in weight_shapes(config)}  # (1, ...)
    return Stack(config, flatten(config, weights))


def _is_state_dict(loaded: Any) -> bool:
    """Whether this is a mapping from names to tensors."""
    if not isinstance(loaded, Mapping):
        return False
    return all(isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in loaded.items())


def state_dict_problem(loaded: Mapping[str, Tensor], config: Config) -> str | None:
    """Why these tensors are not the weights of a model with these settings; None where they are.

    Their names are those of TransformerLens 2 and 3. Masks, and zeros where our model has no weight, are accepted.
    """
    expected = {name: f"torch.{config.numerics.dtype} {shape}" for name, shape in weight_shapes(config).items()}
    missing = expected.keys() - loaded.keys()
    if missing:
        return f"{min(missing)} is missing"
    for name, tensor in loaded.items():
        if not _is_plain(tensor):
            return f"{name} is not a plain tensor"
        stored = f"{tensor.dtype} {tuple(tensor.shape)}"
        if name not in expected:
            if tensor.count_nonzero() and not MASK.fullmatch(name):
                return f"{name} is not zero, and the model has no such weight"
        elif stored != expected[name]:
            return f"{name} is {stored}, expected {expected[name]}"
        elif not tensor.isfinite().all():
            return f"{name} has entries that are not finite"
    return None


def _is_plain(tensor: Tensor) -> bool:
    """Whether a tensor is dense, on the CPU, of a type in PLAIN, and no larger than the memory that it refers to."""
    return (
        type(tensor) in (Tensor, Parameter)
        and not tensor.is_nested
        and tensor.layout == torch.strided
        and tensor.device.type == "cpu"
        and tensor.dtype in PLAIN
        and tensor.numel() * tensor.element_size() <= tensor.untyped_storage().nbytes()
    )


def to_transformer_lens(model: Transformer) -> Any:
    """A model of the installed TransformerLens with our weights, as copies.

    It is a HookedTransformer of TransformerLens 2 or 3, or a TransformerBridge of 4.
    """
    weights = {name: weight.detach() for name, weight in model.state_dict().items()}
    device_and_dtype: dict[str, Any] = {"device": str(model.device), "dtype": model.embed.W_E.dtype}
    if _lens_version() < 4:
        config = lens_config(model.config, "HookedTransformerConfig", init_weights=False, **device_and_dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of TransformerLens 3, about version 4
            network = import_module(LENS).HookedTransformer(config)
    else:
        native: Any = import_module(f"{LENS}.model_bridge.sources.native")
        convert = import_module(f"{LENS}.utilities.tl_checkpoint_conversion").convert_tl_checkpoint
        # With a seed, the caller's random numbers are unchanged; the weights that it draws are replaced below.
        network = native.boot(lens_config(model.config, seed=0), **device_and_dtype)
        weights = convert(weights, network.cfg)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()  # what our model does not have, such as biases, stays zero
    network.load_state_dict(network.state_dict() | weights)
    return network.eval()


def lens_installed() -> bool:
    """Whether TransformerLens, which is optional, is installed."""
    return find_spec(LENS) is not None


def _lens_version() -> int:
    """The first number of the version of TransformerLens; a UsageError if that is missing or cannot be used here."""
    if not lens_installed():
        raise UsageError("TransformerLens is not installed: pip install 'assignadd[lens]'")
    number = version("transformer-lens")
    major = int(number.partition(".")[0])
    if not 2 <= major <= 4:
        raise UsageError(f"TransformerLens {number} is installed, expected 2, 3 or 4: pip install 'assignadd[lens]'")
    try:
        import_module(LENS)
    except Exception as error:  # whatever another version of a package that it needs makes it raise
        why = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise UsageError(f"TransformerLens {number} is installed and cannot be imported: {why}") from error
    return major


def lens_config(config: Config, kind: str = "TransformerBridgeConfig", **more: Any) -> Any:
    """The settings of a model in TransformerLens's class `kind`; a ConfigError for what its models cannot have."""
    model, task = config.model, config.task
    widths = {width for width in model.d_mlp if width is not None}  # of the layers that have an MLP
    if len(widths) > 1:
        raise ConfigError("model.d_mlp", model.d_mlp, "one width: models of TransformerLens have no other")
    if model.activation == "abs":
        raise ConfigError("model.activation", "abs", "relu or gelu: models of TransformerLens have no other")
    if not model.direct_path:
        raise ConfigError("model.direct_path", False, "true: models of TransformerLens add every MLP's output")
    return getattr(import_module(LENS), kind)(
        d_model=model.d_model, n_layers=model.n_layers, n_heads=model.n_heads, d_head=model.d_head,
        d_mlp=max(widths, default=None), attn_only=not widths, act_fn=model.activation, n_ctx=task.length,
        d_vocab=Vocabulary(task).size, d_vocab_out=task.modulus, normalization_type=NORMS[model.norm], eps=NORM_EPS,
        **more,
    )  # fmt: skip


def from_transformer_lens(state_dict: Mapping[str, Tensor], config: Config) -> Transformer:
    """The model of a state dict of TransformerLens: of a bridge (4), or by the names of 2 and 3 (`blocks.0.attn.W_Q`).

    Shapes, names and zeros where the model has no weight are checked; TransformerLens need not be installed.
    """
    if not _is_state_dict(state_dict):
        raise RunError("this is not a state dict: expected names and tensors")
    weights = {}
    for name, tensor in state_dict.items():
        try:
            name_in_2x, weight = _as_in_2x(name, tensor.detach(), config)
        except (RuntimeError, IndexError) as error:  # of a tensor with fewer axes, or with other sizes
            shape = tuple(tensor.shape)
            raise RunError(f"the state dict does not fit the configuration: {name} has shape {shape}") from error
        weights[name_in_2x] = weight
    if len(weights) < len(state_dict):
        raise RunError("the state dict has a weight twice, by its name in TransformerLens 2 and 3 and by that in 4")
    if problem := state_dict_problem(weights, config):
        raise RunError(f"the state dict does not fit the configuration: {problem}")
    return Transformer(config, {name: weights[name] for name in weight_shapes(config)})


def _as_in_2x(name: str, tensor: Tensor, config: Config) -> tuple[str, Tensor]:
    """A weight of TransformerLens 4 with the name and the shape that it has in 2 and 3; any other is left unchanged."""
    heads = (config.model.n_heads, config.model.d_head)
    match name.split("."):
        case ["embed", "weight"]:
            return "embed.W_E", tensor
        case ["pos_embed", "weight"]:
            return "pos_embed.W_pos", tensor
        case ["unembed", "weight"]:  # (numbers, d) to (d, numbers)
            return "unembed.W_U", tensor.mT
        case ["unembed", "bias"]:
            return "unembed.b_U", tensor
        case ["blocks", i, "attn", ("q" | "k" | "v") as letter, "weight"]:  # (H dh, d) to (H, d, dh)
            return f"blocks.{i}.attn.W_{letter.upper()}", tensor.unflatten(0, heads).mT
        case ["blocks", i, "attn", ("q" | "k" | "v") as letter, "bias"]:  # (H dh) to (H, dh)
            return f"blocks.{i}.attn.b_{letter.upper()}", tensor.unflatten(0, heads)
        case ["blocks", i, "attn", "o", "weight"]:  # (d, H dh) to (H, dh, d)
            return f"blocks.{i}.attn.W_O", tensor.mT.unflatten(0, heads)
        case ["blocks", i, "attn", "o", "bias"]:
            return f"blocks.{i}.attn.b_O", tensor
        case ["blocks", i, "mlp", ("in" | "out") as side, "weight"]:  # (outputs, inputs) to (inputs, outputs)
            return f"blocks.{i}.mlp.W_{side}", tensor.mT
        case ["blocks", i, "mlp", ("in" | "out") as side, "bias"]:
            return f"blocks.{i}.mlp.b_{side}", tensor
        case [*block, norm, ("weight" | "bias") as kind] if norm.startswith("ln"):  # ln2.weight is ln2.w
            return ".".join([*block, norm, kind[0]]), tensor
    return name, tensor
