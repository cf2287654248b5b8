"""How much a model of a sweep costs: operations, memory, and seconds on the CPU of this machine."""

from __future__ import annotations

import math
import time
from contextlib import closing
from dataclasses import replace
from functools import lru_cache

from assignadd.config import Config, Member, has_code_of_user
from assignadd.model.forward import CHUNK
from assignadd.model.stack import weight_shapes
from assignadd.model.table import covers
from assignadd.sweeps.final_tests import end_sequences
from assignadd.task.evalsets import all_sets, recorded_sets
from assignadd.task.splits import splits_of
from assignadd.task.vocabulary import sizes_of
from assignadd.training.loop import last_evaluations
from assignadd.training.speed import flops, forward_flops
from assignadd.training.trainer import Trainer

# The seconds that a stack takes besides training its models: to start its process, to write its folder and commits.
SECONDS_OF_STACK = 0.5
# Besides matrix products, making, measuring and storing a model takes about as long as this many operations in them.
OPERATIONS_BESIDE = 1e8
# Of all sums of two different variables with any values, the share that are in the two-variable test after training
# (`final_tests.addition_tests`): 193,580 of 459,492 in the paper's code.
TWO_VARIABLE_SHARE = 0.42


@lru_cache  # stacks of a sweep may have the same settings
def operations(config: Config) -> float:
    """About how many floating-point operations training and evaluating a model takes; inf for code of the user's."""
    if has_code_of_user(config):
        return math.inf
    in_products = config.optim.steps * flops(config) + forward_flops(config, _evaluated_sequences(config))
    return OPERATIONS_BESIDE + in_products


def bytes_per_model(config: Config) -> int:
    """An estimate from above of a model's memory in training on a GPU, in bytes.

    The factors say about how many tensors of each size there are at a time.
    """
    task, model = sizes_of(config.task), config.model
    n_weights = sum(math.prod(shape) for shape in weight_shapes(config).values())
    C = task.n_tokens + task.length  # rows of the tables
    # All that follows counts numbers, not bytes, up to the last line.
    if covers(config):  # the tables: layer 2 at the position of "=" alone
        H = model.n_heads
        patterns = 3 * H * task.length**2
        # A number for each row: H C + 1 that layer 1 writes, and (1 + H) C that each head of layer 2 reads.
        usage = H * C + 1 + H * (1 + H) * C
        attention = patterns + 4 * usage  # the scores of layer 2 and both gradients are no larger than the usage
        residual_and_mlp = 6 * model.d_model + 3 * (model.d_mlp[-1] or 0)
        per_sequence = attention + residual_and_mlp + 2 * task.n_answers
        n_evaluated = CHUNK  # sequences at a time
    else:  # every layer at every position, what autograd keeps, and one-hot tokens
        heads = model.n_heads * (4 * model.d_head + 3 * task.length)
        mlps = 2 * sum(width or 0 for width in model.d_mlp)
        per_position = model.n_layers * (8 * model.d_model + heads) + mlps + C
        per_sequence = 2 * task.length * per_position + 2 * task.n_answers * (task.length if task.everywhere else 1)
        n_evaluated = CHUNK // 4  # autograd keeps nothing here, so a sequence takes less
    weights_gradients_moments = 6 * n_weights
    sequences = (config.optim.batch + n_evaluated) * per_sequence
    tables = 10 * model.n_heads * C * (C + model.d_model)
    tokens_and_labels = 12 * config.record.eval_sequences * (task.length + 1)  # of the exam, with 12 sets
    exam = 2 * tokens_and_labels  # each has 8 bytes, as two numbers in single precision
    bytes_per_number = 8 if config.numerics.dtype == "float64" else 4
    return bytes_per_number * (weights_gradients_moments + sequences + tables + exam)


def _evaluated_sequences(config: Config) -> int:
    """About how many sequences each model of a sweep answers, in the evaluations of its training and after it."""
    record, task = config.record, config.task
    in_training = (config.optim.steps // record.eval_every + 1) * len(recorded_sets(task)) * record.eval_sequences
    # The exams after training: the final one, and one with fewer sequences for each of the last evaluations.
    in_exams = len(all_sets(task)) * (record.final_sequences + len(last_evaluations(config)) * end_sequences(config))
    if not record.measure_every:
        return in_training + in_exams
    # The paper's two-variable test, which `SweepObserver` takes after the last step.
    two_variable_sums = math.prod(task.tuples) * task.n_vars * (task.n_vars - 1)
    return in_training + in_exams + int(TWO_VARIABLE_SHARE * two_variable_sums)


def step_seconds(config: Config, member: Member) -> float:
    """The processor time of a training step of one model, with the drawing of its sequences."""
    endless = replace(config, optim=replace(config.optim, steps=1 << 30))  # the last step is never reached
    with closing(Trainer(endless, [member], splits_of([member.config(endless)]))) as trainer:
        trainer.advance(1)  # loads the compiled code
        n_steps = trainer.groups[0].steps_ahead  # whose sequences are drawn together, so that drawing counts in full
        start = time.process_time()
        trainer.advance(n_steps)
        return (time.process_time() - start) / n_steps
