"""Fourier analysis, compared with direct fits, and on models whose frequencies are known."""

import math

import pytest
import torch

from assignadd.config import PRESETS, Config, Member
from assignadd.measures import addition
from assignadd.measures.addition import number_outputs, ov2_mlp2_accuracy
from assignadd.measures.sequences import sequences
from assignadd.model.circuits import OV
from assignadd.model.handmade import PHASES, handmade
from assignadd.model.stack import concatenate, initial_stack
from assignadd.model.transformer import Transformer
from assignadd.task.positions import with_values
from assignadd.task.splits import pair_split

CONFIG = Member(0).config(PRESETS["tiny"])
TASK, N = CONFIG.task, CONFIG.task.modulus
SEEN = pair_split(TASK, 0)[None]
CHOSEN = (2, 5, 9, 11)
FEW = handmade(Config(task=TASK), frequencies=CHOSEN)
RANDOM = initial_stack(CONFIG, [0, 1])


def in_contexts(stack, configs, seen):
    return addition.waves(addition.context_preactivations(stack, configs, seen))


def frequencies(stack) -> list[list[int]]:
    return [[i + 1 for i, own in enumerate(row) if own] for row in addition.network_frequencies(stack).tolist()]


def scrambled(stack):
    """The stack with the embeddings of numbers permuted."""
    broken = stack.clone()
    order = torch.randperm(N, generator=torch.Generator().manual_seed(0))
    broken.W_E[:, :N] = stack.W_E[:, order]
    return broken


@pytest.mark.parametrize("n", [2, 3, 8, 23, 59])
def test_the_basis_is_orthonormal_and_named(n):
    basis = addition.fourier_basis(n)
    torch.testing.assert_close(basis @ basis.T, torch.eye(n).double())
    for k, row in zip(addition.basis_frequencies(n).tolist(), basis, strict=True):
        power = torch.fft.rfft(row).abs().square()
        assert power.argmax() == k and power[k] / power.sum() == pytest.approx(1)
    assert addition.basis_frequencies(n).max() == n // 2


