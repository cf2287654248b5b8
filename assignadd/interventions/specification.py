"""Interventions on a forward pass as frozen records, and their strict conversion from and to JSON.

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

# Hooks of any layer, and those of its neurons.
HOOKS_OF_LAYERS = (
    "attn.hook_pattern", "hook_attn_out", "hook_resid_pre", "hook_resid_mid", "mlp.hook_pre", "mlp.hook_post",
    "hook_mlp_out", "hook_resid_post",
)  # fmt: skip
OF_NEURONS = ("mlp.hook_pre", "mlp.hook_post")
COMPONENTS = ("embed", "qk1", "ov1", "qk2", "ov2", "mlp2", "unembed")
"""The components of the paper's network; others have `qk`, `ov` and `mlp` of each of their layers."""


def component_weights(component: str) -> tuple[str, ...]:
    """The prefixes of the names of a component's weights and biases; empty if there is no such component.

    `embed` has the embeddings of tokens and positions; components of a layer end in its number, from 1.
    """
    if component == "embed":
        return ("embed.", "pos_embed.")
    if component == "unembed":
        return ("unembed.",)
    match = re.fullmatch(r"(qk|ov|mlp)([1-9][0-9]*)", component)
    if match is None:
        return ()
    kind = match[1]
    block = f"blocks.{int(match[2]) - 1}"  # blocks count from 0
    if kind == "mlp":
        return (f"{block}.mlp.",)
    if kind == "qk":
        return (f"{block}.attn.W_Q", f"{block}.attn.b_Q", f"{block}.attn.W_K", f"{block}.attn.b_K")
    return (f"{block}.attn.W_V", f"{block}.attn.b_V", f"{block}.attn.W_O", f"{block}.attn.b_O")


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
        is_required = field.default is dataclasses.MISSING
        if is_required and key not in values:
            raise ConfigError(f"{name}.{key}", None, f"{action} to have this field")
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    for key, value in values.items():
        _check_value(f"{name}.{key}", key, value, optional=fields[key].default is None)
    intervention = kind(**values)
    _check_together(name, intervention)
    return intervention


def _check_value(name: str, key: str, value: Any, optional: bool) -> None:
    """Raises an error, which calls the field `name`, unless field `key` of an intervention accepts this value."""
    accepts, words = CHECKS[key]
    if accepts(value) or (value is None and optional):
        return
    shown = list(value) if isinstance(value, tuple) else value  # as in the JSON text
    raise ConfigError(name, shown, f"{words}, or null" if optional else words)


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
    has_source = replace.source is not None
    needs_source = replace.action == "patch"
    if has_source != needs_source:
        raise ConfigError(f"{name}.source", replace.source, "another prompt for a patch, and nothing for other actions")
    is_at_neurons = replace.hook.endswith(OF_NEURONS)
    if replace.neurons is not None and not is_at_neurons:
        raise ConfigError(f"{name}.neurons", list(replace.neurons), "null but at " + " and ".join(OF_NEURONS))
    if replace.frequencies is not None and not is_at_neurons and replace.hook != "hook_embed":
        allowed = "hook_embed, " + " and ".join(OF_NEURONS)
        raise ConfigError(f"{name}.frequencies", list(replace.frequencies), f"null but at {allowed}")


# A number as we write it: "3", but not "03", and no digits of other scripts.
NUMERAL = "0|[1-9][0-9]{0,8}"


def _whole(least: int) -> Callable[[Any], bool]:
    """A check that accepts whole numbers from `least` on."""
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_action(value: Any) -> bool:
    """Whether this is the name of an action."""
    return isinstance(value, str) and value in ACTIONS


def _is_hook(value: Any) -> bool:
    """Whether this is the name of a hook."""
    of_layers = "|".join(map(re.escape, HOOKS_OF_LAYERS))
    names = rf"hook_embed|hook_pos_embed|blocks\.({NUMERAL})\.({of_layers})"
    return isinstance(value, str) and re.fullmatch(names, value) is not None


def _is_text(value: Any) -> bool:
    """Whether this is a text, of any content."""
    return isinstance(value, str)


def _is_component(value: Any) -> bool:
    """Whether this is the name of a component."""
    return isinstance(value, str) and len(component_weights(value)) > 0


def _is_place(value: Any) -> bool:
    """Whether this is a role, or a position counted from 0."""
    if isinstance(value, str):
        return value in ROLES
    return _whole(0)(value)


def _all(accepts: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """A check that accepts non-empty tuples of values that `accepts` accepts."""
    return lambda values: isinstance(values, tuple) and len(values) > 0 and all(map(accepts, values))


def _are_weights(value: Any) -> bool:
    """Whether this is an object with a weight from 0 to 1 for each of some roles or positions."""
    if not isinstance(value, dict):
        return False
    for place, weight in value.items():
        is_place = place in ROLES or re.fullmatch(NUMERAL, place) is not None
        is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not is_place or not is_number or not 0 <= weight <= 1:
            return False
    return True


# For each field, which values it accepts and the words for them in error messages.
_PLACE = "a position, or a role among " + ", ".join(ROLES)
CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "action": (_is_action, "one of " + ", ".join(ACTIONS)),
    "hook": (
        _is_hook,
        "hook_embed, hook_pos_embed, or blocks.LAYER. (counted from 0) and one of " + ", ".join(HOOKS_OF_LAYERS),
    ),
    "positions": (_all(_is_place), f"a list, each {_PLACE}"),
    "neurons": (_all(_whole(0)), "a list of neurons, counted from 0"),
    "frequencies": (_all(_whole(1)), "a list of frequencies, counted from 1"),
    "source": (_is_text, "a prompt such as 'c=1, b=17, b+19=?'"),
    "layer": (_whole(1), "a layer, counted from 1"),
    "query": (_is_place, _PLACE),
    "key": (_is_place, _PLACE),
    "weights": (_are_weights, f"an object with a weight from 0 to 1 for each of some places, each {_PLACE}"),
    "component": (
        _is_component,
        "embed, unembed, or qk, ov or mlp with the number of a layer, such as " + ", ".join(COMPONENTS[1:-1]),
    ),
    "step": (_whole(0), "a step"),
    "seed": (_whole(0), "a seed"),
    "run": (_is_text, "a run's folder or name"),
}
