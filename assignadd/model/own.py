"""Networks of the user's own: any torch module with tokens in and logits out, of which a stack is trained.

NETWORK in the user's file is a function (or a class of modules) that takes the sizes of the task and returns a module.
The weights are a stack's, by the names that torch gives them; the module itself is never changed. So its forward pass
has to be the same in training and in evaluation, and a function of tokens and weights alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call, vmap

from assignadd.config import Config, NetworkFile, Task, UserError
from assignadd.task.own import RandomWords
from assignadd.task.vocabulary import Sizes, sizes_of
from assignadd.user_file import register, registered, user_object

NAME = "NETWORK"
"""The name that a file gives its network."""
SEQUENCES_TRIED = 8  # on which `register_network` tries a network
Factory = Callable[[Sizes], nn.Module]


def register_network(network: Factory | str | Path, task: Task) -> NetworkFile:
    """The description of a network of the user's, after it was tried on tokens of this task; a UserError if it fails.

    It is a factory, or a file that defines NETWORK, which is executed. From then on `registered` returns it.
    """
    factory, source = user_object(network, NAME)
    if isinstance(factory, nn.Module) or not callable(factory):
        raise UserError(f"{source.name}: expected a function or a class that takes the sizes of a task, not a module")
    sizes = sizes_of(task)
    module = _built(factory, sizes, 0, source.name)
    shapes = tuple((name, tuple(weight.shape)) for name, weight in module.named_parameters())
    if not shapes or any(not weight.dtype.is_floating_point for weight in module.parameters()):
        raise UserError(f"{source.name}: expected a module with weights, all of them floating point")
    _try(module, sizes, source.name)
    file = NetworkFile(source.name, source.sha256, shapes)
    register(file, factory, source)
    return file


def _built(factory: Factory, sizes: Sizes, seed: int, name: str) -> nn.Module:
    """The module that the user's `factory` makes, its weights drawn by torch's generator from this seed.

    Raises a UserError, which names the file as `name`, if the factory fails or makes something else.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            module = factory(sizes)
        except Exception as error:
            raise UserError(f"{name}: {NAME}(sizes) raised {type(error).__name__}: {error}") from error
    if not isinstance(module, nn.Module):
        raise UserError(f"{name}: {NAME}(sizes) returned {type(module).__name__}: expected a torch module")
    return module


@torch.no_grad()
def _try(module: nn.Module, sizes: Sizes, name: str) -> None:
    """Raises a UserError unless the module's forward pass returns logits and depends on tokens and weights alone.

    `name` is that of the user's file.
    """
    buffers = {key: buffer.clone() for key, buffer in module.named_buffers()}
    tokens = RandomWords(SEQUENCES_TRIED).below(sizes.n_tokens, sizes.length)
    try:
        in_training = module.train()(tokens)
        in_evaluation = module.eval()(tokens)
        again = module(tokens)
    except Exception as error:
        raise UserError(f"{name}: its forward pass raised {type(error).__name__}: {error}") from error
    shapes: list[tuple[int, ...]] = [(SEQUENCES_TRIED, sizes.length, sizes.n_answers)]
    if not sizes.everywhere:
        shapes.append((SEQUENCES_TRIED, sizes.n_answers))
    returned = tuple(again.shape) if isinstance(again, Tensor) else type(again).__name__
    if returned not in shapes:
        expected = " or ".join(map(str, shapes))
        raise UserError(f"{name}: logits {returned} for {SEQUENCES_TRIED} sequences: expected {expected}")
    for key, buffer in module.named_buffers():
        if not _same(buffer, buffers[key]):
            raise UserError(f"{name}: its forward pass changes the buffer {key}, and a run keeps weights alone")
    if not _same(in_training, in_evaluation) or not _same(in_evaluation, again):
        raise UserError(f"{name}: its forward pass differs between training and evaluation, or from call to call")


def _same(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors are equal up to rounding."""
    return a.shape == b.shape and torch.allclose(a.double(), b.double(), rtol=1e-4, atol=1e-5, equal_nan=True)


def _new_module(config: Config, seed: int = 0) -> nn.Module:
    """A new module of the user's, its weights drawn by torch's generator from this seed."""
    assert config.model.file is not None
    factory, source = registered(config.model.file)
    return _built(factory, sizes_of(config.task), seed, source.name)


@lru_cache(maxsize=16)
def _shape_only(config: Config, device: torch.device) -> nn.Module:
    """A module whose weights are never read: `functional_call` replaces them by those of each model of a stack."""
    return _new_module(config).to(device, getattr(torch, config.numerics.dtype)).eval()


def first_weights(config: Config, seed: int) -> Float[Tensor, " P"]:
    """The weights of the user's network in a row, drawn by torch's generator from this seed."""
    return torch.cat([weight.detach().flatten() for weight in _new_module(config, seed).parameters()])


def module_with(config: Config, weights: Mapping[str, Tensor]) -> nn.Module:
    """A new module of the user's with copies of these weights of one model."""
    module = _new_module(config).to(dtype=getattr(torch, config.numerics.dtype))
    module.load_state_dict(dict(weights), strict=False)  # not strict: a module's buffers are no weights of a run
    return module.eval()


def logits_of_weights(
    config: Config, weights: Mapping[str, Tensor], tokens: Int[Tensor, "M B T"]
) -> Float[Tensor, "M B *positions N"]:
    """Answer logits of the user's network for each model's weights, by name (M, ...), on that model's sequences.

    They are those at the last position, or at all positions if the task has answers there.
    """
    module, everywhere = _shape_only(config, tokens.device), sizes_of(config.task).everywhere

    def answer(model_weights: dict[str, Tensor], model_tokens: Tensor) -> Tensor:
        logits = functional_call(module, model_weights, (model_tokens,))
        # A network may return the logits of the last position alone, (B, N).
        return logits if everywhere or logits.dim() == 2 else logits[:, -1]

    if len(tokens) == 1:  # without vmap, which has no rule for some operations of torch
        return answer({name: weight[0] for name, weight in weights.items()}, tokens[0].long()).unsqueeze(0)
    return vmap(answer)(dict(weights), tokens.long())
