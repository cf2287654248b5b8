"""Interventions in words: what each of them does to the network before it answers."""

from __future__ import annotations

from assignadd.interventions.specification import IN_LAYER, Cut, Intervention, Pattern, Replace
from assignadd.task.positions import Place

HOOK_WORDS = {"hook_embed": "the token embeddings", "hook_pos_embed": "the position embeddings"}
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
COMPONENT_WORDS = {"embed": "token and position embeddings", "unembed": "unembedding"}
OF_LAYER_WORDS = {
    "qk": "query and key weights of layer {}",
    "ov": "value and output weights of layer {}",
    "mlp": "weights of the MLP of layer {}",
}
REPLACED_BY = {
    "zero": "zero",
    "mean": "the mean over a reference set of prompts",
    "resample": "the value on another prompt of a reference set",
}


def explain(one: Intervention) -> str:
    """A sentence that says what an intervention does."""
    if isinstance(one, Replace):
        return f"Replaces {_what(one)} by {_by(one)}."
    if isinstance(one, Cut):
        return f"In layer {one.layer}{_head(one.head)}, {_place(one.query)} no longer attends to {_place(one.key)}."
    if isinstance(one, Pattern):
        given = [f"{weight:g} on {_place(int(k) if k.isdecimal() else k)}" for k, weight in one.weights.items()]
        rest = f"{', '.join(given)}, and nothing on other tokens" if given else "nothing on any token"
        return f"In layer {one.layer}{_head(one.head)}, {_place(one.query)} gets the attention weights: {rest}."
    parts = {"run": one.run, "seed": one.seed, "step": None if one.step is None else f"{one.step:,}"}
    origin = ", ".join(f"{name} {value}" for name, value in parts.items() if value is not None)
    return f"Takes the {_component(one.component)} from {origin}; all else is the network's own."


def _component(name: str) -> str:
    kind = name.rstrip("0123456789")
    return COMPONENT_WORDS.get(name) or OF_LAYER_WORDS[kind].format(name.removeprefix(kind))


def _hook(name: str) -> str:
    """The words for a hook; layers count from 0 in its name and from 1 in words."""
    if name in HOOK_WORDS:
        return HOOK_WORDS[name]
    _, layer, inside = name.split(".", 2)
    return IN_LAYER[inside].format(int(layer) + 1)


def _what(one: Replace) -> str:
    text = _hook(one.hook) + _head(one.head)
    if one.frequencies is not None:
        many = f"frequenc{'y' if len(one.frequencies) == 1 else 'ies'} {', '.join(map(str, one.frequencies))}"
        parts = "the Fourier components of" if one.hook == "hook_embed" else "the neurons that respond most to"
        text = f"{parts} {many} in {text}"
    if one.neurons is not None:
        text = f"neuron{'s' * (len(one.neurons) > 1)} {', '.join(map(str, one.neurons))} among {text}"
    if one.positions is not None:
        text += f", at {', '.join(map(_place, one.positions))}"
    return text


def _by(one: Replace) -> str:
    return f"what it is on the prompt {one.source!r}" if one.action == "patch" else REPLACED_BY[one.action]


def _head(head: int | None) -> str:
    return "" if head is None else f", head {head}"


def _place(place: Place) -> str:
    return ROLE_WORDS[place] if isinstance(place, str) else f"position {place}"
