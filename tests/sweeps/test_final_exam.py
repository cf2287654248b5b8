"""The final exam of a population against the accuracy of each model on sequences drawn for it alone."""

from dataclasses import replace

import pytest
import torch

from assignadd.config import Member
from assignadd.model.accuracy import Exam
from assignadd.model.handmade import handmade
from assignadd.model.stack import concatenate, initial_stack
from assignadd.sweeps.final_exam import final_column, final_exam
from assignadd.task.evalsets import ALL_SETS
from assignadd.task.randomness import EvalSteps
from assignadd.task.splits import pair_split
from tests.sweeps.small import CONFIG

torch.set_num_threads(1)


def test_each_set_is_that_of_the_model_alone_and_empty_ones_are_left_out():
    made = handmade(CONFIG)
    config = replace(CONFIG, model=made.config.model)
    stack = concatenate([initial_stack(config, [1]), made])
    configs = [Member(1, seen_fraction=0.5).config(config), Member(2, seen_fraction=1.0).config(config)]
    seen = torch.stack([pair_split(c.task, c.seed.split) for c in configs])
    first, second = final_exam(stack, configs, seen)
    of_sets = {name for name in second if not name.startswith("attn_")}
    assert of_sets == {final_column(s.name) for s in ALL_SETS if s.pair == "seen"}  # nothing is held out from it
    assert (
        len(second) - len(of_sets) == 18
    )  # three patterns, 0 to 2 variables, all sequences and those training could show
    assert set(second.values()) == {1.0}
    for i, evalset in enumerate(ALL_SETS):
        if final_column(evalset.name) in first:
            alone = Exam(configs[:1], seen[:1], [evalset], 50, first_step=EvalSteps.FINAL_EXAM[i])
            assert first[final_column(evalset.name)] == pytest.approx(
                alone.accuracies(stack.models(0))[0][evalset.name]
            )
    assert len(first) >= 18 and 0 < sum(first.values()) / len(first) < 0.5


def test_none_is_taken_where_none_is_asked_for():
    config = replace(CONFIG, record=replace(CONFIG.record, final_sequences=0))
    assert final_exam(initial_stack(config, [0]), [Member(0).config(config)], pair_split(config.task, 0)[None]) == [{}]
