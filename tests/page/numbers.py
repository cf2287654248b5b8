"""PyTorch's numbers for the page's forward pass: `python -m tests.page.numbers FOLDER` writes them as a JSON file.

Half precision is part of what is compared: both sides start from the rounded circuits of `page.history`.
"""

import json
import sys
from pathlib import Path

import torch

from assignadd.config import Config, Model
from assignadd.interventions.apply import apply, reference_sequences
from assignadd.interventions.specification import COMPONENTS, specification
from assignadd.measures.addition import circuit_waves
from assignadd.model.stack import Stack, flatten, initial_stack
from assignadd.model.transformer import Transformer
from assignadd.page import data
from assignadd.page.data import task_data
from assignadd.page.folder import circuits, script
from assignadd.task.sampler import Sampler
from assignadd.task.splits import pair_split
from assignadd.task.text import ParseError, parse, render, render_tokens, with_assignment

CONFIG = Config(model=Model(d_model=32, d_head=32, d_mlp=(None, 64), init_scale=2.0))
PROMPTS = 200
OTHER_STEP = 7
SOURCE = "d=3, k=44, e=8, k+d=?"
INTERVENTIONS = {
    "nothing": [],
    "zero head 1": [{"action": "zero", "hook": "blocks.0.hook_attn_out"}],
    "zero a role": [{"action": "zero", "hook": "blocks.1.hook_resid_pre", "positions": ["first_value", "pads"]}],
    "zero embedding": [{"action": "zero", "hook": "hook_embed", "positions": ["distractors", 2]}],
    "zero position": [{"action": "zero", "hook": "hook_pos_embed", "positions": ["variables", "assigned"]}],
    "zero frequencies": [{"action": "zero", "hook": "hook_embed", "frequencies": [1, 7, 29]}],
    "zero neurons": [{"action": "zero", "hook": "blocks.1.mlp.hook_post", "neurons": [0, 3, 63]}],
    "zero neurons of frequencies": [
        {"action": "zero", "hook": "blocks.1.mlp.hook_pre", "frequencies": list(range(1, 15))},
    ],
    "mean of a neuron": [
        {"action": "mean", "hook": "blocks.1.mlp.hook_post", "neurons": [5, 6], "positions": ["equals"]},
    ],
    "mean attention": [{"action": "mean", "hook": "blocks.1.hook_attn_out"}],
    "mean pattern": [{"action": "mean", "hook": "blocks.0.attn.hook_pattern", "positions": ["equals"]}],
    "mean frequencies": [{"action": "mean", "hook": "hook_embed", "frequencies": [3, 4]}],
    "resample residual": [{"action": "resample", "hook": "blocks.1.hook_resid_mid"}],
    "resample prefix": [{"action": "resample", "hook": "blocks.1.hook_resid_pre", "positions": ["first", "second"]}],
    "patch the pattern": [{"action": "patch", "hook": "blocks.1.attn.hook_pattern", "source": SOURCE}],
    "patch roles": [
        {"action": "patch", "hook": "blocks.1.hook_resid_pre", "positions": ["first_value", "second_variable"],
         "source": SOURCE},
    ],
    "patch components": [
        {"action": "patch", "hook": "hook_embed", "frequencies": [2], "positions": ["first"], "source": SOURCE},
    ],
    "patch the MLP": [{"action": "patch", "hook": "blocks.1.hook_mlp_out", "positions": ["equals"], "source": SOURCE}],
    "patch the end": [{"action": "patch", "hook": "blocks.1.hook_resid_post", "positions": [15], "source": SOURCE}],
    "cut edges": [
        {"action": "cut", "layer": 2, "query": "equals", "key": "first_value"},
        {"action": "cut", "layer": 1, "query": "assigned", "key": "variables"},
    ],
    "cut all": [{"action": "cut", "layer": 1, "query": 0, "key": 0}],
    "pattern": [
        {"action": "pattern", "layer": 2, "query": "equals",
         "weights": {"first_value": 0.5, "second_value": 0.25, "3": 0.25}},
    ],
    "pattern 1": [{"action": "pattern", "layer": 1, "query": "equals", "weights": {"variables": 0.2}}],
    **{f"swap {c}": [{"action": "swap", "component": c, "step": OTHER_STEP}] for c in COMPONENTS},
    "several": [
        {"action": "swap", "component": "ov2", "step": OTHER_STEP},
        {"action": "zero", "hook": "blocks.0.hook_attn_out", "positions": ["second_value"]},
        {"action": "cut", "layer": 2, "query": "equals", "key": "equals"},
        {"action": "resample", "hook": "blocks.1.mlp.hook_pre", "neurons": [1, 2, 3]},
    ],
}  # fmt: skip
TEXTS = (
    "c=1, b=17, a=42, b+19=?", "c 1 . b 17 + b 19 =", "a=1, a+0", "a=1, a+0=", "", "a", "a=", "a=59, a+1=?",
    "a=1 b=2, a+b=?",
    "m=1, m+2=?", "a=1, a=2, a+a=?", "a=1, a+a=?", "a=1, b+2=?", "1+2=?", "a=1, 1+2=? x",
    "a=1,b=2,c=3,d=4,e=5,f=6,g=7,g+1=?",
    "+ 1 2 =", "a 1 + 1", ". " * 20, "a 1 + 1 2 = =", "<img src=x onerror=alert(1)>", "a=1, a+<b>=?", "a=1, 5+a=?",
    "PAD a 5 + 3 a =", "é=1, é+1=?", "a=1, a+1=?!", "a=01, a+1=?",
)  # fmt: skip
# Two numbers alone, or not.
BARE = (
    "17+19=?", " 17 + 19 ", "17+19", "17 +19 = ?", "17+19?", "17+99=?", "b=4, b+1=?", "17+b=?", "17+19=?x", "+", "",
    "017+1=", "1 7+1=?", "17-19=?", "17+19==",
)  # fmt: skip


