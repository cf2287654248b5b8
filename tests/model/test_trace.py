"""One trace, filled by both forward passes: the tables' equals the reference's, and the reference's what hooks see."""

from dataclasses import replace

import pytest
import torch

from assignadd.config import PRESETS, Config, Numerics
from assignadd.model.architecture import NotDefined
from assignadd.model.forward import answer_logits, trace, traces
from assignadd.model.trace import reference_trace
from assignadd.model.transformer import Transformer
from tests.architectures import ARCHITECTURES, random_stack, sequences_of

torch.set_num_threads(1)
PAPER = replace(PRESETS["tiny"], numerics=Numerics(dtype="float64"))
AT_EQUALS = ("resid_pre", "attention_output", "resid_mid", "preactivations", "neurons", "mlp_out", "resid_post")


def test_both_passes_fill_the_same_trace():
    stack, tokens = random_stack(PAPER, 2), sequences_of(PAPER)
    table, reference = trace(stack, tokens), reference_trace(stack, tokens.expand(2, -1, -1), 16)
    for layer in (1, 2):
        torch.testing.assert_close(table.attention(layer), reference.attention(layer))
    for name in (*AT_EQUALS, "logits"):
        torch.testing.assert_close(getattr(table, name), getattr(reference, name))
    assert list(table.residuals) == list(reference.residuals) == ["embedding", "attention 1", "attention 2", "MLP 2"]
    for name, residual in table.residuals.items():
        torch.testing.assert_close(residual, reference.residuals[name])
    torch.testing.assert_close(table.after_layer(1), reference.after_layer(1))


CONFIGS = {"the paper's": PAPER, **ARCHITECTURES}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_the_reference_trace_is_what_hooks_see(config: Config):
    stack, tokens = random_stack(config, 2), sequences_of(config)
    both, alone = trace(stack, tokens), list(traces(stack, tokens))
    last = f"blocks.{config.model.n_layers - 1}."
    hooks = dict(zip(AT_EQUALS, ("hook_resid_pre", "hook_attn_out", "hook_resid_mid", "mlp.hook_pre", "mlp.hook_post",
                                 "hook_mlp_out", "hook_resid_post"), strict=True))  # fmt: skip
    for i in range(2):
        with torch.no_grad():
            logits, cache = Transformer.from_stack(stack, i).run_with_cache(tokens[0])
        for layer in range(1, config.model.n_layers + 1):
            pattern, is_last = cache[f"blocks.{layer - 1}.attn.hook_pattern"], layer == config.model.n_layers
            expected = pattern[:, :, -1:] if is_last else pattern
            torch.testing.assert_close(both.attention(layer)[i], expected)
            torch.testing.assert_close(alone[i].attention(layer), expected)
            if not is_last:
                torch.testing.assert_close(alone[i].after_layer(layer), cache[f"blocks.{layer - 1}.hook_resid_post"])
        for name, hook in hooks.items():
            torch.testing.assert_close(getattr(both, name)[i], cache[last + hook][:, -1])
            torch.testing.assert_close(getattr(alone[i], name), cache[last + hook][:, -1])
        torch.testing.assert_close(alone[i].logits, logits[:, -1])
        first = cache["blocks.0.hook_resid_pre"] + cache["blocks.0.hook_attn_out"]
        torch.testing.assert_close(alone[i].residuals["attention 1"], first[:, -1])
    torch.testing.assert_close(both.logits, answer_logits(stack, tokens))


def test_a_network_without_a_last_mlp_has_no_neurons():
    config = replace(PAPER, model=replace(PAPER.model, d_mlp=(24, None)))
    found = trace(random_stack(config, 1), sequences_of(config))
    assert list(found.residuals) == ["embedding", "attention 1", "MLP 1", "attention 2"]
    assert torch.equal(found.resid_mid, found.resid_post)
    with pytest.raises(NotDefined, match="needs an MLP after the last layer"):
        _ = found.neurons
