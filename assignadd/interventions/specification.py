"""Interventions on a forward pass: frozen records, read strictly from JSON and written to JSON.

Weights are swapped first. The other interventions act in one forward pass; several at the same hook act in the order of
the list. An unknown key or a wrong value raises an error that names it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from assignadd.config import ConfigError
from assignadd.runs.config_json import parse
from assignadd.runs.files import MOST_SETTINGS, read_input
from assignadd.task.positions import ROLES, Place

ACTIONS = ("zero", "mean", "resample", "patch", "cut", "pattern", "swap")
COMPONENTS = ("embed", "qk1", "ov1", "qk2", "ov2", "mlp2", "unembed")
"""The components of the paper's network; others have `qk`, `ov` and `mlp` of each of their layers."""
EMBEDDING_HOOKS = ("hook_embed", "hook_pos_embed")
NEURON_HOOKS = ("mlp.hook_pre", "mlp.hook_post")
LAYER_HOOKS = (
    "attn.hook_pattern", "hook_attn_out", "hook_resid_pre", "hook_resid_mid", *NEURON_HOOKS, "hook_mlp_out",
    "hook_resid_post",
)  # fmt: skip
"""Hooks of each layer, without `blocks.LAYER.` before them."""


@dataclass(frozen=True)
class Replace:
    """Replaces an activation by zero, by its mean over a reference set, or by its value on another sequence."""

    action: str
    hook: str
    positions: tuple[Place, ...] | None = None  # roles or positions; None for all
    neurons: tuple[int, ...] | None = None
    frequencies: tuple[int, ...] | None = None
    """At the MLP the neurons with these best frequencies, at hook_embed these Fourier components of the numbers."""
    source: str | None = None  # the other prompt of a patch


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
"""The kind of intervention of these actions; of all others it is `Replace`."""


def _text(pattern: str) -> Any:
    """The type of texts that match a regular expression as a whole."""
    return Annotated[str, Meta(pattern=rf"\A(?:{pattern})\Z")]


def _tuple_of(kind: Any) -> Any:
    """The type of tuples of one or more values of this type."""
    return Annotated[tuple[kind, ...], Meta(min_length=1)]


COMPONENT = r"embed|unembed|(qk|ov|mlp)([1-9][0-9]*)"
NUMERAL = "0|[1-9][0-9]{0,8}"  # a number as we write it: "3", but not "03"
_HOOK = rf"{'|'.join(EMBEDDING_HOOKS)}|blocks\.({NUMERAL})\.({'|'.join(LAYER_HOOKS)})"
_HOOK_WORDS = ", ".join(EMBEDDING_HOOKS) + ", or blocks.LAYER. (counted from 0) and one of " + ", ".join(LAYER_HOOKS)
_FROM_0, _FROM_1 = Annotated[int, Meta(ge=0)], Annotated[int, Meta(ge=1)]
_ROLE_OR_POSITION: Any = _text("|".join(ROLES)) | _FROM_0
_PLACE_WORDS = "a position, or a role among " + ", ".join(ROLES)
_WEIGHTS: Any = dict[_text("|".join((*ROLES, NUMERAL))), Annotated[float, Meta(ge=0, le=1)]]
# For each field the type of its values, and the words for them in error messages.
FIELDS: dict[str, tuple[Any, str]] = {
    "action": (str, "one of " + ", ".join(ACTIONS)),
    "hook": (_text(_HOOK), _HOOK_WORDS),
    "positions": (_tuple_of(_ROLE_OR_POSITION), f"a list, each {_PLACE_WORDS}"),
    "neurons": (_tuple_of(_FROM_0), "a list of neurons, counted from 0"),
    "frequencies": (_tuple_of(_FROM_1), "a list of frequencies, counted from 1"),
    "source": (str, "a prompt such as 'c=1, b=17, b+19=?'"),
    "layer": (_FROM_1, "a layer, counted from 1"),
    "query": (_ROLE_OR_POSITION, _PLACE_WORDS),
    "key": (_ROLE_OR_POSITION, _PLACE_WORDS),
    "weights": (_WEIGHTS, f"an object with a weight from 0 to 1 for each of some places, each {_PLACE_WORDS}"),
    "component": (_text(COMPONENT), "embed, unembed, or qk, ov or mlp with the number of a layer, such as qk1"),
    "step": (_FROM_0, "a step"),
    "seed": (_FROM_0, "a seed"),
    "run": (str, "a run's folder or name"),
}


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
    """The intervention in a parsed JSON object, which error messages call `name`."""
    action = values.get("action") if isinstance(values, dict) else values
    if not isinstance(values, dict) or action not in ACTIONS:
        raise ConfigError(f"{name}.action", action, "one of " + ", ".join(ACTIONS))
    kind = KINDS.get(action, Replace)
    fields = dataclasses.fields(kind)
    names = [field.name for field in fields]
    for key, value in values.items():
        if key not in names:
            raise ConfigError(f"{name}.{key}", value, f"a field of {action}: " + ", ".join(names))
    arguments = {}
    for field in fields:
        value = values.get(field.name)
        is_optional = field.default is None  # a field without a default is required
        if value is None and is_optional:
            continue
        value_type, words = FIELDS[field.name]
        try:
            arguments[field.name] = msgspec.convert(value, value_type)
        except msgspec.ValidationError:
            expected = f"{words}, or null" if is_optional else words
            raise ConfigError(f"{name}.{field.name}", value, expected) from None
    intervention = kind(**arguments)
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
        hook, source, frequencies = intervention.hook, intervention.source, intervention.frequencies
        if (source is not None) != (intervention.action == "patch"):  # a patch has a source, other actions have none
            raise ConfigError(f"{name}.source", source, "another prompt for a patch, and nothing for other actions")
        is_at_neurons = hook.endswith(NEURON_HOOKS)
        if intervention.neurons is not None and not is_at_neurons:
            raise ConfigError(f"{name}.neurons", intervention.neurons, "null but at " + " and ".join(NEURON_HOOKS))
        if frequencies is not None and not is_at_neurons and hook != "hook_embed":
            allowed = "hook_embed, " + " and ".join(NEURON_HOOKS)
            raise ConfigError(f"{name}.frequencies", frequencies, f"null but at {allowed}")
