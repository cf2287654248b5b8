"""Loops written with vectors, since the compiler by itself would use registers of half the size, or none.

Some are weighted sums of the table rows of each sequence's tokens, and their gradients. A table has rows for tokens and
for positions. All sequences have the same positions, whose rows are for a matrix product. Of the rows of tokens a
sequence needs a few: a product with all of them would multiply by zero most of the time. A row that no sequence needs
is not read, so that NaN in it is not passed on. Others take the numbers of several heads at once, one in each lane of a
vector (`lanes_at`). With the compiler switched off, the same operations are NumPy's.

An `@intrinsic` is a function of compiled code that is written in LLVM's instructions. Numba calls it with the types of
the arguments. It returns its signature and a function `generate`, which writes the instructions with `builder`; there,
`arguments` are LLVM's values.
"""

from __future__ import annotations

import operator
from functools import partial

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import njit, types
from numba.core.cgutils import get_or_insert_function
from numba.extending import intrinsic, models, overload, register_model

from assignadd.model.kernels.blas import BYTES, IN_PYTHON, compiled

_features = get_host_cpu_features()
REGISTER = 16 if _features.get("avx512f") else 8 if _features.get("avx") else 4  # numbers of a vector register
# Numbers of a row that are read at once: as many as stay in registers while rows are added, and half of that.
MANY, SOME = 8 * REGISTER, 4 * REGISTER
SUMS, TABLE, WEIGHTS = range(3)  # which of its arguments `add_rows` adds to
MATRIX, TOKENS = types.Array(types.float32, 2, "C"), types.Array(types.int64, 2, "C")
# Heads of layer 1 whose numbers stand beside one another, and keys whose numbers of these heads are read at once.
LANES, KEYS = 4, 4
LANES_OF_KEYS = LANES * KEYS
NUMBERS = 2 * REGISTER  # how many of a head's queries, keys or values are read at once
TILE = 8  # rows and columns of what `transpose` reads at once, a power of 2


class Vector(types.Type):
    """Numba's type of a vector: `lanes` numbers in single precision, in registers."""

    def __init__(self, lanes: int):
        super().__init__(f"Vector({lanes})")
        self.lanes, self.llvm_type = lanes, ir.VectorType(ir.FloatType(), lanes)


@register_model(Vector)
class VectorModel(models.PrimitiveModel):
    """Tells Numba that a `Vector` is a vector of LLVM."""

    def __init__(self, manager, vector):
        super().__init__(manager, vector, vector.llvm_type)


@intrinsic(prefer_literal=True)
def vector_at(typing, address, lanes):
    """The vector of numbers at an address; `lanes` is how many, a constant, or another vector of the same length."""
    vector = lanes if isinstance(lanes, Vector) else Vector(lanes.literal_value)

    def generate(context, builder, signature, arguments):
        address, _ = arguments
        return builder.load(builder.inttoptr(address, vector.llvm_type.as_pointer()), align=BYTES)

    return vector(types.intp, lanes), generate


@intrinsic
def write(typing, vector, address):
    """Stores a vector at an address."""

    def generate(context, builder, signature, arguments):
        numbers, address = arguments
        builder.store(numbers, builder.inttoptr(address, vector.llvm_type.as_pointer()), align=BYTES)
        return context.get_dummy_value()

    return types.void(vector, types.intp), generate


@intrinsic
def plus_scaled(typing, total, weight, x):
    """total + weight * x, for vectors `total` and `x` and a number `weight`."""

    def generate(context, builder, signature, arguments):
        total_numbers, weight_number, x_numbers = arguments
        weights = _in_every_lane(builder, weight_number, total)
        # Not `fma`, which becomes a function call for each number where a processor has no such instruction.
        of_three_vectors = ir.FunctionType(total.llvm_type, [total.llvm_type] * 3)
        multiply_add = get_or_insert_function(builder.module, of_three_vectors, f"llvm.fmuladd.v{total.lanes}f32")
        return builder.call(multiply_add, [weights, x_numbers, total_numbers])

    return total(total, types.float32, x), generate


