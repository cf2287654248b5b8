"""Saturated sequences: those whose probability rounds to 1."""

from dataclasses import replace

import pytest
import torch

from assignadd.config import PRESETS, Member, Numerics
from assignadd.measures.accuracies import LOSS, SATURATED, SATURATED_OWN, Saturation
from assignadd.model.forward import answer_logits
from assignadd.model.handmade import handmade
from assignadd.model.stack import Stack
from assignadd.task.splits import pair_split


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_sequence_is_saturated_where_the_wrong_answers_have_less_than_half_a_unit_in_the_last_place(dtype):
    config = Member(0).config(replace(PRESETS["tiny"], numerics=Numerics(dtype=dtype)))
    seen, plain = pair_split(config.task, 0)[None], handmade(config)
    measure = Saturation([config], seen, 100)
    found = []
    for scale in (0.01, 0.1, 0.4, 1.0, 3.0):
        stack = Stack(plain.config, plain.flat.clone())
        stack.W_U.mul_(scale)
        logits = answer_logits(stack, measure.batch.tokens)[0].double()
        right = logits.gather(1, measure.batch.labels[0][:, None])
        others = (logits - right).exp().sum(1) - 1  # p = 1 / (1 + others)
        columns = measure(stack)
        for name, unit in ((SATURATED, 2**-24), (SATURATED_OWN, 2**-53)):
            low, high = ((others < factor * unit).double().mean() for factor in (0.5, 2))
            assert low <= columns[name] <= high
        assert columns[LOSS].item() == pytest.approx(float(torch.log1p(others).mean()), rel=1e-4)
        found.append((float(columns[SATURATED]), float(columns[SATURATED_OWN])))
    assert found[0] == (0, 0) and found[-1][0] == 1 and all(own <= single for single, own in found)
