"""Passes over arrays as calls of compiled code (`calls`): most take less time than a call of torch.

The numbers of each are the addresses of its arrays, contiguous, in single precision or of integers, followed by sizes.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from assignadd.model.kernels.calls import compiled_call, floats_at, integers_at

# Rows and columns of what `transpose` reads at once, a power of 2, and bytes of a number.
TILE, BYTES = 8, 4


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


@intrinsic
def transpose_tile(typing, source, source_width, target, target_width):
    """Transposes a tile of a matrix at an address into that of another: the compiler makes slow code of a loop."""

    def generate(context, builder, signature, arguments):
        row, places = ir.VectorType(ir.FloatType(), TILE), ir.VectorType(ir.IntType(32), TILE)

        def row_at(address, width, i):
            offset = builder.mul(width, ir.Constant(width.type, i * BYTES))
            return builder.inttoptr(builder.add(address, offset), row.as_pointer())

        source, source_width, target, target_width = arguments
        rows = [builder.load(row_at(source, source_width, i), align=BYTES) for i in range(TILE)]
        # Rows i and i + TILE / 2 become two rows that have the numbers of both in turn; log2(TILE) times.
        halves = [
            ir.Constant(places, [i for low in range(start, start + TILE // 2) for i in (low, low + TILE)])
            for start in (0, TILE // 2)
        ]
        for _ in range(TILE.bit_length() - 1):
            rows = [builder.shuffle_vector(rows[i // 2], rows[i // 2 + TILE // 2], halves[i % 2]) for i in range(TILE)]
        for i in range(TILE):
            builder.store(rows[i], row_at(target, target_width, i), align=BYTES)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 4), generate


@compiled_call
def transpose(n):
    """Writes the columns of an array of n[2] rows and n[3] columns as rows."""
    height, width = n[2], n[3]
    rows_in_tiles, columns_in_tiles = height - height % TILE, width - width % TILE
    for column in range(0, columns_in_tiles, TILE):
        for row in range(0, rows_in_tiles, TILE):
            source, target = n[0] + BYTES * (row * width + column), n[1] + BYTES * (column * height + row)
            transpose_tile(source, width, target, height)
    x, out = floats_at(n[0], (height, width)), floats_at(n[1], (width, height))
    for row in range(height):
        for column in range(columns_in_tiles if row < rows_in_tiles else 0, width):
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
        above = grad[i]  # read in any case: on ARM the compiler would otherwise branch at every neuron
        grad[i] = np.float32(0) if neurons[i] <= 0 else above