def _in_every_lane(builder, number, vector):
    """LLVM's vector with the number in every lane: it is put into lane 0, then all are copied from there.

    `vector` is the type, a `Vector`.
    """
    index = ir.IntType(32)
    in_lane_0 = builder.insert_element(ir.Constant(vector.llvm_type, ir.Undefined), number, index(0))
    lanes_to_copy = ir.Constant(ir.VectorType(index, vector.lanes), [0] * vector.lanes)
    return builder.shuffle_vector(in_lane_0, in_lane_0, lanes_to_copy)


@intrinsic
def inner_product(typing, x, y):
    """The sum of x * y over two vectors."""

    def generate(context, builder, signature, arguments):
        number, any_order = ir.FloatType(), ("reassoc", "contract")
        kind = ir.FunctionType(number, [number, x.llvm_type])
        start_plus_sum = get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.fadd.v{x.lanes}f32")
        products = builder.fmul(*arguments, flags=any_order)
        return builder.call(start_plus_sum, [number(0), products], fastmath=any_order)

    return types.float32(x, y), generate


def _arithmetic(name, llvm_instruction):
    """Lets compiled code take an operator of Python's between vectors of the same length, or a vector and a number."""

    @intrinsic
    def operation(typing, x, y):
        vector = x if isinstance(x, Vector) else y

        def generate(context, builder, signature, arguments):
            of_lanes = []
            for kind, argument in zip((x, y), arguments, strict=True):
                is_vector = isinstance(kind, Vector)
                of_lanes.append(argument if is_vector else _in_every_lane(builder, argument, vector))
            return getattr(builder, llvm_instruction)(*of_lanes, flags=("contract",))

        return vector(x, y), generate

    @overload(getattr(operator, name))
    def of_vectors(x, y):
        if isinstance(x, Vector) or isinstance(y, Vector):
            return lambda x, y: operation(x, y)
        return None  # Numba has it for all others


_arithmetic("add", "fadd")
_arithmetic("sub", "fsub")
_arithmetic("mul", "fmul")
_arithmetic("truediv", "fdiv")


@intrinsic
def _all_above(typing, x, least):
    """Whether every number of a vector is above `least`; NaN is not."""

    def generate(context, builder, signature, arguments):
        numbers, least_number = arguments
        above = builder.fcmp_ordered(">", numbers, _in_every_lane(builder, least_number, x))
        bit = ir.IntType(1)
        kind = ir.FunctionType(bit, [ir.VectorType(bit, x.lanes)])
        all_of = get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.and.v{x.lanes}i1")
        return builder.call(all_of, [above])

    return types.boolean(x, types.float32), generate


@intrinsic
def _sum_of(typing, x):
    """The sum of a vector."""

    def generate(context, builder, signature, arguments):
        number = ir.FloatType()
        kind = ir.FunctionType(number, [number, x.llvm_type])
        start_plus_sum = get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.fadd.v{x.lanes}f32")
        return builder.call(start_plus_sum, [number(0), arguments[0]], fastmath=("reassoc",))

    return types.float32(x), generate


@intrinsic(prefer_literal=True)
def _zeros(typing, lanes):
    """A vector of so many zeros, a constant number."""
    vector = Vector(lanes.literal_value)

    def generate(context, builder, signature, arguments):
        return ir.Constant(vector.llvm_type, None)

    return vector(lanes), generate


@intrinsic
def transpose_tile(typing, source, source_width, target, target_width):
    """Writes the transpose of a tile of TILE rows and columns at an address to another address.

    The widths are the lengths of a row, in numbers, of the two matrices that the tiles are parts of.
    """

    def generate(context, builder, signature, arguments):
        source, source_width, target, target_width = arguments
        rows = [builder.load(_tile_row(builder, source, source_width, i), align=BYTES) for i in range(TILE)]
        # A step interleaves the numbers of rows i and i + TILE / 2: the left halves give one new row, the right halves
        # the one after it. After log2(TILE) steps the rows are the columns.
        half = TILE // 2
        for _ in range(TILE.bit_length() - 1):
            new_rows = []
            for upper, lower in zip(rows[:half], rows[half:], strict=True):
                new_rows.append(_interleaved(builder, upper, lower, 0))
                new_rows.append(_interleaved(builder, upper, lower, half))
            rows = new_rows
        for i in range(TILE):
            builder.store(rows[i], _tile_row(builder, target, target_width, i), align=BYTES)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 4), generate


