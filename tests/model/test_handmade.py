"""The hand-made model solves the task exactly, by the paper's mechanism: each measure by brute force is 1.0 on it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from assignadd.config import Config, Numerics, Task
from assignadd.model.circuits import OV, QK
from assignadd.model.forward import answer_logits
from assignadd.model.handmade import fourier_mlp, handmade
from assignadd.model.stack import Stack, initial_stack
from assignadd.model.transformer import Transformer, reference_logits
from assignadd.task.evalsets import ALL_SETS, EVAL_SETS, EvalSet
from assignadd.task.sampler import Batch, EmptySetError, Sampler
from assignadd.task.splits import pair_split
from assignadd.task.vocabulary import Vocabulary

PAPER = Task()
TASKS = {
    "paper": PAPER,
    "small": Task(modulus=5, n_vars=4, length=12, max_assignments=3, banned_first="ab", banned_second="ab"),
    "full prefix": Task(modulus=7, n_vars=6, length=16, max_assignments=6, banned_first="ab", banned_second="ef"),
    "one variable": Task(
        modulus=11, n_vars=1, length=6, max_assignments=1, banned_first="", banned_second="", two_var_ratio=0.0
    ),
    "long": Task(modulus=13, n_vars=26, length=40, max_assignments=10),
}


def sequences(task: Task, evalset: EvalSet, rows: int) -> Batch | None:
    """Sequences of a set, or None where the task has none."""
    try:
        return Sampler([task], pair_split(task, 0)[None], [1], evalset).sample(0, rows)
    except EmptySetError:
        return None


def accuracy(logits: Tensor, labels: Tensor) -> float:
    return (logits.argmax(-1) == labels).double().mean().item()


@pytest.mark.parametrize("name", TASKS)
def test_accuracy_is_one_on_every_set(name: str) -> None:
    task = TASKS[name]
    stack = handmade(Config(task=task))
    batches = [b for s in ALL_SETS if (b := sequences(task, s, 2000)) is not None]
    assert len(batches) >= 3
    for batch in batches:
        logits = answer_logits(stack, batch.tokens)
        assert accuracy(logits, batch.labels) == 1.0
        assert torch.nn.functional.cross_entropy(logits[0].double(), batch.labels[0]) < 1e-5


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (Task(operands=1), "task.operands = 1: expected 2 for the hand-made model"),
        (Task(hops=1), "task.hops = 1: expected 0 for the hand-made model"),
        (Task(rebinding=0.5), "task.rebinding = 0.5: expected 0 for the hand-made model"),
        (Task(operation="multiply"), "task.operation = 'multiply': expected add for the hand-made model"),
        (Task(modulus=12), "task.modulus = 12: expected an odd number for the hand-made model"),
    ],
)
def test_where_no_model_is_written_down_is_said_in_one_line(task: Task, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        handmade(Config(task=task))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_reference_transformer_agrees(dtype: str) -> None:
    stack = handmade(Config(numerics=Numerics(dtype=dtype)))
    assert stack.flat.dtype == getattr(torch, dtype) and len(stack) == 1
    for evalset in EVAL_SETS[::3]:
        batch = sequences(PAPER, evalset, 60)
        assert accuracy(reference_logits(stack, batch.tokens), batch.labels) == 1.0


def test_a_variable_added_to_itself() -> None:
    """No sequence of the task does that, but people type it."""
    tokens, N = Vocabulary(PAPER), PAPER.modulus
    prefix = [tokens.variable("b"), 40, tokens.variable("c"), 3, *[tokens.pad] * 8]
    row = [*prefix, tokens.plus, tokens.variable("b"), tokens.variable("b"), tokens.equals]
    logits = Transformer.from_stack(handmade(), 0).answer_logits(torch.tensor([row]))
    assert logits.argmax(-1).item() == 80 % N


# The adder alone.


@pytest.mark.parametrize("N", [*range(3, 31, 2), 45, 59, 97])
def test_the_adder_leads_by_a_margin_on_all_pairs(N: int) -> None:
    W_in, W_out = fourier_mlp(N, range(1, N // 2 + 1))
    logits = torch.relu(W_in[:, None] + W_in) @ W_out
    right = ((torch.arange(N)[:, None] + torch.arange(N)) % N)[..., None]
    lead = logits.gather(-1, right)[..., 0] - logits.scatter(-1, right, -torch.inf).amax(-1)
    assert lead.min() > 0.3


def test_fourier_neurons_are_the_papers_cosines() -> None:
    """Preactivations at `=` are cos(2 pi k n / N + alpha) + cos(2 pi k m / N + alpha) (paper, figure preacts)."""
    frequencies, N = (1, 5, 11, 19, 27), PAPER.modulus
    stack = handmade(Config(numerics=Numerics(dtype="float64")), frequencies=frequencies)
    batch = sequences(PAPER, EVAL_SETS[0], 50)
    _, cache = Transformer.from_stack(stack, 0).run_with_cache(batch.tokens[0], names_filter="blocks.1.mlp.hook_pre")
    n, m = batch.tokens[0, :, -3], batch.tokens[0, :, -2]
    expected = []
    for k in frequencies:
        for j in range(5):
            alpha = 2 * torch.pi * j / 5
            expected.append(
                torch.cos(2 * torch.pi * k * n.double() / N + alpha)
                + torch.cos(2 * torch.pi * k * m.double() / N + alpha)
            )
    torch.testing.assert_close(cache["blocks.1.mlp.hook_pre"][:, -1], torch.stack(expected, -1), rtol=0, atol=1e-9)


# The paper's measures, sequence by sequence.


def patterns(stack: Stack, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Both layers' attention (B, T, T)."""
    names = [f"blocks.{layer}.attn.hook_pattern" for layer in (0, 1)]
    _, cache = Transformer.from_stack(stack, 0).run_with_cache(tokens, names_filter=names)
    return cache[names[0]][:, 0], cache[names[1]][:, 0]


