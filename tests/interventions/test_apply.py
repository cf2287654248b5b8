"""Interventions, compared with full forward passes and with results known by construction."""

from importlib import import_module

import pytest
import torch

from assignadd.config import Config, ConfigError
from assignadd.interventions.apply import apply, donors_of, matches, reference_sequences, shuffled, swapped
from assignadd.interventions.specification import Cut, Pattern, Replace, Swap
from assignadd.measures.addition import restricted_to
from assignadd.model.forward import answer_logits
from assignadd.model.stack import initial_stack
from assignadd.model.transformer import Transformer
from assignadd.runs.folder import open_run
from assignadd.task.positions import ROLES, Positions, answers
from assignadd.task.text import parse
from tests.architectures import ARCHITECTURES, sequences_of
from tests.architectures import random_stack as wide_weights
from tests.hooks import HOOKS, NEURON_HOOKS
from tests.interventions.small import CONFIG, HANDMADE, SEEN, TASK, random_stack, tokens
from tests.runs import small as runs

SOURCE = "d=3, c=7, e=2, c+e=?"
STACK, TOKENS = random_stack(), tokens()
REFERENCE = reference_sequences(STACK.config, SEEN, 40)


def logits(interventions, stack=STACK, batch=TOKENS, **more):
    return apply(stack, batch, interventions, REFERENCE, **more)


def by_hand(*hooks):
    """The logits of the first model with functions at the hooks of the reference transformer, (B, N)."""
    with torch.no_grad():
        return Transformer.from_stack(STACK, 0).run_with_hooks(TOKENS[0], fwd_hooks=hooks)[:, -1]


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("action", ["zero", "mean", "resample", "patch"])
def test_every_activation_can_be_replaced(hook, action):
    clean, source = answer_logits(STACK, TOKENS), SOURCE if action == "patch" else None
    changed = logits([Replace(action, hook, source=source)])
    # Positions are embedded alike in every sequence.
    assert ((changed - clean).abs().amax() > 1e-3) == (hook != "hook_pos_embed" or action == "zero")
    for more in ({"neurons": (0, 3, 7)}, {"frequencies": (1, 2, 4)}):
        if hook in NEURON_HOOKS or (hook == "hook_embed" and "frequencies" in more):
            assert not torch.allclose(logits([Replace(action, hook, source=source, **more)]), changed)


@pytest.mark.parametrize("hook", ["hook_embed", "blocks.0.hook_attn_out", "blocks.1.hook_resid_pre"])
def test_only_the_named_positions_are_replaced(hook):
    places = ("first_value", 3, "distractors")
    where = Positions(TASK, TOKENS[0]).any_of(places)[:, :, None]
    expected = by_hand((hook, lambda x, point: x.masked_fill(where, 0)))
    assert torch.allclose(logits([Replace("zero", hook, places)])[0], expected, atol=1e-9)


@pytest.mark.parametrize("role", ROLES)
def test_edges_are_cut_and_rows_are_set_at_every_role(role):
    positions = Positions(TASK, TOKENS[0])
    role_mask, first = positions.mask(role), positions.mask("first")

    def cut(scores, point):
        queries = positions.mask("equals") | positions.mask("plus")
        return scores.masked_fill((queries[:, :, None] & role_mask[:, None])[:, None], -torch.inf)

    def set_row(pattern, point):
        row = (0.25 * first + 0.1 * (torch.arange(TASK.length) == 2))[:, None, None].expand_as(pattern).tril()
        return torch.where(role_mask[:, None, :, None], row.to(pattern), pattern)

    for layer in (1, 2):
        found = logits([Cut(layer, "equals", role), Cut(layer, "plus", role)])[0]
        assert torch.allclose(found, by_hand((f"blocks.{layer - 1}.attn.hook_attn_scores", cut)), atol=1e-9)
        found = logits([Pattern(layer, role, {"first": 0.25, "2": 0.1})])[0]
        assert torch.allclose(found, by_hand((f"blocks.{layer - 1}.attn.hook_pattern", set_row)), atol=1e-6)


def test_an_empty_list_changes_nothing_and_interventions_apply_in_order():
    clean = answer_logits(STACK, TOKENS)
    assert torch.allclose(logits([]), clean, atol=1e-9)
    zero, mean = Replace("zero", "blocks.1.hook_attn_out"), Replace("mean", "blocks.1.hook_attn_out")
    assert torch.equal(logits([zero, mean]), logits([mean])) and torch.equal(logits([mean, zero]), logits([zero]))
    assert not torch.allclose(logits([zero]), logits([mean]))


def at_equals(hook, batch=TOKENS, index=0):
    """Activations from the reference transformer's cache."""
    return Transformer.from_stack(STACK, index).run_with_cache(batch[0])[1][hook][:, -1].detach()


def test_without_mlp2_the_logits_are_the_unembedded_residual():
    expected = at_equals("blocks.1.hook_resid_mid") @ STACK.W_U[0]
    assert torch.allclose(logits([Replace("zero", "blocks.1.hook_mlp_out")])[0], expected, atol=1e-9)


