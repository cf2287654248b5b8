"""QK and OV against scores and outputs taken at the reference transformer's hook points."""

from __future__ import annotations

import pytest
import torch

from assignadd.config import Config, Model, Numerics, Task
from assignadd.model.circuits import OV, QK
from assignadd.model.stack import Stack, initial_stack
from assignadd.model.transformer import Transformer

TASK = Task(modulus=7, n_vars=4, length=10, max_assignments=3, banned_first="a", banned_second="b")


@pytest.fixture
def stack() -> Stack:
    model = Model(n_heads=3, d_model=12, d_head=5, d_mlp=(None, 9), init_scale=3.0)
    return initial_stack(Config(task=TASK, model=model, numerics=Numerics(dtype="float64")), [0, 1])


@pytest.mark.parametrize("layer", [1, 2])
def test_circuits_give_the_scores_and_outputs_of_the_forward_pass(stack: Stack, layer: int) -> None:
    tokens = torch.randint(0, 14, (4, TASK.length), generator=torch.Generator().manual_seed(0))
    future = torch.ones(TASK.length, TASK.length).triu(1).bool()
    for index in range(2):
        _, cache = Transformer.from_stack(stack, index).run_with_cache(tokens)
        block = f"blocks.{layer - 1}."
        x, total = cache[block + "hook_resid_pre"], 0
        for head in range(3):
            scores = x @ QK(stack, layer, head)[index] @ x.mT
            torch.testing.assert_close(
                scores.masked_fill(future, -torch.inf), cache[block + "attn.hook_attn_scores"][:, head]
            )
            total = total + cache[block + "attn.hook_pattern"][:, head] @ x @ OV(stack, layer, head)[index]
        torch.testing.assert_close(total, cache[block + "hook_attn_out"])


def test_score_of_one_query_and_one_key(stack: Stack) -> None:
    query, key = torch.arange(12.0).double(), torch.ones(12).double()
    by_hand = (query @ stack["blocks.1.attn.W_Q"][1, 2]) @ (key @ stack["blocks.1.attn.W_K"][1, 2]) / 5**0.5
    torch.testing.assert_close(query @ QK(stack, 2, 2)[1] @ key, by_hand)


def test_shapes_and_default_head(stack: Stack) -> None:
    assert QK(stack, 1).shape == OV(stack, 2).shape == (2, 12, 12)
    assert torch.equal(QK(stack, 1), QK(stack, 1, head=0)) and not torch.allclose(QK(stack, 1), QK(stack, 1, head=1))


@pytest.mark.parametrize("circuit", [QK, OV])
def test_out_of_range_is_one_line(stack: Stack, circuit) -> None:
    for layer in (0, 3, -1):
        with pytest.raises(ValueError, match=rf"^layer {layer}: expected 1 to 2 \(layers are counted from 1\)$"):
            circuit(stack, layer)
    with pytest.raises(ValueError, match=r"^head 3: expected 0 to 2 \(heads are counted from 0\)$"):
        circuit(stack, 1, 3)
