"""Other architectures and sizes: cells differ from the paper in what their labels say and in nothing else."""

from pathlib import Path

from assignadd.model import initial_stack
from assignadd.user_file import user_module

FINDING = user_module(Path(__file__).parents[2] / "findings" / "architectures")


def configs(study):
    """The configuration of the first network of each cell, by label."""
    sweep = study.sweep(seeds=1)
    return {study.label_of(member): member.config(sweep.config) for member in sweep.cells}


def test_networks_with_more_heads_have_as_many_parameters():
    def parameters(label):
        return sum(weights[0].numel() for weights in initial_stack(config[label], [0]).weights.values())

    config = configs(FINDING.ARCHITECTURE)
    assert parameters("2 heads") == parameters("4 heads") == parameters("the paper's") < parameters("width 256")


def test_a_sixth_of_the_variables_is_banned_from_each_slot_at_every_size():
    for config in configs(FINDING.TASK_SIZE).values():
        assert len(config.task.banned_first) == len(config.task.banned_second) == config.task.n_vars / 6
        assert not set(config.task.banned_first) & set(config.task.banned_second)