def value_positions(task: Task, row: list[int]) -> set[int]:
    """Where the two values stand: the literal itself, or the number after the variable in the prefix."""
    tokens, T = Vocabulary(task), task.length
    return {row.index(row[p]) + 1 if tokens.is_variable(row[p]) else p for p in (T - 3, T - 2)}


def top_two(weights: Tensor) -> set[int]:
    return set(weights.topk(2).indices.tolist())


def attention_measures(stack: Stack, evalset: EvalSet, rows: int = 100) -> dict[str, float]:
    task, T = stack.config.task, stack.config.task.length
    tokens = sequences(task, evalset, rows).tokens[0]
    first, second = patterns(stack, tokens)
    hits: dict[str, list[bool]] = {
        "attn_l1_equal_to_operands": [],
        "attn_l1_num_to_prev": [],
        "attn_l2_equal_to_values": [],
    }
    for b, row in enumerate(tokens.tolist()):
        hits["attn_l1_equal_to_operands"].append(top_two(first[b, -1]) == {T - 3, T - 2})
        numbers = [i for i in range(1, task.prefix) if row[i] < task.modulus]
        hits["attn_l1_num_to_prev"] += [first[b, i].argmax().item() == i - 1 for i in numbers]
        hits["attn_l2_equal_to_values"].append(top_two(second[b, -1]) == value_positions(task, row))
    return {name: sum(h) / len(h) for name, h in hits.items()}


def qk1_num_to_prev_var(stack: Stack) -> float:
    """j = i and later are left out, and j = i - 2: no variable can stand there."""
    scores = (stack.W_pos @ QK(stack, 1) @ stack.W_pos.mT)[0].tolist()
    rows = range(1, stack.config.task.prefix)
    return sum(all(scores[i][i - 1] > scores[i][j] for j in range(i - 2)) for i in rows) / len(rows)


def qk2_ov1_var_identity(stack: Stack) -> float:
    x = stack.W_E[0, Vocabulary(stack.config.task).first_variable :] @ OV(stack, 1)[0]
    scores = x @ QK(stack, 2)[0] @ x.T
    return sum(scores[v].argmax().item() == v for v in range(len(x))) / len(x)


def ov2_mlp2_accuracy(stack: Stack) -> float:
    """The isolated circuit: the MLP without the residual stream."""
    N = stack.config.task.modulus
    values = stack.W_E[0, :N] @ OV(stack, 2)[0]
    right = 0
    for n in range(N):
        hidden = torch.relu((values[n] + values) @ stack["blocks.1.mlp.W_in"][0])
        logits = hidden @ stack["blocks.1.mlp.W_out"][0] @ stack.W_U[0]
        right += (logits.argmax(-1) == (n + torch.arange(N)) % N).sum().item()
    return right / N**2


