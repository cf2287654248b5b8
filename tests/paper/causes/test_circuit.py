"""Parts of the circuit kept and removed, on random weights and on the hand-made model, where the effects are known."""

import dataclasses

import pytest
import torch

from assignadd.measures.addition import restricted_to
from assignadd.model.forward import answer_logits
from assignadd.model.transformer import Transformer
from assignadd.paper.causes.circuit import (
    COMPLEMENT,
    LOSS,
    QK1_EQUALS,
    QK1_NUMBERS,
    QK1_POSITIONS,
    QK1_VARIABLES,
    QK2_IDENTITY,
    REMOVED,
    SECTION_5,
    SECTION_7,
    SECTION_7_EQUALS,
    WHOLE,
    circuit_alone,
    kept_logits,
    variants,
)
from assignadd.runs.folder import Run, shipped
from assignadd.task.vocabulary import Vocabulary
from tests.interventions.small import CONFIG, HANDMADE, SEEN, TASK, random_stack, tokens

K = Vocabulary(TASK).size
C = K + TASK.length
ROWS = variants(TASK, torch.ones(5, dtype=torch.bool))
STACK, TOKENS = random_stack(1), tokens()


def test_everything_kept_is_the_network():
    assert torch.allclose(changed(), answer_logits(STACK, TOKENS)[0], atol=1e-8)


def changed(**changes):
    return kept_logits(STACK, TOKENS[0], dataclasses.replace(ROWS[WHOLE], **changes))


def test_removing_a_table_equals_setting_its_weights_to_zero():
    none = torch.zeros
    for change, names in (
        ({"qk1": none(C, C, dtype=torch.bool)}, ["blocks.0.attn.W_Q"]),
        ({"ov1": none(C, dtype=torch.bool)}, ["blocks.0.attn.W_V"]),
        ({"qk2": none(C + 2, 2 * C, dtype=torch.bool)}, ["blocks.1.attn.W_Q"]),
        ({"ov2": none(2 * C, dtype=torch.bool)}, ["blocks.1.attn.W_V"]),
    ):  # fmt: skip
        without = STACK.clone()
        for name in names:
            without[name].zero_()
        assert torch.allclose(changed(**change), answer_logits(without, TOKENS)[0], atol=1e-8), names


def test_without_the_paths_around_the_logits_are_those_of_mlp2_fed_by_attention_alone():
    model, blocks = Transformer.from_stack(STACK, 0).requires_grad_(False), "blocks.1."
    attention = model.run_with_cache(TOKENS[0])[1][f"{blocks}hook_attn_out"][:, -1]
    neurons = (attention @ STACK[f"{blocks}mlp.W_in"][0]).relu()
    assert torch.allclose(changed(residual=False), neurons @ STACK[f"{blocks}mlp.W_out"][0] @ STACK.W_U[0], atol=1e-8)


def test_frequencies_of_what_numbers_bring():
    mask = torch.tensor([True, False, False, True, True])
    table = STACK.W_E[:, : TASK.modulus]
    assert not torch.allclose(restricted_to(table, mask), table)
    assert torch.allclose(changed(frequencies=torch.ones_like(mask)), changed(), atol=1e-8)
    assert not torch.allclose(changed(frequencies=mask), changed(), atol=1e-3)


def test_blocks_are_the_papers():
    slots, equals = (K + 7, K + 8), (TASK.modulus + 1, K + 9)
    blocks = {name: ~ROWS[name].qk1 for name in (QK1_EQUALS, QK1_NUMBERS, QK1_VARIABLES, QK1_POSITIONS)}
    assert blocks[QK1_EQUALS].nonzero().tolist() == [[q, k] for q in equals for k in slots]
    assert blocks[QK1_NUMBERS].sum() == 11 * 5 and blocks[QK1_VARIABLES].sum() == 6 * 5
    assert blocks[QK1_POSITIONS].sum() == 36 and ROWS[SECTION_5].qk1.sum() == 4 + 55 + 30 + 36
    letters = range(TASK.modulus + 3, K)
    identity = [[query, C + key] for query in letters for key in letters]
    assert ROWS[SECTION_5].qk2.nonzero().tolist() == identity
    # W_0 = beta (p_{T-2} + p_{T-1}) p_T^T + beta sum_n e_n p_T^T
    keys = [*range(TASK.modulus), *slots]
    for name, queries in ((SECTION_7, [C + 1]), (SECTION_7_EQUALS, [C, C + 1])):  # the last position, the token `=`
        assert ROWS[name].qk2.nonzero().tolist() == identity + [[query, key] for query in queries for key in keys]


