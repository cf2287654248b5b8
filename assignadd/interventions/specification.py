"""Interventions on a forward pass as frozen records: read strictly from JSON, written to JSON, and put in words.

A specification is a list of interventions. Weights are swapped first. The other interventions act in one forward pass;
several at the same hook act in the order of the list. An unknown key or a wrong value raises an error that names it.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assignadd.config import ConfigError
from assignadd.runs.config_json import parse
from assignadd.runs.files import MOST_SETTINGS, read_input
from assignadd.task.positions import ROLES, Place

ACTIONS = ("zero", "mean", "resample", "patch", "cut", "pattern", "swap")
COMPONENTS = ("embed", "qk1", "ov1", "qk2", "ov2", "mlp2", "unembed")
"""The components of the paper's network; others have `qk`, `ov` and `mlp` of each of their layers."""
# Hooks in words, those of a layer without `blocks.LAYER.`; layers count from 1 in words.
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
HOOKS_OF_LAYERS = tuple(HOOK_WORDS)[2:]  # the first two are of the embeddings
OF_NEURONS = ("mlp.hook_pre", "mlp.hook_post")
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


@dataclass(frozen=True)
class Replace:
    """Replaces an activation by zero, by its mean over a reference set, or by its value on another sequence."""

    action: str
    hook: str
    positions: tuple[Place, ...] | None = None
    """Roles or positions; None for all."""
    neurons: tuple[int, ...] | None = None
    frequencies: tuple[int, ...] | None = None
    """At the MLP the neurons with these best frequencies, at hook_embed these Fourier components of the numbers."""
    source: str | None = None
    """The other prompt of a patch."""


@dataclass(frozen=True)
class Cut:
    """Removes an edge of attention by setting its score to minus infinity. Layers are counted from 1."""

    layer: int
    query: Place
    key: Place
    action: str = "cut"


@dataclass(frozen=True)
class Pattern:
    """Sets a row of an attention pattern: each token with a named role gets the role's weight, all others zero."""

    layer: int
    query: Place
    weights: Mapping[str, float]
    action: str = "pattern"


@dataclass(frozen=True)
class Swap:
    """Takes a component's weights from another checkpoint, seed or run; a field that is None is the model's own."""

    component: str
    step: int | None = None
    seed: int | None = None
    run: str | None = None
    action: str = "swap"


Intervention = Replace | Cut | Pattern | Swap
KINDS: dict[str, type] = {"cut": Cut, "pattern": Pattern, "swap": Swap}
Check = Callable[[Any], bool]


def read_specification(text: str) -> tuple[Intervention, ...]:
    """The interventions in a JSON text, or in the JSON file at this path."""
    if text.lstrip().startswith(("[", "{")):
        return specification(parse(text.encode(errors="surrogateescape"), "the specification"))
    try:
        data = read_input(Path(text), MOST_SETTINGS)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error  # of an OSError without its path
        raise ConfigError("specification", text, f"a JSON list or a file of one ({reason})") from error
    return specification(parse(data, "the specification"))


def specification(values: Any) -> tuple[Intervention, ...]:
    """The interventions in a parsed JSON list."""
    if not isinstance(values, list):
        raise ConfigError("interventions", values, "a list of interventions")
    return tuple(_intervention(f"interventions[{i}]", value) for i, value in enumerate(values))


def to_json(interventions: Sequence[Intervention]) -> str:
    """The interventions as a JSON list that `read_specification` accepts, without fields that are None."""
    objects = []
    for intervention in interventions:
        values = {"action": intervention.action} | dataclasses.asdict(intervention)
        objects.append({key: value for key, value in values.items() if value is not None})
    return json.dumps(objects)


def _intervention(name: str, values: Any) -> Intervention:
    """One intervention from its JSON object, which error messages call `name`."""
    action: Any = values.get("action") if isinstance(values, dict) else values
    if not isinstance(values, dict) or not _is_action(action):
        raise ConfigError(f"{name}.action", action, "one of " + ", ".join(ACTIONS))
    kind = KINDS.get(action, Replace)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    for key, value in values.items():
        if key not in fields:
            raise ConfigError(f"{name}.{key}", value, f"a field of {action}: " + ", ".join(fields))
    for key, field in fields.items():
        if field.default is dataclasses.MISSING and key not in values:
            raise ConfigError(f"{name}.{key}", None, f"{action} to have this field")
    for key, value in values.items():
        accepts, words = CHECKS[key]
        is_optional = fields[key].default is None
        if not (accepts(value) or (value is None and is_optional)):
            raise ConfigError(f"{name}.{key}", value, f"{words}, or null" if is_optional else words)
    intervention = kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in values.items()})
    _check_together(name, intervention)
    return intervention


def _check_together(name: str, intervention: Intervention) -> None:
    """Raises an error, which calls the intervention `name`, if two of its fields contradict each other."""
    if isinstance(intervention, Swap):
        if intervention.step is None and intervention.seed is None and intervention.run is None:
            raise ConfigError(f"{name}.step", None, "a step, a seed or a run to take the weights from")
    elif isinstance(intervention, Cut):
        query, key = intervention.query, intervention.key
        if isinstance(query, int) and isinstance(key, int) and key > query:
            raise ConfigError(f"{name}.key", key, f"a position up to the query's, {query}: attention is causal")
    elif isinstance(intervention, Replace):
        _check_replace(name, intervention)


