"""Interventions on a forward pass as frozen records, their strict conversion from and to JSON, and their words.

A specification is a list of interventions, or an object with such a list, the version of this format (`protocol`) and
the sha256 of the checkpoint that it was made for. Weights are swapped first. The other interventions act in one forward
pass; several at the same hook act in the order of the list. An unknown key or a wrong value raises an error that names
it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assignadd.config import ConfigError
from assignadd.runs.config_json import MOST_BYTES, parse
from assignadd.runs.files import read_input
from assignadd.task.positions import ROLES, Place

PROTOCOL = 1
# Hooks of any layer, counted from 0 as in the field, in words that count from 1; those of its neurons and heads.
IN_LAYER = {
    "attn.hook_pattern": "the attention pattern of layer {}",
    "attn.hook_z": "what each head of layer {} collects",
    "hook_attn_out": "what attention writes in layer {}",
    "hook_resid_pre": "the residual stream before layer {}",
    "hook_resid_mid": "the residual stream before the MLP of layer {}",
    "mlp.hook_pre": "the neurons of layer {} before the activation function",
    "mlp.hook_post": "the neurons of layer {} after the activation function",
    "hook_mlp_out": "what the MLP of layer {} writes",
    "hook_resid_post": "the residual stream after layer {}",
}
OF_NEURONS, OF_HEADS = ("mlp.hook_pre", "mlp.hook_post"), ("attn.hook_pattern", "attn.hook_z")
COMPONENTS = ("embed", "qk1", "ov1", "qk2", "ov2", "mlp2", "unembed")
"""The components of the paper's network; others have `qk`, `ov` and `mlp` of each of their layers."""


def component_weights(component: str) -> tuple[str, ...]:
    """The prefixes of the names of a component's weights; `embed` has tokens and positions. Empty for no component."""
    if component in ("embed", "unembed"):
        return ("embed.", "pos_embed.") if component == "embed" else ("unembed.",)
    match = re.fullmatch(r"(qk|ov|mlp)([1-9][0-9]*)", component)
    if match is None:
        return ()
    kind, block = match[1], f"blocks.{int(match[2]) - 1}."
    if kind == "mlp":
        return (f"{block}mlp.",)
    return tuple(f"{block}attn.{weight}_{x}" for x in {"qk": "QK", "ov": "VO"}[kind] for weight in "Wb")


ACTIONS = ("zero", "mean", "resample", "patch", "cut", "pattern", "swap")


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
    head: int | None = None
    """For attention patterns (hook_pattern) and outputs of heads (hook_z): one head, counted from 0; None for all."""


@dataclass(frozen=True)
class Cut:
    """Removes an edge of attention by setting its score to minus infinity. Layers are counted from 1."""

    layer: int
    query: Place
    key: Place
    head: int | None = None
    action: str = "cut"


@dataclass(frozen=True)
class Pattern:
    """Sets a row of an attention pattern: each token with a named role gets the role's weight, all others zero."""

    layer: int
    query: Place
    weights: Mapping[str, float]
    head: int | None = None
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


@dataclass(frozen=True)
class Specification:
    """Interventions, and the sha256 of the checkpoint that they were made for, if it is known."""

    interventions: tuple[Intervention, ...]
    checkpoint: str | None = None


