"""The weights that training starts from: those of the seed, of a trained network or of its parts, times factors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from torch import Tensor

from assignadd.config import INITIAL, NETWORK, Config, ConfigError, UserError
from assignadd.config.errors import printable, shortened
from assignadd.model.stack import Shape, Stack, initial_stack, weight_shapes
from assignadd.runs.folder import Run, open_run
from assignadd.training.schedule import shapes_of_part
from assignadd.training.trainer import Trainer


class Networks:
    """Networks as settings name them, RUN:SEED, RUN:SEED@STEP or initial:SEED; each is read once."""

    def __init__(self) -> None:
        self._open, self._read = cache(open_run), cache(_checkpoint)

    def weights(self, config: Config, network: str) -> Stack:
        """The weights of a network, a stack of one; `config` is that of the model that takes them."""
        found = NETWORK.fullmatch(network)
        assert found is not None, "checked with the settings"
        seed, step = int(found["seed"]), found["step"]
        if found["run"] == INITIAL and step is None:
            return initial_stack(config, [seed])
        run = self._open(found["run"])
        return self._read(run, run.index_of(seed), None if step is None else int(step))


def _checkpoint(run: Run, index: int, step: int | None) -> Stack:
    """One model of a run; without a step at the last checkpoint."""
    return run.model_at(step, index)[1]


def check_start(configs: Sequence[Config]) -> None:
    """Refuses a network to start from that cannot be read or has other shapes."""
    networks = Networks()
    for config in configs:
        _given(config, networks)


def set_start(trainer: Trainer) -> None:
    """Gives a trainer, which holds the initial weights of the seeds, those that its models start from."""
    networks = Networks()
    configs = [member.config(trainer.config) for member in trainer.members]
    given = [_given(config, networks) for config in configs]
    factors = [_factors(config) for config in configs]
    if any(given) or any(factors):
        stack = trainer.stack()
        for i, own in enumerate(given):
            for name, weight in own.items():
                stack[name][i].copy_(weight)
            for name, factor in factors[i].items():
                stack[name][i].mul_(factor)
        trainer.load_state(trainer.state() | {"weights": stack.flat})


def _given(config: Config, networks: Networks) -> Mapping[str, Tensor]:
    """The weights of one model, by name, that are not its seed's."""
    given: dict[str, Tensor] = {}
    for name, (network, part) in config.start.sources.items():
        try:
            stack = networks.weights(config, network)
        except (UserError, OSError) as error:
            reason = shortened(printable(str(error)), 200)
            raise ConfigError(f"start.{name}", network, f"a network that can be read ({reason})") from error
        wanted, found = (_shapes(c, part) for c in (config, stack.config))
        if differing := [weight for weight in [*wanted, *found] if wanted.get(weight) != found.get(weight)]:
            first = differing[0]
            shapes = f"{first} has the shape {wanted.get(first)} here and {found.get(first)} there"
            raise ConfigError(f"start.{name}", network, f"a network of the same shape ({shapes})")
        given |= {weight: stack[weight][0] for weight in wanted}
    return given


def _factors(config: Config) -> dict[str, float]:
    """The factors on weights of one model, by name, that are not 1."""
    mlp = f"blocks.{config.model.n_layers - 1}.mlp."
    factors = {f"{mlp}W_in": config.start.mlp_in_factor, f"{mlp}W_out": config.start.mlp_out_factor}
    return {name: factor for name, factor in factors.items() if factor != 1}


def _shapes(config: Config, part: str) -> dict[str, Shape]:
    return weight_shapes(config) if part == "all" else shapes_of_part(config, part)
