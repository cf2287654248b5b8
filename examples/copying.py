"""A task of your own: copy a word backwards. Which letters did the network learn to attend to?

A sequence has four letters, `=`, and the first three letters of the answer: a c b d = d b c, with the answers d b c a
at the last four positions. Training never has the letters a and b side by side; the set "a beside b" always does.

`python examples/copying.py` trains two seeds for about half a minute and draws copying.png. From the shell the same is
`assignadd train --task examples/copying.py --preset tiny --seeds 0,1 ...`, and `assignadd measure RUN --task ...`.
"""

import sys
from dataclasses import replace
from pathlib import Path

import torch

import assignadd
from assignadd.figure import figure, save

N, L = 4, 8  # letters in a word, and in the alphabet


class Backwards:
    """Says what the sequences are; the package trains, stores, resumes and evaluates."""

    n_tokens, length, n_answers = L + 1, 2 * N, L
    sets = ("as trained", "a beside b")

    def draw(self, words, set):
        word = words.below(L, len(words) and N)  # (B, N)
        place = words.below(N - 1)[:, None]
        pair = torch.arange(N, device=word.device) - place
        if set == "a beside b":
            word = torch.where(pair == 0, 0, torch.where(pair == 1, 1, word))
        else:
            follows = torch.nn.functional.pad((word[:, :-1] == 0) & (word[:, 1:] == 1), (1, 0))
            word = torch.where(follows, 2, word)
        backwards = word.flip(1)
        equals = torch.full_like(place, L)
        tokens = torch.cat([word, equals, backwards[:, :-1]], 1)  # (B, 2 N)
        return tokens, torch.cat([torch.full_like(word, -1), backwards], 1)


TASK = Backwards()


def main(steps: int) -> None:
    tiny = assignadd.PRESETS["tiny"]
    record = replace(tiny.record, eval_every=max(1, steps // 20), checkpoint_every=max(1, steps // 2))
    config = replace(tiny, optim=replace(tiny.optim, steps=steps), record=record)
    run = assignadd.train(config, seeds=[0, 1], task=TASK, threads=2)
    for seed, sets in enumerate(assignadd.evaluate(run, n=2000)):
        print(f"seed {seed}:", ", ".join(f"{name} {result.accuracy:.3f}" for name, result in sets.items()))
