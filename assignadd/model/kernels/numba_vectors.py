"""Loops written with vectors, as the compiler would use registers of half the size, or none.

Most are weighted sums of the table rows of each sequence's tokens, and their gradients. A table has rows for tokens and
for positions. All sequences have the same positions, whose rows are for a matrix product. Of the rows of tokens a
sequence needs a few: a product with all of them would multiply by zero most of the time. A row that no sequence needs
is not read, so that NaN in it is not passed on. With the compiler switched off, the same operations are NumPy's.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import njit, types
from numba.core.cgutils import get_or_insert_function
from numba.extending import intrinsic, models, register_model

from assignadd.model.kernels.blas import BYTES, IN_PYTHON, compiled

_features = get_host_cpu_features()
_REGISTER = 16 if _features.get("avx512f") else 8 if _features.get("avx") else 4  # numbers of a vector register
# Numbers of a row that are read at once: as many as stay in registers while rows are added.
MANY, SOME = 8 * _REGISTER, 4 * _REGISTER
SUMS, TABLE, WEIGHTS = range(3)  # what `add_rows` adds to
MATRIX, TOKENS = types.Array(types.float32, 2, "C"), types.Array(types.int64, 2, "C")
TILE = 8  # rows and columns of what `transpose` reads at once, a power of 2


class Vector(types.Type):
    """The type of so many numbers in registers."""

    def __init__(self, lanes: int):
        super().__init__(f"Vector({lanes})")
        self.lanes, self.of_llvm = lanes, ir.VectorType(ir.FloatType(), lanes)


@register_model(Vector)
class VectorModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, kind.of_llvm)


@intrinsic(prefer_literal=True)
def vector_at(typing, address, lanes):
    """So many numbers at an address; `lanes` may be another vector, of as many."""
    kind = lanes if isinstance(lanes, Vector) else Vector(lanes.literal_value)

    def generate(context, builder, signature, arguments):
        return builder.load(builder.inttoptr(arguments[0], kind.of_llvm.as_pointer()), align=BYTES)

    return kind(types.intp, lanes), generate


@intrinsic
def write(typing, vector, address):
    """Stores a vector."""

    def generate(context, builder, signature, arguments):
        at = builder.inttoptr(arguments[1], vector.of_llvm.as_pointer())
        builder.store(arguments[0], at, align=BYTES)
        return context.get_dummy_value()

    return types.void(vector, types.intp), generate


@intrinsic
def plus_scaled(typing, total, weight, x):
    """total + weight * x"""

    def generate(context, builder, signature, arguments):
        n, kind, index = total.lanes, total.of_llvm, ir.IntType(32)
        # In one operation where the processor has it: `llvm.fma` would call a function for each number elsewhere.
        fma = get_or_insert_function(builder.module, ir.FunctionType(kind, [kind] * 3), f"llvm.fmuladd.v{n}f32")
        first = builder.insert_element(ir.Constant(kind, ir.Undefined), arguments[1], index(0))
        # The weight in every place of a vector.
        weights = builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(index, n), [0] * n))
        return builder.call(fma, [weights, arguments[2], arguments[0]])

    return total(total, types.float32, x), generate


@intrinsic
def inner_product(typing, x, y):
    """The sum of x * y"""

    def generate(context, builder, signature, arguments):
        number, flags = ir.FloatType(), ("reassoc", "contract")
        kind = ir.FunctionType(number, [number, x.of_llvm])
        total = get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.fadd.v{x.lanes}f32")
        return builder.call(total, [number(0), builder.fmul(*arguments, flags=flags)], fastmath=flags)

    return types.float32(x, y), generate


@intrinsic
def transpose_tile(typing, source, source_width, target, target_width):
    """Transposes a tile of a matrix at an address into that of another."""

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


@njit
def _add_vector(to, x, at, rows, width, tokens, weights):
    """What `add_rows` does for one vector `x` of a sum or its gradient, which is `at` an address.

    The same columns of the table's rows are at `rows`, `width` bytes apart.
    """
    if to == SUMS:
        for k in range(len(tokens)):
            x = plus_scaled(x, weights[k], vector_at(rows + tokens[k] * width, x))
        write(x, at)
    elif to == TABLE:
        for k in range(len(tokens)):
            row = rows + tokens[k] * width
            write(plus_scaled(vector_at(row, x), weights[k], x), row)
    else:
        for k in range(len(tokens)):
            weights[k] += inner_product(x, vector_at(rows + tokens[k] * width, x))


@partial(compiled, signature=types.void(types.intp, MATRIX, TOKENS, MATRIX, types.intp, MATRIX))
def add_rows(to, table, tokens, weights, first, sums):
    """The sums of rows, sums[b] += sum_k weights[b, first + k] * table[tokens[b, k]], or one of their two gradients.

    With TABLE, `table` and `sums` are gradients, and each sum's is added to that of its rows; with WEIGHTS, `weights`
    and `sums` are gradients, and the products of rows and sums are added to the weights.
    """
    B, T = tokens.shape
    width = sums.shape[1]
    if table.shape[1] != width or weights.shape[1] < first + T or len(weights) < B or len(sums) < B:
        raise ValueError("the shapes of a sum of rows do not fit")
    if IN_PYTHON:
        for sequence, amounts, total in zip(tokens, weights[:, first : first + T], sums, strict=True):
            if to == SUMS:
                total += amounts @ table[sequence]
            elif to == TABLE:
                np.add.at(table, sequence, np.outer(amounts, total))
            else:
                amounts += table[sequence] @ total
        return
    # Addresses, and distances in bytes. A row is read in pieces, of MANY numbers while there are so many.
    width, table_at, sums_at = BYTES * width, np.intp(table.ctypes.data), np.intp(sums.ctypes.data)
    for b in range(B):
        sequence, amounts, row_at = tokens[b], weights[b, first:], sums_at + b * width
        offset = 0
        while offset <= width - BYTES * MANY:
            _add_vector(
                to, vector_at(row_at + offset, MANY), row_at + offset, table_at + offset, width, sequence, amounts
            )
            offset += BYTES * MANY
        while offset <= width - BYTES * SOME:
            _add_vector(
                to, vector_at(row_at + offset, SOME), row_at + offset, table_at + offset, width, sequence, amounts
            )
            offset += BYTES * SOME
        while offset < width:
            _add_vector(to, vector_at(row_at + offset, 1), row_at + offset, table_at + offset, width, sequence, amounts)
            offset += BYTES


@compiled
def transpose(x, out):
    """Writes the columns of a matrix as rows."""
    height, width = x.shape
    if out.shape != (width, height):
        raise ValueError("the shapes of a matrix and its transpose do not fit")
    if IN_PYTHON:
        out[:] = x.T
        return
    rows_in_tiles, columns_in_tiles = height - height % TILE, width - width % TILE
    source, target = np.intp(x.ctypes.data), np.intp(out.ctypes.data)
    for column in range(0, columns_in_tiles, TILE):
        for row in range(0, rows_in_tiles, TILE):
            tile, turned = BYTES * (row * width + column), BYTES * (column * height + row)
            transpose_tile(source + tile, width, target + turned, height)
    for row in range(height):
        for column in range(columns_in_tiles if row < rows_in_tiles else 0, width):
            out[column, row] = x[row, column]