def read_specification(text: str | bytes) -> Specification:
    """The specification in a JSON text, or in the JSON file at this path."""
    data = text.encode() if isinstance(text, str) else text
    if not data.lstrip().startswith((b"[", b"{")):
        try:
            data = read_input(Path(os.fsdecode(data)), MOST_BYTES)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise ConfigError("specification", os.fsdecode(data), f"a JSON list or a file of one ({why})") from error
    values = parse(data, "the specification")
    if not isinstance(values, dict):
        return Specification(specification(values))
    for key, value in values.items():
        if key not in ("protocol", "checkpoint", "interventions"):
            raise ConfigError(key, value, "a field among protocol, checkpoint, interventions")
    if values.get("protocol") != PROTOCOL or isinstance(values["protocol"], bool):
        raise ConfigError("protocol", values.get("protocol"), f"{PROTOCOL}, the version that this assignadd reads")
    sha256 = values.get("checkpoint")
    if sha256 is not None and not (isinstance(sha256, str) and re.fullmatch("[0-9a-f]{64}", sha256)):
        raise ConfigError("checkpoint", sha256, "the sha256 of a checkpoint, 64 hexadecimal digits, or null")
    return Specification(specification(values.get("interventions")), sha256)


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
    if not isinstance(values, dict) or not CHECKS["action"][0](values.get("action")):
        shown = values.get("action") if isinstance(values, dict) else values
        raise ConfigError(f"{name}.action", shown, "one of " + ", ".join(ACTIONS))
    kind = KINDS.get(values["action"], Replace)
    fields = {f.name: f for f in dataclasses.fields(kind)}
    for key, value in values.items():
        if key not in fields:
            raise ConfigError(f"{name}.{key}", value, f"a field of {values['action']}: " + ", ".join(fields))
    for key, field in fields.items():
        if field.default is dataclasses.MISSING and key not in values:
            raise ConfigError(f"{name}.{key}", None, f"{values['action']} to have this field")
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    for key, value in values.items():
        accepts, words = CHECKS[key]
        optional = fields[key].default is None
        if not (accepts(value) or (value is None and optional)):
            shown = list(value) if isinstance(value, tuple) else value
            raise ConfigError(f"{name}.{key}", shown, words + (", or null" if optional else ""))
    intervention = kind(**values)
    _check_together(name, intervention)
    return intervention


def _check_together(name: str, x: Intervention) -> None:
    """Raises an error if two fields of an intervention contradict each other."""
    if isinstance(x, Swap) and (x.step, x.seed, x.run) == (None, None, None):
        raise ConfigError(f"{name}.step", None, "a step, a seed or a run to take the weights from")
    if isinstance(x, Cut) and isinstance(x.query, int) and isinstance(x.key, int) and x.key > x.query:
        raise ConfigError(f"{name}.key", x.key, f"a position up to the query's, {x.query}: attention is causal")
    if not isinstance(x, Replace):
        return
    if (x.source is None) == (x.action == "patch"):
        raise ConfigError(f"{name}.source", x.source, "another prompt for a patch, and nothing for other actions")
    of_neurons = x.hook.endswith(OF_NEURONS)
    if x.neurons is not None and not of_neurons:
        raise ConfigError(f"{name}.neurons", list(x.neurons), "null but at " + " and ".join(OF_NEURONS))
    if x.frequencies is not None and not of_neurons and x.hook != "hook_embed":
        allowed = "hook_embed, " + " and ".join(OF_NEURONS)
        raise ConfigError(f"{name}.frequencies", list(x.frequencies), f"null but at {allowed}")
    if x.head is not None and not x.hook.endswith(OF_HEADS):
        raise ConfigError(f"{name}.head", x.head, "null but at " + " and ".join(OF_HEADS))


def _whole(least: int) -> Callable[[Any], bool]:
    """Accepts whole numbers from `least` on."""
    return lambda x: isinstance(x, int) and not isinstance(x, bool) and x >= least


def _is_hook(x: Any) -> bool:
    block, _, name = x.partition(".")[2].partition(".") if isinstance(x, str) else ("", "", "")
    return x in ("hook_embed", "hook_pos_embed") or (
        isinstance(x, str) and x.startswith("blocks.") and _is_numeral(block) and name in IN_LAYER
    )


def _is_place(x: Any) -> bool:
    return x in ROLES if isinstance(x, str) else _whole(0)(x)


