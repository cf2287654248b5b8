"""Passes over arrays as calls of compiled code (`calls`): most take less time than a call of torch.

The numbers of each are the addresses of its arrays, contiguous, in single precision or of integers, followed by sizes.
"""

from __future__ import annotations

import numpy as np

from assignadd.model.kernels.calls import compiled_call, floats_at, integers_at

LINE = 16  # numbers that a cache reads and writes at once


@compiled_call
def copy(n):
    x, out = floats_at(n[0], n[2]), floats_at(n[1], n[2])
    for i in range(n[2]):
        out[i] = x[i]


@compiled_call
def clear(n):
    x = floats_at(n[0], n[1])
    for i in range(n[1]):
        x[i] = 0


@compiled_call
def copy_integers(n):
    x, out = integers_at(n[0], n[2]), integers_at(n[1], n[2])
    for i in range(n[2]):
        out[i] = x[i]


@compiled_call
def mean(n):
    x, out, total = floats_at(n[0], n[2]), floats_at(n[1], 1), 0.0
    for i in range(n[2]):
        total += x[i]
    out[0] = total / max(1, n[2])


@compiled_call
def transpose(n):
    """Writes the columns of an array of n[2] rows and n[3] columns as rows."""
    x, out = floats_at(n[0], (n[2], n[3])), floats_at(n[1], (n[3], n[2]))
    whole = n[2] - n[2] % LINE
    for row in range(0, whole, LINE):
        rows = x[row:]
        for column in range(n[3]):
            written = out[column, row:]
            for i in range(LINE):
                written[i] = rows[i, column]
    for row in range(whole, n[2]):
        for column in range(n[3]):
            out[column, row] = x[row, column]


@compiled_call
def add(n):
    x, y, out = floats_at(n[0], n[3]), floats_at(n[1], n[3]), floats_at(n[2], n[3])
    for i in range(n[3]):
        out[i] = x[i] + y[i]


@compiled_call
def relu(n):
    x = floats_at(n[0], n[1])
    for i in range(n[1]):
        x[i] = np.float32(0) if x[i] < 0 else x[i]  # keeps NaN, as torch does


@compiled_call
def gate(n):
    """The gradient before a ReLU: 0 where the neuron is 0 or less."""
    neurons, grad = floats_at(n[0], n[2]), floats_at(n[1], n[2])
    for i in range(n[2]):
        grad[i] = np.float32(0) if neurons[i] <= 0 else grad[i]
