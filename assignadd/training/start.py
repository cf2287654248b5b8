"""The weights that training starts from: those of the seed, of a trained network or of its parts, times factors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from torch import Tensor

from assignadd.config import INITIAL, NETWORK, Config, ConfigError, Start, UserError
from assignadd.config.errors import printable, shortened
from assignadd.model.stack import Stack, initial_stack
from assignadd.runs.folder import Run, open_run
from assignadd.training.schedule import shapes_of_part
from assignadd.training.trainer import Trainer


class Networks:
    """Networks by the names that settings give them, RUN:SEED, RUN:SEED@STEP or initial:SEED; each is read once."""

    def __init__(self) -> None:
        self._open = cache(open_run)
        self._model_at = cache(Run.model_at)

    def weights(self, config: Config, network: str) -> Stack:
        """The network of this name, a stack of one; initial ones have the shape that `config` asks for."""
        match = NETWORK.fullmatch(network)
        assert match is not None, "checked with the settings"
        seed, step = int(match["seed"]), match["step"]
        if match["run"] == INITIAL and step is None:
            return initial_stack(config, [seed])
        run = self._open(match["run"])
        _, model = self._model_at(run, None if step is None else int(step), run.index_of(seed))
        return model


def check_start(configs: Sequence[Config]) -> None:
    """Raises a ConfigError for a network to start from that cannot be read or has weights of other shapes."""
    networks = Networks()
    for config in configs:
        _weights_from_networks(config, networks)


def set_start(trainer: Trainer) -> None:
    """Gives a trainer, which holds the initial weights of the seeds, the weights that its models' settings ask for."""
    configs = [member.config(trainer.config) for member in trainer.members]
    if all(config.start == Start() for config in configs):
        return
    networks = Networks()
    stack = trainer.stack()  # a copy
    for i, config in enumerate(configs):
        for name, weight in _weights_from_networks(config, networks).items():
            stack[name][i].copy_(weight)
        if config.model.d_mlp[-1] is not None:  # the last layer has an MLP
            mlp = f"blocks.{config.model.n_layers - 1}.mlp."
            stack[f"{mlp}W_in"][i].mul_(config.start.mlp_in_factor)
            stack[f"{mlp}W_out"][i].mul_(config.start.mlp_out_factor)
    trainer.load_state(trainer.state() | {"weights": stack.flat})


def _weights_from_networks(config: Config, networks: Networks) -> Mapping[str, Tensor]:
    """The weights of one model, by name, that are taken from other networks.

    Raises a ConfigError for a network that cannot be read or has weights of other shapes.
    """
    weights: dict[str, Tensor] = {}
    for setting, (network, part) in config.start.sources.items():
        try:
            stack = networks.weights(config, network)
        except (UserError, OSError) as error:
            reason = shortened(printable(str(error)), 200)
            raise ConfigError(f"start.{setting}", network, f"a network that can be read ({reason})") from error
        shapes_here = shapes_of_part(config, part)  # in the model that takes the weights
        shapes_there = shapes_of_part(stack.config, part)  # in the network that they are taken from
        for name in [*shapes_here, *shapes_there]:
            here, there = shapes_here.get(name), shapes_there.get(name)  # None where one of them has no such weight
            if here != there:
                shapes = f"{name} has the shape {here} here and {there} there"
                raise ConfigError(f"start.{setting}", network, f"a network of the same shape ({shapes})")
        weights |= {name: stack[name][0] for name in shapes_here}  # of the only model in `stack`
    return weights