def test_scores_of_the_token_equals_and_of_its_position_are_separate():
    """Layer 2's scores without the last position's row are those of a network whose query lacks its embedding."""
    for row, weight, index in ((C, "embed.W_E", TASK.modulus + 1), (C + 1, "pos_embed.W_pos", TASK.length - 1)):
        mask = torch.ones(C + 2, 2 * C, dtype=torch.bool)
        mask[row] = False
        model = Transformer.from_stack(STACK, 0)
        embedding = STACK[weight][0, index] @ STACK["blocks.1.attn.W_Q"][0, 0]
        hooks = [("blocks.1.attn.hook_q", lambda q, point, embedding=embedding: q - embedding)]
        with torch.no_grad():
            expected = model.run_with_hooks(TOKENS[0], fwd_hooks=hooks)[:, -1]
        assert torch.allclose(changed(qk2=mask), expected, atol=1e-8)


@pytest.fixture(scope="module")
def table():
    return circuit_alone(HANDMADE, CONFIG, SEEN, 120)


def test_which_parts_the_hand_made_model_needs(table):
    """Its numbers find variables by position only, and literals are found by the operand slots (section 7)."""
    assert (table.accuracy(WHOLE) == 1).all()
    assert (table.accuracy(QK1_NUMBERS) == 1).all() and (table.accuracy(QK1_VARIABLES) == 1).all()
    literals, bound = table.with_variables(0), table.with_variables(2)
    assert [n for n, own in zip(table.sets, literals, strict=True) if own] == ["0-var train", "0-var add-restricted"]
    lost = table.accuracy(QK2_IDENTITY)
    # Two variables are right by chance where the sequence assigns no other: in half of those with 2 or 3 assignments.
    assert (lost[literals] == 1).all() and (lost[bound] < 0.85).all() and (lost[~literals & ~bound] < 0.2).all()
    section_5 = table.accuracy(SECTION_5)
    assert (section_5[bound] == 1).all() and (section_5[literals] < 0.75).all()


def test_faithfulness_and_necessity(table):
    losses = {name: (table.accuracy(WHOLE) - table.accuracy(name)) for name in table.names}
    assert table.relative(WHOLE) == 1 and table.relative(COMPLEMENT) < 0.25 and table.relative(SECTION_5) < 1
    assert {name for name in REMOVED if losses[name].max() >= LOSS} == {QK1_EQUALS, QK1_POSITIONS, QK2_IDENTITY}
    assert losses[QK2_IDENTITY].max() > 0.5


def test_all_rows_of_the_table_differ():
    rows = variants(TASK, torch.tensor([True, False, True, False, True]))
    logits = [kept_logits(STACK, TOKENS[0], keep) for keep in rows.values()]
    assert len({tuple(x.flatten()[:40].tolist()) for x in logits}) == len(rows)


def test_section_7_finds_literals_that_section_5_leaves_out():
    """On a network of the census, p_T finds some literals, and `=` with its position most."""
    run = Run.open(shipped("census-six"))
    index = run.index_of(0)
    table = circuit_alone(run.checkpoint(run.steps[-1]).models(index), run.configs[index], run.seen[index], 300)
    literals, bound = table.with_variables(0), table.with_variables(2)
    section_5, position, equals = (table.accuracy(name) for name in (SECTION_5, SECTION_7, SECTION_7_EQUALS))
    assert (section_5[bound] > 0.93).all() and (section_5[literals] < 0.15).all()
    assert ((position[literals] > 0.25) & (position[literals] < 0.5)).all()
    assert ((equals[literals] > 0.7) & (equals[literals] < 0.9)).all()


def test_on_the_papers_network_the_parts_of_both_sections_are_enough(paper_run):
    table = circuit_alone(paper_run.checkpoint(40_000), paper_run.configs[0], paper_run.seen[0], 200)
    literals, bound = table.with_variables(0), table.with_variables(2)
    section_5, position, equals = (table.accuracy(name) for name in (SECTION_5, SECTION_7, SECTION_7_EQUALS))
    assert (section_5[bound] > 0.93).all() and (section_5[literals] < 0.2).all()
    assert ((position[literals] > 0.45) & (position[literals] < 0.75)).all() and (equals > 0.93).all()
