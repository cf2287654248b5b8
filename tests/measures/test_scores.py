"""Scores from the weights: constructed effects are measured, random weights have none, and the paper's network."""

import math

import pytest
import torch

from assignadd.config import PRESETS, Config
from assignadd.measures import scores
from assignadd.model.handmade import handmade
from assignadd.model.stack import initial_stack
from assignadd.task.vocabulary import Vocabulary

TASK = PRESETS["paper"].task
HANDMADE = handmade(Config(task=TASK))
RANDOM = initial_stack(PRESETS["paper"], list(range(40)))
K, FIRST_VARIABLE = Vocabulary(TASK).size, Vocabulary(TASK).first_variable


def planted(queries: range, keys: range, score: float):
    """The hand-made model, whose embeddings are orthonormal and W_K = 1, with an extra score between rows of the
    table."""
    stack = HANDMADE.clone()
    rows = torch.cat([stack.W_E, stack.W_pos], 1)[0]
    W_Q = stack["blocks.0.attn.W_Q"][0, 0]
    W_Q += score * math.sqrt(stack.config.model.d_head) * rows[list(queries)].sum(0)[:, None] * rows[list(keys)].sum(0)
    return stack


def test_the_table_has_the_score_of_every_two_rows():
    table = scores.qk1_table(planted(range(3, 5), range(64, 66), 2.5))[0] - scores.qk1_table(HANDMADE)[0]
    expected = torch.zeros(90, 90)
    expected[3:5, 64:66] = 2.5
    torch.testing.assert_close(table, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("effect", "queries"),
    [("numbers_prefer_variables", range(59)), ("positions_prefer_variables", range(K, K + TASK.prefix))],
)
def test_a_constructed_preference_for_variables_is_measured(effect, queries):
    for score in (3.0, -2.0):
        blocks = scores.qk1_blocks(planted(queries, range(FIRST_VARIABLE, K), score))
        assert blocks[effect].item() == pytest.approx(score, abs=1e-5)
    assert scores.qk1_blocks(HANDMADE)[effect].item() == pytest.approx(0, abs=1e-6)


def test_equals_prefers_its_operands_until_another_position_has_the_same_score():
    assert scores.qk1_blocks(HANDMADE)["equals_prefers_operands"].item() == pytest.approx(32)  # G, by construction
    distracted = planted(range(K + 15, K + 16), range(K + 2, K + 3), 40.0)
    assert scores.qk1_blocks(distracted)["equals_prefers_operands"].item() == pytest.approx(-8)
    assert (scores.qk1_blocks(RANDOM)["equals_prefers_operands"] > 0).float().mean() < 0.1


def test_scores_that_increase_to_the_right():
    rising = HANDMADE.clone()
    rising["blocks.0.attn.W_Q"].zero_()
    at = torch.nonzero(rising.W_pos[0])[:, 1]
    rising["blocks.0.attn.W_Q"][0, 0][at[:, None], at] = torch.arange(16.0)
    assert scores.qk1_blocks(rising)["positions_increase"].item() == 1.0
    rising["blocks.0.attn.W_Q"].neg_()
    assert scores.qk1_blocks(rising)["positions_increase"].item() == 0.0
    assert abs(scores.qk1_blocks(RANDOM)["positions_increase"].mean() - 0.5) < 0.05


def test_admissible_keys_by_hand():
    rows = ["".join("x" if kept else "." for kept in row) for row in scores.admissible(5, ("self", "two_back"))]
    assert rows == [".....", "x....", ".x...", "x.x..", "xx.x."]
    assert scores.admissible(5, ()).sum() == 15


def test_the_hand_made_model_prefers_the_previous_position():
    for excluded in ((), ("self",), ("two_back",), ("self", "two_back")):
        assert scores.qk1_num_to_prev_var(HANDMADE, excluded).item() == 1.0
    reversed_head = HANDMADE.clone()
    reversed_head["blocks.0.attn.W_Q"].neg_()
    assert scores.qk1_num_to_prev_var(reversed_head, first_row=3).item() == 0.0


def test_two_rows_cannot_fail():
    floor = scores.qk1_num_to_prev_var(RANDOM)
    assert floor.min() >= 2 / 11 - 1e-6
    # Row i >= 3 has i - 1 admissible keys: chance is the mean of 1 / (i - 1).
    chance = sum(1 / (i - 1) for i in range(3, 12)) / 9
    assert abs(scores.qk1_num_to_prev_var(RANDOM, first_row=3).mean() - chance) < 0.06


def test_variables_match_only_themselves():
    assert scores.qk2_ov1_var_identity(HANDMADE).item() == 1.0
    assert (scores.qk2_ov1_var_margin(HANDMADE) == 64).all()  # 2G by construction
    swapped = HANDMADE.clone()
    swapped["blocks.1.attn.W_K"][0, 0] = torch.eye(220).roll(1, 0)  # each copied variable now finds its neighbour
    assert scores.qk2_ov1_var_identity(swapped).item() <= 1 / 12
    assert (scores.qk2_ov1_var_margin(swapped) == -64).sum() == 11
    assert abs(scores.qk2_ov1_var_identity(RANDOM).mean() - 1 / 12) < 0.06


def test_the_papers_network(paper_run):
    final = paper_run.checkpoint(40_000)
    assert scores.qk2_ov1_var_identity(final).item() == 1.0
    assert scores.qk2_ov1_var_margin(final).mean().item() * math.sqrt(128) == pytest.approx(
        74.3, abs=0.05
    )  # published without the scale
    assert [round(scores.qk1_num_to_prev_var(final, e).item() * 11) for e in (("self", "two_back"), ("self",))] == [
        11,
        11,
    ]
    # Self beats previous for i = 1..9, so that j = i must be left out for the claim, and j = i - 2 need not.
    positions = scores.qk1_positions(final)[0]
    assert [i for i in range(1, 12) if positions[i, i] > positions[i, i - 1]] == list(range(1, 10))
    published = {1001: 0, 3001: 0.08, 5301: 0.75, 5401: 0.83, 10001: 0.92, 14501: 1.0, 16001: 1.0, 20001: 1.0}
    found = scores.qk2_ov1_var_identity(paper_run.trajectory(list(published)))
    assert [round(x, 2) for x in found.tolist()] == list(published.values())
