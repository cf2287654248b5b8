"""The names of `assignadd.task`: sequences, their roles and answers, evaluation sets, splits, a task of your own."""

import torch

from assignadd import PRESETS, parse
from assignadd.task import (
    EVAL_SETS,
    EvalSet,
    Positions,
    RandomWords,
    Sampler,
    Task,
    Vocabulary,
    answer_of,
    answers,
    operand_slots,
    pair_split,
    roles,
)

task: Task = PRESETS["paper"].task  # or Task(operation="subtract"), with the paper's defaults for the rest
vocabulary = Vocabulary(task)
tokens = torch.tensor([parse("c=1, b=17, a=42, b+19=?", task)])  # (B, T)
print([vocabulary.name(token) for token in tokens[0].tolist()])
print(answers(task, tokens), answer_of(task, (17, 19)), "operands at", operand_slots(task))

# Where the values are, and which positions have a role.
print(roles(task, tokens).values, roles(task, tokens).value_positions)
print(Positions(task, tokens).mask("distractors").nonzero())

# Which pairs of numbers training may add, and sequences of an evaluation set.
seen = pair_split(task, seed=0)  # (N, N)
print((~seen.diagonal()).sum().item(), "held-out doubles")
print([s.label for s in EVAL_SETS])
banned = EvalSet("one variable, banned slot", n_vars=1, n_banned=1)
any_pair = EvalSet("two variables, any pair", n_vars=2, pair="any", n_banned=None)
for evalset in (EVAL_SETS[0], banned, any_pair):
    batch = Sampler([task], seen[None], seeds=[0], evalset=evalset).sample(step=0, rows=4)  # tokens (1, 4, T)
    print(evalset.label, batch.labels.tolist())


# A task of your own has sizes, evaluation sets, and `draw`; a network of your own is made from its sizes.
class Parity:
    """Is the number of ones even?"""

    n_tokens, length, n_answers, sets = 2, 5, 2, ("test",)

    def draw(self, words: RandomWords, set: str) -> tuple[torch.Tensor, torch.Tensor]:
        tokens = words.below(2, self.length)  # (B, T)
        return tokens, tokens.sum(1) % 2


print(Parity().draw(RandomWords(rows=3, seed=1), "test"))
