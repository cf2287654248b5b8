"""Path patching on the hand-made model, where the paths that matter are known, and compared with hooks."""

import pytest
import torch

from assignadd.model.transformer import Transformer
from assignadd.paper.causes.paths import (
    EMBEDDING,
    KEY,
    LAYER_1,
    LAYER_2,
    LOGITS,
    MLP2,
    PAPER_PATHS,
    QUERY,
    VALUE,
    Path,
    PathPatching,
)
from assignadd.task.positions import Positions
from tests.interventions.small import HANDMADE, TASK, random_stack, tokens

BATCH = tokens(60)[0]  # (180, T): sixty of each type
ONE = BATCH[60:120]


def test_every_token_has_one_role():
    roles = PathPatching(HANDMADE, BATCH).roles
    assert (torch.stack(list(roles.values())).sum(0) == 1).all()
    places = Positions(TASK, BATCH)
    assert (roles["operand variable"].sum(1) == places.roles.is_variable.sum(1)).all()
    assert torch.equal(roles["operand variable"].roll(1, 1), roles["operand number"])  # a number follows its variable
    assert torch.equal(roles["other number"], places.mask("distractors"))


def test_only_the_paths_of_its_construction_matter_in_the_hand_made_model():
    effects = PathPatching(HANDMADE, ONE).answers().effects
    # Its QK2 finds literals by their number and slot: what a slot is matters to its key as well.
    expected = PAPER_PATHS | {Path(EMBEDDING, slot, KEY) for slot in ("first", "second")}
    assert {path for path, effect in effects.items() if effect > 0.15} == expected
    assert all(abs(effect) < 0.05 for path, effect in effects.items() if path not in expected)


def test_literals_need_no_layer_1():
    effects = PathPatching(HANDMADE, BATCH[:60]).answers().effects
    assert effects[Path(EMBEDDING, "first", VALUE)] > 0.5 and effects[Path(LAYER_2, "=", MLP2)] > 0.5
    assert all(effect == 0 for path, effect in effects.items() if LAYER_1 in (path.sender, path.receiver))


@pytest.mark.parametrize(("receiver", "hook"), [(QUERY, "hook_q"), (KEY, "hook_k"), (VALUE, "hook_v")])
def test_a_path_changes_the_input_of_one_receiver(receiver, hook):
    """Compared with hooks on the reference: layer 1's output at `=` is replaced by its mean for one receiver."""
    stack = random_stack(1)
    model = Transformer.from_stack(stack, 0)
    with torch.no_grad():
        _, cache = model.run_with_cache(ONE)
        sent = cache["blocks.0.hook_attn_out"][:, -1]
        changed = cache["blocks.1.hook_resid_pre"].clone()
        changed[:, -1] += sent.mean(0) - sent
        weight = {"hook_q": "W_Q", "hook_k": "W_K", "hook_v": "W_V"}[hook]
        read = (changed @ stack[f"blocks.1.attn.{weight}"][0, 0])[:, :, None]
        expected = model.run_with_hooks(ONE, fwd_hooks=[(f"blocks.1.attn.{hook}", lambda x, point: read)])[:, -1]
    found = PathPatching(stack, ONE).logits({Path(LAYER_1, "=", receiver)})
    assert torch.allclose(found, expected, atol=1e-8)


def test_the_path_from_mlp2_to_the_logits():
    stack = random_stack(1)
    model = Transformer.from_stack(stack, 0)
    with torch.no_grad():
        logits, cache = model.run_with_cache(ONE)
        out = cache["blocks.1.hook_mlp_out"][:, -1]
    found = PathPatching(stack, ONE).logits({Path(MLP2, "=", LOGITS)}).detach()
    assert torch.allclose(found, logits[:, -1].detach() + (out.mean(0) - out) @ stack.W_U[0], atol=1e-8)


def test_the_path_from_layer_2_to_mlp2():
    stack = random_stack(1)
    model = Transformer.from_stack(stack, 0).requires_grad_(False)
    out = model.run_with_cache(ONE)[1]["blocks.1.hook_attn_out"]
    change = (out.mean(0) - out) @ stack["blocks.1.mlp.W_in"][0]
    expected = model.run_with_hooks(ONE, fwd_hooks=[("blocks.1.mlp.hook_pre", lambda pre, point: pre + change)])[:, -1]
    found = PathPatching(stack, ONE).logits({Path(LAYER_2, "=", MLP2)})
    assert torch.allclose(found, expected, atol=1e-8)


def through_layer_1(model, stack):
    """What layer 1 writes if the contribution of first operand slots to `=` is replaced by its mean, by hand."""
    slot = TASK.prefix + 1
    _, cache = model.run_with_cache(ONE)
    weight, value = cache["blocks.0.attn.hook_pattern"][:, 0, -1, slot], cache["blocks.0.attn.hook_v"][:, slot, 0]
    sent = weight[:, None] * value @ stack["blocks.0.attn.W_O"][0, 0]
    out = cache["blocks.0.hook_attn_out"].clone()
    out[:, -1] += sent.mean(0) - sent
    return out, cache


def test_paths_through_layer_1():
    """The contribution of first operand slots to `=` is replaced by its mean, and everything after it follows."""
    stack = random_stack(1)
    model = Transformer.from_stack(stack, 0).requires_grad_(False)
    out, _ = through_layer_1(model, stack)
    expected = model.run_with_hooks(ONE, fwd_hooks=[("blocks.0.hook_attn_out", lambda own, point: out)])[:, -1]
    found = PathPatching(stack, ONE).logits({Path(EMBEDDING, "first", LAYER_1, "=")})
    assert torch.allclose(found, expected, atol=1e-8)


def test_a_path_that_is_replaced_hides_what_changed_before_it():
    """Layer 1's output at `=` changes, but layer 2's query reads its mean in the whole network; all others follow."""
    stack = random_stack(1)
    model = Transformer.from_stack(stack, 0).requires_grad_(False)
    out, cache = through_layer_1(model, stack)
    query = cache["hook_embed"] + cache["hook_pos_embed"] + out
    query[:, -1] += cache["blocks.0.hook_attn_out"][:, -1].mean(0) - out[:, -1]
    read = (query @ stack["blocks.1.attn.W_Q"][0, 0])[:, :, None]
    hooks = [("blocks.0.hook_attn_out", lambda own, point: out), ("blocks.1.attn.hook_q", lambda own, point: read)]
    expected = model.run_with_hooks(ONE, fwd_hooks=hooks)[:, -1]
    both = {Path(EMBEDDING, "first", LAYER_1, "="), Path(LAYER_1, "=", QUERY)}
    assert torch.allclose(PathPatching(stack, ONE).logits(both), expected, atol=1e-8)


def test_without_any_path_every_sequence_has_the_same_logits():
    patching = PathPatching(random_stack(1), ONE)
    logits = patching.logits(patching.paths)
    assert torch.allclose(logits, logits[:1].expand_as(logits), atol=1e-10)
    assert torch.equal(patching.logits([]).argmax(-1), patching.trace.logits.argmax(-1))


def test_the_paths_of_its_construction_are_enough_for_the_hand_made_model():
    patching = PathPatching(HANDMADE, ONE)
    keep = PAPER_PATHS | {Path(EMBEDDING, slot, KEY) for slot in ("first", "second")}
    right = [(patching.logits(cut).argmax(-1) == patching.labels).double().mean().item()
             for cut in (set(patching.paths) - keep, keep & set(patching.paths))]  # fmt: skip
    assert right[0] > 0.95 and right[1] < 0.3
