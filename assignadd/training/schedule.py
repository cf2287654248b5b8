"""Changes during training: of learning rates, frozen parts, literals withheld at first, scores added for a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.config import Config, Optim
from assignadd.model.kernels.tensor import Moments
from assignadd.model.stack import Shape, views, weight_shapes
from assignadd.task.own import UserSampler, sampler_of
from assignadd.task.sampler import Batch, Sampler
from assignadd.task.vocabulary import Vocabulary

# How the names of a part's weights begin, after the name of its layer.
WEIGHTS = {
    "QK": ("attn.W_Q", "attn.W_K", "attn.b_Q", "attn.b_K"),
    "OV": ("attn.W_V", "attn.W_O", "attn.b_V", "attn.b_O"),
    "MLP": ("mlp.",),
}


class Rates:
    """The learning rate of each model at any step. The step is a tensor, so that a CUDA graph can be replayed.

    It is `lr`, or `later_lr` from step `later_from` on, and rises to that from 0 over the first `warmup` steps.
    """

    def __init__(self, optims: Sequence[Optim], device: torch.device):
        """Stores the settings of each model as columns (M, 1)."""
        column = partial(torch.tensor, dtype=torch.float64, device=device)  # (M, 1)
        self.change = any(optim.warmup or optim.later_lr is not None for optim in optims)
        """Whether any rate ever changes."""
        self._first = column([[o.lr] for o in optims])
        self._later = column([[o.lr if o.later_lr is None else o.later_lr] for o in optims])
        self._later_from = column([[o.later_from] for o in optims])
        self._warmup = column([[max(1, o.warmup)] for o in optims])
        self._weight_decay = column([[o.weight_decay] for o in optims])

    def __call__(self, step: Int[Tensor, "..."]) -> Float[Tensor, "M steps"]:
        """The rates of the update that comes after `step` updates, (M, 1); or of several, after steps (steps,)."""
        base = torch.where(step < self._later_from, self._first, self._later)
        return base * ((step + 1) / self._warmup).clamp(max=1)

    def write(self, step: Int[Tensor, ""], moments: Moments) -> None:
        """Writes the rates of the next update to where AdamW reads them."""
        rates = self(step)
        moments.exact_rate.copy_(rates)
        moments.rate.copy_(rates)
        moments.decay.copy_(rates * self._weight_decay)


class Frozen:
    """The weights of each model that do not change, from which step and until which."""

    def __init__(self, configs: Sequence[Config], device: torch.device):
        """Makes a mask of the weights of each model's frozen part, (M, P)."""
        masks = torch.stack([_frozen_weights(config) for config in configs])
        self._masks: Bool[Tensor, "M P"] = masks.to(device)
        self._from = torch.tensor([[c.optim.frozen_from] for c in configs], device=device)
        self._until = torch.tensor([[c.optim.frozen_until] for c in configs], device=device)

    def restore(self, count: Int[Tensor, ""], flat: Float[Tensor, "M P"], before: Float[Tensor, "M P"]) -> None:
        """Undoes update number `count` in `flat`, where weights are frozen then; `before` are all weights before it.

        Updates count from 1 and steps from 0: update number `count` is that of step `count - 1`.
        """
        is_frozen = self._masks & (self._from < count) & (count <= self._until)  # (M, P)
        torch.where(is_frozen, before, flat, out=flat)


class SlotScores:
    """Adds a number to scores of layer 1 in some steps: those of `=` for operand slots that hold variables.

    A constant has no gradient, so the backward pass, which reads the attention alone, needs no change. `step` holds the
    number of the current step.
    """

    def __init__(self, configs: Sequence[Config], step: Int[Tensor, ""]):
        """Stores each model's score and steps, (M,), and where the operands stand in a sequence."""
        task, optims = configs[0].task, [config.optim for config in configs]
        vocabulary = Vocabulary(task)
        per_model = partial(torch.tensor, device=step.device)  # (M,)
        self._step = step
        self._scores = per_model([o.slot_score for o in optims], dtype=torch.float64)
        self._from = per_model([o.slot_score_from for o in optims])
        self._until = per_model([o.slot_score_until for o in optims])
        self._slots = slice(task.prefix + 1, task.length - 1)  # the operands: after `+`, before `=`
        self._first_variable = vocabulary.first_variable
        self._after_variables = vocabulary.first_variable + task.n_vars
        self._n_tokens, self._n_rows = vocabulary.size, vocabulary.size + task.length

    def add(
        self, tokens: Int[Tensor, "*M B T"], attention: Float[Tensor, "*M B T T"], usage: Float[Tensor, "*M B rows"]
    ) -> None:
        """Changes layer 1's `attention`, and the `usage` of each table row by `=`, to those with the added scores.

        `TableForward.forward` calls it between its two layers. Row by row, `usage` has what `=` attends to the tokens,
        then to the positions.
        """
        is_active = (self._from <= self._step) & (self._step < self._until)  # (M,)
        scores = torch.where(is_active, self._scores, 0).to(attention.dtype)
        scores = scores.view(-1, *[1] * (tokens.dim() - 1))  # (M, 1, 1), or (1, 1) for one model
        operands = tokens[..., self._slots].long()  # (..., B, operands)
        is_variable = (operands >= self._first_variable) & (operands < self._after_variables)
        # Views of what `=` attends to: by position (..., B, T), and by row (..., B, C).
        of_equals, of_rows = attention[..., -1, :], usage[..., : self._n_rows]
        # The softmax again: a weight w becomes w e^score = w + w expm1(score), and all, whose sum was 1, are divided by
        # the new sum. An attended position counts in the row of its token and in that of its position.
        added = of_equals[..., self._slots] * torch.expm1(scores * is_variable)  # (..., B, operands)
        total = 1 + added.sum(-1, keepdim=True)
        of_equals[..., self._slots] += added
        of_positions = of_rows[..., self._n_tokens :]
        of_positions[..., self._slots] += added
        # One operand at a time: if both are one token, the order of the two sums would not be fixed.
        for token, amount in zip(operands.split(1, -1), added.split(1, -1), strict=True):
            of_rows.scatter_add_(-1, token, amount)
        of_equals /= total
        of_rows /= total