def test_mean_and_resample_use_the_reference_set():
    post, reference = at_equals("blocks.1.hook_resid_post"), at_equals("blocks.1.hook_resid_post", REFERENCE[None])
    assert torch.allclose(
        logits([Replace("mean", "blocks.1.hook_resid_post")])[0],
        (reference.mean(0) @ STACK.W_U[0]).expand(len(post), -1),
        atol=1e-9,
    )
    order = shuffled(40)
    assert sorted(order.tolist()) == list(range(40)) and order.tolist() != list(range(40))
    expected = reference[order[torch.arange(len(post)) % 40]] @ STACK.W_U[0]
    assert torch.allclose(logits([Replace("resample", "blocks.1.hook_resid_post")])[0], expected, atol=1e-9)


def test_a_batch_in_parts_is_resampled_as_a_whole(monkeypatch):
    """Row 17 takes the reference sequence that it takes in one piece, whatever part of the batch it is in."""
    whole = logits([Replace("resample", "blocks.1.hook_resid_post")])
    monkeypatch.setattr(import_module("assignadd.interventions.apply"), "CHUNK", 7)
    assert torch.allclose(logits([Replace("resample", "blocks.1.hook_resid_post")]), whole, atol=1e-9)


def test_a_patch_replaces_a_role_by_the_same_role():
    """Patching the token embedding at a role has the effect of writing the source's token there."""
    source = parse(SOURCE, TASK)
    for role, at in (("first", 7), ("first_value", source.index(7)), ("plus", 6)):
        patched, batch = logits([Replace("patch", "hook_embed", (role,), source=SOURCE)]), TOKENS.clone()
        batch[0][Positions(TASK, TOKENS[0]).mask(role)] = source[at]
        assert torch.allclose(patched, answer_logits(STACK, batch), atol=1e-9), role
    # A literal has no variable in the prefix: nothing is patched from it, which is an error where nothing else is.
    alone, beside = (
        Replace("patch", "blocks.0.hook_attn_out", places, source="d=3, 1+2=?")
        for places in (("first_variable",), ("first_variable", "plus"))
    )
    with pytest.raises(ConfigError, match="a prompt that has first_variable"):
        logits([alone])
    only_plus = Replace("patch", "blocks.0.hook_attn_out", ("plus",), source="d=3, 1+2=?")
    assert torch.allclose(logits([beside]), logits([only_plus]), atol=1e-9)


def test_a_query_without_keys_has_zero_attention():
    cuts = [Cut(2, "equals", key) for key in range(TASK.length)]
    expected = logits([Replace("zero", "blocks.1.hook_attn_out")])
    assert torch.allclose(logits(cuts), expected, atol=1e-9)


def test_frequencies_of_the_embedding():
    """Removing all frequencies leaves the mean embedding of numbers; removing some leaves the others."""
    N, stack = TASK.modulus, STACK.clone()
    stack.W_E[:, :N] = STACK.W_E[:, :N].mean(1, keepdim=True)
    assert torch.allclose(
        logits([Replace("zero", "hook_embed", frequencies=tuple(range(1, 6)))]), answer_logits(stack, TOKENS), atol=1e-9
    )
    stack.W_E[:, :N] = restricted_to(STACK.W_E[:, :N], torch.tensor([True, False, True, True, False]))
    assert torch.allclose(
        logits([Replace("zero", "hook_embed", frequencies=(2, 5))]), answer_logits(stack, TOKENS), atol=1e-9
    )


def test_a_swap_copies_the_other_models_weights():
    other = initial_stack(STACK.config, [9])
    donors = lambda swap, model: other  # noqa: E731
    for component, names in {
        "mlp2": ("blocks.1.mlp.W_in", "blocks.1.mlp.W_out"),
        "qk1": ("blocks.0.attn.W_Q", "blocks.0.attn.W_K"),
    }.items():
        by_hand = STACK.clone()
        for name in names:
            by_hand[name].copy_(other[name].expand_as(by_hand[name]))
        assert torch.allclose(logits([Swap(component, 1)], donors=donors), answer_logits(by_hand, TOKENS), atol=1e-9)
    with pytest.raises(ConfigError, match="no run to take weights from"):
        apply(STACK, TOKENS, [Swap("mlp2", 1)])
    with pytest.raises(ConfigError, match="same shape"):
        swapped(STACK.models(0), HANDMADE, "unembed")


@pytest.mark.parametrize(
    ("intervention", "acts"),
    [
        (Swap("mlp2"), True),
        (Cut(1, "equals", "first"), True),
        (Cut(1, "first", "equals"), False),  # a later key, which the query does not attend to
        (Cut(1, "equals", "first_variable"), False),
        (Pattern(1, "equals", {"first": 1.0}), True),
        (Pattern(1, "first_variable", {"first": 1.0}), False),
        (Replace("zero", "hook_embed", ("pads",)), True),
        (Replace("zero", "hook_embed", ("distractors",)), True),
        (Replace("zero", "hook_embed", ("second_value",)), True),
        (Replace("zero", "hook_embed", ("second_variable",)), False),
    ],
)
def test_an_intervention_acts_where_a_sequence_has_its_roles(intervention, acts):
    """A sum of two literals, with no variable among its operands."""
    positions = Positions(TASK, torch.tensor([parse("a=1, 3+4=?", TASK)]))
    assert matches(intervention, positions) == acts


