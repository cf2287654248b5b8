"""Weighted sums of the table rows of each sequence's tokens, and their gradients, as calls of compiled code (`calls`).

A table has rows for tokens and for positions. All sequences have the same positions, whose rows are for a matrix
product. Of the rows of tokens a sequence needs a few: a product with all of them would multiply by zero most of the
time. A row that no sequence needs is not read, so that NaN in it is not passed on. The loops are written with vectors,
as the compiler would use registers of half the size.

The numbers of each call are addresses: of a table or its gradient, of the tokens (B, T), of the weights or their
gradients, of the sums or their gradients (B, width); then B, T, the width of a row, how many columns the weights have,
and which of these is the first of the T columns to read.
"""

from __future__ import annotations

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import njit, types
from numba.core.cgutils import get_or_insert_function
from numba.extending import intrinsic, models, register_model

from assignadd.model.kernels.calls import compiled_call, floats_at, integers_at

BYTES = 4  # of a number
_features = get_host_cpu_features()
_REGISTER = 16 if _features.get("avx512f") else 8 if _features.get("avx") else 4  # numbers of a vector register
# Numbers of a row that are read at once: as many as stay in registers while rows are added.
MANY, SOME = 8 * _REGISTER, 4 * _REGISTER
SUMS, ROWS, WEIGHTS = range(3)  # what a call adds to


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
        n, kind, place = total.lanes, total.of_llvm, ir.IntType(32)
        # In one operation where the processor has it: `llvm.fma` would call a function for each number elsewhere.
        fma = get_or_insert_function(builder.module, ir.FunctionType(kind, [kind] * 3), f"llvm.fmuladd.v{n}f32")
        first = builder.insert_element(ir.Constant(kind, ir.Undefined), arguments[1], place(0))
        weights = builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(place, n), [0] * n))
        return builder.call(fma, [weights, arguments[2], arguments[0]])

    return total(total, types.float32, x), generate


@intrinsic
def inner_product(typing, x, y):
    def generate(context, builder, signature, arguments):
        number, flags = ir.FloatType(), ("reassoc", "contract")
        kind = ir.FunctionType(number, [number, x.of_llvm])
        total = get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.fadd.v{x.lanes}f32")
        return builder.call(total, [number(0), builder.fmul(*arguments, flags=flags)], fastmath=flags)

    return types.float32(x, y), generate


@njit
def _add(to, x, at, rows, width, tokens, weights):
    """What a call does for one vector `x` of a sum or its gradient, which is `at` an address.

    The same columns of the table's rows are at `rows`, so many bytes apart.
    """
    if to == SUMS:
        for k in range(len(tokens)):
            x = plus_scaled(x, weights[k], vector_at(rows + tokens[k] * width, x))
        write(x, at)
    elif to == ROWS:
        for k in range(len(tokens)):
            row = rows + tokens[k] * width
            write(plus_scaled(vector_at(row, x), weights[k], x), row)
    else:
        for k in range(len(tokens)):
            weights[k] += inner_product(x, vector_at(rows + tokens[k] * width, x))


@njit
def _add_all(to, n):
    """What a call does for all sequences."""
    table, B, T, width, columns, first = n[0], n[4], n[5], BYTES * n[6], n[7], n[8]
    tokens, weights = integers_at(n[1], (B, T)), floats_at(n[2], (B, columns))
    for b in range(B):
        own, amounts, sums, at = tokens[b], weights[b, first:], n[3] + b * width, 0
        while at <= width - BYTES * MANY:
            _add(to, vector_at(sums + at, MANY), sums + at, table + at, width, own, amounts)
            at += BYTES * MANY
        while at <= width - BYTES * SOME:
            _add(to, vector_at(sums + at, SOME), sums + at, table + at, width, own, amounts)
            at += BYTES * SOME
        while at < width:
            _add(to, vector_at(sums + at, 1), sums + at, table + at, width, own, amounts)
            at += BYTES


@compiled_call
def add_rows(n):
    """Adds the rows of its tokens, times their weights, to the sum of each sequence."""
    _add_all(SUMS, n)


@compiled_call
def add_rows_to_table(n):
    """The gradient of the rows: adds that of each sum to the rows of its tokens, times their weights."""
    _add_all(ROWS, n)


@compiled_call
def add_to_weights(n):
    """The gradient of the weights: adds the inner products of the rows with the gradient of the sum."""
    _add_all(WEIGHTS, n)
