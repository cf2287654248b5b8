"""The training of one network: its accuracies and measures along it, its phases, and whether it binds in the end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assignadd.dynamics.curves import Spike
from assignadd.dynamics.phases import (
    CurveOnset,
    Curves,
    LateVariable,
    Phases,
    curve_onsets,
    find_phases,
    late_variable,
)
from assignadd.dynamics.trajectory import accuracies_at, accuracy_curves, measured_at, run_trajectory
from assignadd.measures.columns import require_column
from assignadd.network import Network, per_network


@per_network(slow=True)
def curves_of(network: Network) -> Curves:
    """Accuracies along training, up to the network's step."""
    if network.run is None:
        return accuracies_at(network.config, network.seen, network.steps, network.checkpoints, network.n)
    return accuracy_curves(network.run, network.index).until(network.step)


def followed(network: Network) -> bool:
    """Whether training was evaluated more than once: one evaluation says what was learned, not when."""
    return len(curves_of(network).steps) > 1


@per_network()
def phases_of(network: Network) -> Phases:
    """When addition, binding and refinement came to last, and both spikes."""
    return find_phases(curves_of(network))


@per_network()
def binds(network: Network) -> bool:
    """Whether the network binds in the end."""
    return curves_of(network).binds


@per_network()
def trajectory_of(network: Network) -> dict[str, np.ndarray]:
    """The progress measures at every checkpoint, by column: stored by `assignadd measure curves`, or measured now."""
    if network.run is None:
        return measured_at(network.config, network.seen, network.steps, network.checkpoints)
    return run_trajectory(network.run, network.index)


def column_of(network: Network, name: str) -> np.ndarray:
    """A progress measure at every checkpoint; raises `NotDefined` where the architecture has none."""
    require_column(network.config, name)
    return trajectory_of(network)[name]


@per_network()
def late_variable_of(network: Network) -> LateVariable | None:
    """The variable that is learned last, if one is learned after the first spike."""
    spike, task = phases_of(network).first_spike, network.config.task
    if spike is None:
        return None
    banned = {"first": task.banned_first, "second": task.banned_second}
    return late_variable(trajectory_of(network), banned, spike.after)


@per_network()
def onsets_of(network: Network) -> list[CurveOnset]:
    """The onset of every curve."""
    return curve_onsets(curves_of(network), trajectory_of(network))


def checkpoints_around(steps: Sequence[int], spike: Spike) -> tuple[int, int]:
    """The last of these steps before a spike and the first one after it."""
    return max(s for s in steps if s <= spike.before), min(s for s in steps if s >= spike.after)
