"""Answer logits and accuracy of models under a list of interventions (`specification`).

Activations are edited at the hooks of the reference transformer, so every architecture is covered. They have its
layout: (B, T, d) in the residual stream, (B, heads, queries, keys) in attention, (B, T, heads, d_head) for the outputs
of heads (`hook_z`). A swap takes the weights of one component from another checkpoint, seed or run. The paper makes no
interventions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.config import Config, ConfigError
from assignadd.interventions.specification import Cut, Intervention, Pattern, Replace, Swap, component_weights
from assignadd.measures.addition import at_frequencies, circuit_waves
from assignadd.model.forward import CHUNK
from assignadd.model.stack import Stack, single_models
from assignadd.model.transformer import Transformer
from assignadd.runs.folder import Run, open_run
from assignadd.task.positions import SINGLE_ROLES, Positions, answers
from assignadd.task.randomness import REFERENCE_STEP, Stream, permutation
from assignadd.task.sampler import Sampler
from assignadd.task.text import parse

Donors = Callable[[Swap, int], Stack]
"""Returns the model (a stack with M = 1) that a swap takes weights from, given the index of the edited model."""
Edit = Callable[[Tensor], Tensor]
"""Returns an activation with something replaced."""
REFERENCE_SEQUENCES = 512


def no_donors(swap: Swap, index: int) -> Stack:
    """Raises an error: there is no run whose weights could be swapped in."""
    raise ConfigError("interventions", swap.component, "no swap here: there is no run to take weights from")


def reference_sequences(
    config: Config, seen: Bool[Tensor, "..."] | None = None, n: int = REFERENCE_SEQUENCES
) -> Int[Tensor, "{n} T"]:
    """Training sequences of seed 0, over which `mean` averages and from which `resample` draws.

    They combine all tuples of numbers, or those in `seen`.
    """
    seen = torch.ones(config.task.tuples, dtype=torch.bool) if seen is None else seen
    return Sampler([config.task], seen[None], [0]).sample(REFERENCE_STEP, n).tokens[0]


def shuffled(n: int) -> Int[Tensor, " {n}"]:
    """A fixed random permutation of n rows: the order in which `resample` takes reference sequences."""
    return permutation(n, Stream.ORDER, 0)


@torch.no_grad()
def apply(
    stack: Stack,
    tokens: Int[Tensor, "#M B T"],
    interventions: Sequence[Intervention],
    reference: Int[Tensor, "R T"] | None = None,
    donors: Donors = no_donors,
) -> Float[Tensor, "M B N"]:
    """Answer logits of every model under the interventions, on its own sequences or on shared ones (M = 1)."""
    tokens = tokens.expand(len(stack), *tokens.shape[1:])
    reference = (reference_sequences(stack.config) if reference is None else reference).to(tokens.device)
    logits = []
    for i, model in enumerate(single_models(stack)):
        for swap in [x for x in interventions if isinstance(x, Swap)]:
            model = swapped(model, donors(swap, i), swap.component)
        edited = EditedModel(model, reference)
        starts = range(0, tokens.shape[1], CHUNK)
        parts = [edited.logits(tokens[i, start : start + CHUNK].contiguous(), interventions, start) for start in starts]
        logits.append(torch.cat(parts))
    return torch.stack(logits)


@dataclass(frozen=True)
class Effect:
    """Answer logits on the same sequences before and after an intervention."""

    before: Float[Tensor, "M B N"]
    after: Float[Tensor, "M B N"]
    labels: Int[Tensor, "M B"]

    @property
    def answers(self) -> tuple[Int[Tensor, "M B"], Int[Tensor, "M B"]]:
        """The answers before and after."""
        return self.before.argmax(-1), self.after.argmax(-1)

    @property
    def accuracies(self) -> tuple[Float[Tensor, " M"], Float[Tensor, " M"]]:
        """The accuracy of each model before and after."""
        before, after = self.answers
        return (before == self.labels).float().mean(1), (after == self.labels).float().mean(1)


def effect(
    stack: Stack,
    tokens: Int[Tensor, "#M B T"],
    interventions: Sequence[Intervention],
    reference: Int[Tensor, "R T"] | None = None,
    donors: Donors = no_donors,
) -> Effect:
    """The answer logits of every model without and with the interventions."""
    labels = answers(stack.config.task, tokens).expand(len(stack), -1)
    return Effect(apply(stack, tokens, (), reference), apply(stack, tokens, interventions, reference, donors), labels)


def donors_of(run: Run, step: int) -> Donors:
    """Donors from this run at `step`, unless the swap names another step, seed or run.

    From another run the default is the first model at its newest checkpoint.
    """

    def donor(swap: Swap, index: int) -> Stack:
        donor_run = run if swap.run is None else open_run(swap.run)
        if swap.run is not None or swap.seed is not None:
            index = donor_run.index_of(swap.seed)
        donor_step = step if swap.run is None and swap.step is None else swap.step
        return donor_run.model_at(donor_step, index)[1]

    return donor


def swapped(model: Stack, donor: Stack, component: str) -> Stack:
    """A copy of the model with one component's weights taken from another model."""
    result = model.clone()
    names = [name for name in result.weights if name.startswith(component_weights(component))]
    if not names:
        raise ConfigError("component", component, "a component that this model has")
    for name in names:
        if name not in donor.weights or donor[name].shape != result[name].shape:
            raise ConfigError("component", component, f"weights of the same shape: {name} differs")
        result[name].copy_(donor[name])
    return result


