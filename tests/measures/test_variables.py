"""Layer-2 attention to one operand's value, compared with the reference transformer and on two known models."""

import pytest
import torch

from assignadd.config import PRESETS, Member
from assignadd.measures.routing import attn_l2_equal_to_value
from assignadd.model.accuracy import Exam
from assignadd.model.handmade import handmade
from assignadd.model.stack import concatenate, initial_stack
from assignadd.model.transformer import Transformer
from assignadd.task.evalsets import EvalSet
from assignadd.task.splits import pair_split
from assignadd.task.vocabulary import Vocabulary

CONFIG = Member(0).config(PRESETS["paper"])
HANDMADE = handmade(CONFIG)


def drawn(n_vars: int, n: int = 300) -> torch.Tensor:
    """Sums with c in the second slot."""
    return Exam([CONFIG], pair_split(CONFIG.task, 0)[None], [EvalSet("c second", n_vars, in_slots=(None, 2))], n).tokens


@pytest.mark.parametrize("n_vars", [1, 2])
def test_the_hand_made_model_attends_to_values_and_a_broken_one_does_not(n_vars):
    blind = HANDMADE.clone()
    blind["embed.W_E"][0, Vocabulary(CONFIG.task).variable("c")] = 0
    random = attn_l2_equal_to_value(initial_stack(CONFIG, [0]), drawn(n_vars), 1)
    found, missed = attn_l2_equal_to_value(concatenate([HANDMADE, blind]), drawn(n_vars), 1)
    assert found == 1 and missed < 0.6 and 0.03 < random < 0.3  # two of sixteen keys at random
    assert attn_l2_equal_to_value(blind, drawn(n_vars), 0) == pytest.approx(
        1, abs=0.2
    )  # the other operand's value is still found


def test_attention_equals_the_reference_transformers():
    stack, tokens = initial_stack(CONFIG, [5]), drawn(2, 80)
    pattern = Transformer.from_stack(stack, 0).run_with_cache(tokens[0])[1]["blocks.1.attn.hook_pattern"][:, 0, -1]
    found = []
    for sequence, weights in zip(tokens[0].tolist(), pattern.tolist(), strict=True):
        value = sequence.index(sequence[14]) + 1  # behind c in the prefix
        found.append(sum(w > weights[value] for w in weights) < 2)
    assert attn_l2_equal_to_value(stack, tokens, 1).item() == pytest.approx(sum(found) / 80)
