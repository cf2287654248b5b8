"""The task: sequences of assignments and a sum, as tokens.

A prompt is read without torch: what needs it is imported when it is first used.
"""

from __future__ import annotations

from assignadd import TYPE_CHECKING, lazily

if TYPE_CHECKING:
    from assignadd.config.task import Task as Task
    from assignadd.task.arithmetic import answer_of as answer_of
    from assignadd.task.evalsets import EVAL_SETS as EVAL_SETS
    from assignadd.task.evalsets import EvalSet as EvalSet
    from assignadd.task.own import RandomWords as RandomWords
    from assignadd.task.positions import Positions as Positions
    from assignadd.task.positions import answers as answers
    from assignadd.task.positions import operand_slots as operand_slots
    from assignadd.task.positions import roles as roles
    from assignadd.task.sampler import Sampler as Sampler
    from assignadd.task.splits import pair_split as pair_split
    from assignadd.task.vocabulary import Vocabulary as Vocabulary

__all__, __getattr__ = lazily(
    __name__,
    {
        "assignadd.config.task": ("Task",),
        "assignadd.task.arithmetic": ("answer_of",),
        "assignadd.task.evalsets": ("EVAL_SETS", "EvalSet"),
        "assignadd.task.own": ("RandomWords",),
        "assignadd.task.positions": ("Positions", "answers", "operand_slots", "roles"),
        "assignadd.task.sampler": ("Sampler",),
        "assignadd.task.splits": ("pair_split",),
        "assignadd.task.vocabulary": ("Vocabulary",),
    },
)