def matches(intervention: Intervention, positions: Positions) -> bool:
    """Whether there is anything in these sequences that an intervention acts on."""
    if isinstance(intervention, Cut):
        return bool(_edges(intervention, positions).tril().any())  # no query attends to a later key
    if isinstance(intervention, Pattern):
        return bool(positions.mask(intervention.query).any())
    return isinstance(intervention, Swap) or bool(positions.any_of(intervention.positions).any())


class EditedModel:
    """One model (a stack with M = 1) whose activations are edited while it runs.

    Means and resampled activations come from its pass over a reference set.
    """

    def __init__(self, model: Stack, reference: Int[Tensor, "R T"]):
        self.model, self.reference, self.task = model, reference, model.config.task
        self.transformer = Transformer.from_stack(model, 0)
        self._on_reference: dict[object, Tensor] = {}

    def logits(
        self, tokens: Int[Tensor, "B T"], interventions: Sequence[Intervention], first_row: int = 0
    ) -> Float[Tensor, "B N"]:
        """The answer logits to these sequences, which begin at row `first_row` of a larger batch."""
        return self._run(tokens, self._edits(Positions(self.task, tokens), interventions, first_row))

    def _run(self, tokens: Int[Tensor, "B T"], edits: Sequence[tuple[str, Edit]]) -> Float[Tensor, "B N"]:
        """The answer logits with each edit at its hook, in the order of the list."""
        for hook, _ in edits:
            if hook not in self.transformer.hook_points:
                raise ConfigError("hook", hook, "one that this model has: " + ", ".join(self.transformer.hook_points))
        with self.transformer.hooks([(hook, lambda x, point, edit=edit: edit(x)) for hook, edit in edits]):
            return self.transformer(tokens)[:, -1]

    def _edits(
        self, positions: Positions, interventions: Sequence[Intervention], first_row: int
    ) -> list[tuple[str, Edit]]:
        """The hook and the edit of every intervention but swaps; cuts come first, all of a layer's head at once."""
        cuts: dict[tuple[int, int | None], list[Cut]] = {}
        after_cuts: list[tuple[str, Edit]] = []
        for intervention in interventions:
            if isinstance(intervention, Cut | Pattern) and intervention.layer > self.model.config.model.n_layers:
                raise ConfigError("layer", intervention.layer, f"a layer from 1 to {self.model.config.model.n_layers}")
            if isinstance(intervention, Cut):
                cuts.setdefault((intervention.layer, intervention.head), []).append(intervention)
            elif isinstance(intervention, Pattern):
                hook = f"blocks.{intervention.layer - 1}.attn.hook_pattern"
                after_cuts.append((hook, self._on_head(intervention.head, _set_row(intervention, positions))))
            elif isinstance(intervention, Replace):
                edit = self._on_head(intervention.head, self._replacement(intervention, positions, first_row))
                after_cuts.append((intervention.hook, _by_heads(edit) if _is_head_output(intervention.hook) else edit))
        edits: list[tuple[str, Edit]] = []
        for (layer, head), together in cuts.items():
            for hook, edit in zip(("hook_attn_scores", "hook_pattern"), _cut(together, positions), strict=True):
                edits.append((f"blocks.{layer - 1}.attn.{hook}", self._on_head(head, edit)))
        return edits + after_cuts

    def _on_head(self, head: int | None, edit: Edit) -> Edit:
        """The edit restricted to one head of an activation (B, heads, queries, keys); unchanged if `head` is None."""
        n_heads = self.model.config.model.n_heads
        if head is None:
            return edit
        if head >= n_heads:
            raise ConfigError("head", head, f"a head from 0 to {n_heads - 1}")
        is_head = (torch.arange(n_heads, device=self.model.flat.device) == head).view(1, -1, 1, 1)
        return lambda activation: torch.where(is_head, edit(activation), activation)

    def _replacement(self, replace: Replace, positions: Positions, first_row: int) -> Edit:
        """The edit that replaces an activation at the named positions, neurons or frequencies."""
        value, where = self._value(replace, positions, first_row)
        if replace.hook == "hook_embed" and replace.frequencies is not None:
            replaced = self._components(replace.frequencies)[positions.tokens]
            return lambda activation: torch.where(where[:, :, None], activation + value - replaced, activation)
        neurons = self._neurons(replace)

        def edit(activation: Tensor) -> Tensor:
            mask = _rows(where, activation)
            return torch.where(mask if neurons is None else mask & neurons, value, activation)

        return edit

    def _value(self, replace: Replace, positions: Positions, first_row: int) -> tuple[Tensor, Bool[Tensor, "B T"]]:
        """What replaces an activation, and the mask of the positions where it does."""
        where = positions.any_of(replace.positions)
        if replace.action == "zero":
            return self.model.flat.new_zeros(()), where
        if replace.action == "patch":
            return self._patched(replace, positions, where)
        recorded = self._of_reference(replace)  # (R, ...)
        if replace.action == "mean":
            return recorded.mean(0, keepdim=True), where
        order = shuffled(len(recorded))
        return recorded[order[(first_row + torch.arange(len(positions.tokens))) % len(order)]], where

    def _patched(self, replace: Replace, positions: Positions, where: Tensor) -> tuple[Tensor, Tensor]:
        """The activation on the source prompt, and the mask of replaced positions.

        A role of a single token takes the source's activation at the token with that role, and is not replaced if the
        source has no such token, which is an error where nothing else would be. All other roles and positions take the
        activation at the same position.
        """
        tokens = torch.tensor([parse(replace.source or "", self.task)], device=positions.tokens.device)
        source, on_source = Positions(self.task, tokens), self._recorded(replace, tokens)
        value = on_source.expand(len(positions.tokens), *on_source.shape[1:])
        places = replace.positions or ()
        if places and all(p in SINGLE_ROLES and int(source.position(str(p))) < 0 for p in places):
            raise ConfigError("source", replace.source, f"a prompt that has {' or '.join(map(str, places))}")
        for role in [p for p in places if p in SINGLE_ROLES]:
            source_position = int(source.position(str(role)))
            has_role = positions.mask(role)
            if source_position < 0:
                where = where & ~has_role
            else:
                at_role = on_source[..., source_position : source_position + 1, :]
                value = torch.where(_rows(has_role, value), at_role, value)
        return value, where

    def _of_reference(self, replace: Replace) -> Tensor:
        """The activations on the reference set, stored after the first call."""
        key = (replace.hook, replace.frequencies if replace.hook == "hook_embed" else None)
        if key not in self._on_reference:
            self._on_reference[key] = self._recorded(replace, self.reference)
        return self._on_reference[key]

    def _recorded(self, replace: Replace, tokens: Int[Tensor, "B T"]) -> Tensor:
        """The unedited model's activation at the hook, or the chosen Fourier components of its embeddings."""
        if replace.hook == "hook_embed" and replace.frequencies is not None:
            return self._components(replace.frequencies)[tokens]
        recorded: list[Tensor] = []

        def record(activation: Tensor) -> Tensor:
            recorded.append(activation)
            return activation

        self._run(tokens, [(replace.hook, record)])
        return recorded[0].transpose(1, 2) if _is_head_output(replace.hook) else recorded[0]

    def _components(self, frequencies: tuple[int, ...]) -> Float[Tensor, "K d"]:
        """The part of each number's embedding at these frequencies; zero for the other tokens."""
        N, components = self.task.modulus, torch.zeros_like(self.model.W_E[0])
        components[:N] = at_frequencies(self.model.W_E[:, :N], self._frequency_mask(frequencies))[0]
        return components

    def _neurons(self, replace: Replace) -> Bool[Tensor, " h"] | None:
        """Which neurons are replaced; None for all of them, or for a hook that is not at the neurons."""
        if replace.neurons is None and replace.frequencies is None:
            return None
        mlp, device = replace.hook.rsplit(".", 1)[0], self.model.flat.device
        h = self.model[f"{mlp}.W_in"].shape[-1]
        chosen = torch.ones(h, dtype=torch.bool, device=device)
        if replace.neurons is not None:
            if max(replace.neurons) >= h:
                raise ConfigError("neurons", list(replace.neurons), f"neurons from 0 to {h - 1}")
            chosen &= torch.isin(torch.arange(h, device=device), torch.tensor(replace.neurons, device=device))
        if replace.frequencies is not None:
            chosen &= self._frequency_mask(replace.frequencies)[circuit_waves(self.model).frequency[0] - 1]
        if not chosen.any():
            frequencies = list(replace.frequencies or ())
            raise ConfigError("frequencies", frequencies, "frequencies that some chosen neuron has")
        return chosen

    def _frequency_mask(self, frequencies: tuple[int, ...]) -> Bool[Tensor, " F"]:
        """A mask of these frequencies, where entry k - 1 is frequency k."""
        most = self.task.modulus // 2
        if max(frequencies) > most:
            raise ConfigError("frequencies", list(frequencies), f"frequencies from 1 to {most}")
        mask = torch.zeros(most, dtype=torch.bool, device=self.model.flat.device)
        mask[[k - 1 for k in frequencies]] = True
        return mask