def rounded(one: Stack) -> Stack:
    """The model whose circuits are the rounded ones: QK and OV in the first factor, the identity in the second."""
    parts = {name: torch.from_numpy(matrix).half().float() for name, matrix in circuits(one.weights).items()}
    eye, named = torch.eye(one.config.model.d_model), {"embed.W_E": parts["W_E"], "pos_embed.W_pos": parts["W_pos"]}
    for layer in (1, 2):
        attention = f"blocks.{layer - 1}.attn."
        named |= {
            attention + "W_Q": parts[f"QK{layer}"][None] * one.config.model.d_head**0.5,
            attention + "W_K": eye[None],
        }
        named |= {attention + "W_V": parts[f"OV{layer}"][None], attention + "W_O": eye[None]}
    named |= {"blocks.1.mlp.W_in": parts["W_in"], "blocks.1.mlp.W_out": parts["W_out"], "unembed.W_U": parts["W_U"]}
    return Stack(one.config, flatten(one.config, {name: weight[None] for name, weight in named.items()}))


def numbers(config: Config = CONFIG) -> dict:
    """Weights, prompts, logits under every kind of intervention, patterns, waves, and what the parser says."""
    one, other = (initial_stack(config, [seed]) for seed in (0, 1))
    ours, donor = rounded(one), rounded(other)
    seen = pair_split(config.task, 0)
    tokens = Sampler([config.task], seen[None], [5]).sample(0, PROMPTS).tokens
    reference = reference_sequences(config)
    logits = {
        name: apply(ours, tokens, specification(spec), reference, lambda swap, model: donor)[0].tolist()
        for name, spec in INTERVENTIONS.items()
    }
    model = Transformer.from_stack(ours, 0)
    cache = model.run_with_cache(tokens[0])[1]
    patterns = [cache[f"blocks.{layer}.attn.hook_pattern"][:, 0].tolist() for layer in (0, 1)]
    waves = circuit_waves(ours)
    shapes = [(name, *matrix.shape) for name, matrix in circuits(one.weights).items()]
    return {
        "task": task_data(config), "matrices": shapes, "step": 30000, "other_step": OTHER_STEP,
        "weights": script("m0", 30000, one.weights), "other": script("m0", OTHER_STEP, other.weights),
        "prompts": tokens[0].tolist(), "reference": data.reference_data(config),
        "interventions": INTERVENTIONS, "logits": logits,
        "patterns": patterns, "waves": {"frequency": waves.frequency[0].tolist(), "share": waves.share[0].tolist()},
        "texts": [said(text, config) for text in TEXTS],
        "bare": {text: with_assignment(text, config.task) for text in BARE},
    }  # fmt: skip


def said(text: str, config: Config) -> dict:
    try:
        tokens = parse(text, config.task)
    except ParseError as error:
        return {"text": text, "column": error.column, "expected": error.expected}
    return {
        "text": text,
        "tokens": tokens,
        "text_form": render(tokens, config.task),
        "token_form": render_tokens(tokens, config.task),
    }


def main(folder: str) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    (Path(folder) / "numbers.json").write_text(json.dumps(numbers()))


if __name__ == "__main__":
    main(sys.argv[1])
