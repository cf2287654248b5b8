"""Times of the measures: progress measures compared with a plain loop, and measures of the mechanism.

python -m benchmarks.measures [RUN] [--networks 100]
"""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from assignadd.config import PRESETS, Config, Member
from assignadd.measures import addition, scores
from assignadd.measures.columns import SEQUENCES as PER_TYPE
from assignadd.measures.columns import ProgressMeasures
from assignadd.measures.probes import answer_probes, mixed_sequences, probe_l1_var_from_num
from assignadd.measures.routing import routings
from assignadd.measures.sequences import sequences
from assignadd.model.stack import Stack, concatenate, initial_stack
from assignadd.model.transformer import Transformer
from assignadd.network import SEQUENCES
from assignadd.paper.addition.similarity import CONTEXTS, across_types, against_ov2, on_template, random_contexts
from assignadd.runs.folder import open_run
from assignadd.task.splits import pair_split
from assignadd.training.speed import milliseconds, seconds_of
from assignadd.training.trainer import prepare


def checkpoint_ms(config: Config, seconds: float) -> dict[str, float]:
    """Milliseconds per checkpoint on one thread, for all measures and for a plain script of the paper's."""
    prepare("cpu", 1, config)
    own = Member(0).config(config)
    progress, stack = ProgressMeasures([own], pair_split(config.task, 0)[None]), initial_stack(config, [0])
    ours = milliseconds(lambda: progress(stack), seconds, 3)
    return {"progress_ms": ours, "plain_ms": milliseconds(plain_measures(progress, stack), seconds, 2)}


def plain_measures(progress: ProgressMeasures, stack: Stack) -> Callable[[], None]:
    """A plain script for one checkpoint: full forward passes, and the addition circuit one pair after the other."""
    model: Any = Transformer.from_stack(stack, 0)
    numbers = range(stack.config.task.modulus)

    @torch.no_grad()
    def measure() -> None:
        for tokens in progress.routing.tokens.split(PER_TYPE, 1):
            model.run_with_cache(
                tokens[0], names_filter=lambda name: name.endswith(("hook_pattern", "hook_resid_post"))
            )
        model(progress.exam.tokens[0])
        x = stack.W_E[0, : len(numbers)] @ model.blocks[1].attn.W_V[0] @ model.blocks[1].attn.W_O[0]
        for n in numbers:
            for m in numbers:
                (model.blocks[1].mlp((x[n] + x[m]).view(1, 1, -1)) @ stack.W_U[0]).argmax()

    return measure


@torch.no_grad()
def mechanism_seconds(
    stack: Stack, configs: Sequence[Config], seen: Tensor, n: int, n_contexts: int
) -> dict[str, float]:
    """Seconds on one thread for the measures of the mechanism, on `n` sequences per type (`n_contexts` for cosines).

    Each is taken of one network before: compiled functions are loaded at their first call.
    """
    prepare("cpu", 1, stack.config)
    for measure in _measures(stack.models(0), configs[:1], seen[:1], n, n_contexts).values():
        measure()
    return {name: seconds_of(measure) for name, measure in _measures(stack, configs, seen, n, n_contexts).items()}


def _measures(
    stack: Stack, configs: Sequence[Config], seen: Tensor, n: int, n_contexts: int
) -> dict[str, Callable[[], object]]:
    def rates(tokens: Tensor) -> object:
        return routings(stack, tokens, [torch.ones_like(tokens[..., 0], dtype=torch.bool)])

    return {
        "attention patterns": lambda: [rates(sequences(configs, seen, v, n).tokens) for v in (0, 1, 2)],
        "similarities": lambda: _similarities(stack, random_contexts(configs, seen, n_contexts)),
        "addition circuit": lambda: addition.wrong_pairs(stack),
        "probes for the answer": lambda: [answer_probes(stack, configs, seen, split) for split in ("pair", "row")],
        "probes for the variable": lambda: [
            probe_l1_var_from_num(stack, mixed_sequences(configs, seen, 512), [s]) for s in (None, 4)
        ],
        "Fourier analysis": lambda: (
            addition.waves(addition.context_preactivations(stack, configs, seen)), addition.circuit_waves(stack),
            addition.filtered_accuracies(stack),
        ),
        "score tables": lambda: (
            scores.qk1_blocks(stack), scores.qk2_ov1_var_identity(stack), scores.qk2_ov1_var_margin(stack),
            [scores.qk1_num_to_prev_var(stack, some) for k in range(3) for some in combinations(scores.EXCLUDED, k)],
        ),
    }  # fmt: skip


def _similarities(stack: Stack, contexts: dict[int, Tensor]) -> None:
    """Takes every measure of `similarity`."""
    across_types(stack, contexts)
    on_template(stack)
    for tokens in contexts.values():
        against_ov2(stack, tokens)


def main() -> None:
    """Prints milliseconds per checkpoint and seconds of the mechanism's measures on one thread, as JSON."""
    parser = ArgumentParser(description=main.__doc__)
    parser.add_argument("--run", default="census-six", help="whose networks; its models' last checkpoints")
    parser.add_argument("--networks", type=int, default=100, help="how many")
    parser.add_argument("--seconds", type=float, default=4.0, help="about how long a checkpoint's measurement takes")
    args = parser.parse_args()
    run, networks, seconds = args.run, args.networks, args.seconds
    opened = open_run(run)
    each = -(-networks // len(opened.members))
    models = [i for i in range(len(opened.members)) for _ in opened.steps[-each:]][:networks]
    stack = concatenate([opened.trajectory(opened.steps[-each:], i) for i in range(len(opened.members))])
    times = mechanism_seconds(
        stack.models(slice(len(models))), [opened.configs[i] for i in models], opened.seen[models], SEQUENCES, CONTEXTS
    )
    found = {"networks": len(models), "seconds": times | {"all": sum(times.values())}}
    print(json.dumps(found | {"checkpoint": checkpoint_ms(PRESETS["paper"], seconds)}, indent=1))


if __name__ == "__main__":
    main()