@pytest.mark.parametrize("n", [9, 10])
def test_a_spectrum_equals_the_power_of_the_discrete_fourier_transform(n):
    functions = torch.randn(2, n, 3, generator=torch.Generator().manual_seed(n)).double()
    power = torch.fft.fft(functions, dim=1).abs().square().sum(-1)[:, 1:]  # both k and n - k
    expected = torch.stack([sum(power[:, j - 1] for j in {k, n - k}) for k in range(1, n // 2 + 1)], 1) / power.sum(
        1, keepdim=True
    )
    torch.testing.assert_close(addition.spectrum(functions), expected)
    assert addition.spectrum(torch.ones(1, n, 1)).tolist() == [[0] * (n // 2)]


@pytest.mark.parametrize("n", [7, 8])
def test_the_best_wave_is_the_best_of_all_least_squares_fits(n):
    maps = torch.randn(1, n, n, 6, generator=torch.Generator().manual_seed(n)).double()
    found = addition.waves(maps)
    first, second = (x.flatten().double() for x in torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij"))
    for neuron in range(6):
        y = maps[0, ..., neuron].flatten()
        shares = []
        for k in range(1, n // 2 + 1):
            angles = [2 * math.pi * k / n * x for x in (first, second)]
            columns = torch.stack([torch.ones_like(y), *(f(a) for a in angles for f in (torch.cos, torch.sin))], 1)
            fit = columns @ torch.linalg.pinv(columns) @ y
            shares.append((1 - (y - fit).square().sum() / (y - y.mean()).square().sum()).item())
            if k == found.frequency[0, neuron]:
                amplitudes, phases = found.amplitude[0, :, neuron], found.phase[0, :, neuron]
                waves = [A * (angle + phase).cos() for A, angle, phase in zip(amplitudes, angles, phases, strict=True)]
                torch.testing.assert_close(sum(waves) + y.mean(), fit)
        assert found.frequency[0, neuron] == 1 + shares.index(max(shares))
        assert found.share[0, neuron].item() == pytest.approx(max(shares))


def test_amplitudes_and_phases_of_a_wave_are_recovered():
    n, k, alpha, beta = 11, 4, 0.5, -2.0
    x = 2 * math.pi * k * torch.arange(n).double() / n
    found = addition.waves((3 * torch.cos(x + alpha)[:, None] + 5 * torch.cos(x + beta) + 7)[None, ..., None])
    assert found.frequency.item() == k and found.share.item() == pytest.approx(1)
    assert found.amplitude.flatten().tolist() == pytest.approx(
        [3, 5]
    ) and found.phase.flatten().tolist() == pytest.approx([alpha, beta])


def test_the_hand_made_model_has_the_chosen_frequencies():
    both = concatenate([FEW, FEW])
    assert frequencies(both) == [list(CHOSEN)] * 2
    assert frequencies(handmade(Config(task=TASK))) == [list(range(1, N // 2 + 1))]
    contexts = in_contexts(both, [CONFIG] * 2, SEEN.expand(2, -1, -1))
    phases = torch.tensor([2 * math.pi * j / PHASES for j in range(PHASES)] * len(CHOSEN))
    for found, amplitude in ((addition.circuit_waves(both), 2), (contexts, 1)):  # attention brings half of each value
        assert found.frequency.tolist() == [[k for k in CHOSEN for _ in range(PHASES)]] * 2
        assert found.share.min() > 0.9999
        torch.testing.assert_close(found.amplitude, torch.full_like(found.amplitude, amplitude), atol=1e-4, rtol=0)
        torch.testing.assert_close((found.phase - phases).cos(), torch.ones_like(found.phase), atol=1e-5, rtol=0)
    assert addition.preactivation_spectrum(FEW)[0, [k - 1 for k in CHOSEN]].tolist() == pytest.approx([1 / 4] * 4)


def test_preactivations_in_contexts_are_the_mean_of_the_transformers():
    found = addition.context_preactivations(RANDOM.models(1), [CONFIG], SEEN)
    model, pairs = Transformer.from_stack(RANDOM, 1), torch.cartesian_prod(torch.arange(N), torch.arange(N))
    expected = torch.zeros_like(found[0]).flatten(0, 1)
    for n_vars in (0, 1, 2):
        tokens = with_values(TASK, sequences([CONFIG], SEEN, n_vars, N * N).tokens, pairs)
        with torch.no_grad():
            expected += model.run_with_cache(tokens[0])[1]["blocks.1.mlp.hook_pre"][:, -1] / 3
    torch.testing.assert_close(found[0].flatten(0, 1), expected, atol=1e-5, rtol=1e-4)


def test_the_waves_of_the_circuit_are_those_of_its_preactivations():
    x = addition.number_preactivations(RANDOM)
    found, expected = addition.circuit_waves(RANDOM), addition.waves(x.unsqueeze(2) + x.unsqueeze(1))
    assert torch.equal(found.frequency, expected.frequency)
    torch.testing.assert_close(found.share, expected.share)
    torch.testing.assert_close(found.amplitude, expected.amplitude)


def test_the_addition_needs_only_the_chosen_frequencies():
    found = addition.filtered_accuracies(FEW)
    assert found.restricted.item() == 1 and found.excluded.item() < 0.1
    alone = addition.filtered_accuracies(
        handmade(Config(task=TASK), frequencies=(3,))
    )  # without rivals, one is enough for prime N
    assert alone.restricted.item() == 1 and alone.excluded.item() < 0.1


def test_filtered_accuracies_equal_those_with_coefficients_of_the_discrete_transform_set_to_zero():
    noisy = FEW.clone()
    noisy.W_E[:, :N] += 0.06 * torch.randn(noisy.W_E[:, :N].shape, generator=torch.Generator().manual_seed(0))
    x, readout = addition.number_preactivations(noisy)[0].double(), addition.mlp_readout(noisy)[0].double()
    own = [k in frequencies(noisy)[0] for k in range(1, N // 2 + 1)]

    def accuracy(removed: list[bool]) -> float:
        coefficients = torch.fft.rfft(x, dim=0)
        coefficients[1:][torch.tensor(removed)] = 0
        part = torch.fft.irfft(coefficients, N, dim=0)
        best = ((part[:, None] + part).relu() @ readout).argmax(-1)
        return sum(int(best[a, b] == (a + b) % N) for a in range(N) for b in range(N)) / N**2

    found = addition.filtered_accuracies(noisy)
    assert ov2_mlp2_accuracy(noisy).item() == pytest.approx(accuracy([False] * len(own)))
    assert found.restricted.item() == pytest.approx(accuracy([not o for o in own]))
    assert found.excluded.item() == pytest.approx(accuracy(own))


def test_keeping_frequencies_is_a_projection():
    x, keep = number_outputs(RANDOM), torch.arange(N // 2) % 2 == 0
    one, other = addition.restricted_to(x, keep), addition.restricted_to(x, ~keep)
    torch.testing.assert_close(one + other - x.mean(1, keepdim=True), x)
    torch.testing.assert_close(addition.restricted_to(one, keep), one)
    assert addition.spectrum(one)[:, ~keep].max() < 1e-10
    torch.testing.assert_close(one.mean(1), x.mean(1))


def counting():
    """The hand-made model with an MLP of neurons ReLU(n + m - (i - 1)): a logit is a second difference of three."""
    stack, places = handmade(Config(task=TASK)), torch.arange(2 * N - 1)
    n_neurons = stack["blocks.1.mlp.W_in"].shape[-1]
    ramps, hats = torch.zeros(N, n_neurons), torch.zeros(n_neurons, N)
    ramps[:, places] = torch.arange(N)[:, None] - (places - 1) / 2
    for weight, shift in ((1, 0), (-2, 1), (1, 2)):
        sums = places[: len(places) - shift]
        hats[sums + shift, sums % N] += weight
    fetched = stack.W_E[0, :N] @ OV(stack, 2)[0]  # (N, d)
    stack["blocks.1.mlp.W_in"][0] = torch.linalg.pinv(fetched) @ ramps
    stack["blocks.1.mlp.W_out"][0] = hats @ stack.W_U[0].mT
    return stack


def test_a_network_that_counts_adds_without_single_frequencies():
    """Its preactivations n + m - i are linear in n, which needs all frequencies."""
    stack = counting()
    assert ov2_mlp2_accuracy(stack).item() == 1
    used = slice(2 * N - 1)
    assert addition.circuit_waves(stack).share[:, used].max() < 0.65  # 6 / pi^2 of a ramp's variance: first harmonic
    assert addition.filtered_accuracies(stack).restricted.item() < 0.5


def test_random_and_scrambled_networks_have_no_frequencies():
    for stack in (RANDOM, scrambled(FEW)):
        assert addition.circuit_waves(stack).share.mean() < 0.45
        assert all(len(own) > N // 4 for own in frequencies(stack))
        found = addition.filtered_accuracies(stack)
        assert found.restricted.max() < 0.3
    assert in_contexts(RANDOM, [CONFIG] * 2, SEEN.expand(2, -1, -1)).share.mean() < 0.3


def test_the_papers_network(paper_run):
    final = paper_run.checkpoint(40_000)
    ten = [1, 2, 4, 5, 11, 15, 19, 20, 22, 27]
    assert frequencies(final) == [ten]
    assert addition.preactivation_spectrum(final)[0, [k - 1 for k in ten]].sum().item() == pytest.approx(
        0.994, abs=0.0005
    )
    found = addition.circuit_waves(final)
    share = found.share[0]
    assert [share.mean().item(), share.median().item(), share[70].item()] == pytest.approx(
        [0.609, 0.693, 0.963], abs=0.0006
    )
    assert found.frequency[0, 70] == 11 and (share >= 0.9).sum() == 70 and (share < 0.5).sum() == 201
    filtered = addition.filtered_accuracies(final)
    assert filtered.restricted.item() > 0.998 and filtered.excluded.item() < 0.05
    of_contexts = in_contexts(final, paper_run.configs, paper_run.seen)
    sure = share > 0.5
    assert (of_contexts.frequency[0] == found.frequency[0])[sure].all()
    # Both operands have the same phase in sequences too, although only the circuit is symmetric by construction.
    assert (of_contexts.phase[0, 0] - of_contexts.phase[0, 1])[share > 0.9].cos().min() > 0.99