def test_each_model_of_a_stack_has_its_own_donor():
    others = initial_stack(STACK.config, [8, 9])
    by_hand = STACK.clone()
    by_hand["unembed.W_U"].copy_(others["unembed.W_U"])
    changed = logits([Swap("unembed", 1)], donors=lambda swap, index: others.models(index))
    assert torch.allclose(changed, answer_logits(by_hand, TOKENS), atol=1e-9)


def test_donors_are_of_this_run_and_step_unless_a_swap_names_others(tmp_path):
    for name, steps in (("this", 20), ("other", 30)):
        runs.train(tmp_path / name, steps)
    donor = donors_of(open_run(tmp_path / "this"), 10)
    other = str(tmp_path / "other")
    for swap, step, index in (
        (Swap("mlp2"), 10, 1),  # the model that is edited
        (Swap("mlp2", seed=3), 10, 0),
        (Swap("mlp2", step=20), 20, 1),
        (Swap("mlp2", run=other), 30, 0),
        (Swap("mlp2", run=other, seed=7, step=20), 20, 1),
    ):
        assert torch.equal(donor(swap, 1).flat[0], runs.weights_at(step)[index])


def test_cutting_one_operand_makes_the_hand_made_model_add_the_other_twice():
    """Its attention is one half on each operand; without one edge, all of it is on the other operand."""
    batch = tokens(20)
    values = Positions(TASK, batch[0]).roles.values
    labels = answers(TASK, batch)[0]

    def answered(*changes):
        return apply(HANDMADE, batch, changes)[0].argmax(-1)

    assert torch.equal(answered(), labels)
    assert torch.equal(answered(Cut(2, "equals", "second_value")), 2 * values[:, 0] % TASK.modulus)
    no_binding = Replace("zero", "blocks.0.hook_attn_out")
    assert (answered(no_binding) == labels).float().mean() < 0.7
    both = Pattern(2, "equals", {"first_value": 0.5, "second_value": 0.5})  # makes up for no binding
    assert torch.equal(answered(no_binding, both), labels)


def test_other_architectures():
    config = Config(
        task=TASK, model=type(CONFIG.model)(n_layers=2, n_heads=2, d_model=16, d_head=8, d_mlp=(8, 24), norm="rms")
    )
    stack = initial_stack(config, [0])
    changed = apply(stack, TOKENS, [Replace("zero", "blocks.1.hook_attn_out"), Cut(1, "equals", "first")])
    assert changed.shape == (1, 24, 11) and not torch.allclose(changed, answer_logits(stack, TOKENS))
    one_layer = initial_stack(
        Config(task=TASK, model=type(CONFIG.model)(n_layers=1, d_model=16, d_head=8, d_mlp=(8,))), [0]
    )
    with pytest.raises(ConfigError, match=r"hook = 'blocks\.1"):
        apply(one_layer, TOKENS, [Replace("zero", "blocks.1.hook_attn_out")])


@pytest.mark.parametrize(
    ("intervention", "words"),
    [
        (Cut(1, 10, 0), "0 to 9"),
        (Cut(3, 1, 0), "a layer from 1 to 2"),
        (Replace("zero", "blocks.0.mlp.hook_post"), "one that this model has"),
        (Replace("zero", NEURON_HOOKS[0], neurons=(40,)), "0 to 39"),
        (Replace("zero", NEURON_HOOKS[0], frequencies=(6,)), "1 to 5"),
    ],
)
def test_hooks_layers_and_neurons_that_do_not_exist_are_errors(intervention, words):
    with pytest.raises(ConfigError, match=words):
        apply(STACK, TOKENS, [intervention])


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture_can_be_edited_in_every_layer(name):
    config = ARCHITECTURES[name]
    stack, tokens = wide_weights(config), sequences_of(config)
    clean = apply(stack, tokens, ())
    torch.testing.assert_close(clean, answer_logits(stack, tokens))
    for layer, width in enumerate(config.model.d_mlp, 1):
        edits = [Replace("mean", f"blocks.{layer - 1}.{hook}") for hook in ("hook_attn_out", "attn.hook_pattern")]
        edits += [Cut(layer, "equals", "first_value"), Pattern(layer, "equals", {"first": 1.0})]
        edits += [Replace("zero", f"blocks.{layer - 1}.mlp.hook_post", neurons=(0, 3))] if width else []
        for edit in edits:
            assert (apply(stack, tokens, [edit]) - clean).abs().amax() > 1e-6, edit


def test_components_of_any_layer_are_swapped():
    config = ARCHITECTURES["three layers"]
    one, other = wide_weights(config), initial_stack(config, [4])
    changed = swapped(one, other, "ov3")
    differ = {name for name in one.weights if not torch.equal(changed[name], one[name])}
    assert differ == {"blocks.2.attn.W_V", "blocks.2.attn.W_O"}
    with pytest.raises(ConfigError, match="a component that this model has"):
        swapped(one, other, "mlp1")
