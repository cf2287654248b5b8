"""The reference transformer against loops over one sequence in numpy, and its hook points."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from assignadd.config import Config, Model, Numerics, Task
from assignadd.model.stack import Stack, initial_stack, weight_shapes
from assignadd.model.transformer import Transformer, reference_logits

TASK = Task(modulus=7, n_vars=4, length=10, max_assignments=3, banned_first="a", banned_second="b")
SMALL = Model(d_model=12, d_head=5, d_mlp=(None, 9))
ARCHITECTURES = {
    "paper": SMALL,
    "one layer": dataclasses.replace(SMALL, n_layers=1, d_mlp=(None,)),
    "three layers": dataclasses.replace(SMALL, n_layers=3, d_mlp=(None, 9, 4)),
    "two heads": dataclasses.replace(SMALL, n_heads=2),
    "layer norm": dataclasses.replace(SMALL, norm="layer"),
    "rms norm": dataclasses.replace(SMALL, norm="rms"),
    "biases": dataclasses.replace(SMALL, biases=True),
    "gelu": dataclasses.replace(SMALL, activation="gelu"),
    "absolute values": dataclasses.replace(SMALL, activation="abs"),
    "no direct path": dataclasses.replace(SMALL, direct_path=False, d_mlp=(6, 9)),
    "both MLPs": dataclasses.replace(SMALL, d_mlp=(6, 9)),
    "everything": Model(
        n_layers=3, n_heads=2, d_model=12, d_head=5, d_mlp=(6, None, 9), activation="gelu", norm="layer", biases=True
    ),
}


def random_stack(model: Model, M: int = 2) -> Stack:
    """Large weights everywhere, biases and gains included, so that no term of the forward pass can hide."""
    stack = initial_stack(Config(task=TASK, model=model, numerics=Numerics(dtype="float64")), range(M))
    noise = torch.randn(stack.flat.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return Stack(stack.config, stack.flat + 0.4 * noise)


def random_tokens(*shape: int) -> Tensor:
    return torch.randint(0, 14, shape, generator=torch.Generator().manual_seed(1))


def plain_norm(weights: dict[str, np.ndarray], name: str, kind: str, x: np.ndarray) -> np.ndarray:
    if kind == "none":
        return x
    centred = x - x.sum() / len(x) if kind == "layer" else x
    y = centred / math.sqrt((centred**2).sum() / len(x) + 1e-5) * weights[name + ".w"]
    return y + weights[name + ".b"] if kind == "layer" else y


def plain_attention(weights: dict[str, np.ndarray], block: str, model: Model, xs: list[np.ndarray]) -> list[np.ndarray]:
    def project(x: np.ndarray, letter: str, head: int) -> np.ndarray:
        return x @ weights[f"{block}attn.W_{letter}"][head] + (
            weights[f"{block}attn.b_{letter}"][head] if model.biases else 0
        )

    outputs = []
    for i in range(len(xs)):
        total = np.zeros(model.d_model) + (weights[f"{block}attn.b_O"] if model.biases else 0)
        for head in range(model.n_heads):
            query = project(xs[i], "Q", head)
            exponentials = [math.exp(query @ project(xs[j], "K", head) / math.sqrt(model.d_head)) for j in range(i + 1)]
            for j, e in enumerate(exponentials):
                total = total + e / sum(exponentials) * project(xs[j], "V", head) @ weights[f"{block}attn.W_O"][head]
        outputs.append(total)
    return outputs


def plain_mlp(weights: dict[str, np.ndarray], block: str, model: Model, x: np.ndarray) -> np.ndarray:
    pre = x @ weights[block + "mlp.W_in"] + (weights[block + "mlp.b_in"] if model.biases else 0)
    if model.activation == "relu":
        post = np.array([max(p, 0.0) for p in pre])
    elif model.activation == "abs":
        post = np.array([p if p > 0 else -p for p in pre])
    else:
        post = np.array([p * (1 + math.erf(p / math.sqrt(2))) / 2 for p in pre])
    return post @ weights[block + "mlp.W_out"] + (weights[block + "mlp.b_out"] if model.biases else 0)


def plain_logits(weights: dict[str, np.ndarray], model: Model, tokens: list[int]) -> np.ndarray:
    """(T, N) logits of one sequence, one position after the other."""
    xs = [weights["embed.W_E"][token] + weights["pos_embed.W_pos"][t] for t, token in enumerate(tokens)]
    for layer, width in enumerate(model.d_mlp):
        block = f"blocks.{layer}."
        outputs = plain_attention(
            weights, block, model, [plain_norm(weights, block + "ln1", model.norm, x) for x in xs]
        )
        xs = [x + y for x, y in zip(xs, outputs, strict=True)]
        if width is not None:
            around = 1 if model.direct_path or layer < model.n_layers - 1 else 0
            xs = [
                around * x + plain_mlp(weights, block, model, plain_norm(weights, block + "ln2", model.norm, x))
                for x in xs
            ]
    final = np.stack([plain_norm(weights, "ln_final", model.norm, x) for x in xs])
    return final @ weights["unembed.W_U"] + (weights["unembed.b_U"] if model.biases else 0)


def plain_weights(stack: Stack, index: int) -> dict[str, np.ndarray]:
    return {name: w[index].detach().numpy() for name, w in stack.weights.items()}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_logits_equal_the_plain_loops(name: str) -> None:
    stack, tokens = random_stack(ARCHITECTURES[name]), random_tokens(3, TASK.length)
    logits = Transformer.from_stack(stack, 1)(tokens)
    expected = np.stack([plain_logits(plain_weights(stack, 1), stack.config.model, row.tolist()) for row in tokens])
    assert logits.shape == (3, TASK.length, TASK.modulus)
    np.testing.assert_allclose(logits.detach().numpy(), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_state_dict_is_weight_shapes(name: str) -> None:
    config = Config(task=TASK, model=ARCHITECTURES[name])
    assert {n: tuple(w.shape) for n, w in Transformer(config).state_dict().items()} == weight_shapes(config)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_reference_logits_are_each_models_own(name: str) -> None:
    stack, tokens = random_stack(ARCHITECTURES[name], M=3), random_tokens(3, 5, TASK.length)
    logits = reference_logits(stack, tokens)
    assert logits.shape == (3, 5, TASK.modulus)
    for i in range(3):
        torch.testing.assert_close(logits[i], Transformer.from_stack(stack, i).answer_logits(tokens[i]))


def test_reference_logits_differentiate_in_the_flat_weights() -> None:
    stack, tokens = random_stack(SMALL), random_tokens(2, 4, TASK.length)
    flat = stack.flat.clone().requires_grad_()
    reference_logits(Stack(stack.config, flat), tokens).square().sum().backward()
    step = torch.zeros_like(flat)
    step[1, 200] = 1e-5
    with torch.no_grad():
        ahead, behind = (reference_logits(Stack(stack.config, flat + s), tokens).square().sum() for s in (step, -step))
    assert flat.grad[1, 200].item() == pytest.approx((ahead - behind).item() / 2e-5, rel=1e-5)


def test_float32_and_dtype_follow_the_stack() -> None:
    stack = random_stack(SMALL)
    single = Transformer.from_stack(Stack(stack.config, stack.flat.float()), 0)(random_tokens(2, TASK.length))
    assert single.dtype == torch.float32
    torch.testing.assert_close(
        single.double(), Transformer.from_stack(stack, 0)(random_tokens(2, TASK.length)), rtol=1e-4, atol=1e-4
    )


def test_weights_are_copied() -> None:
    stack = random_stack(SMALL)
    before = stack.flat.clone()
    with torch.no_grad():
        Transformer.from_stack(stack, 0).embed.W_E.zero_()
    assert torch.equal(stack.flat, before)


def test_later_tokens_change_nothing_before_them() -> None:
    model, tokens = Transformer.from_stack(random_stack(ARCHITECTURES["everything"]), 0), random_tokens(1, TASK.length)
    changed = tokens.clone()
    changed[0, 6] = (tokens[0, 6] + 1) % 14
    difference = (model(tokens) - model(changed)).abs().amax((0, 2))
    assert (difference[:6] == 0).all() and (difference[6:] > 0).all()


HOOKS_OF_THE_PAPER = {
    "hook_embed", "hook_pos_embed",
    *(f"blocks.{layer}.{name}" for layer in (0, 1) for name in ("hook_resid_pre", "hook_attn_out", "hook_resid_post")),
    *(f"blocks.{n}.attn.hook_{name}" for n in (0, 1) for name in ("q", "k", "v", "z", "attn_scores", "pattern")),
    *(f"blocks.1.{name}" for name in ("hook_resid_mid", "hook_mlp_out", "mlp.hook_pre", "mlp.hook_post")),
}  # fmt: skip


def test_hook_names_and_shapes() -> None:
    model = Transformer.from_stack(random_stack(SMALL), 0)
    logits, cache = model.run_with_cache(random_tokens(3, TASK.length))
    assert set(cache) == HOOKS_OF_THE_PAPER
    B, T, H, d, dh, h = 3, TASK.length, 1, 12, 5, 9
    shapes = {
        "q": (B, T, H, dh),
        "z": (B, T, H, dh),
        "pattern": (B, H, T, T),
        "attn_scores": (B, H, T, T),
        "pre": (B, T, h),
    }
    for name, activation in cache.items():
        assert tuple(activation.shape) == shapes.get(name.split("hook_")[-1], tuple(activation.shape)), name
        assert not activation.requires_grad
    assert cache["blocks.0.hook_resid_post"].shape == (B, T, d)
    assert torch.equal(logits, model(random_tokens(3, TASK.length)))


def test_norms_have_hooks() -> None:
    model = Transformer.from_stack(random_stack(ARCHITECTURES["rms norm"]), 0)
    _, cache = model.run_with_cache(random_tokens(2, TASK.length), names_filter=lambda name: "ln" in name)
    assert set(cache) == {
        f"{ln}.hook_{x}"
        for ln in ("blocks.0.ln1", "blocks.1.ln1", "blocks.1.ln2", "ln_final")
        for x in ("scale", "normalized")
    }


def test_cache_holds_the_residual_stream() -> None:
    model = Transformer.from_stack(random_stack(SMALL), 0)
    logits, cache = model.run_with_cache(random_tokens(3, TASK.length))
    torch.testing.assert_close(cache["blocks.0.hook_resid_pre"], cache["hook_embed"] + cache["hook_pos_embed"])
    torch.testing.assert_close(
        cache["blocks.0.hook_resid_post"], cache["blocks.0.hook_resid_pre"] + cache["blocks.0.hook_attn_out"]
    )
    torch.testing.assert_close(
        cache["blocks.1.hook_resid_mid"], cache["blocks.1.hook_resid_pre"] + cache["blocks.1.hook_attn_out"]
    )
    torch.testing.assert_close(
        cache["blocks.1.hook_resid_post"], cache["blocks.1.hook_resid_mid"] + cache["blocks.1.hook_mlp_out"]
    )
    torch.testing.assert_close(cache["blocks.1.attn.hook_pattern"], cache["blocks.1.attn.hook_attn_scores"].softmax(-1))
    torch.testing.assert_close(logits, cache["blocks.1.hook_resid_post"] @ model.unembed.W_U)


def test_names_filter_takes_a_name_a_list_and_a_predicate() -> None:
    model, tokens = Transformer.from_stack(random_stack(SMALL), 0), random_tokens(2, TASK.length)
    names = ["blocks.0.attn.hook_pattern", "blocks.1.attn.hook_pattern"]
    assert list(model.run_with_cache(tokens, names_filter=names[0])[1]) == names[:1]
    assert list(model.run_with_cache(tokens, names_filter=names)[1]) == names
    assert list(model.run_with_cache(tokens, names_filter=lambda name: name.endswith("pattern"))[1]) == names


def test_a_hook_replaces_an_activation_for_one_pass() -> None:
    model, tokens = Transformer.from_stack(random_stack(SMALL), 0), random_tokens(2, TASK.length)
    seen = []

    def ablate(activation: Tensor, hook) -> Tensor:
        seen.append(hook.name)
        return torch.zeros_like(activation)

    patched = model.run_with_hooks(
        tokens, fwd_hooks=[(lambda name: name.endswith("hook_attn_out"), ablate), ("blocks.1.hook_mlp_out", ablate)]
    )
    assert seen == ["blocks.0.hook_attn_out", "blocks.1.hook_attn_out", "blocks.1.hook_mlp_out"]
    x = model.embed.W_E[tokens] + model.pos_embed.W_pos
    torch.testing.assert_close(patched, x @ model.unembed.W_U)
    assert not torch.allclose(patched, model(tokens))
    assert not any(point.functions for point in model.hook_points.values())


def test_the_cache_within_hooks_holds_what_flows_on() -> None:
    model, tokens = Transformer.from_stack(random_stack(SMALL), 0), random_tokens(2, TASK.length)
    name = "blocks.0.hook_resid_post"
    with model.hooks([(name, lambda activation, hook: activation * 2), (name, lambda activation, hook: None)]):
        _, cache = model.run_with_cache(tokens, names_filter=[name, "blocks.1.hook_resid_pre"])
    torch.testing.assert_close(cache[name], 2 * model.run_with_cache(tokens, names_filter=name)[1][name])
    assert torch.equal(cache[name], cache["blocks.1.hook_resid_pre"])


def test_hooks_are_taken_off_after_an_error() -> None:
    model = Transformer.from_stack(random_stack(SMALL), 0)

    def fail(activation: Tensor, hook) -> None:
        raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        model.run_with_hooks(random_tokens(1, TASK.length), fwd_hooks=[("hook_embed", fail)])
    with pytest.raises(ValueError, match="no hook point"):
        model.run_with_hooks(random_tokens(1, TASK.length), fwd_hooks=[("hook_embed", fail), ("nowhere", fail)])
    assert not any(point.functions for point in model.hook_points.values())


def test_unknown_names_say_what_exists() -> None:
    model, tokens = Transformer.from_stack(random_stack(SMALL), 0), random_tokens(1, TASK.length)
    with pytest.raises(
        ValueError,
        match=r"hook_patern': expected .*hook_embed.*; did you mean blocks.1.attn.hook_pattern",
    ):
        model.run_with_cache(tokens, names_filter="blocks.1.attn.hook_patern")
    with pytest.raises(ValueError, match=r"no hook point passes the filter: there are hook_embed, "):
        model.run_with_cache(tokens, names_filter=lambda name: False)
    with pytest.raises(ValueError, match=r"blocks.0.hook_mlp_out"):  # the first layer has no MLP
        model.run_with_hooks(tokens, fwd_hooks=[("blocks.0.hook_mlp_out", lambda activation, hook: None)])


@pytest.mark.usefixtures("unchecked")
def test_bad_tokens_and_indices_are_one_line_errors() -> None:
    stack = random_stack(SMALL)
    with pytest.raises(ValueError, match=r"model 2 of a stack of 2: expected an index from 0 to 1"):
        Transformer.from_stack(stack, 2)
    for shape in ((TASK.length,), (1, TASK.length + 1)):
        with pytest.raises(ValueError, match=r"expected \(B, T\) with T at most 10"):
            Transformer.from_stack(stack, 0)(random_tokens(*shape))
