"""Chains and operands: cells have the hops, layers and operands of their labels, and as long a prefix."""

from pathlib import Path

from assignadd.user_file import user_module

FINDING = user_module(Path(__file__).parents[2] / "findings" / "chains")


def configs(study):
    """The configuration of the first network of each cell, by label."""
    sweep = study.sweep(seeds=1)
    return {study.label_of(member): member.config(sweep.config) for member in sweep.cells}


def test_the_mlp_comes_after_the_last_layer():
    for label, config in configs(FINDING.HOPS).items():
        layers = config.model.n_layers
        assert label == FINDING.label(config.task.hops, layers)
        assert config.model.d_mlp == (None,) * (layers - 1) + (4 * config.model.d_model,)


def test_twelve_positions_precede_the_sum():
    for label, config in configs(FINDING.OPERANDS).items():
        assert label.startswith(f"{config.task.operands} operand")
        assert config.task.length - len("+=") - config.task.operands == 12