@pytest.mark.parametrize("name", ["paper", "full prefix", "long"])
def test_attention_measures_are_one(name: str) -> None:
    stack = handmade(Config(task=TASKS[name]))
    for evalset in (s for s in EVAL_SETS if s.pair == "seen"):
        assert attention_measures(stack, evalset) == dict.fromkeys(attention_measures(stack, evalset, 1), 1.0), (
            evalset.name
        )


@pytest.mark.parametrize("name", TASKS)
def test_weight_measures_are_one(name: str) -> None:
    stack = handmade(Config(task=TASKS[name]))
    assert (qk1_num_to_prev_var(stack), qk2_ov1_var_identity(stack), ov2_mlp2_accuracy(stack)) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("evalset", [EVAL_SETS[0], EVAL_SETS[2], EVAL_SETS[5]], ids=lambda s: s.name)
def test_the_attention_brings_half_of_both_values(evalset: EvalSet) -> None:
    """Whatever the type of the sequence (figure cosine_sim_combined b): .99 of the residual before the MLP, too."""
    stack = handmade(Config(numerics=Numerics(dtype="float64")))
    tokens = sequences(PAPER, evalset, 60).tokens[0]
    _, cache = Transformer.from_stack(stack, 0).run_with_cache(
        tokens, names_filter=["blocks.1.hook_attn_out", "blocks.1.hook_resid_mid"]
    )
    fetched = stack.W_E[0, : PAPER.modulus] @ OV(stack, 2)[0]
    pairs = torch.tensor([[row[p] for p in value_positions(PAPER, row)] for row in tokens.tolist()])
    expected = fetched[pairs].sum(1)
    torch.testing.assert_close(cache["blocks.1.hook_attn_out"][:, -1], expected / 2, rtol=0, atol=1e-9)
    assert torch.cosine_similarity(cache["blocks.1.hook_resid_mid"][:, -1], expected).min() > 0.98


# Negative controls: untrained weights, and one broken circuit at a time.


def test_untrained_weights_are_at_chance() -> None:
    stack = initial_stack(Config(), [0])
    measured = attention_measures(stack, EVAL_SETS[2])
    assert measured["attn_l1_equal_to_operands"] < 0.2 and measured["attn_l2_equal_to_values"] < 0.2
    assert qk2_ov1_var_identity(stack) < 0.5 and ov2_mlp2_accuracy(stack) < 0.1


@pytest.mark.parametrize(
    ("weight", "bounds"),
    [  # for 0-, 1- and 2-variable sequences; literals need no copy, so layer 1 does not matter to the first
        ("blocks.0.attn.W_Q", (1.0, 0.05, 0.7)),
        ("blocks.0.attn.W_V", (1.0, 0.05, 0.6)),
        ("blocks.1.attn.W_Q", (0.3, 0.5, 0.6)),
        ("blocks.1.attn.W_V", (0.05, 0.05, 0.05)),
        ("blocks.1.mlp.W_in", (0.05, 0.05, 0.05)),
    ],
)
def test_a_broken_circuit_drops_what_needs_it(weight: str, bounds: tuple[float, float, float]) -> None:
    stack = handmade()
    stack[weight].zero_()
    for evalset, bound in zip((EVAL_SETS[0], EVAL_SETS[2], EVAL_SETS[5]), bounds, strict=True):
        batch = sequences(PAPER, evalset, 1000)
        measured = accuracy(answer_logits(stack, batch.tokens), batch.labels)
        assert measured == 1.0 if bound == 1.0 else measured < bound, evalset.name


def test_without_matching_only_sequences_without_distractors_are_right() -> None:
    """Attention alike on all assigned numbers adds the right two where there are two: a third of the 2-var
    sequences."""
    stack = handmade()
    stack["blocks.0.attn.W_V"].zero_()
    assert qk2_ov1_var_identity(stack) < 0.2
    # The literal still leads; the n assigned numbers and the variable's own slot tie for second: mean of 1/(n + 1) =
    # .27.
    assert attention_measures(stack, EVAL_SETS[2])["attn_l2_equal_to_values"] < 0.45
    batch = sequences(PAPER, EVAL_SETS[5], 1000)
    right = answer_logits(stack, batch.tokens).argmax(-1) == batch.labels
    assigned = (batch.tokens[0, :, : PAPER.prefix] < PAPER.modulus).sum(1)
    assert right[0, assigned == 2].all() and right[0, assigned > 3].double().mean() < 0.25