def _is_head_output(hook: str) -> bool:
    """Whether positions come before heads in the activation at this hook."""
    return hook.endswith("attn.hook_z")


def _by_heads(edit: Edit) -> Edit:
    """An edit of (B, heads, T, d_head) as one of (B, T, heads, d_head)."""
    return lambda activation: edit(activation.transpose(1, 2)).transpose(1, 2)


def _rows(mask: Bool[Tensor, "B T"], activation: Tensor) -> Bool[Tensor, "..."]:
    """A mask over positions (over queries, for attention) in a shape that broadcasts with this activation."""
    return mask[:, None, :, None] if activation.dim() == 4 else mask[:, :, None]


def _edges(cut: Cut, positions: Positions) -> Bool[Tensor, "B queries keys"]:
    """The edges of attention that a cut removes."""
    return positions.mask(cut.query)[:, :, None] & positions.mask(cut.key)[:, None]


def _cut(cuts: Sequence[Cut], positions: Positions) -> tuple[Edit, Edit]:
    """Two edits: one removes these edges from the scores, the other zeroes the pattern of queries without keys."""
    removed = torch.stack([_edges(cut, positions) for cut in cuts]).any(0)
    future = torch.ones_like(removed).triu(1)
    without_keys = (removed | future).all(-1)  # (B, T)
    return (
        lambda scores: scores.masked_fill(removed[:, None], -math.inf),
        lambda pattern: pattern.masked_fill(_rows(without_keys, pattern), 0.0),
    )


def _set_row(pattern: Pattern, positions: Positions) -> Edit:
    """The edit that sets a query's attention to these weights; weights of one position add up, later keys get zero."""
    query = positions.mask(pattern.query)
    row = torch.zeros(positions.tokens.shape, device=positions.tokens.device)
    for key, weight in pattern.weights.items():
        row += weight * positions.mask(key).float()
    rows = row[:, None, None].expand(-1, 1, row.shape[1], -1).tril()  # (B, 1, queries, keys)
    return lambda activation: torch.where(_rows(query, activation), rows.to(activation), activation)
