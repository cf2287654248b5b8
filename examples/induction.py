"""When an induction head appears, in 32 seeds: bigrams, some of which are drawn anew for each sequence.

Bietti et al., "Birth of a transformer: a memory viewpoint" (NeurIPS 2023, arXiv 2306.00802). Tokens follow a table of
bigrams, but after each of five triggers, the most frequent tokens, comes what was drawn for it with the sequence. As
there: 65 tokens, T = 256, loss at every position, two layers of attention. Unlike there: the table is drawn (seed 0),
not counted in Shakespeare's characters; AdamW; 64 sequences in a step. They find the table learned first, then an
induction head from the top down: W_O2, W_K2, W_K1. Each is there from the first of ten evaluations in a row at 80 % on.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars
import torch

import assignadd
from assignadd.figure import COLORS, figure, save
from assignadd.model import OV, QK, Stack
from assignadd.task import RandomWords

SLOTS, TRIGGERS, LEVEL, IN_A_ROW = 4096, 5, 0.8, 10
LABELS = {"bigrams": "bigrams: predicted as in the table", "W_O2": "W_O2: layer 2 predicts the token it attends to",
          "W_K2": "W_K2: layer 2 looks for what followed a trigger", "W_K1": "W_K1: layer 1 looks for the token before",
          "attention": "attention: on what followed the trigger", "in_context": "answers in context"}  # fmt: skip


class Bigrams:  # the next token everywhere; "in context" it is that of the last position, with the first one's trigger
    def __init__(self, n: int, length: int):
        self.n_tokens, self.n_answers, self.length, self.sets = n, n, length, ("in context",)
        chances = np.random.default_rng(0).gamma(0.3, size=(n, n)) / np.arange(1, n + 1)  # frequent tokens first
        sums, cases = (chances / chances.sum(1, keepdims=True)).cumsum(1), (np.arange(SLOTS) + 0.5) / SLOTS
        self.after = torch.tensor(np.stack([np.searchsorted(of_token[:-1], cases) for of_token in sums]))  # (n, SLOTS)

    def draw(self, words: RandomWords, set: str) -> tuple[torch.Tensor, torch.Tensor]:
        after, cases = self.after.to(words.device), words.below(SLOTS, self.length + 1)
        drawn = words.below(self.n_tokens, TRIGGERS)  # what comes after each trigger in this sequence
        row = [words.below(TRIGGERS) if set == "in context" else after[0, cases[:, 0]]]
        for case in cases[:, 1:].unbind(1):
            of_trigger = drawn.gather(1, row[-1].clamp(max=TRIGGERS - 1)[:, None])[:, 0]
            row.append(torch.where(row[-1] < TRIGGERS, of_trigger, after[row[-1], case]))
        tokens, answers = torch.stack(row[:-1], 1), torch.stack(row[1:], 1)
        if set == "in context":
            tokens[:, -1], answers[:, -1], answers[:, :-1] = tokens[:, 0], answers[:, 0], -1
        return tokens, answers


def forward(stack: Stack, tokens: torch.Tensor, even: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Layer 2's attention, (M, B, T, T), and the logits without MLPs; `even` levels layer 1's attention."""
    x = stack.W_E[:, tokens] + stack.W_pos[:, None]
    for layer in (1, 2):
        scores = x @ QK(stack, layer)[:, None] @ x.mT * (1 - (even and layer == 1))
        pattern = scores.masked_fill(torch.ones_like(scores[0, 0]).triu(1).bool(), -torch.inf).softmax(-1)
        x = x + pattern @ x @ OV(stack, layer)[:, None]
    return pattern, x @ stack.W_U[:, None]


def hits(scores: torch.Tensor) -> torch.Tensor:  # the share of rows with their largest score on the diagonal
    return (scores.argmax(-1) == torch.arange(scores.shape[1], device=scores.device)).float().mean(1)