def _check_replace(name: str, replace: Replace) -> None:
    """Raises an error if the source does not fit the action, or neurons or frequencies do not fit the hook."""
    if (replace.source is not None) != (replace.action == "patch"):
        raise ConfigError(f"{name}.source", replace.source, "another prompt for a patch, and nothing for other actions")
    is_at_neurons = replace.hook.endswith(OF_NEURONS)
    if replace.neurons is not None and not is_at_neurons:
        raise ConfigError(f"{name}.neurons", list(replace.neurons), "null but at " + " and ".join(OF_NEURONS))
    if replace.frequencies is not None and not is_at_neurons and replace.hook != "hook_embed":
        allowed = "hook_embed, " + " and ".join(OF_NEURONS)
        raise ConfigError(f"{name}.frequencies", list(replace.frequencies), f"null but at {allowed}")


# A number as we write it: "3", but not "03", and no digits of other scripts.
NUMERAL = "0|[1-9][0-9]{0,8}"
COMPONENT = r"embed|unembed|(qk|ov|mlp)([1-9][0-9]*)"


def _text(pattern: str) -> Check:
    """A check that accepts texts of this pattern."""
    return lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None


def _whole(least: int) -> Check:
    """A check that accepts whole numbers from `least` on."""
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= least


def _all(accepts: Check) -> Check:
    """A check that accepts non-empty lists of values that `accepts` accepts."""
    return lambda values: isinstance(values, list) and len(values) > 0 and all(map(accepts, values))


_is_action = _text("|".join(ACTIONS))
_is_role = _text("|".join(ROLES))


def _is_place(value: Any) -> bool:
    """Whether this is a role or a position."""
    return _is_role(value) or _whole(0)(value)


def _are_weights(value: Any) -> bool:
    """Whether this is an object with a weight from 0 to 1 for each of some roles or positions."""
    if not isinstance(value, dict):
        return False
    are_places = all(_is_role(place) or re.fullmatch(NUMERAL, place) for place in value)
    are_numbers = all(isinstance(weight, int | float) and not isinstance(weight, bool) for weight in value.values())
    return are_places and are_numbers and all(0 <= weight <= 1 for weight in value.values())


# For each field, which values it accepts and the words for them in error messages.
_ANY_TEXT = "(?s).*"
_HOOK = rf"hook_embed|hook_pos_embed|blocks\.({NUMERAL})\.({'|'.join(map(re.escape, HOOKS_OF_LAYERS))})"
_PLACE = "a position, or a role among " + ", ".join(ROLES)
CHECKS: dict[str, tuple[Check, str]] = {
    "action": (_is_action, "one of " + ", ".join(ACTIONS)),
    "hook": (
        _text(_HOOK),
        "hook_embed, hook_pos_embed, or blocks.LAYER. (counted from 0) and one of " + ", ".join(HOOKS_OF_LAYERS),
    ),
    "positions": (_all(_is_place), f"a list, each {_PLACE}"),
    "neurons": (_all(_whole(0)), "a list of neurons, counted from 0"),
    "frequencies": (_all(_whole(1)), "a list of frequencies, counted from 1"),
    "source": (_text(_ANY_TEXT), "a prompt such as 'c=1, b=17, b+19=?'"),
    "layer": (_whole(1), "a layer, counted from 1"),
    "query": (_is_place, _PLACE),
    "key": (_is_place, _PLACE),
    "weights": (_are_weights, f"an object with a weight from 0 to 1 for each of some places, each {_PLACE}"),
    "component": (
        _text(COMPONENT),
        "embed, unembed, or qk, ov or mlp with the number of a layer, such as " + ", ".join(COMPONENTS[1:-1]),
    ),
    "step": (_whole(0), "a step"),
    "seed": (_whole(0), "a seed"),
    "run": (_text(_ANY_TEXT), "a run's folder or name"),
}


def explain(intervention: Intervention) -> str:
    """A sentence that says what an intervention does, as `assignadd intervene --explain` prints it."""
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
    kind = intervention.component.rstrip("0123456789")
    component = COMPONENT_WORDS[kind].format(intervention.component.removeprefix(kind))
    origin = (
        None if intervention.run is None else f"run {intervention.run}",
        None if intervention.seed is None else f"seed {intervention.seed}",
        None if intervention.step is None else f"step {intervention.step:,}",
    )
    return f"Takes the {component} from {', '.join(filter(None, origin))}; all else is the network's own."


def _weights(pattern: Pattern) -> str:
    """The words for the weights of a row of attention."""
    if not pattern.weights:
        return "nothing on any token"
    weights = [f"{weight:g} on {_place(key)}" for key, weight in pattern.weights.items()]
    return f"{', '.join(weights)}, and nothing on other tokens"


def _replaced(replace: Replace) -> str:
    """The words for the activation that is replaced."""
    if replace.hook in HOOK_WORDS:
        text = HOOK_WORDS[replace.hook]
    else:
        _, block, hook_of_layer = replace.hook.split(".", 2)  # such as `blocks.0.mlp.hook_pre`
        text = HOOK_WORDS[hook_of_layer].format(int(block) + 1)
    if replace.frequencies is not None:
        is_at_embeddings = replace.hook == "hook_embed"
        parts = "the Fourier components of" if is_at_embeddings else "the neurons that respond most to"
        text = f"{parts} {_numbered('frequency', 'frequencies', replace.frequencies)} in {text}"
    if replace.neurons is not None:
        text = f"{_numbered('neuron', 'neurons', replace.neurons)} among {text}"
    if replace.positions is not None:
        text += f", at {', '.join(map(_place, replace.positions))}"
    return text


def _numbered(singular: str, plural: str, numbers: Sequence[int]) -> str:
    """A noun and its numbers, such as `neurons 4, 7` or `neuron 4`."""
    return f"{singular if len(numbers) == 1 else plural} {', '.join(map(str, numbers))}"


def _place(place: Place) -> str:
    """The words for a role or a position; as a key of a JSON object, a position is a string."""
    return ROLE_WORDS.get(str(place), f"position {place}")
