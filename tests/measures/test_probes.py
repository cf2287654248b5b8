"""Probes, compared with textbook fits, on the hand-made model, on random weights, and on the paper's network."""

import pytest
import torch
from torch.nn.functional import cross_entropy, one_hot

from assignadd.config import PRESETS, Config, Member
from assignadd.measures import probes
from assignadd.measures.probes import (
    adam_probe,
    answer_probes,
    least_squares_probe,
    mixed_sequences,
    probe_l1_var_from_num,
)
from assignadd.model.forward import traces
from assignadd.model.handmade import handmade
from assignadd.model.stack import concatenate, initial_stack
from assignadd.model.transformer import Transformer
from assignadd.task.positions import roles
from assignadd.task.splits import pair_split
from tests.architectures import ARCHITECTURES, random_stack, sequences_of

CONFIG = Member(0).config(PRESETS["tiny"])
TASK, N, V = CONFIG.task, CONFIG.task.modulus, CONFIG.task.n_vars
SEEN = pair_split(TASK, 0)[None]
HANDMADE = handmade(Config(task=TASK))
RANDOM = initial_stack(CONFIG, [0, 1])
BEFORE, AFTER = slice(0, 3), slice(3, 6)


def noisy_classes(n: int, d: int, classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(classes, (n,), generator=generator)
    x = torch.randn(classes, d, generator=generator)[labels] + torch.randn(n, d, generator=generator) + 3
    return x.double(), labels


def test_a_least_squares_probe_is_the_minimiser_of_its_loss():
    x, labels = noisy_classes(300, 5, 4)
    ridge, train, targets = 0.3, x[:200], one_hot(labels[:200], 4).double()
    spread = (train - train.mean(0)).square().sum() / 5
    weights, bias = (
        torch.zeros(5, 4, dtype=torch.float64, requires_grad=True),
        torch.zeros(4, dtype=torch.float64, requires_grad=True),
    )
    optimiser = torch.optim.LBFGS([weights, bias], max_iter=500, tolerance_grad=1e-10, line_search_fn="strong_wolfe")

    def loss():
        optimiser.zero_grad()
        value = (train @ weights + bias - targets).square().sum() + ridge * spread * weights.square().sum()
        value.backward()
        return value

    optimiser.step(loss)
    right = ((x @ weights + bias).argmax(-1) == labels).double()
    mixed = labels.roll(1)
    found = least_squares_probe(x, torch.stack([labels, mixed]), 4, 200, ridge)
    assert found[0].item() == pytest.approx(right[200:].mean().item())
    assert 0.5 < found[0] < 1 and found[1] < 0.4  # neither trivial nor helped by the other labels


@pytest.mark.parametrize("name", ["the paper's", *ARCHITECTURES])
def test_stages_are_what_the_hooks_of_the_transformer_see(name):
    config = ARCHITECTURES.get(name, CONFIG)
    one, tokens, last = random_stack(config), sequences_of(config, 30), config.model.n_layers - 1
    with torch.no_grad():
        _, cache = Transformer.from_stack(one, 0).run_with_cache(tokens[0])
    hooks = ("hook_resid_pre", "hook_resid_mid", "mlp.hook_pre", "mlp.hook_post", "hook_mlp_out", "hook_resid_post")
    stages = list(probes.vectors_at_equals(next(iter(traces(one, tokens))), one).values())
    for stage, hook in zip(stages[-len(hooks) :], hooks, strict=True):  # residuals of earlier layers come before
        torch.testing.assert_close(stage, cache[f"blocks.{last}.{hook}"][:, -1], atol=1e-5, rtol=1e-4)


def test_an_adam_probe_equals_torchs_adam_on_the_cross_entropy():
    x, labels = noisy_classes(300, 5, 4)
    layer = torch.nn.Linear(5, 4).double()
    torch.nn.init.zeros_(layer.weight)
    torch.nn.init.zeros_(layer.bias)
    optimiser = torch.optim.Adam(layer.parameters(), lr=1e-2)
    for _ in range(4):
        optimiser.zero_grad()
        cross_entropy(layer(x[:200]), labels[:200]).backward()
        optimiser.step()
    expected = (layer(x[200:]).argmax(-1) == labels[200:]).double().mean().item()
    assert adam_probe(x, labels, 4, 200, steps=4).item() == pytest.approx(expected)


def test_no_pair_is_used_for_training_and_testing():
    found = answer_probes(RANDOM.models(0), [CONFIG], SEEN)
    pairs = probes._pairs(N, "pair").tolist()
    n_train = N * N - found.n_test
    assert set(pairs[:n_train]) | set(pairs[n_train:]) == set(range(N * N)) and len(pairs) == N * N
    assert not set(pairs[:n_train]) & set(pairs[n_train:])
    assert pairs != sorted(pairs)
    rows = probes._pairs(N, "row").tolist()
    assert len(rows) == len(pairs) and set(rows[:n_train]) & set(rows[n_train:])


def test_the_three_types_alternate():
    tokens = mixed_sequences([CONFIG, CONFIG], SEEN.expand(2, -1, -1), 100)
    assert tokens.shape == (2, 100, TASK.length)
    assert roles(TASK, tokens).is_variable.sum(-1).tolist() == [[i % 3 for i in range(100)]] * 2


def test_the_answer_is_linear_in_the_neurons_but_not_before():
    found = answer_probes(concatenate([HANDMADE, HANDMADE]), [CONFIG] * 2, SEEN.expand(2, -1, -1))
    assert found.test.shape == found.control.shape == (2, 6) and (found.test[:, AFTER] == 1).all()
    # A function of n plus one of m: below 1/N on pairs left out, however well it does on those trained on.
    assert found.test[:, BEFORE].max() < 1 / N + 0.03
    assert found.control.max() < 1 / N + 0.08  # 159 test rows
    by_row = answer_probes(HANDMADE, [CONFIG], SEEN, "row")
    assert by_row.test[:, AFTER].min() > 0.95 and by_row.test[:, 1].item() > found.test[0, 1].item()


def test_without_the_mlp_no_probe_finds_the_answer():
    silent, scrambled = HANDMADE.clone(), HANDMADE.clone()
    silent["blocks.1.mlp.W_out"].zero_()
    found = answer_probes(silent, [CONFIG], SEEN).test[0]
    assert found[3] == 1 and found[4:].max() < 1 / N + 0.08
    order = torch.randperm(N, generator=torch.Generator().manual_seed(1))
    scrambled.W_E[:, :N] = HANDMADE.W_E[:, order]  # neurons add other numbers than the ones that stand there
    assert answer_probes(scrambled, [CONFIG], SEEN).test[0, AFTER].max() < 0.3


def test_random_weights_are_at_chance():
    assert answer_probes(RANDOM, [CONFIG] * 2, SEEN.expand(2, -1, -1)).test.max() < 1 / N + 0.08


def test_the_residual_after_layer_1_equals_the_transformers():
    tokens = mixed_sequences([CONFIG], SEEN, 12)
    with torch.no_grad():
        _, cache = Transformer.from_stack(RANDOM, 0).run_with_cache(tokens[0])
    trace, _ = probes.traces(RANDOM, tokens)
    chosen = torch.rand(tokens[0].shape, generator=torch.Generator().manual_seed(0)) < 0.5
    torch.testing.assert_close(trace.after_layer(1)[chosen], cache["blocks.0.hook_resid_post"][chosen])


@pytest.mark.parametrize("steps", [None, 4])
def test_the_variable_is_found_at_its_number(steps):
    tokens = mixed_sequences([CONFIG], SEEN, 600)
    found = probe_l1_var_from_num(concatenate([HANDMADE, HANDMADE]), tokens, [steps])[0]
    # The variable is all there; four steps are too few to find it among one-hot numbers and positions. That part is the
    # probe's.
    assert found.tolist() == [1, 1] if steps is None else 0.3 < found.min() <= found.max() < 0.8
    for stack in (HANDMADE, RANDOM):
        deaf = stack.clone()
        deaf["blocks.0.attn.W_V"].zero_()
        assert probe_l1_var_from_num(deaf, tokens, [steps]).max() < 1 / V + 0.1


def test_enough_steps_of_adam_find_the_variable():
    assert probe_l1_var_from_num(HANDMADE, mixed_sequences([CONFIG], SEEN, 600), [100]).item() == 1


def test_random_weights_are_above_chance_for_a_converged_probe():
    """Uniform attention copies all earlier variables; four steps of Adam do not find the right one."""
    tokens = mixed_sequences([CONFIG], SEEN, 600)
    converged, four = probe_l1_var_from_num(RANDOM, tokens, [None, 4])
    assert (four < converged).all() and converged.max() < 0.95


def test_the_papers_network(paper_run):
    final, configs, seen = paper_run.checkpoint(40_000), paper_run.configs, paper_run.seen
    found = answer_probes(final, configs, seen)
    assert found.test[0, BEFORE].max() < 1 / 59  # published: .044, from a split by row
    assert found.control.max() < 1 / 59 + 4 * (1 / 59 / found.n_test) ** 0.5
    assert found.test[0, 5].item() == pytest.approx(0.999, abs=4 * (0.002 / found.n_test) ** 0.5)
    assert found.test[0, 3:5].min() > 0.99
    by_row = answer_probes(final, configs, seen, split="row")
    assert by_row.test[0, 1].item() == pytest.approx(0.044, abs=4 * (0.044 / by_row.n_test) ** 0.5)


def test_the_papers_network_learns_to_copy_variables(paper_run):
    """With four steps: "reaching 80 %" at the end of the first phase (about step 5,000), 100 % in the second (App.
    B)."""
    steps = [1001, 5301, 10001, 40_000]
    stack, tokens = paper_run.trajectory(steps), mixed_sequences(paper_run.configs, paper_run.seen, 600)
    four, converged = probe_l1_var_from_num(stack, tokens, [4, None])
    assert four.tolist() == pytest.approx([0.3, 0.82, 1, 1], abs=0.08)
    assert 0.5 < converged[0] < 0.8 and converged[1:].min() > 0.99


def test_a_least_squares_probe_of_a_network_that_diverged_ends():
    x, labels = torch.full((20, 3), torch.nan), torch.arange(20)[None] % 2
    assert least_squares_probe(x, labels, 2, 12, 0.01).shape == (1,)
