"""Grokking with 64 seeds instead of one: addition mod 113 by a transformer of one layer.

Nanda et al., "Progress measures for grokking via mechanistic interpretability" (ICLR 2023, arXiv 2301.05217), read one
network, which generalises near step 10,000 with five frequencies. As there: tokens `a b =`, 30 % of the pairs in
training, all in each step, AdamW, rate 0.001 after 10 steps, decay 1, loss in double precision; but the MLP has no
biases, and TF32 is allowed. Memorised and generalised: the first of ten evaluations in a row with 99 % of the training
pairs, or of all others, right; a seed that has not generalised by step 15,000, the last, counts as such. A frequency
counts if 1 % of the neurons have 85 % of their variance in it.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars
import torch

import assignadd
from assignadd.figure import COLORS, figure, save
from assignadd.model import Stack, answers
from assignadd.task import RandomWords

LEVEL, IN_A_ROW, OF_ITS_VARIANCE, OF_NEURONS = 0.99, 10, 0.85, 0.01


class Addition:  # a + b mod p; each seed has training pairs of its own
    def __init__(self, p: int, fraction: float):
        self.p, self.n_trained = p, int(fraction * p * p)
        self.n_tokens, self.length, self.n_answers, self.sets = p + 1, 3, p, ("trained", "held out")

    def draw(self, words: RandomWords, set: str) -> tuple[torch.Tensor, torch.Tensor]:
        first, last = (self.n_trained, self.p**2) if set == "held out" else (0, self.n_trained)
        return self.sums(words.in_fixed_order(self.p**2, range(first, last)))

    def sums(self, pairs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a, b = pairs // self.p, pairs % self.p
        return torch.stack([a, b, torch.full_like(a, self.p)], 1), (a + b) % self.p


def power_of_five(stack: Stack) -> torch.Tensor:  # (M,)
    """Share of the power of the numbers' embeddings that is in the five strongest of their frequencies."""
    power = torch.fft.rfft(stack.W_E[:, :-1], dim=1)[:, 1:].abs().square().sum(-1)
    return power.topk(5).values.sum(1) / power.sum(1)


