"""The names of `assignadd.model`: stacks of weights, circuits, forward passes, the last layer, hooks."""

import torch

import assignadd
from assignadd import PRESETS, load_stack, open_run
from assignadd.model import (
    OV,
    QK,
    Exam,
    LastLayer,
    Stack,
    answer_logits,
    answers,
    handmade,
    initial_stack,
    require,
)
from assignadd.task import EVAL_SETS

run = open_run("census-six")
stack = load_stack(run)  # six models
tokens = torch.tensor([[assignadd.parse("c=1, b=17, a=42, b+19=?", run.config.task)]])  # (1, B, T): for all models
print(answers(stack, tokens)[:, 0], answer_logits(stack, tokens).shape)


def copied_scores(stack: Stack) -> torch.Tensor:  # (M, V, V)
    """Scores of layer 2 between variables that layer 1 copied."""
    require(stack.config, "copied_scores")  # an error that says what another architecture than the paper's lacks
    x = stack.W_E[:, -stack.config.task.n_vars :] @ OV(stack, 1)
    return x @ QK(stack, 2) @ x.mT


for name, one in (("solved", handmade()), ("untrained", initial_stack(PRESETS["paper"], [0]))):
    scores = copied_scores(one)[0]
    print(name, (scores.argmax(-1) == torch.arange(len(scores))).float().mean().item())

# Accuracy on fixed sequences; the last layer of one model from a changed residual stream.
exam = Exam(run.configs, run.seen, EVAL_SETS[:3], n=100)
print(exam.accuracies(stack)[0])
first = next(iter(stack))  # a stack of one
last = LastLayer(first)
trace = last.trace(tokens[0])  # what a forward pass leaves behind
print(trace.attention(2).shape)  # (B, heads, 1, T): what `=` attends to in layer 2
before = last.before(trace)  # (B, T, d)
before[:, -1] = 0
print("without what `=` holds:", last.answer(before).argmax().item())
