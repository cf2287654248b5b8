"""The whole study in plain PyTorch: task, model, training, and accuracy on the nine evaluation sets.

A sequence has 16 tokens. The first twelve hold 1 to 6 assignments (a variable, then its number) and padding in random
places; the last four ask for a sum mod 59 in which each operand is a number or an assigned variable:

    . . b 1 . c 17 a 42 . . . + c 19 =        the model reads this and predicts 36 at `=`

Training holds out 30 % of the ordered pairs of numbers (no sequence adds them, directly or through variables) and bans
two variables from the first operand and two others from the second. The evaluation sets test what training left out.

From the package come the settings, the random sequences and the random initial weights, so that the losses can be
compared with those of `assignadd train`, which computes the same updates much faster (tests/test_examples.py).

Try `python examples/plain_training.py --preset tiny --steps 2000`: a smaller task, learned but for the banned slots in
about a minute. With the paper's task a step takes about half a second of one core.
"""

import argparse
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from assignadd import PRESETS, Config
from assignadd.model import initial_stack
from assignadd.task import EVAL_SETS, Sampler, pair_split

Weights = dict[str, Tensor]


def initial_weights(config: Config, seed: int) -> Weights:
    """The matrices of one model by name, every entry from N(0, 0.8^2 / 128). There are no biases."""
    named = initial_stack(config, [seed]).weights
    return {name: weight[0].squeeze(0).requires_grad_() for name, weight in named.items()}


def attention(x: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor) -> Tensor:
    """The output of one head of causal attention, which is added to the residual stream x (B, T, d)."""
    queries, keys, values = x @ W_Q, x @ W_K, x @ W_V
    scores = queries @ keys.mT.contiguous() / keys.shape[-1] ** 0.5  # (B, T, T)
    future = torch.ones_like(scores[0], dtype=torch.bool).triu(1)
    return scores.masked_fill(future, -torch.inf).softmax(-1) @ values @ W_O


def answer_logits(weights: Weights, tokens: Tensor) -> Tensor:
    """Logits of the answers 0..58 at `=` (B, 59): two layers of attention, then an MLP; no normalisation."""
    x = weights["embed.W_E"][tokens] + weights["pos_embed.W_pos"]  # (B, T, d)
    for layer in (0, 1):
        x = x + attention(x, *(weights[f"blocks.{layer}.attn.W_{name}"] for name in "QKVO"))
    x = x + F.relu(x @ weights["blocks.1.mlp.W_in"]) @ weights["blocks.1.mlp.W_out"]
    return x[:, -1] @ weights["unembed.W_U"]


def train(weights: Weights, config: Config, seed: int, steps: int) -> Iterator[float]:
    """Yields the loss of each step. A step draws a new batch of 512 sequences and updates the weights in place."""
    o, seen = config.optim, pair_split(config.task, seed)  # seen[n, m]: training may add n and m
    sampler = Sampler([config.task], seen[None], [seed])
    # In the paper: learning rate 1e-3, betas 0.9 and 0.999, eps 1e-8, weight decay 0.02 on every matrix; no schedule.
    optimizer = torch.optim.AdamW(weights.values(), o.lr, (o.beta1, o.beta2), o.eps, o.weight_decay)
    for step in range(steps):
        batch = sampler.sample(step, o.batch)
        loss = F.cross_entropy(answer_logits(weights, batch.tokens[0]), batch.labels[0])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


@torch.no_grad()
def accuracies(weights: Weights, config: Config, seed: int) -> dict[str, float]:
    """Accuracy on each evaluation set, such as sums of held-out pairs or variables in slots that were banned."""
    found, n, seen = {}, config.record.eval_sequences, pair_split(config.task, seed)
    for step, evaluation_set in enumerate(EVAL_SETS):
        batch = Sampler([config.task], seen[None], [seed], evaluation_set).sample(step, n)
        correct = answer_logits(weights, batch.tokens[0]).argmax(-1) == batch.labels[0]
        found[evaluation_set.name] = correct.sum().item() / n
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Train one model in plain PyTorch; print its losses and accuracies.")
    parser.add_argument("--preset", choices=PRESETS, default="paper", help="task and settings (default: paper)")
    parser.add_argument("--steps", type=int, help="number of updates (default: the preset's, 30,000 for the paper)")
    args = parser.parse_args()
    config, seed = PRESETS[args.preset], 0
    steps = config.optim.steps if args.steps is None else args.steps
    weights = initial_weights(config, seed)
    print("accuracy on", ", ".join(s.name for s in EVAL_SETS))
    for step, loss in enumerate(train(weights, config, seed, steps), 1):
        if step % 100 == 0 or step in (1, steps):
            shown = " ".join(f"{accuracy:.3f}" for accuracy in accuracies(weights, config, seed).values())
            print(f"step {step:5}  loss {loss:.4f}  accuracy {shown}", flush=True)


if __name__ == "__main__":
    main()