def _all(accepts: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Accepts non-empty tuples of accepted values."""
    return lambda xs: isinstance(xs, tuple) and len(xs) > 0 and all(map(accepts, xs))


def _are_weights(x: Any) -> bool:
    numbers = isinstance(x, dict) and all(
        isinstance(w, int | float) and not isinstance(w, bool) and 0 <= w <= 1 for w in x.values()
    )
    return numbers and all(key in ROLES or _is_numeral(key) for key in x)


def _is_numeral(text: str) -> bool:
    """Whether a text is a number as we write it: "3", but not "03", and no digits of other scripts."""
    return re.fullmatch("0|[1-9][0-9]{0,8}", text) is not None


# For each field, which values it accepts and the words for them in error messages.
_PLACE = "a position, or a role among " + ", ".join(ROLES)
CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "action": (lambda x: isinstance(x, str) and x in ACTIONS, "one of " + ", ".join(ACTIONS)),
    "hook": (
        _is_hook,
        "hook_embed, hook_pos_embed, or blocks.LAYER. (counted from 0) and one of " + ", ".join(IN_LAYER),
    ),
    "positions": (_all(_is_place), f"a list, each {_PLACE}"),
    "neurons": (_all(_whole(0)), "a list of neurons, counted from 0"),
    "frequencies": (_all(_whole(1)), "a list of frequencies, counted from 1"),
    "source": (lambda x: isinstance(x, str), "a prompt such as 'c=1, b=17, b+19=?'"),
    "head": (_whole(0), "a head, counted from 0"),
    "layer": (_whole(1), "a layer, counted from 1"),
    "query": (_is_place, _PLACE),
    "key": (_is_place, _PLACE),
    "weights": (_are_weights, f"an object with a weight from 0 to 1 for each of some places, each {_PLACE}"),
    "component": (
        lambda x: isinstance(x, str) and bool(component_weights(x)),
        "embed, unembed, or qk, ov or mlp with the number of a layer, such as " + ", ".join(COMPONENTS[1:-1]),
    ),
    "step": (_whole(0), "a step"),
    "seed": (_whole(0), "a seed"),
    "run": (lambda x: isinstance(x, str), "a run's folder or name"),
}


# Interventions in words.
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


def explain(x: Intervention) -> str:
    """A sentence that says what an intervention does."""
    if isinstance(x, Replace):
        by = f"what it is on the prompt {x.source!r}" if x.action == "patch" else REPLACED_BY[x.action]
        return f"Replaces {_replaced(x)} by {by}."
    if isinstance(x, Cut):
        return f"In layer {x.layer}{_head(x.head)}, {_place(x.query)} no longer attends to {_place(x.key)}."
    if isinstance(x, Pattern):
        weights = [f"{weight:g} on {_place(int(k) if k.isdecimal() else k)}" for k, weight in x.weights.items()]
        listed = f"{', '.join(weights)}, and nothing on other tokens" if weights else "nothing on any token"
        return f"In layer {x.layer}{_head(x.head)}, {_place(x.query)} gets the attention weights: {listed}."
    parts = {"run": x.run, "seed": x.seed, "step": None if x.step is None else f"{x.step:,}"}
    origin = ", ".join(f"{name} {value}" for name, value in parts.items() if value is not None)
    return f"Takes the {_component(x.component)} from {origin}; all else is the network's own."


def _component(name: str) -> str:
    kind = name.rstrip("0123456789")
    return COMPONENT_WORDS.get(name) or OF_LAYER_WORDS[kind].format(name.removeprefix(kind))


def _hook(name: str) -> str:
    """The words for a hook; layers count from 0 in its name and from 1 in words."""
    if name in HOOK_WORDS:
        return HOOK_WORDS[name]
    _, layer, inside = name.split(".", 2)
    return IN_LAYER[inside].format(int(layer) + 1)


def _replaced(replace: Replace) -> str:
    text = _hook(replace.hook) + _head(replace.head)
    if replace.frequencies is not None:
        many = f"frequenc{'y' if len(replace.frequencies) == 1 else 'ies'} {', '.join(map(str, replace.frequencies))}"
        at_embeddings = replace.hook == "hook_embed"
        parts = "the Fourier components of" if at_embeddings else "the neurons that respond most to"
        text = f"{parts} {many} in {text}"
    if replace.neurons is not None:
        text = f"neuron{'s' * (len(replace.neurons) > 1)} {', '.join(map(str, replace.neurons))} among {text}"
    if replace.positions is not None:
        text += f", at {', '.join(map(_place, replace.positions))}"
    return text


def _head(head: int | None) -> str:
    return "" if head is None else f", head {head}"


def _place(place: Place) -> str:
    return ROLE_WORDS[place] if isinstance(place, str) else f"position {place}"
