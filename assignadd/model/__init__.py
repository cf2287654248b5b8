"""Networks: stacks of weights, their forward pass, circuits, and hooks."""

from assignadd.model.accuracy import Exam
from assignadd.model.architecture import require
from assignadd.model.circuits import OV, QK
from assignadd.model.forward import answer_logits, answers
from assignadd.model.handmade import handmade
from assignadd.model.last_layer import LastLayer
from assignadd.model.stack import Stack, initial_stack

__all__ = [
    "OV",
    "QK",
    "Exam",
    "LastLayer",
    "Stack",
    "answer_logits",
    "answers",
    "handmade",
    "initial_stack",
    "require",
]