class LiteralsLater:
    """A sampler that draws as `at_first` before each model's step `literals_from`, and as `always` from then on.

    `at_first` draws no sequences of literals alone for a model whose step is not 0. Both draw at every step, so that a
    CUDA graph can be replayed.
    """

    def __init__(self, always: Sampler, at_first: Sampler, literals_from: Sequence[int]):
        self.task, self.seeds = always.task, always.seeds
        self._always, self._at_first = always, at_first
        self._from = torch.tensor(literals_from, device=always.seeds.device)[:, None]  # (M, 1)

    def sample(self, step: Tensor | int, rows: int) -> Batch:
        """`rows` sequences for each model and step, with the axes of `Sampler.sample`."""
        late, early = self._always.sample(step, rows), self._at_first.sample(step, rows)
        is_early = torch.as_tensor(step, device=self._from.device) < self._from  # (..., M, 1)
        tokens = torch.where(is_early.unsqueeze(-1), early.tokens, late.tokens)
        labels = torch.where(is_early, early.labels, late.labels)
        return Batch(tokens, labels)


Drawing = Sampler | UserSampler | LiteralsLater


def frozen_of(configs: Sequence[Config], device: torch.device) -> Frozen | None:
    """The models' frozen weights; None where no model ever has any."""
    if all(_frozen_part(config.optim) == "none" for config in configs):
        return None
    return Frozen(configs, device)


def slot_scores_of(configs: Sequence[Config], step: Int[Tensor, ""]) -> SlotScores | None:
    """The numbers that are added to scores of layer 1 at the step whose number `step` holds; None if there are none."""
    if not any(config.optim.slot_score and config.optim.slot_score_until for config in configs):
        return None
    return SlotScores(configs, step)


def training_sampler(configs: Sequence[Config], seen: Tensor, device: torch.device) -> Drawing:
    """The sampler of the training sequences of these models."""
    tasks = [config.task for config in configs]
    seeds = [config.seed.data or 0 for config in configs]
    always = sampler_of(tasks, seen, seeds, device=device)
    literals_from = [config.optim.literals_from for config in configs]
    if not any(literals_from) or isinstance(always, UserSampler):
        return always
    has_literals = [first_step == 0 for first_step in literals_from]  # at first
    at_first = Sampler(tasks, seen, seeds, device=device, literals=has_literals)
    return LiteralsLater(always, at_first, literals_from)


def shapes_of_part(config: Config, part: str) -> dict[str, Shape]:
    """Name -> shape of the weights of a part of one model: QK1 or another, `all` of them, or `none`."""
    shapes = weight_shapes(config)
    if part == "all":
        return shapes
    prefixes: tuple[str, ...] = ()
    if part == "W_E":
        prefixes = ("embed.W_E",)
    elif part != "none":
        kind, layer = part[:-1], int(part[-1])
        prefixes = tuple(f"blocks.{layer - 1}.{name}" for name in WEIGHTS[kind])
    return {name: shape for name, shape in shapes.items() if name.startswith(prefixes)}


def _frozen_part(optim: Optim) -> str:
    """The part that is frozen at some step, such as QK1, or `none`."""
    return optim.frozen if optim.frozen_until else "none"


def _frozen_weights(config: Config) -> Bool[Tensor, " P"]:
    """Which of a model's weights, in their order in memory, belong to its frozen part."""
    frozen_names = shapes_of_part(config, _frozen_part(config.optim)).keys()
    n_weights = sum(math.prod(shape) for shape in weight_shapes(config).values())
    mask = torch.zeros(n_weights, dtype=torch.bool)
    for name, part_of_mask in views(config, mask).items():
        part_of_mask.fill_(name in frozen_names)
    return mask
