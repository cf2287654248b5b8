"""A task of your own: write a word of four letters backwards, as in a c b d = d b c a.

The network reads all but the last letter, and predicts the next one at the last four positions. Training never has b
right after a; the evaluation set "b after a" always does. Run as a program, it trains two seeds within a minute and
draws copying.png: accuracies, and what layer 2 attends to. `assignadd train --task examples/copying.py` trains it too.
"""

from dataclasses import replace
from pathlib import Path

import torch

import assignadd
from assignadd.figure import figure, save
from assignadd.task import RandomWords

LETTERS, LENGTH = 8, 4


class Backwards:
    n_tokens, length, n_answers = LETTERS + 1, 2 * LENGTH, LETTERS
    sets = ("as trained", "b after a")

    def draw(self, words: RandomWords, set: str) -> tuple[torch.Tensor, torch.Tensor]:
        word = words.below(LETTERS, LENGTH)  # (B, 4), letters as numbers
        place = torch.arange(LENGTH, device=word.device) - words.below(LENGTH - 1)[:, None]  # 0 at a random letter
        if set == "b after a":
            word = torch.where(place == 0, 0, torch.where(place == 1, 1, word))
        else:
            word = torch.where((word == 1) & (word.roll(1, 1) == 0), 2, word)
        tokens = torch.cat([word, torch.full_like(word[:, :1], LETTERS), word.flip(1)[:, :-1]], 1)  # (B, 8)
        return tokens, torch.cat([torch.full_like(word, -1), word.flip(1)], 1)  # -1: no answer here


TASK = Backwards()


def main(steps: int = 120) -> None:
    tiny = assignadd.PRESETS["tiny"]
    optim, record = replace(tiny.optim, steps=steps), replace(tiny.record, eval_every=10)
    config = replace(tiny, model=replace(tiny.model, d_model=32, d_head=32), optim=optim, record=record)
    run = assignadd.train(config, seeds=[0, 1], task=TASK, threads=2)
    for member, sets in zip(run.members, assignadd.evaluate(run, n=2000), strict=True):
        print(f"seed {member.seed}:", ", ".join(f"{name} {result.accuracy:.3f}" for name, result in sets.items()))
    _, cache = assignadd.load(run).run_with_cache(TASK.draw(RandomWords(rows=500), "as trained")[0])
    rows = assignadd.metrics(run).filter(seed=0)
    with figure(7, 2.6) as made:
        left, right = made.subplots(1, 2)
        for name in TASK.sets:
            left.plot(rows["step"], rows[name], label=name)
        left.set(xlabel="step", ylabel="whole words right")
        left.legend()
        right.matshow(cache["blocks.1.attn.hook_pattern"][:, 0].mean(0), cmap="Blues")
        right.set(xlabel="attends to position", ylabel="position")
        right.grid(False)
        save(made, Path("copying"))


if __name__ == "__main__":
    main()
