"""assignadd ask, assignadd ask show"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.text import Text

from assignadd.cli import options
from assignadd.cli.options import FromPreset, OneModel, positional
from assignadd.cli.screen import Column, Output, Printing, Table, columns
from assignadd.config import Config, ConfigError, Task, require_built_in
from assignadd.config.errors import RunError, one_of, printable

if TYPE_CHECKING:
    from torch import Tensor

    from assignadd.runs.folder import Run


@dataclass(frozen=True, kw_only=True)
class Ask(OneModel, Printing):
    """Give one prompt to a trained model: its answer, the runner-up, and what `=` attends to in both layers.

    --json prints {"answer", "probability", "correct", "tokens", "attention", ...}.
    """

    prompt: str = positional()
    """Such as "c=1, b=17, a=42, b+19=?", "17+19=?" or "c 1 . b 17 + b 19 ="."""

    def main(self) -> Output:
        run = options.run_or_newest(self.run)
        require_built_in(run.config, "ask")
        tokens = options.read_prompt(self.prompt, run.config.task)  # before torch is imported, which takes a second
        reply = _reply(run, run.index_of(self.seed), self.step, tokens)
        headings = ["PAD" if token == "." else token for token in reply["tokens"]]
        table_columns = [Column("layer", " "), *(Column(heading, form="3.0f") for heading in headings)]
        rows = []
        for layer, weights in reply["attention"].items():
            rows.append((layer, *[100 * weight for weight in weights]))
        return Output([_answer(reply), Table("attention from =, in percent", table_columns, rows)], reply)


def _reply(run: Run, index: int, step: int | None, tokens: list[int]) -> dict[str, Any]:
    """The document of --json: the model's answer to a prompt after `step` updates (None: the last checkpoint)."""
    import torch

    from assignadd.model.transformer import Transformer
    from assignadd.task.text import answer, render
    from assignadd.task.vocabulary import Vocabulary

    step, stack = run.model_at(step, index)  # a stack of this model alone
    model = Transformer.from_stack(stack, 0)
    with torch.no_grad():
        # The logits, (1, T, N), and the attention pattern of each layer, (1, heads, T, T), by the name of its hook.
        logits, patterns = model.run_with_cache(
            torch.tensor([tokens]), names_filter=lambda name: name.endswith("hook_pattern")
        )
    answer_logits = logits[0, -1]  # (N,), at `=`
    seed = run.members[index].seed
    if not answer_logits.isfinite().all():
        raise RunError(f"seed {seed} of {run.name} gives no finite answer: its weights are too large")
    probabilities, answers = answer_logits.softmax(-1).topk(2)  # of the answer and of the runner-up
    task = run.config.task
    vocabulary = Vocabulary(task)
    label = answer(tokens, task)  # the right answer
    return {
        "text": render(tokens, task),
        "tokens": [vocabulary.name(token) for token in tokens],
        "answer": int(answers[0]),
        "probability": float(probabilities[0]),
        "runner_up": int(answers[1]),
        "runner_up_probability": float(probabilities[1]),
        "label": label,
        "correct": int(answers[0]) == label,
        "kind": _kind(task, run.seen[index], tokens),
        "attention": _attention_from_equals(list(patterns.values())),
        "seed": seed,
        "run": run.name,
        "step": step,
    }


def _attention_from_equals(patterns: list[Tensor]) -> dict[str, list[float]]:
    """The attention of `=` to every token, by layer (and head), from each layer's pattern, (1, heads, T, T)."""
    attention = {}
    for layer, pattern in enumerate(patterns, 1):
        heads = pattern[0]  # (heads, T, T)
        for head, weights in enumerate(heads):
            name = f"layer {layer}" if len(heads) == 1 else f"layer {layer} head {head}"
            attention[name] = weights[-1].tolist()
    return attention


