"""Interventions in words, as `assignadd intervene --explain` prints them."""

from __future__ import annotations

from assignadd.interventions.specification import Cut, Intervention, Pattern, Replace, Swap
from assignadd.task.positions import Place

# Hooks, those of a layer without `blocks.LAYER.`; layers count from 1 in words.
HOOK_WORDS = {
    "hook_embed": "the token embeddings",
    "hook_pos_embed": "the position embeddings",
    "attn.hook_pattern": "the attention pattern of layer {}",
    "hook_attn_out": "what attention writes in layer {}",
    "hook_resid_pre": "the residual stream before layer {}",
    "hook_resid_mid": "the residual stream before the MLP of layer {}",
    "mlp.hook_pre": "the neurons of layer {} before the activation function",
    "mlp.hook_post": "the neurons of layer {} after the activation function",
    "hook_mlp_out": "what the MLP of layer {} writes",
    "hook_resid_post": "the residual stream after layer {}",
}
ROLE_WORDS = {
    "plus": "the operator",
    "first": "the first operand slot",
    "second": "the second operand slot",
    "equals": "=",
    "first_value": "the value of the first operand",
    "second_value": "the value of the second operand",
    "first_variable": "the assignment of the first operand's variable",
    "second_variable": "the assignment of the second operand's variable",
    "assigned": "every assigned number",
    "variables": "every assigned variable",
    "distractors": "every assigned number that the sum does not use",
    "pads": "every PAD",
}
# Components, those of a layer without its number.
COMPONENT_WORDS = {
    "embed": "token and position embeddings",
    "unembed": "unembedding",
    "qk": "query and key weights of layer {}",
    "ov": "value and output weights of layer {}",
    "mlp": "weights of the MLP of layer {}",
}
REPLACED_BY = {
    "zero": "zero",
    "mean": "the mean over a reference set of prompts",
    "resample": "the value on another prompt of a reference set",
}


def explain(intervention: Intervention) -> str:
    """A sentence that says what an intervention does."""
    if isinstance(intervention, Replace):
        is_patch = intervention.action == "patch"
        value = f"what it is on the prompt {intervention.source!r}" if is_patch else REPLACED_BY[intervention.action]
        return f"Replaces {_replaced(intervention)} by {value}."
    if isinstance(intervention, Cut):
        query, key = _place(intervention.query), _place(intervention.key)
        return f"In layer {intervention.layer}, {query} no longer attends to {key}."
    if isinstance(intervention, Pattern):
        query, weights = _place(intervention.query), _weights(intervention)
        return f"In layer {intervention.layer}, {query} gets the attention weights: {weights}."
    return f"Takes the {_component(intervention)} from {_origin(intervention)}; all else is the network's own."


def _weights(pattern: Pattern) -> str:
    """The words for the weights of a row of attention."""
    if not pattern.weights:
        return "nothing on any token"
    weights = []
    for key, weight in pattern.weights.items():
        place = int(key) if key.isdecimal() else key  # keys of a JSON object are strings, a position's too
        weights.append(f"{weight:g} on {_place(place)}")
    return f"{', '.join(weights)}, and nothing on other tokens"


def _component(swap: Swap) -> str:
    """The words for a component, such as `mlp2`."""
    kind = swap.component.rstrip("0123456789")
    layer = swap.component.removeprefix(kind)
    return COMPONENT_WORDS[kind].format(layer)


def _origin(swap: Swap) -> str:
    """The words for the network whose weights are taken."""
    parts = []
    if swap.run is not None:
        parts.append(f"run {swap.run}")
    if swap.seed is not None:
        parts.append(f"seed {swap.seed}")
    if swap.step is not None:
        parts.append(f"step {swap.step:,}")
    return ", ".join(parts)


def _replaced(replace: Replace) -> str:
    """The words for the activation that is replaced."""
    if replace.hook in HOOK_WORDS:
        text = HOOK_WORDS[replace.hook]
    else:
        _, block, hook_of_layer = replace.hook.split(".", 2)  # such as `blocks.0.mlp.hook_pre`
        text = HOOK_WORDS[hook_of_layer].format(int(block) + 1)
    if replace.frequencies is not None:
        noun = "frequency" if len(replace.frequencies) == 1 else "frequencies"
        is_at_embeddings = replace.hook == "hook_embed"
        parts = "the Fourier components of" if is_at_embeddings else "the neurons that respond most to"
        text = f"{parts} {noun} {', '.join(map(str, replace.frequencies))} in {text}"
    if replace.neurons is not None:
        noun = "neuron" if len(replace.neurons) == 1 else "neurons"
        text = f"{noun} {', '.join(map(str, replace.neurons))} among {text}"
    if replace.positions is not None:
        text += f", at {', '.join(map(_place, replace.positions))}"
    return text


def _place(place: Place) -> str:
    """The words for a role or a position."""
    return ROLE_WORDS[place] if isinstance(place, str) else f"position {place}"
