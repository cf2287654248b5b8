"""Networks in TransformerLens and back: the same function, hook names, activations and weights.

The tests are the same for TransformerLens 2, 3 and 4; `make test-lens` runs them with the first two.
"""

import warnings
from dataclasses import replace
from importlib.metadata import version

import pytest
import torch

import assignadd
from assignadd.config import PRESETS
from assignadd.config.errors import ConfigError, RunError, UsageError
from assignadd.model.transformer import Transformer

SMOKE = PRESETS["smoke"]
NO_LENS = "TransformerLens is not installed (pip install 'assignadd[lens]')"


def another(**settings) -> Transformer:
    """A model with other settings than the paper's, none of whose weights is zero."""
    config = replace(SMOKE, model=replace(SMOKE.model, **settings))
    model, generator = Transformer(config), torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn(weight.shape, generator=generator)
    return model


def tokens_for(model: Transformer, n: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(n)
    return torch.randint(len(model.embed.W_E), (n, model.config.task.length), generator=generator)


@pytest.fixture(scope="module")
def lens() -> int:
    """The first number of the version of TransformerLens."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of older versions and what they need
        pytest.importorskip("transformer_lens", reason=NO_LENS, exc_type=ImportError)
    return int(version("transformer-lens").partition(".")[0])


@pytest.fixture(scope="module")
def shipped() -> Transformer:
    return assignadd.load("census-six")


@pytest.fixture(scope="module")
def bridge(lens, shipped):
    return assignadd.to_transformer_lens(shipped)


def test_it_is_the_model_of_the_installed_version(bridge, lens):
    assert type(bridge).__name__ == ("TransformerBridge" if lens == 4 else "HookedTransformer")


@torch.no_grad()
def test_logits_and_activations_are_those_of_our_model(bridge, shipped, lens):
    tokens = tokens_for(shipped, 7)
    (logits, cache), (theirs, their_cache) = shipped.run_with_cache(tokens), bridge.run_with_cache(tokens)
    torch.testing.assert_close(theirs, logits, rtol=1e-5, atol=1e-4)  # equal bit for bit on the machines we have
    for name, activation in cache.items():
        assert their_cache[name].shape == activation.shape, name
        ours = activation
        if name.endswith("attn_scores"):
            # TransformerLens 4.3 reports the pattern in place of the scores; 2 and 3 have hidden what comes later.
            later = torch.ones(activation.shape[-2:], dtype=torch.bool).triu(1)
            pattern = cache[name.replace("attn_scores", "pattern")]
            ours = pattern if lens == 4 else activation.masked_fill(later, -torch.inf)
        torch.testing.assert_close(their_cache[name], ours, rtol=1e-5, atol=1e-4)


@torch.no_grad()
def test_it_solves_the_task_there(bridge, shipped):
    tokens = torch.tensor([assignadd.parse("c=1, b=17, a=42, b+19=?", shipped.config.task)])
    assert int(bridge(tokens)[0, -1].argmax()) == 36


@torch.no_grad()
def test_the_same_hook_does_the_same(bridge, shipped):
    tokens = tokens_for(shipped, 3)
    cut = [("blocks.1.attn.hook_pattern", lambda pattern, hook: pattern.roll(1, -1))]
    ours = shipped.run_with_hooks(tokens, fwd_hooks=cut)
    torch.testing.assert_close(bridge.run_with_hooks(tokens, fwd_hooks=cut), ours, rtol=1e-5, atol=1e-4)
    assert (ours - shipped(tokens)).abs().max() > 1


@pytest.mark.parametrize(
    "settings",
    [
        {"biases": True},
        {"norm": "rms"},
        {"norm": "layer", "biases": True, "activation": "gelu"},
        {"n_heads": 2, "d_head": 3},
        {"d_mlp": (None, None)},
        {"n_layers": 3, "d_mlp": (5, None, 5)},
    ],
)
@torch.no_grad()
def test_every_architecture_goes_there_and_back(lens, settings):
    model = another(**settings)
    bridge, tokens = assignadd.to_transformer_lens(model), tokens_for(model, 5)
    torch.testing.assert_close(bridge(tokens), model(tokens), rtol=1e-5, atol=1e-5)
    assert set(model.hook_points) <= set(bridge.hook_dict)
    back = assignadd.from_transformer_lens(bridge.state_dict(), model.config).state_dict()
    assert back.keys() == model.state_dict().keys()
    assert all(torch.equal(back[name], weight) for name, weight in model.state_dict().items())


def test_random_numbers_of_the_caller_stay_as_they_are(lens):
    model, before = another(), torch.get_rng_state()
    assignadd.to_transformer_lens(model)
    assert torch.equal(torch.get_rng_state(), before)


def test_two_widths_are_refused(lens):
    with pytest.raises(ConfigError, match=r"model.d_mlp = \(3, 5\): expected one width"):
        assignadd.to_transformer_lens(another(d_mlp=(3, 5)))


@pytest.mark.parametrize(("setting", "value"), [("activation", "abs"), ("direct_path", False)])
def test_what_native_models_cannot_do_is_refused(lens, setting, value):
    with pytest.raises(ConfigError, match=rf"model.{setting} = .*TransformerLens"):
        assignadd.to_transformer_lens(another(**{setting: value}))


def bridge_names(model: Transformer) -> dict[str, torch.Tensor]:
    """The model's weights as a bridge names and lays them out, head by head; absent ones are zero."""
    W, (H, d, dh) = model.state_dict(), model.blocks[0].attn.W_Q.shape
    found = {"embed.weight": W["embed.W_E"], "pos_embed.weight": W["pos_embed.W_pos"]}
    found["unembed.weight"] = W["unembed.W_U"].T
    for i in range(2):
        block, attn = f"blocks.{i}", f"blocks.{i}.attn"
        for x in "QKV":
            found[f"{attn}.{x.lower()}.weight"] = torch.cat([W[f"{attn}.W_{x}"][h].T for h in range(H)])
            found[f"{attn}.{x.lower()}.bias"] = torch.zeros(H * dh)
        found[f"{attn}.o.weight"] = torch.cat([W[f"{attn}.W_O"][h] for h in range(H)]).T
        found[f"{attn}.o.bias"] = torch.zeros(d)
        width = W["blocks.1.mlp.W_in"].shape[1]
        found[f"{block}.mlp.in.weight"] = W.get(f"{block}.mlp.W_in", torch.zeros(d, width)).T
        found[f"{block}.mlp.out.weight"] = W.get(f"{block}.mlp.W_out", torch.zeros(width, d)).T
        found |= {f"{block}.mlp.in.bias": torch.zeros(width), f"{block}.mlp.out.bias": torch.zeros(d)}
    return found


def test_back_from_the_names_of_a_bridge_and_of_transformer_lens_2_and_3():
    model = another(n_heads=2, d_head=3)
    hooked = model.state_dict() | {"unembed.b_U": torch.zeros(SMOKE.task.modulus)}
    empty_mask = {"blocks.0.attn.mask": torch.zeros(0, 0, dtype=torch.bool)}  # as TransformerLens 3 has it
    for state_dict in (bridge_names(model), hooked, hooked | empty_mask):
        back = assignadd.from_transformer_lens(state_dict, model.config).state_dict()
        assert all(torch.equal(back[name], weight) for name, weight in model.state_dict().items())


def test_what_our_model_cannot_hold_is_refused():
    model = another(n_heads=2, d_head=3)
    good = bridge_names(model)
    for bad, says in (
        (good | {"blocks.0.mlp.out.bias": torch.ones(SMOKE.model.d_model)}, "blocks.0.mlp.b_out is not zero"),
        (good | {"unembed.bias": torch.ones(SMOKE.task.modulus)}, "unembed.b_U is not zero"),
        (
            good | {"blocks.2.attn.q.weight": torch.ones(6, 8)},
            "blocks.2.attn.W_Q is not zero",
        ),
        ({k: w for k, w in good.items() if k != "embed.weight"}, "embed.W_E is missing"),
        (good | {"blocks.٠.attn.q.weight": good["blocks.0.attn.q.weight"]}, "blocks.٠.attn.W_Q is not zero"),
        (good | {"blocks.00.attn.mask": torch.ones(8, 8)}, "blocks.00.attn.mask is not zero"),
        (good | {"blocks.0.attn.q.weight": torch.ones(5)}, r"blocks.0.attn.q.weight has shape \(5,\)"),
        (good | {"unembed.weight": torch.ones(5)}, r"unembed.weight has shape \(5,\)"),
        (good | {"blocks.0.attn.o.weight": torch.ones(5)}, r"blocks.0.attn.o.weight has shape \(5,\)"),
        (good | {3: torch.ones(5)}, "expected names and tensors"),
        (good | {"embed.weight": None}, "expected names and tensors"),
    ):
        with pytest.raises(RunError, match=says):
            assignadd.from_transformer_lens(bad, model.config)


def test_without_transformer_lens_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr("assignadd.runs.transformer_lens.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'assignadd\[lens\]'"):
        assignadd.to_transformer_lens(another())


@pytest.mark.parametrize("number", ["1.19.0", "5.0.0"])
def test_another_version_is_refused_in_one_line(monkeypatch, number):
    monkeypatch.setattr("assignadd.runs.transformer_lens.find_spec", lambda name: name)
    monkeypatch.setattr("assignadd.runs.transformer_lens.version", lambda name: number)
    with pytest.raises(UsageError, match=rf"TransformerLens {number} is installed, expected 2, 3 or 4: pip install"):
        assignadd.to_transformer_lens(another())


def test_a_version_that_cannot_be_imported_is_named(monkeypatch):
    def broken(name):
        raise AttributeError("module transformers has no attribute TRANSFORMERS_CACHE\n\nand more")

    monkeypatch.setattr("assignadd.runs.transformer_lens.find_spec", lambda name: name)
    monkeypatch.setattr("assignadd.runs.transformer_lens.version", lambda name: "2.15.4")
    monkeypatch.setattr("assignadd.runs.transformer_lens.import_module", broken)
    with pytest.raises(UsageError, match=r"TransformerLens 2.15.4 .*: AttributeError: module .*TRANSFORMERS_CACHE$"):
        assignadd.to_transformer_lens(another())
