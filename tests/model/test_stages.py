"""The table forward in stages against the hooked reference, which computes every position: the same network, the same
exchanges."""

import pytest
import torch

from assignadd.interventions.interchange import EXCHANGES, NAMED, _side
from assignadd.interventions.pairs import prompts, query_pairs, tag_pairs
from assignadd.interventions.subspaces import random_directions
from assignadd.model.circuits import OV, QK
from assignadd.model.stages import Stages
from assignadd.model.transformer import Transformer
from assignadd.task.roles import Positions
from tests.interventions.small import CONFIG, SEEN, TASK, random_stack

STACK = random_stack(1)
REFERENCE, MODEL = Transformer.from_stack(STACK, 0).requires_grad_(False), Stages(STACK)
BASE, OTHER = prompts(CONFIG, SEEN, 90)
SOURCES = {
    "binding tag": tag_pairs(TASK, BASE).source,
    "operand query": query_pairs(TASK, BASE, BASE.roll(1, 0)).source,
}
RANDOM = random_directions(NAMED["sum"](STACK)[:6], 2)


def cached(tokens):
    return REFERENCE.run_with_cache(tokens)


def test_the_network_itself():
    logits, cache = cached(BASE)
    trace = MODEL.trace(BASE)
    tokens, layer_1 = trace.tokens, MODEL.layer_1(trace)
    own = MODEL.residual(layer_1)
    pattern = MODEL.pattern(own, tokens, layer_1)
    out = MODEL.attention_output(pattern, tokens, layer_1)
    mid = cache["blocks.1.hook_resid_mid"][:, -1]
    for found, expected in (
        (own, cache["blocks.1.hook_resid_pre"][:, -1]), (trace.resid_before_2, own),
        (pattern, cache["blocks.1.attn.hook_pattern"][:, 0, -1]), (trace.attention_2, pattern),
        (out, cache["blocks.1.hook_attn_out"][:, -1]), (trace.attention_output_2, out),
        (trace.mlp_out, cache["blocks.1.hook_mlp_out"][:, -1]),
        (MODEL.logits(mid), logits[:, -1]), (MODEL.after_layer_1(tokens, layer_1), logits[:, -1]),
        (trace.logits, logits[:, -1]),
    ):  # fmt: skip
        assert torch.allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("basis", [None, RANDOM], ids=["whole", "random"])
@pytest.mark.parametrize(
    ("name", "variant", "hook", "places"),
    [("binding tag", 0, "blocks.0.hook_attn_out", ("assigned",)),
     ("binding tag", 1, "blocks.0.hook_attn_out", ("variables",)),
     ("operand query", 0, "blocks.0.hook_attn_out", ("equals",)),
     ("operand query", 1, "blocks.0.hook_attn_out", ("first", "second")),
     ("values", 0, "blocks.1.hook_attn_out", ("equals",)), ("sum", 0, "blocks.1.hook_mlp_out", ("equals",))],
)  # fmt: skip
def test_exchanges_of_an_output(name, variant, hook, places, basis):
    source = SOURCES.get(name, OTHER)
    value, where = cached(source)[1][hook], Positions(TASK, BASE).any_of(places)[:, :, None]
    projection = torch.eye(CONFIG.model.d_model, dtype=value.dtype) if basis is None else basis.T @ basis
    expected = REFERENCE.run_with_hooks(
        BASE, fwd_hooks=[(hook, lambda own, _: own + where * (value - own) @ projection)]
    )[:, -1]
    agrees(name, variant, source, basis, expected)


def agrees(name, variant, source, basis, expected):
    base, other = (_side(MODEL, TASK, tokens) for tokens in (BASE, source))
    found = EXCHANGES[name][variant](MODEL, base, other, basis)
    assert torch.allclose(found, expected, atol=1e-9)
    assert (expected - REFERENCE(BASE)[:, -1]).abs().amax() > 1e-3  # something was exchanged


@pytest.mark.parametrize("basis", [None, RANDOM], ids=["whole", "random"])
def test_a_query_that_only_scores_read(basis):
    x, other = (cached(tokens)[1]["blocks.1.hook_resid_pre"] for tokens in (BASE, SOURCES["operand query"]))
    difference = (other - x)[:, -1]
    asks = x[:, -1] + (difference if basis is None else difference @ basis.T @ basis)
    scores = torch.einsum("bd,de,bte->bt", asks, QK(STACK, 2)[0], x)

    def set_scores(own, _):
        own[:, 0, -1] = scores
        return own

    expected = REFERENCE.run_with_hooks(BASE, fwd_hooks=[("blocks.1.attn.hook_attn_scores", set_scores)])[:, -1]
    agrees("query in QK2", 0, SOURCES["operand query"], basis, expected)


@pytest.mark.parametrize(("name", "variant"), [("first value", 0), ("second value", 0), ("second value", 1)])
def test_what_is_brought_from_one_position(name, variant):
    brought = []
    for tokens in (BASE, OTHER):
        cache, at = cached(tokens)[1], Positions(TASK, tokens).position(name.replace(" ", "_")) - variant
        rows = torch.arange(len(tokens))
        weight = cache["blocks.1.attn.hook_pattern"][rows, 0, -1, at, None]
        brought.append(weight * cache["blocks.1.hook_resid_pre"][rows, at] @ OV(STACK, 2)[0])

    def add(own, _):
        own[:, -1] += brought[1] - brought[0]
        return own

    expected = REFERENCE.run_with_hooks(BASE, fwd_hooks=[("blocks.1.hook_attn_out", add)])[:, -1]
    agrees(name, variant, OTHER, None, expected)
