"""The weights that training starts from: those of the seed, of a trained network, or of one of its parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from torch import Tensor

from assignadd.config import NETWORK, Config, ConfigError, UserError
from assignadd.model.shapes import Shape, weight_shapes
from assignadd.model.stack import Stack
from assignadd.runs.folder import open_run
from assignadd.training.schedule import shapes_of_part
from assignadd.training.trainer import Trainer

# From a network as the settings name it to its weights, a stack of one model.
Read = Callable[[str], Stack]


def check_start(configs: Sequence[Config]) -> None:
    """Refuses a network to start from that cannot be read or has other shapes."""
    read = cache(read_network)
    for config in configs:
        _given(config, read)


def set_start(trainer: Trainer) -> None:
    """Gives a trainer, which holds the initial weights of the seeds, those that its models start from."""
    read = cache(read_network)
    given = [_given(member.config(trainer.config), read) for member in trainer.members]
    if any(given):
        stack = trainer.stack()
        for i, own in enumerate(given):
            for name, weight in own.items():
                stack[name][i].copy_(weight)
        trainer.load_state(trainer.state() | {"weights": stack.flat})


def read_network(network: str) -> Stack:
    """The weights of a trained network, given as RUN:SEED or RUN:SEED@STEP, without a step at its last checkpoint."""
    found = NETWORK.fullmatch(network)
    assert found is not None, "checked with the settings"
    run = open_run(found["run"])
    # Not the newest that is intact: an earlier one would be another network.
    step = int(found["step"]) if found["step"] else max(run.steps, default=None)
    return run.model_at(step, run.index_of(int(found["seed"])))[1]


def _given(config: Config, read: Read) -> Mapping[str, Tensor]:
    """The weights of one model, by name, that are not its seed's."""
    given: dict[str, Tensor] = {}
    for name, (network, part) in config.start.sources.items():
        try:
            stack = read(network)
        except UserError as error:
            raise ConfigError(f"start.{name}", network, f"a network that can be read ({error})") from error
        wanted, found = (_shapes(c, part) for c in (config, stack.config))
        if differing := [weight for weight in [*wanted, *found] if wanted.get(weight) != found.get(weight)]:
            first = differing[0]
            shapes = f"{first} has the shape {wanted.get(first)} here and {found.get(first)} there"
            raise ConfigError(f"start.{name}", network, f"a network of the same shape ({shapes})")
        given |= {weight: stack[weight][0] for weight in wanted}
    return given


def _shapes(config: Config, part: str) -> dict[str, Shape]:
    return weight_shapes(config) if part == "all" else shapes_of_part(config, part)
