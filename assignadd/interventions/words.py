"""Interventions in words, as `assignadd intervene --explain` prints them."""

from __future__ import annotations

from assignadd.interventions.specification import Cut, Intervention, Pattern, Replace
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


def explain(change: Intervention) -> str:
    """A sentence that says what an intervention does."""
    if isinstance(change, Replace):
        by = f"what it is on the prompt {change.source!r}" if change.action == "patch" else REPLACED_BY[change.action]
        return f"Replaces {_replaced(change)} by {by}."
    if isinstance(change, Cut):
        return f"In layer {change.layer}, {_place(change.query)} no longer attends to {_place(change.key)}."
    if isinstance(change, Pattern):
        weights = [
            f"{weight:g} on {_place(int(key) if key.isdecimal() else key)}" for key, weight in change.weights.items()
        ]
        listed = f"{', '.join(weights)}, and nothing on other tokens" if weights else "nothing on any token"
        return f"In layer {change.layer}, {_place(change.query)} gets the attention weights: {listed}."
    parts = {"run": change.run, "seed": change.seed, "step": None if change.step is None else f"{change.step:,}"}
    origin = ", ".join(f"{name} {value}" for name, value in parts.items() if value is not None)
    kind = change.component.rstrip("0123456789")
    component = COMPONENT_WORDS[kind].format(change.component.removeprefix(kind))
    return f"Takes the {component} from {origin}; all else is the network's own."


def _replaced(replace: Replace) -> str:
    """The words for the activation that is replaced."""
    if replace.hook in HOOK_WORDS:
        text = HOOK_WORDS[replace.hook]
    else:
        _, layer, inside = replace.hook.split(".", 2)
        text = HOOK_WORDS[inside].format(int(layer) + 1)
    if replace.frequencies is not None:
        noun = "frequency" if len(replace.frequencies) == 1 else "frequencies"
        at_embeddings = replace.hook == "hook_embed"
        parts = "the Fourier components of" if at_embeddings else "the neurons that respond most to"
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
