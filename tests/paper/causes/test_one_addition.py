"""Tests of one addition module: the damage of removing frequencies by type, and a new MLP2 trained on literals."""

import torch

from assignadd.interventions.apply import apply, reference_sequences
from assignadd.interventions.specification import Replace
from assignadd.measures.accuracies import set_accuracies
from assignadd.measures.sequences import sequences
from assignadd.model.stack import initial_stack
from assignadd.paper.causes.one_addition import MLP2_WEIGHTS, FrequencyDamage, _margin, frequency_damage, grafted
from assignadd.task.evalsets import EVAL_SETS
from tests.interventions.small import CONFIG, HANDMADE, SEEN


def test_removing_a_frequency_of_the_hand_made_model_harms_all_types_equally():
    """The input of its MLP is the same for all types; modulo a prime all frequencies are equivalent by symmetry."""
    found = frequency_damage(HANDMADE, CONFIG, SEEN, 300)
    assert found.frequencies == [1, 2, 3, 4, 5] and found.loss.shape == (5, 3)
    assert (found.loss > 0.05).all() and found.loss.max() - found.loss.min() < 0.04


def test_removing_a_frequency_equals_the_mean_intervention_on_its_neurons():
    found, reference = frequency_damage(HANDMADE, CONFIG, SEEN, 40), reference_sequences(CONFIG, SEEN)
    batches = [sequences([CONFIG], SEEN[None], kind, 40) for kind in range(3)]
    for k, after in zip(found.frequencies, found.after, strict=True):
        for kind, batch in enumerate(batches):
            logits = apply(
                HANDMADE, batch.tokens, [Replace("mean", "blocks.1.mlp.hook_post", frequencies=(k,))], reference
            )[0]
            assert torch.allclose(_margin(logits, batch.labels[0]), after[kind], atol=1e-4)


def damage(losses, noise=0.0):
    """Margins of mean one that fall by these losses without each frequency."""
    drawn = torch.randn(len(losses), 3, 400, generator=torch.Generator().manual_seed(0)) * noise
    return FrequencyDamage([1, 2, 3, 4], torch.ones(3, 400), 1 - losses[..., None] + drawn)


def test_agreement_is_small_if_types_need_different_frequencies():
    """Agreement is the smallest correlation between two types."""
    same, other = torch.tensor([0.1, 0.2, 0.3, 0.4]), torch.tensor([0.4, 0.3, 0.2, 0.1])
    assert damage(torch.stack([same, same * 2, same], 1)).agreement > 0.999
    assert damage(torch.stack([same, same, other], 1)).agreement < -0.999


def test_resampled_agreement_varies_with_the_losses():
    same = torch.tensor([0.1, 0.2, 0.3, 0.4]).expand(3, 4).T
    assert damage(same).resampled(20).min() > 0.999  # nothing to scatter
    few, many = (damage(same, noise).resampled(200).std() for noise in (0.2, 2.0))
    assert 0 < few < 0.01 < 0.1 < many


def test_margin():
    logits = torch.tensor([[3.0, 1.0, 2.5], [0.0, 4.0, 1.0]])
    assert _margin(logits, torch.tensor([0, 2])).tolist() == [0.5, -3.0]


def test_an_mlp_trained_on_literals_also_adds_variables():
    """In the hand-made model the input of the MLP is the same for both; all other weights are unchanged."""
    result = grafted(HANDMADE, CONFIG, SEEN, steps=400)
    for name, weight in HANDMADE.weights.items():
        assert torch.equal(result[name], weight) == (name not in MLP2_WEIGHTS)
    sets = [s for s in EVAL_SETS if s.pair == "seen"]
    trained, fresh = (set_accuracies(model, [CONFIG], SEEN[None], 200, sets)[0] for model in (result, _untrained()))
    assert all(a.accuracy > 0.95 for a in trained.values()), trained
    assert all(a.accuracy < 0.3 for a in fresh.values())


def _untrained():
    model, other = HANDMADE.clone(), initial_stack(HANDMADE.config, [1])
    for name in MLP2_WEIGHTS:
        model[name].copy_(other[name])
    return model
