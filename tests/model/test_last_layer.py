"""The last layer, run from an edited residual stream, against the hooked reference, for every architecture."""

import functools

import pytest
import torch

from assignadd.config import Config
from assignadd.model.architecture import NotDefined
from assignadd.model.last_layer import LastLayer
from assignadd.model.stack import initial_stack
from assignadd.model.transformer import Transformer
from assignadd.paper.causes.interchange import EXCHANGES, NAMED, _side, random_directions, within
from assignadd.paper.causes.pairs import prompts, query_pairs, tag_pairs
from assignadd.task.positions import Positions
from assignadd.task.splits import pair_split
from tests.architectures import ARCHITECTURES, SMALL, random_stack

torch.set_num_threads(1)
CONFIGS = {"the paper's": SMALL, **ARCHITECTURES}
TASK = SMALL.task
BASE, OTHER = prompts(SMALL, pair_split(TASK, 0), 60)
SOURCES = {
    "binding tag": tag_pairs(TASK, BASE).source,
    "operand query": query_pairs(TASK, BASE, BASE.roll(1, 0)).source,
}
RANDOM = random_directions(torch.empty(6, SMALL.model.d_model, dtype=torch.float64), 2)


class Setting:
    """One network as the package runs it, and the reference."""

    def __init__(self, config: Config):
        stack = random_stack(config)
        self.model, self.reference = LastLayer(stack), Transformer.from_stack(stack, 0).requires_grad_(False)
        self.last = f"blocks.{config.model.n_layers - 1}."
        self.cached = functools.cache(lambda tokens: self.reference.run_with_cache(tokens)[1])

    def agrees(self, name, variant, source, basis, hook, edit):
        expected = self.reference.run_with_hooks(BASE, fwd_hooks=[(hook, edit)])[:, -1]
        base, other = (_side(self.model, Positions(TASK, tokens)) for tokens in (BASE, source))
        exchange = EXCHANGES[name][variant]
        found = exchange.logits(self.model, base, within(exchange.difference(self.model, base, other), basis))
        torch.testing.assert_close(found, expected)
        assert (expected - self.reference(BASE)[:, -1]).abs().amax() > 1e-3  # something was exchanged


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


@pytest.mark.parametrize("basis", [None, RANDOM], ids=["whole", "random"])
@pytest.mark.parametrize(
    ("name", "variant", "places"),
    [("binding tag", 0, ("assigned",)), ("binding tag", 1, ("variables",)), ("operand query", 0, ("equals",)),
     ("operand query", 1, ("first", "second"))],
)  # fmt: skip
def test_what_earlier_layers_wrote_is_exchanged(setting, name, variant, places, basis):
    hook, source = f"{setting.last}hook_resid_pre", SOURCES[name]
    written = [(c := setting.cached(tokens))[hook] - c["blocks.0.hook_resid_pre"] for tokens in (BASE, source)]
    where = Positions(TASK, BASE).any_of(places)[:, :, None]
    projection = torch.eye(RANDOM.shape[1], dtype=torch.float64) if basis is None else basis.T @ basis
    difference = where * (written[1] - written[0]) @ projection
    setting.agrees(name, variant, source, basis, hook, lambda own, _: own + difference)


@pytest.mark.parametrize("basis", [None, RANDOM], ids=["whole", "random"])
@pytest.mark.parametrize(("name", "hook"), [("values", "hook_attn_out"), ("sum", "hook_mlp_out")])
def test_an_output_of_the_last_layer_is_exchanged(setting, name, hook, basis):
    value = setting.cached(OTHER)[setting.last + hook]
    projection = torch.eye(RANDOM.shape[1], dtype=torch.float64) if basis is None else basis.T @ basis
    setting.agrees(name, 0, OTHER, basis, setting.last + hook, lambda own, _: own + (value - own) @ projection)


def test_a_query_that_only_scores_read(setting):
    hook = f"{setting.last}attn.hook_q"
    value = setting.cached(SOURCES["operand query"])[hook]

    def edit(own, _):
        return torch.cat([own[:, :-1], value[:, -1:]], 1)

    setting.agrees("query in QK2", 0, SOURCES["operand query"], None, hook, edit)


@pytest.mark.parametrize(("name", "variant"), [("first value", 0), ("second value", 0), ("second value", 1)])
def test_what_is_brought_from_one_position(setting, name, variant):
    brought = []
    W_O = setting.reference.blocks[-1].attn.W_O
    for tokens in (BASE, OTHER):
        cache, at = setting.cached(tokens), Positions(TASK, tokens).position(name.replace(" ", "_")) - variant
        rows = torch.arange(len(tokens))
        weight = cache[f"{setting.last}attn.hook_pattern"][rows, :, -1, at]  # (B, heads)
        z = weight[..., None] * cache[f"{setting.last}attn.hook_v"][rows, at]  # (B, heads, dh)
        brought.append(torch.einsum("bhe,hed->bd", z, W_O))

    def add(own, _):
        own[:, -1] += brought[1] - brought[0]
        return own

    setting.agrees(name, variant, OTHER, None, f"{setting.last}hook_attn_out", add)


def test_one_layer_has_no_residual_before_the_last():
    config = Config(task=TASK, model=type(SMALL.model)(n_layers=1, d_model=16, d_head=16, d_mlp=(24,)))
    model, tokens = LastLayer(initial_stack(config, [0])), torch.zeros(1, TASK.length, dtype=torch.int64)
    with pytest.raises(NotDefined, match="needs at least two layers"):
        model.before(model.trace(tokens))


def test_named_directions_need_the_papers_architecture():
    for name, directions in NAMED.items():
        assert len(directions(random_stack(SMALL))), name
    with pytest.raises(NotDefined, match="needs one head per layer"):
        NAMED["values"](random_stack(ARCHITECTURES["two heads"]))
