"""Interventions in words: every hook, role and component has them, and no field is left out."""

import pytest

from assignadd.interventions.specification import (
    ACTIONS,
    COMPONENTS,
    HOOKS_OF_LAYERS,
    KINDS,
    REPLACED_BY,
    ROLE_WORDS,
    Cut,
    Pattern,
    Replace,
    Swap,
    explain,
)
from assignadd.task.positions import ROLES
from tests.hooks import HOOKS


def test_there_are_words_for_everything():
    assert set(ROLE_WORDS) == set(ROLES)
    hooks = (*HOOKS, *(f"blocks.2.{hook}" for hook in HOOKS_OF_LAYERS))
    sentences = {explain(Replace("zero", hook)) for hook in hooks}
    components = (*COMPONENTS, "qk3", "ov3", "mlp1")
    assert len(sentences) == len(set(hooks)) and len({explain(Swap(c, 1)) for c in components}) == len(components)
    assert set(REPLACED_BY) | {"patch"} | set(KINDS) == set(ACTIONS)


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (Replace("zero", "blocks.1.hook_mlp_out"), "Replaces what the MLP of layer 2 writes by zero."),
        (
            Replace("mean", "blocks.1.mlp.hook_post", ("equals", 3), neurons=(4, 7)),
            "Replaces neurons 4, 7 among the neurons of layer 2 after the activation function, at =, position 3 by the "
            "mean over a reference set of prompts.",
        ),
        (
            Replace("zero", "hook_embed", frequencies=(5,)),
            "Replaces the Fourier components of frequency 5 in the token embeddings by zero.",
        ),
        (
            Replace("patch", "blocks.0.attn.hook_pattern", source="a=1, a+1=?"),
            "Replaces the attention pattern of layer 1 by what it is on the prompt 'a=1, a+1=?'.",
        ),
        (Cut(1, "first_value", 0), "In layer 1, the value of the first operand no longer attends to position 0."),
        (
            Pattern(2, "equals", {"first_value": 0.5, "3": 0.25}),
            "In layer 2, = gets the attention weights: 0.5 on the value of the first operand, 0.25 on position 3, and "
            "nothing on other tokens.",
        ),
        (
            Swap("qk2", 5300, 3),
            "Takes the query and key weights of layer 2 from seed 3, step 5,300; all else is the network's own.",
        ),
    ],
)
def test_sentences(one, words):
    assert explain(one) == words