def memories(stack: Stack) -> dict[str, torch.Tensor]:  # (M,) each
    """Recall, attention and accuracy of an induction head, as shares; bigrams: e to the minus divergence from them."""
    task, x, p = Bigrams(stack.W_E.shape[1], stack.W_pos.shape[1]), stack.W_E, stack.W_pos[:, :64]
    tokens, following = (part.to(x.device) for part in task.draw(RandomWords(32, seed=1 << 40), "train"))
    before, triggers = torch.nn.functional.pad(tokens, (1, 0), value=-1)[:, None, :-1], x[:, :TRIGGERS]
    sought = ((before == tokens[..., None]) & (tokens < TRIGGERS)[..., None]).tril()  # by a query: (B, T, T)
    recurs, (attention, logits) = sought.any(-1), forward(stack, tokens)
    chances = (
        torch.stack([torch.bincount(row, minlength=x.shape[1]) for row in task.after]).to(x.device)[tokens] / SLOTS
    )
    log_ratio = (torch.special.entr(chances) + chances * logits.log_softmax(-1)).sum(-1)[:, tokens >= TRIGGERS].mean(1)
    earlier = (p @ QK(stack, 1) @ p.mT).masked_fill(torch.ones_like(p[0] @ p[0].mT).triu().bool(), -torch.inf)
    return {
        "bigrams": log_ratio.exp(), "W_O2": hits(x @ OV(stack, 2) @ stack.W_U), "W_K1": hits(earlier[:, 1:]),
        "W_K2": hits(triggers @ QK(stack, 2) @ (triggers @ OV(stack, 1)).mT),
        "attention": (attention * sought).sum(-1)[:, recurs].mean(1),
        "in_context": (logits.argmax(-1) == following)[:, recurs].float().mean(1),
        "even_layer_1": (forward(stack, tokens, even=True)[1].argmax(-1) == following)[:, recurs].float().mean(1),
    }  # fmt: skip


def lasts(name: str) -> polars.Expr:  # whether this evaluation is the first of ten in a row at the level
    return (polars.col(name) >= LEVEL).cast(polars.Int8).rolling_min(IN_A_ROW).shift(1 - IN_A_ROW) == 1


def main() -> None:
    options = argparse.ArgumentParser(description="when an induction head appears, in 32 seeds")
    options.add_argument("--device", default="cpu")
    options.add_argument("--quick", action="store_true")
    options.add_argument("-o", type=Path, default=Path("induction-results"))
    args, paper = options.parse_args(), assignadd.PRESETS["paper"]
    n, T, d, batch, steps, seeds = (20, 32, 64, 32, 500, 2) if args.quick else (65, 256, 128, 64, 2000, 32)
    model = replace(paper.model, d_model=d, d_head=d, d_mlp=(None, None))
    optim = replace(paper.optim, lr=3e-3, batch=batch, steps=steps)
    record = replace(paper.record, eval_every=10, eval_sequences=64, checkpoint_every=500)
    config = replace(paper, model=model, optim=optim, record=record, numerics=replace(paper.numerics, tf32=True))
    run = assignadd.train(config, range(seeds), None, args.device, 2, task=Bigrams(n, T), observe=memories)
    curves = assignadd.metrics(run)
    onsets = [polars.col("step").filter(lasts(name)).first().alias(name) for name in LABELS]
    ends = polars.col("in_context", "even_layer_1").last().name.suffix(" (last)")
    table = curves.group_by("seed", maintain_order=True).agg(*onsets, ends)
    print(table.drop("seed").describe())
    with figure(7.5, 3.4) as made:
        left, right = made.subplots(1, 2)
        mean = curves.group_by("step", maintain_order=True).mean()
        for (name, label), color in zip(LABELS.items(), vars(COLORS).values(), strict=True):
            left.plot("step", name, data=mean, color=color, label=label)
            right.plot(table[name], [label.split(":")[0]] * seeds, "o", color=color, alpha=0.4)
        left.set(xlabel="step", ylabel="mean over seeds", xlim=(0, steps // 2))
        made.legend(loc="outside upper center", ncols=2)
        right.set(xlabel="step from which it is there, by seed")
        args.o.mkdir(parents=True, exist_ok=True)
        save(made, args.o / "induction", png=False)
    table.write_csv(args.o / "seeds.csv", float_precision=4)


if __name__ == "__main__":
    main()
