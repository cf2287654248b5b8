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
        why = getattr(error, "strerror", None) or error
        raise ConfigError("specification", text, f"a JSON list or a file of one ({why})") from error
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


# A number as we write it: "3", but not "03", and no digits of other scripts.
NUMERAL = "0|[1-9][0-9]{0,8}"


def _whole(least: int) -> Callable[[Any], bool]:
    """Accepts whole numbers from `least` on."""
    return lambda x: isinstance(x, int) and not isinstance(x, bool) and x >= least


def _is_hook(x: Any) -> bool:
    """Accepts the names of hooks."""
    of_layers = "|".join(map(re.escape, HOOKS_OF_LAYERS))
    names = rf"hook_embed|hook_pos_embed|blocks\.({NUMERAL})\.({of_layers})"
    return isinstance(x, str) and re.fullmatch(names, x) is not None


def _is_place(x: Any) -> bool:
    """Accepts roles, and positions counted from 0."""
    return x in ROLES if isinstance(x, str) else _whole(0)(x)


def _all(accepts: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Accepts non-empty tuples of accepted values."""
    return lambda xs: isinstance(xs, tuple) and len(xs) > 0 and all(map(accepts, xs))


def _are_weights(x: Any) -> bool:
    """Accepts objects with a weight from 0 to 1 for each of some roles or positions."""
    if not isinstance(x, dict) or not all(key in ROLES or re.fullmatch(NUMERAL, key) for key in x):
        return False
    return all(isinstance(w, int | float) and not isinstance(w, bool) and 0 <= w <= 1 for w in x.values())


# For each field, which values it accepts and the words for them in error messages.
_PLACE = "a position, or a role among " + ", ".join(ROLES)
CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "action": (lambda x: isinstance(x, str) and x in ACTIONS, "one of " + ", ".join(ACTIONS)),
    "hook": (
        _is_hook,
        "hook_embed, hook_pos_embed, or blocks.LAYER. (counted from 0) and one of " + ", ".join(HOOKS_OF_LAYERS),
    ),
    "positions": (_all(_is_place), f"a list, each {_PLACE}"),
    "neurons": (_all(_whole(0)), "a list of neurons, counted from 0"),
    "frequencies": (_all(_whole(1)), "a list of frequencies, counted from 1"),
    "source": (lambda x: isinstance(x, str), "a prompt such as 'c=1, b=17, b+19=?'"),
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
