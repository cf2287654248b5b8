"""Answer logits of models under a list of interventions (`specification`).

Activations are edited at the hooks of the reference transformer, so every architecture is covered. They have its
layout: (B, T, d) in the residual stream, (B, heads, queries, keys) in attention. With several heads all are edited. A
swap takes the weights of one component from another checkpoint, seed or run. The paper makes no interventions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from assignadd.config import Config, ConfigError
from assignadd.interventions.specification import Cut, Intervention, Pattern, Replace, Swap
from assignadd.measures.addition import at_frequencies, circuit_waves
from assignadd.model.forward import CHUNK
from assignadd.model.stack import Stack
from assignadd.model.transformer import Transformer
from assignadd.runs.folder import Run, open_run
from assignadd.task.positions import SINGLE_ROLES, Positions
from assignadd.task.randomness import REFERENCE_STEP, Stream, permutation
from assignadd.task.sampler import Sampler
from assignadd.task.text import parse
from assignadd.training.schedule import shapes_of_part

Donors = Callable[[Swap, int], Stack]
"""Returns the model (a stack with M = 1) that a swap takes weights from, given the index of the edited model."""
Edit = tuple[str, Callable[[Tensor], Tensor]]
"""A hook, and a function that returns the activation there with something replaced."""


def reference_sequences(config: Config, seen: Bool[Tensor, "..."] | None = None, n: int = 512) -> Int[Tensor, "{n} T"]:
    """Training sequences of seed 0, for means and resampling; they combine all tuples of numbers or those in `seen`."""
    if seen is None:
        seen = torch.ones(config.task.tuples, dtype=torch.bool)
    sampler = Sampler([config.task], seen[None], seeds=[0])  # for one model
    return sampler.sample(REFERENCE_STEP, n).tokens[0]


def shuffled(n: int) -> Int[Tensor, " {n}"]:
    """A fixed random permutation of n rows: the order in which `resample` takes reference sequences."""
    return permutation(n, Stream.ORDER, 0)


@torch.no_grad()
def apply(
    stack: Stack,
    tokens: Int[Tensor, "#M B T"],
    interventions: Sequence[Intervention],
    reference: Int[Tensor, "R T"] | None = None,
    donors: Donors | None = None,
) -> Float[Tensor, "M B N"]:
    """Answer logits under the interventions, on each model's sequences or on shared ones (M = 1).

    `reference` are the sequences over which the action `mean` averages an activation, and from which `resample` takes
    it: training sequences by default. `donors` returns the model that a swap takes weights from.
    """
    tokens = tokens.expand(len(stack), *tokens.shape[1:])
    if reference is None:
        reference = reference_sequences(stack.config)
    reference = reference.to(tokens.device)
    swaps = [intervention for intervention in interventions if isinstance(intervention, Swap)]
    in_the_pass = [intervention for intervention in interventions if not isinstance(intervention, Swap)]
    logits = []
    for index, model in enumerate(stack):
        for swap in swaps:
            if donors is None:
                raise ConfigError("interventions", swap.component, "no swap here: there is no run to take weights from")
            model = swapped(model, donors(swap, index), swap.component)
        edited = EditedModel(model, reference)
        chunks = tokens[index].contiguous().split(CHUNK)
        of_chunks = [edited.logits(chunk, in_the_pass, first_row=i * CHUNK) for i, chunk in enumerate(chunks)]
        logits.append(torch.cat(of_chunks))
    return torch.stack(logits)


def donors_of(run: Run, step: int) -> Donors:
    """Donors from this run at `step`, unless the swap names others; of another run its newest checkpoint by default."""

    def donor(swap: Swap, index: int) -> Stack:
        """The model that a swap takes weights from, for the edited model with this index."""
        if swap.run is None:
            donor_index = index if swap.seed is None else run.index_of(swap.seed)
            donor_step = step if swap.step is None else swap.step
            _, model = run.model_at(donor_step, donor_index)
            return model
        donor_run = open_run(swap.run)
        _, model = donor_run.model_at(swap.step, donor_run.index_of(swap.seed))
        return model

    return donor


def swapped(model: Stack, donor: Stack, component: str) -> Stack:
    """A copy of the model with the weights of one component taken from another model, the donor."""
    result = model.clone()
    part = component if component in ("embed", "unembed") else component.upper()  # settings write QK1, components qk1
    names = shapes_of_part(model.config, part)
    if not names:
        raise ConfigError("component", component, "a component that this model has")
    for name in names:
        if name not in donor.weights or donor[name].shape != result[name].shape:
            raise ConfigError("component", component, f"weights of the same shape: {name} differs")
        result[name].copy_(donor[name])
    return result


def matches(intervention: Intervention, positions: Positions) -> bool:
    """Whether there is anything in these sequences that an intervention acts on."""
    if isinstance(intervention, Swap):  # acts on the weights
        return True
    if isinstance(intervention, Cut):
        return bool(_edges(intervention, positions).tril().any())  # no query attends to a later key
    if isinstance(intervention, Pattern):
        return bool(positions.mask(intervention.query).any())
    return bool(positions.any_of(intervention.positions).any())


def _edges(cut: Cut, positions: Positions) -> Bool[Tensor, "B queries keys"]:
    """The edges of attention that a cut removes."""
    return positions.mask(cut.query)[:, :, None] & positions.mask(cut.key)[:, None]


class EditedModel:
    """A model (a stack with M = 1) whose activations are edited; means and resampled ones are of `reference`."""

    def __init__(self, model: Stack, reference: Int[Tensor, "R T"]):
        self.model = model
        self.task = model.config.task
        self.transformer = Transformer.from_stack(model, 0)
        self.reference = reference

    def logits(
        self, tokens: Int[Tensor, "B T"], interventions: Sequence[Cut | Pattern | Replace], first_row: int = 0
    ) -> Float[Tensor, "B N"]:
        """The answer logits to these sequences, which begin at row `first_row` of a larger batch."""
        positions = Positions(self.task, tokens)
        edits: list[Edit] = []
        for intervention in interventions:
            if isinstance(intervention, Cut):
                edits += self._cut(intervention, positions)
            elif isinstance(intervention, Pattern):
                edits.append(self._set_row(intervention, positions))
            else:
                edits.append(self._replacement(intervention, positions, first_row))
        # A hook function is called with the activation and the hook point. `edit=edit` stores this edit, not the last.
        hooks = [(hook, lambda activation, point, edit=edit: edit(activation)) for hook, edit in edits]
        return self.transformer.run_with_hooks(tokens, fwd_hooks=hooks)[:, -1]  # at `=`

    def _cut(self, cut: Cut, positions: Positions) -> list[Edit]:
        """Two edits: one removes edges from the scores, the other gives a query without any key no attention."""
        removed = _edges(cut, positions)[:, None]  # (B, 1, queries, keys)
        attention = self._attention(cut.layer)
        return [
            (f"{attention}.hook_attn_scores", lambda scores: scores.masked_fill(removed, -math.inf)),
            # A query without any key has the softmax of no scores, which is NaN.
            (f"{attention}.hook_pattern", lambda pattern: pattern.nan_to_num(0.0)),
        ]

    def _set_row(self, pattern: Pattern, positions: Positions) -> Edit:
        """The edit that sets a query's attention. Weights of the same key add up; keys after the query get none."""
        weight_of_key = torch.zeros(positions.tokens.shape, device=positions.tokens.device)  # (B, keys)
        for key, weight in pattern.weights.items():
            weight_of_key += weight * positions.mask(key).float()
        n_keys = weight_of_key.shape[1]
        rows = weight_of_key[:, None, None].expand(-1, 1, n_keys, -1).tril()  # (B, 1, queries, keys)
        hook = f"{self._attention(pattern.layer)}.hook_pattern"
        is_query = _in_layout(hook, positions.mask(pattern.query))
        return hook, lambda activation: torch.where(is_query, rows.to(activation), activation)

    def _attention(self, layer: int) -> str:
        """The beginning of the names of hooks in the attention of a layer, counted from 1."""
        n_layers = self.model.config.model.n_layers
        if layer > n_layers:
            raise ConfigError("layer", layer, f"a layer from 1 to {n_layers}")
        return f"blocks.{layer - 1}.attn"

    def _replacement(self, replace: Replace, positions: Positions, first_row: int) -> Edit:
        """The edit that replaces an activation at the named positions, neurons or frequencies.

        The sequences begin at row `first_row` of a larger batch, for which reference sequences are taken in turn.
        """
        hook_points = self.transformer.hook_points
        if replace.hook not in hook_points:
            raise ConfigError("hook", replace.hook, "one that this model has: " + ", ".join(hook_points))
        is_replaced = positions.any_of(replace.positions)  # (B, T)
        value = self.model.flat.new_zeros(())  # as for the action `zero`
        if replace.action == "patch":
            value, is_replaced = self._patched(replace, positions, is_replaced)
        elif replace.action == "mean":
            value = self._recorded(replace, self.reference).mean(0, keepdim=True)
        elif replace.action == "resample":
            order = shuffled(len(self.reference))
            rows = (first_row + torch.arange(len(positions.tokens))) % len(order)
            value = self._recorded(replace, self.reference)[order[rows]]
        mask = _in_layout(replace.hook, is_replaced)
        if _is_of_embeddings(replace):  # only the chosen Fourier components are exchanged
            components = self._recorded(replace, positions.tokens)
            return replace.hook, lambda activation: torch.where(mask, activation + value - components, activation)
        if replace.neurons is not None or replace.frequencies is not None:
            mask = mask & self._neurons(replace)
        return replace.hook, lambda activation: torch.where(mask, value, activation)

    def _patched(
        self, replace: Replace, positions: Positions, is_replaced: Bool[Tensor, "B T"]
    ) -> tuple[Tensor, Bool[Tensor, "B T"]]:
        """The activation on the source prompt, and the mask of replaced positions.

        The value at a role of a single token, such as `equals`, is the source's at its token with that role. A source
        without such a token replaces nothing there; it is an error if nothing else is to be replaced. At all other
        roles and positions the value is the source's at the same position.
        """
        tokens = torch.tensor([parse(replace.source or "", self.task)], device=positions.tokens.device)
        source = Positions(self.task, tokens)
        recorded = self._recorded(replace, tokens)
        places = replace.positions or ()
        single_roles = [str(place) for place in places if place in SINGLE_ROLES]
        absent = [role for role in single_roles if int(source.position(role)) < 0]
        if absent and len(absent) == len(places):
            raise ConfigError("source", replace.source, f"a prompt that has {' or '.join(absent)}")
        value = recorded
        for role in single_roles:
            has_role = positions.mask(role)
            if role in absent:
                is_replaced = is_replaced & ~has_role
            else:
                # The last axis but one is that of positions or, in attention, of queries.
                at_role = recorded.narrow(-2, int(source.position(role)), 1)
                value = torch.where(_in_layout(replace.hook, has_role), at_role, value)
        return value, is_replaced

    def _recorded(self, replace: Replace, tokens: Int[Tensor, "B T"]) -> Tensor:
        """The unedited model's activation at the hook, or the chosen Fourier components of its embeddings."""
        if not _is_of_embeddings(replace):
            _, activations = self.transformer.run_with_cache(tokens, names_filter=replace.hook)
            return activations[replace.hook]
        N = self.task.modulus
        components = torch.zeros_like(self.model.W_E[0])  # zero for tokens that are no numbers
        components[:N] = at_frequencies(self.model.W_E[:, :N], self._frequency_mask(replace.frequencies or ()))[0]
        return components[tokens]

    def _neurons(self, replace: Replace) -> Bool[Tensor, " h"]:
        """Which neurons are replaced: the chosen ones, and of these the ones with one of the chosen frequencies."""
        mlp, _, _ = replace.hook.rpartition(".")  # such as `blocks.1.mlp`
        h = self.model[f"{mlp}.W_in"].shape[-1]
        mask = torch.ones(h, dtype=torch.bool, device=self.model.flat.device)
        if replace.neurons is not None:
            mask &= self._mask_of("neurons", replace.neurons, range(h))
        if replace.frequencies is not None:
            best_frequency = circuit_waves(self.model).frequency[0]  # (h,), from 1
            mask &= self._frequency_mask(replace.frequencies)[best_frequency - 1]
            if not mask.any():
                raise ConfigError("frequencies", list(replace.frequencies), "frequencies that some chosen neuron has")
        return mask

    def _frequency_mask(self, frequencies: Sequence[int]) -> Bool[Tensor, " F"]:
        """A mask of these frequencies, where entry k - 1 is frequency k."""
        return self._mask_of("frequencies", frequencies, range(1, self.task.modulus // 2 + 1))

    def _mask_of(self, name: str, chosen: Sequence[int], possible: range) -> Bool[Tensor, " possible"]:
        """Which of the possible numbers are chosen; a ConfigError, which calls them `name`, if one is not possible."""
        if max(chosen) not in possible:  # `specification` refuses what is too small
            raise ConfigError(name, list(chosen), f"{name} from {possible[0]} to {possible[-1]}")
        return torch.isin(torch.tensor(possible), torch.tensor(chosen)).to(self.model.flat.device)


def _is_of_embeddings(replace: Replace) -> bool:
    """Whether Fourier components of the embeddings are replaced."""
    return replace.hook == "hook_embed" and replace.frequencies is not None


def _in_layout(hook: str, mask: Bool[Tensor, "B T"]) -> Bool[Tensor, "..."]:
    """A mask of positions in a shape that broadcasts with the activation at a hook: over queries, for attention."""
    return mask[:, None, :, None] if hook.endswith("hook_pattern") else mask[:, :, None]
