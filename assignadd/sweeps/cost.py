"""How much a model of a sweep costs: operations on a CPU, and memory on a GPU."""

from __future__ import annotations

import math
from functools import lru_cache

from assignadd.config import Config, has_code_of_user
from assignadd.model.forward import CHUNK
from assignadd.model.stack import weight_shapes
from assignadd.model.table import covers
from assignadd.task.evalsets import all_sets
from assignadd.task.vocabulary import sizes_of
from assignadd.training.speed import flops, forward_flops

# Besides matrix products, making, measuring and storing a model takes about as long as this many operations in them.
OPERATIONS_BESIDE = 1e8


@lru_cache  # stacks of a sweep may have the same settings
def operations(config: Config) -> float:
    """About how many floating-point operations training and evaluating a model takes; inf for code of the user's."""
    if has_code_of_user(config):
        return math.inf
    steps, record = config.optim.steps, config.record
    in_training = (steps // record.eval_every + 1) * record.eval_sequences  # sequences of each set
    in_exams = 2 * record.final_sequences  # those of the last evaluations have as many as the final one
    evaluation = forward_flops(config, len(all_sets(config.task)) * (in_training + in_exams))
    return OPERATIONS_BESIDE + steps * flops(config) + evaluation


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
