"""Parts kept and removed: all of them are the network, and on the hand-made model each part's worth is known."""

import dataclasses

import numpy as np
import pytest
import torch

from assignadd.interventions.circuit import COMPLEMENT, COPIED, LITERALS, PAPER, WHOLE, Blocks, circuit_alone, variants
from assignadd.interventions.kept import kept_logits
from assignadd.measures.fourier import kept
from assignadd.model.forward import answer_logits
from assignadd.task.vocabulary import Vocabulary
from tests.interventions.small import CONFIG, HANDMADE, SEEN, TASK, random_stack, tokens

BLOCKS, K = Blocks(TASK), Vocabulary(TASK).size
STACK, TOKENS = random_stack(1), tokens()


def test_everything_kept_is_the_network():
    assert torch.allclose(kept_logits(STACK, TOKENS, [BLOCKS.everything(5)]), answer_logits(STACK, TOKENS), atol=1e-8)


def changed(**changes):
    return kept_logits(STACK, TOKENS, [dataclasses.replace(BLOCKS.everything(5), **changes)])


def test_parts_are_what_weights_without_them_compute():
    """Each kind of part against the network whose weights lack it."""
    C, none = BLOCKS.C, torch.zeros
    for change, names in (
        ({"qk1": none(C, C, dtype=torch.bool)}, ["blocks.0.attn.W_Q"]), ({"ov1": none(C, dtype=torch.bool)}, ["blocks.0.attn.W_V"]),
        ({"qk2": none(C + 1, 2 * C, dtype=torch.bool)}, ["blocks.1.attn.W_Q"]),
        ({"ov2": none(2 * C, dtype=torch.bool)}, ["blocks.1.attn.W_V"]),
    ):  # fmt: skip
        without = STACK.clone()
        for name in names:
            without[name].zero_()
        assert torch.allclose(changed(**change), answer_logits(without, TOKENS), atol=1e-8), names


def test_frequencies_and_paths_around():
    assert changed(own=False).sub(changed()).abs().max() > 1e-3
    no_mlp = STACK.clone()
    no_mlp["blocks.1.mlp.W_out"].zero_()  # what the unembedding reads directly, and what it reads of MLP2, make up the logits
    assert torch.allclose(changed(direct=False) + answer_logits(no_mlp, TOKENS), answer_logits(STACK, TOKENS), atol=1e-8)
    mask = torch.tensor([True, False, False, True, True])
    table = STACK.W_E[:, : TASK.modulus]
    assert not torch.allclose(kept(table, mask), table)
    assert torch.allclose(changed(frequencies=torch.ones_like(mask)), changed(), atol=1e-8)
    assert not torch.allclose(changed(frequencies=mask), changed(), atol=1e-3)


def test_blocks_are_the_papers():
    slots, equals = (K + 7, K + 8), (TASK.modulus + 1, K + 9)
    assert BLOCKS.qk1["= to slots"].nonzero().tolist() == [[q, k] for q in equals for k in slots]
    assert BLOCKS.qk1["numbers to variables"].sum() == 11 * 5 and BLOCKS.qk1["positions to variables"].sum() == 6 * 5
    assert BLOCKS.qk1["positions to positions"].sum() == 36 and BLOCKS.qk1_named.sum() == 4 + 55 + 30 + 36
    assert BLOCKS.identity.sum() == 25 and BLOCKS.to_slots.nonzero().tolist() == [[K + 10, slot] for slot in slots]


@pytest.fixture(scope="module")
def table():
    return circuit_alone(HANDMADE, CONFIG, SEEN, 120)


def test_what_the_hand_made_model_needs_and_does_not(table):
    """It looks back by position alone, and finds literals by the operand slots: the block that the paper does not name."""
    assert (table.row("together", WHOLE) == 1).all()
    unused = [("removed alone", "QK1: numbers to variables"), ("removed alone", "QK1: positions to variables")]
    sufficient = [("kept alone", x) for x in ("OV1: variables", "OV2: numbers, key frequencies", "MLP2: alone")]
    assert all((table.row(*row) == 1).all() for row in unused + sufficient)
    literals = np.array([name.startswith("0-var") for name in table.sets])
    bound = np.array([name.startswith("2-var") for name in table.sets])
    for name in ("OV1: variables", "QK2: identity block"):
        row = table.row("removed alone", name)
        # Two variables are right by chance where the sequence assigns no other: in half of those with 2 or 3 assignments.
        assert (row[literals] == 1).all() and (row[bound] < 0.85).all() and (row[~literals & ~bound] < 0.2).all()
    row = table.row("removed alone", "QK2: = to operand slots")
    assert (row[literals] < 0.75).all() and (row[bound] == 1).all()
    paper, more = table.row("together", PAPER), table.row("together", LITERALS)
    assert (paper[bound] == 1).all() and (paper[literals] < 0.75).all() and (more[literals] == 1).all()


def test_faithfulness_and_necessity(table):
    assert table.relative("together", WHOLE) == 1 and table.relative("together", COMPLEMENT) < 0.25
    assert table.relative("together", PAPER) < table.relative("together", LITERALS) <= table.relative("together", COPIED)
    assert {"QK1: positions to positions", "OV1: variables", "QK2: identity block", "OV2: numbers"} <= set(table.necessary)
    assert not {"QK1: numbers to variables", "QK1: positions to variables"} & set(table.necessary)
    assert set(table.sufficient) == {"OV1: variables", "OV2: numbers, key frequencies", "MLP2: alone"}
    assert table.worst_loss("together", WHOLE) == 0


def test_every_row_of_the_table_is_another_network():
    rows = variants(TASK, torch.tensor([True, False, True, False, True]))
    found = [kept_logits(STACK, TOKENS, [keep]) for keep in rows.values()]
    assert len({tuple(x.flatten()[:40].tolist()) for x in found}) == len(rows)