def _tile_row(builder, address, width, i):
    """The address of row i of a tile that begins at an address, in a matrix with rows of `width` numbers."""
    offset = builder.mul(width, ir.Constant(width.type, i * BYTES))
    return builder.inttoptr(builder.add(address, offset), ir.VectorType(ir.FloatType(), TILE).as_pointer())


def _interleaved(builder, upper, lower, first):
    """LLVM's vector of half of the numbers of two rows, those from place `first` on, interleaved."""
    n, places = upper.type.count, []
    for i in range(first, first + n // 2):
        places += [i, n + i]  # LLVM counts the places of `lower` from n on
    return builder.shuffle_vector(upper, lower, ir.Constant(ir.VectorType(ir.IntType(32), n), places))


@intrinsic
def _four_sums(typing, a, b, c, d):
    """The sums of four vectors, beside one another: LANES numbers."""

    def generate(context, builder, signature, arguments):
        a, b, c, d = [_sum_of_halves(builder, vector) for vector in arguments]
        total = _alternating(builder, _alternating(builder, a, c), _alternating(builder, b, d))
        while total.type.count > LANES:  # parts of the sums of a, b, c, d, a, b ...
            total = _sum_of_halves(builder, total)
        return total

    return Vector(LANES)(a, b, c, d), generate


def _alternating(builder, x, y):
    """LLVM's vector of sums of two numbers of x, of two of y, of two of x and so on; each number is in one sum."""
    return builder.fadd(_interleaved(builder, x, y, 0), _interleaved(builder, x, y, x.type.count // 2))


def _sum_of_halves(builder, x):
    """LLVM's vector of the first half of the numbers plus the second half."""
    half, halves = x.type.count // 2, []
    for first in (0, half):
        places = ir.Constant(ir.VectorType(ir.IntType(32), half), list(range(first, first + half)))
        halves.append(builder.shuffle_vector(x, x, places))
    return builder.fadd(*halves)


inlined = partial(compiled, forceinline=True)


@inlined
def lanes_at(x, i):
    """The vector of the LANES numbers of row i of a matrix (..., LANES)."""
    return x[i] if IN_PYTHON else vector_at(np.intp(x.ctypes.data) + BYTES * LANES * i, LANES)


@inlined
def write_lanes(vector, x, i):
    """Writes a vector of LANES numbers into row i of a matrix (..., LANES)."""
    if IN_PYTHON:
        x[i] = vector
        return
    write(vector, np.intp(x.ctypes.data) + BYTES * LANES * i)


@inlined
def keys_at(x, i):
    """The vector of the numbers of KEYS rows of a matrix (..., LANES), from row i on."""
    if IN_PYTHON:
        return x[i : i + KEYS].ravel()
    return vector_at(np.intp(x.ctypes.data) + BYTES * LANES * i, LANES_OF_KEYS)


@inlined
def write_keys(vector, x, i):
    """Writes a vector of numbers into KEYS rows of a matrix (..., LANES), from row i on."""
    if IN_PYTHON:
        x[i : i + KEYS] = vector.reshape(KEYS, LANES)
        return
    write(vector, np.intp(x.ctypes.data) + BYTES * LANES * i)


@inlined
def numbers_from(x, i):
    """The vector of the numbers from x[i] to x[i + NUMBERS - 1]."""
    return x[i : i + NUMBERS] if IN_PYTHON else vector_at(np.intp(x.ctypes.data) + BYTES * i, NUMBERS)


@inlined
def write_numbers_from(vector, x, i):
    """Writes a vector of NUMBERS numbers into x[i] to x[i + NUMBERS - 1]."""
    if IN_PYTHON:
        x[i : i + NUMBERS] = vector
        return
    write(vector, np.intp(x.ctypes.data) + BYTES * i)


@inlined
def zero_lanes():
    """A vector of LANES zeros."""
    return np.zeros(LANES, np.float32) if IN_PYTHON else _zeros(LANES)


@inlined
def zero_keys():
    """A vector of zeros for KEYS rows."""
    return np.zeros(LANES_OF_KEYS, np.float32) if IN_PYTHON else _zeros(LANES_OF_KEYS)


@inlined
def zero_numbers():
    """A vector of NUMBERS zeros."""
    return np.zeros(NUMBERS, np.float32) if IN_PYTHON else _zeros(NUMBERS)


@inlined
def sum_of(vector):
    """The sum of a vector."""
    return vector.sum() if IN_PYTHON else _sum_of(vector)


@inlined
def four_sums(a, b, c, d):
    """The vector of the sums of four vectors, one for each of LANES."""
    return np.array([a.sum(), b.sum(), c.sum(), d.sum()]) if IN_PYTHON else _four_sums(a, b, c, d)


@inlined
def all_above(vector, least):
    """Whether every number of a vector is above `least`; NaN is not."""
    return (vector > least).all() if IN_PYTHON else _all_above(vector, least)


@njit
def _add_vector(to, x, at, rows, width, tokens, weights):
    """Does the work of `add_rows` for one sequence and a few columns, as many as a vector holds.

    `x` has these columns of the sequence's sum, or of the gradient of the sum, and `at` is their address. `rows` is the
    address of the same columns in the first row of the table; each row is `width` bytes long.
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
    """Adds the weighted rows of its tokens to every sequence's sum, or one of the two gradients of that.

    SUMS       sums[b] += sum_k weights[b, first + k] * table[tokens[b, k]]
    TABLE      table[tokens[b, k]] += weights[b, first + k] * sums[b]; `table` and `sums` are gradients
    WEIGHTS    weights[b, first + k] += table[tokens[b, k]] @ sums[b]; `weights` and `sums` are gradients
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
    # From here on addresses, and distances in bytes. A sum is read in pieces: MANY numbers while that many are left,
    # then SOME, then one.
    width, table_at, sums_at = BYTES * width, np.intp(table.ctypes.data), np.intp(sums.ctypes.data)
    for b in range(B):
        sequence, amounts, sum_at = tokens[b], weights[b, first:], sums_at + b * width
        offset = 0
        while offset <= width - BYTES * MANY:
            _add_vector(
                to, vector_at(sum_at + offset, MANY), sum_at + offset, table_at + offset, width, sequence, amounts
            )
            offset += BYTES * MANY
        while offset <= width - BYTES * SOME:
            _add_vector(
                to, vector_at(sum_at + offset, SOME), sum_at + offset, table_at + offset, width, sequence, amounts
            )
            offset += BYTES * SOME
        while offset < width:
            _add_vector(to, vector_at(sum_at + offset, 1), sum_at + offset, table_at + offset, width, sequence, amounts)
            offset += BYTES


@compiled
def transpose(x, out):
    """out = x.T, tile by tile: a loop over rows alone would write to a place far from the last one every time."""
    height, width = x.shape
    if out.shape != (width, height):
        raise ValueError("the shapes of a matrix and its transpose do not fit")
    if IN_PYTHON:
        out[:] = x.T
        return
    rows_in_tiles, columns_in_tiles = height - height % TILE, width - width % TILE
    x_at, out_at = np.intp(x.ctypes.data), np.intp(out.ctypes.data)
    for column in range(0, columns_in_tiles, TILE):
        for row in range(0, rows_in_tiles, TILE):
            from_x, from_out = BYTES * (row * width + column), BYTES * (column * height + row)
            transpose_tile(x_at + from_x, width, out_at + from_out, height)
    # Number by number: what is right of the tiles and, in the rows below them, everything.
    for row in range(height):
        for column in range(columns_in_tiles if row < rows_in_tiles else 0, width):
            out[column, row] = x[row, column]
