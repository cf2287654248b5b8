"""The last layer, run from an edited residual stream, against the hooked reference, for every architecture."""

import functools

import pytest
import torch

from assignadd.config import Config
from assignadd.model.architecture import NotDefined
from assignadd.model.last_layer import LastLayer
from assignadd.model.stack import initial_stack
from assignadd.model.transformer import Transformer
from assignadd.paper.causes.interchange import ELSEWHERE, EXCHANGES, Pairs, prompts, query_pairs, side, tag_pairs
from assignadd.task.positions import Positions
from assignadd.task.splits import pair_split
from tests.architectures import ARCHITECTURES, SMALL, random_stack

torch.set_num_threads(1)
CONFIGS = {"the paper's": SMALL, **ARCHITECTURES}
TASK = SMALL.task
BASE, OTHER = prompts(SMALL, pair_split(TASK, 0), 60)
VALUES = Pairs(BASE, OTHER, torch.zeros(len(BASE), dtype=torch.int64))
TAG, QUERY = tag_pairs(TASK, BASE), query_pairs(TASK, BASE, BASE.roll(1, 0))


class Setting:
    """One network as the package runs it, and the reference."""

    def __init__(self, config: Config):
        stack = random_stack(config)
        self.model, self.reference = LastLayer(stack), Transformer.from_stack(stack, 0).requires_grad_(False)
        self.last = f"blocks.{config.model.n_layers - 1}."
        self.cached = functools.cache(lambda tokens: self.reference.run_with_cache(tokens)[1])

    def agrees(self, exchange, pairs, hook, edit):
        """Whether the exchange gives the logits of the reference with this edit at a hook."""
        expected = self.reference.run_with_hooks(pairs.base, fwd_hooks=[(hook, edit)])[:, -1]
        logits = exchange(self.model, side(self.model, pairs.base), side(self.model, pairs.source))
        torch.testing.assert_close(logits, expected)
        assert (expected - self.reference(pairs.base)[:, -1]).abs().amax() > 1e-3  # something was exchanged


@pytest.fixture(params=CONFIGS.values(), ids=CONFIGS, scope="module")
def setting(request) -> Setting:
    return Setting(request.param)


def test_the_network_itself(setting):
    model, cache, logits = setting.model, setting.cached(BASE), setting.reference(BASE)[:, -1]
    trace = model.trace(BASE)
    before, mid = model.before(trace), cache[f"{setting.last}hook_resid_mid"][:, -1]
    pattern = model.pattern(before)
    for found, expected in (
        (before, cache[f"{setting.last}hook_resid_pre"]), (model.embedded(BASE), cache["blocks.0.hook_resid_pre"]),
        (pattern, cache[f"{setting.last}attn.hook_pattern"][:, :, -1]),
        (model.attention_output(pattern, before), cache[f"{setting.last}hook_attn_out"][:, -1]),
        (model.mlp(mid), cache[f"{setting.last}hook_mlp_out"][:, -1]),
        (model.logits(mid), logits), (model.answer(before), logits),
    ):  # fmt: skip
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("exchange", "pairs", "places"),
    [
        (EXCHANGES["binding tag"], TAG, ("assigned",)),
        (ELSEWHERE["binding tag"], TAG, ("variables",)),
        (EXCHANGES["operand query"], QUERY, ("equals",)),
        (ELSEWHERE["operand query"], QUERY, ("first", "second")),
    ],
)
def test_what_earlier_layers_wrote_is_exchanged(setting, exchange, pairs, places):
    hook = f"{setting.last}hook_resid_pre"
    base, source = (setting.cached(tokens) for tokens in (pairs.base, pairs.source))
    written = [cache[hook] - cache["blocks.0.hook_resid_pre"] for cache in (base, source)]
    difference = Positions(TASK, pairs.base).any_of(places)[:, :, None] * (written[1] - written[0])
    setting.agrees(exchange, pairs, hook, lambda own, _: own + difference)


@pytest.mark.parametrize(("name", "hook"), [("values", "hook_attn_out"), ("sum", "hook_mlp_out")])
def test_an_output_of_the_last_layer_is_exchanged(setting, name, hook):
    value = setting.cached(OTHER)[setting.last + hook]
    setting.agrees(EXCHANGES[name], VALUES, setting.last + hook, lambda own, _: value)


def test_a_query_that_only_scores_read(setting):
    hook = f"{setting.last}attn.hook_q"
    value = setting.cached(QUERY.source)[hook]

    def edit(own, _):
        return torch.cat([own[:, :-1], value[:, -1:]], 1)

    setting.agrees(EXCHANGES["query in QK2"], QUERY, hook, edit)


@pytest.mark.parametrize(
    ("exchange", "name", "earlier"),
    [
        (EXCHANGES["first value"], "first_value", 0),
        (EXCHANGES["second value"], "second_value", 0),
        (ELSEWHERE["second value"], "second_value", 1),
    ],
)
def test_what_is_brought_from_one_position(setting, exchange, name, earlier):
    brought = []
    W_O = setting.reference.blocks[-1].attn.W_O
    for tokens in (BASE, OTHER):
        cache, at = setting.cached(tokens), Positions(TASK, tokens).position(name) - earlier
        rows = torch.arange(len(tokens))
        weight = cache[f"{setting.last}attn.hook_pattern"][rows, :, -1, at]  # (B, heads)
        z = weight[..., None] * cache[f"{setting.last}attn.hook_v"][rows, at]  # (B, heads, dh)
        brought.append(torch.einsum("bhe,hed->bd", z, W_O))

    def add(own, _):
        own[:, -1] += brought[1] - brought[0]
        return own

    setting.agrees(exchange, VALUES, f"{setting.last}hook_attn_out", add)


def test_one_layer_has_no_residual_before_the_last():
    config = Config(task=TASK, model=type(SMALL.model)(n_layers=1, d_model=16, d_head=16, d_mlp=(24,)))
    model, tokens = LastLayer(initial_stack(config, [0])), torch.zeros(1, TASK.length, dtype=torch.int64)
    with pytest.raises(NotDefined, match="needs at least two layers"):
        model.before(model.trace(tokens))
