"""How much a model of a sweep costs: operations, memory, and seconds on the CPU of this machine."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import torch

from assignadd.config import Config, Member, has_code_of_user
from assignadd.model.forward import CHUNK
from assignadd.model.stack import Stack, weight_shapes
from assignadd.model.table import covers
from assignadd.sweeps.final_tests import SweepObserver, end_sequences, final_exam
from assignadd.task.evalsets import all_sets, recorded_sets
from assignadd.task.splits import splits_of
from assignadd.task.vocabulary import sizes_of
from assignadd.training.loop import last_evaluations
from assignadd.training.speed import flops, forward_flops
from assignadd.training.trainer import Trainer

# What `seconds_on_cpu` times: training of this many models, for at least these seconds; drawing sequences for this many
# steps; and two exams, of this many sequences of each set, far fewer than after training.
MODELS_TIMED, LEAST_SECONDS, STEPS_DRAWN = 8, 0.3, 16
SHORT_EXAM, LONG_EXAM = 50, 550
# The seconds that a stack takes besides training its models: to start its process, to write its folder and commits.
SECONDS_OF_STACK = 0.5
# Besides matrix products, making, measuring and storing a model takes about as long as this many operations in them.
OPERATIONS_BESIDE = 1e8
# Of all sums of two different variables with any values, the share that are in the two-variable test after training
# (`final_tests.addition_tests`): 193,580 of 459,492 in the paper's code.
TWO_VARIABLE_SHARE = 0.42


def operations(config: Config) -> float:
    """About how many floating-point operations training and evaluating a model takes; inf for code of the user's."""
    if has_code_of_user(config):
        return math.inf
    in_products = config.optim.steps * flops(config) + forward_flops(config, sum(evaluated_sequences(config)))
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


def evaluated_sequences(config: Config) -> tuple[int, int]:
    """About how many sequences each model of a sweep answers: in the evaluations of its training, and after it."""
    record, task = config.record, config.task
    in_training = (config.optim.steps // record.eval_every + 1) * len(recorded_sets(task)) * record.eval_sequences
    # The exams after training: the final one, and one with fewer sequences for each of the last evaluations.
    per_set = record.final_sequences + len(last_evaluations(config)) * end_sequences(config)
    pairs_of_variables = task.n_vars * (task.n_vars - 1)
    # The paper's two-variable test: `SweepObserver` takes it after the last step of models that are measured at all.
    has_two_variable_test = record.measure_every > 0
    two_variable_sums = math.prod(task.tuples) * pairs_of_variables if has_two_variable_test else 0
    in_tests = int(TWO_VARIABLE_SHARE * two_variable_sums)
    return in_training, len(all_sets(task)) * per_set + in_tests


def seconds_on_cpu(config: Config, members: Sequence[Member], observe: Callable[..., Any] | None) -> float:
    """About how many seconds a core of this machine takes for each of these models.

    It trains and tests some of the models for a few steps, on few sequences, and counts processor time.
    """
    members = members[:MODELS_TIMED]
    endless = replace(config, optim=replace(config.optim, steps=1 << 30))  # the last step is never reached while timing
    configs = [member.config(endless) for member in members]
    seen = splits_of(configs)
    with closing(Trainer(endless, members, seen, observe=observe or SweepObserver)) as trainer:
        with_measures = config.record.measure_every > 0
        trainer.advance(1)  # this and the evaluation load the compiled code
        trainer.evaluate(with_measures)
        steps_ahead = trainer.groups[0].steps_ahead  # the steps whose sequences are drawn at once
        # Each of these is in seconds, for all models together.
        training_step, drawing_for_step = _step_seconds(trainer, len(members))
        evaluation = _seconds_of(lambda: trainer.evaluate(with_measures))
        short_exam = _exam_seconds(trainer.stack(), configs, seen, SHORT_EXAM)
        long_exam = _exam_seconds(trainer.stack(), configs, seen, LONG_EXAM)
    steps, record = config.optim.steps, config.record
    n_steps_drawn = math.ceil(steps / steps_ahead) * steps_ahead
    n_evaluations = steps // record.eval_every + 1
    training = steps * training_step + n_steps_drawn * drawing_for_step + n_evaluations * evaluation
    # After training there is a final exam, and one for each of the last evaluations. An exam takes some time however
    # few its sequences, and more with each of them.
    n_exams = 1 + len(last_evaluations(config)) if record.final_sequences else 0
    per_sequence = max(0, long_exam - short_exam) / (LONG_EXAM - SHORT_EXAM) / len(all_sets(config.task))
    _, sequences_after_training = evaluated_sequences(config)
    exams = n_exams * short_exam + sequences_after_training * per_sequence
    return (training + exams) / len(members)


def _step_seconds(trainer: Trainer, n_models: int) -> tuple[float, float]:
    """The seconds of a training step of all models, and those of drawing the sequences of such a step.

    Drawing is measured apart, as `trainer.advance` draws for many steps at once.
    """
    group = trainer.groups[0]  # on a CPU, the first model
    steps = torch.arange(min(STEPS_DRAWN, group.steps_ahead)).view(-1, 1, 1)
    seconds_to_draw = _seconds_of(lambda: group.sampler.sample(steps, group.batch_size))
    n_steps, seconds = 0, 0.0
    while seconds < LEAST_SECONDS:
        seconds += _seconds_of(lambda: trainer.advance(4))
        n_steps += 4
    return seconds / n_steps, n_models * seconds_to_draw / len(steps)


def _seconds_of(do: Callable[[], object]) -> float:
    """Processor time of a call."""
    start = time.process_time()
    do()
    return time.process_time() - start


def _exam_seconds(stack: Stack, configs: Sequence[Config], seen: torch.Tensor, n: int) -> float:
    """The seconds of a final exam with `n` sequences of each set."""
    config = replace(stack.config, record=replace(stack.config.record, final_sequences=n))
    return _seconds_of(lambda: final_exam(Stack(config, stack.flat), configs, seen))