def frequencies(neurons: torch.Tensor) -> tuple[torch.Tensor, float]:
    """The frequencies of neurons (p, p, n), and the share of neurons that have one."""
    waves = torch.fft.fft2(neurons.double(), dim=(0, 1)).abs().square()
    waves[0, 0] = 0
    around = [torch.tensor([0, k, -k], device=waves.device) for k in range(1, len(waves) // 2 + 1)]
    variance, best = torch.stack([waves[k][:, k].sum((0, 1)) for k in around]).max(0)  # of each neuron
    counts = torch.bincount(1 + best[variance > OF_ITS_VARIANCE * waves.sum((0, 1))], minlength=len(around) + 1)
    return (counts >= max(1, OF_NEURONS * len(best))).nonzero().flatten(), counts.sum().item() / len(best)


def accuracy_with(stack: Stack, kept: torch.Tensor, task: Addition) -> float:
    """Accuracy on all pairs when the embeddings have only some frequencies, (p // 2 + 1,), and their mean."""
    kept[0], edited, (tokens, sums) = True, stack.clone(), task.sums(torch.arange(task.p**2, device=kept.device))
    edited.W_E[:, :-1] = torch.fft.irfft(torch.fft.rfft(stack.W_E[:, :-1], dim=1) * kept[:, None], task.p, dim=1)
    return (answers(edited, tokens[None])[0] == sums).float().mean().item()


def lasting(curves: polars.DataFrame, name: str) -> int | None:  # the first step of ten at the level, if there are
    windows = np.lib.stride_tricks.sliding_window_view(curves[name].to_numpy() >= LEVEL, IN_A_ROW).all(1)
    return curves["step"][int(windows.argmax())] if windows.any() else None


def row(run: Path, seed: int, stack: Stack, curves: polars.DataFrame, task: Addition) -> dict[str, object]:
    tokens, hook = task.sums(torch.arange(task.p**2, device=stack.flat.device))[0], "blocks.0.mlp.hook_post"
    _, cache = assignadd.load(run, seed=seed).to(tokens.device).run_with_cache(tokens, names_filter=hook)
    ks, share = frequencies(cache[hook][:, -1].unflatten(0, (task.p, task.p)))
    used = torch.bincount(ks, minlength=task.p // 2 + 1) > 0
    only, others = accuracy_with(stack, used.clone(), task), accuracy_with(stack, ~used, task)
    steps = {"memorised": lasting(curves, "trained"), "generalised": lasting(curves, "held out")}
    of_neurons = {"frequencies": " ".join(map(str, ks.tolist())), "n": len(ks), "neurons with one": share}
    return {"seed": seed} | steps | of_neurons | {"with these alone": only, "without these": others}


def main() -> None:
    options = argparse.ArgumentParser(description="addition mod 113 by a transformer of one layer, 64 seeds")
    options.add_argument("--device", default="cpu")
    options.add_argument("--quick", action="store_true")
    options.add_argument("-o", type=Path, default=Path("grokking-results"))
    args, paper = options.parse_args(), assignadd.PRESETS["paper"]
    p, d, lr, decay, steps, every = (23, 32, 1e-2, 1.0, 800, 20) if args.quick else (113, 128, 1e-3, 1.0, 15_000, 100)
    task, seeds = Addition(p, 0.7 if args.quick else 0.3), range(2 if args.quick else 64)
    optim = replace(paper.optim, lr=lr, weight_decay=decay, beta2=0.98, warmup=10, batch=task.n_trained, steps=steps)
    record = replace(paper.record, eval_every=every, checkpoint_every=5000, eval_sequences=p * p - task.n_trained)
    model = replace(paper.model, n_layers=1, n_heads=4, d_model=d, d_head=d // 4, d_mlp=(4 * d,), init_scale=1.0)
    numerics = replace(paper.numerics, tf32=True, loss_in_float64=True)
    config = replace(paper, model=model, optim=optim, record=record, numerics=numerics)
    run = assignadd.train(config, seeds, device=args.device, threads=2, task=task, observe=power_of_five)
    curves, stack = assignadd.metrics(run), assignadd.load_stack(run).to(args.device)
    rows = [row(run.path, seed, stack.models(seed), curves.filter(seed=seed), task) for seed in seeds]
    table = polars.DataFrame(rows, infer_schema_length=None)
    done = np.sort(table["generalised"].drop_nulls().to_numpy())
    print(f"{len(done)} of {len(table)} seeds generalised by step {steps}.\n{table.drop('seed').describe()}")
    with figure(9.5, 2.8) as made:
        left, middle, right = made.subplots(1, 3)
        for _, curve in curves.group_by("seed"):
            left.plot(curve["step"], curve["held out"], color=COLORS.blue, lw=0.5, alpha=0.6)
        mean = curves.group_by("step", maintain_order=True).mean()
        left.plot("step", "trained", data=mean, color=COLORS.grey, label="mean accuracy on trained pairs")
        left.plot("step", "power_of_five", data=mean, color=COLORS.orange, label="mean power of five frequencies")
        left.set(xlabel="step", ylabel="accuracy on held-out pairs, by seed", xticks=range(0, steps, 4000))
        middle.step(done, np.arange(1, len(done) + 1) / len(table), where="post")
        middle.set(xlabel="step", ylabel="share that generalised", xticks=range(0, steps, 4000), ylim=(0, 1.05))
        right.hist(table["n"], bins=np.arange(-0.5, max(table["n"]) + 1))
        right.set(xlabel="frequencies", ylabel="seeds")
        for axes, of_paper in ((middle, 10_000), (right, 5)) if not args.quick else ():
            axes.axvline(of_paper, color=COLORS.vermilion, ls="--")
        made.legend(loc="outside upper center", ncols=4)
        args.o.mkdir(parents=True, exist_ok=True)
        save(made, args.o / "grokking", png=False)
    table.write_csv(args.o / "seeds.csv", float_precision=4)


if __name__ == "__main__":
    main()