def _kind(task: Task, seen: Tensor, tokens: list[int]) -> str:
    """What sort of sequence a prompt is, such as "1-var, held-out pair (17, 19), 1 banned slot"; `seen` is (N, N)."""
    from assignadd.task.evalsets import LITERAL, TUPLE, count_banned
    from assignadd.task.positions import operand_slots
    from assignadd.task.text import operand_values
    from assignadd.task.vocabulary import Vocabulary

    vocabulary = Vocabulary(task)
    operands = []  # the index of each operand's variable, or LITERAL for a number
    for slot in operand_slots(task):
        is_variable = vocabulary.is_variable(tokens[slot])
        operands.append(tokens[slot] - vocabulary.first_variable if is_variable else LITERAL)
    n_vars = sum(operand != LITERAL for operand in operands)
    n_banned = count_banned(task, *operands)
    values = operand_values(tokens, task)  # such as (17, 19): `seen[values]` is the entry of this pair
    seen_or_not = "seen" if seen[values] else "held-out"
    kind = f"{n_vars}-var, {seen_or_not} {TUPLE[task.operands]} ({', '.join(map(str, values))})"
    if n_banned == 0:
        return kind
    return f"{kind}, {n_banned} banned slot{'s' * (n_banned > 1)}"


def _answer(reply: dict[str, Any]) -> Text:
    """Three coloured lines about a reply (`_reply`): the answer and whether it is right, the runner-up, the model."""
    colour = "green" if reply["correct"] else "red"
    verdict = "as it should be" if reply["correct"] else f"wrong, the answer is {reply['label']}"
    return Text.assemble(
        f"{reply['text']}  ",
        (str(reply["answer"]), f"bold {colour}"),
        f"  ({verdict}; p = {reply['probability']:.4f})\n",
        (f"runner-up {reply['runner_up']} (p = {reply['runner_up_probability']:.4f}); {reply['kind']}\n", "dim"),
        (f"{printable(reply['run'])}, seed {reply['seed']}, step {reply['step']:,}", "dim"),
    )


@dataclass(frozen=True, kw_only=True)
class Show(FromPreset, Printing):
    """Sequences as a model sees them: a prompt you type, or some of the training distribution or an evaluation set.

    --json prints [{"tokens", "text", "answer"}].
    """

    prompt: str | None = positional(None)
    """Such as "c=1, b=17, a=42, b+19=?"; without one, sequences are drawn."""
    task: Task = field(default_factory=Task)
    set: str | None = None
    """An evaluation set, such as "2-var var-restricted (1)". If None, the training distribution."""
    n: int = 8
    """How many sequences."""
    seed: int = 0
    """The seed of the split and of the sequences."""

    def main(self) -> Output:
        task = Config(task=self.task).task  # the same task, which the configuration has checked
        options.within("n", self.n)
        if not 0 <= self.seed < 2**63:
            raise ConfigError("seed", self.seed, "a whole number from 0 to 2^63 - 1")
        from assignadd.task.text import answer, render
        from assignadd.task.vocabulary import Vocabulary

        sequences = self._drawn(task) if self.prompt is None else [options.read_prompt(self.prompt, task)]
        vocabulary = Vocabulary(task)
        document = []
        rows = []
        for sequence in sequences:
            names = [vocabulary.name(token) for token in sequence]
            label = answer(sequence, task)
            document.append({"tokens": names, "text": render(sequence, task), "answer": label})
            rows.append((" ".join(f"{name:>2}" for name in names), label))
        title = self.set or "sequences of the training distribution"
        if self.prompt is not None:
            title = render(sequences[0], task)
        return Output([Table(title, columns("tokens", "answer"), rows)], document)

    def _drawn(self, task: Task) -> list[list[int]]:
        """`n` sequences, each a list of tokens: of the evaluation set --set, or of the training distribution."""
        from assignadd.task.evalsets import all_sets
        from assignadd.task.sampler import Sampler
        from assignadd.task.splits import pair_split

        sets = {evalset.name: evalset for evalset in all_sets(task)}
        if self.set is not None and self.set not in sets:
            raise ConfigError("set", self.set, one_of(self.set, sets))
        evalset = None if self.set is None else sets[self.set]  # None: the training distribution
        sampler = Sampler([task], pair_split(task, self.seed)[None], [self.seed], evalset)
        batch = sampler.sample(0, self.n)  # those of step 0, for a stack of one model
        return batch.tokens[0].tolist()
