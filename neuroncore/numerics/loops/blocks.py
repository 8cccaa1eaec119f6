"""Compiled operations on blocks of matrices in vector registers: products and transposes."""

from __future__ import annotations

from itertools import chain, product
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from neuroncore.base.jit import generated
from neuroncore.numerics.loops.lanes import FUSED, LANES, SECOND_LEVEL, prefetch

# The largest block needs all registers of the processor (32 on AVX-512 and ARM, 16 on AVX2): for
# its sums, one weight, and the vectors of a moving row.
ROWS, VECTORS = 4 if LANES == 8 else 8, 3
SHARED = 32  # rows that share a scale

_FLOAT, _DOUBLE, _INDEX, _LANE = ir.FloatType(), ir.DoubleType(), ir.IntType(64), ir.IntType(32)


def block(vectors: int, group: int = 1) -> Any:
    """Return the operation (s, x, out, k, ahead, accumulate), which computes a block of a product.

    The block is the first ROWS x (`vectors` * LANES) elements of `out`. It becomes the chain of `k`
    groups of rows, or the chain is added (see `loops.matmul`). Arrays are float32 matrices with
    unit stride along rows.

    The operation prefetches the block of `out`. If `group` is 1, it also prefetches data of the
    next block: the next `k` rows of `s`, and `k` elements of `x` from ahead[0] on, ahead[1]
    elements apart. They need not exist."""

    def _block(typingctx: Any, s: Any, x: Any, out: Any, k: Any, ahead: Any, add: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            places = zip(signature.args[:3], values[:3], strict=True)
            s, x, out = (_Matrix(context, builder, kind, value) for kind, value in places)
            first, apart = cgutils.unpack_tuple(builder, values[4])

            def link(step: Any, sums: list[list[Any]]) -> list[list[Any]]:
                rows = _rows(builder, step, group)
                if group == 1:
                    prefetch(builder, s.element(builder.add(step, values[3]), _index(0)))
                    place = builder.add(first, builder.mul(step, apart))
                    prefetch(builder, x.element(_index(0), place), SECOND_LEVEL)
                moving = [x.vectors(row, vectors) for row in rows]
                return [
                    _linked(builder, [s.splat(row, r) for row in rows], moving, sums[r])
                    for r in range(ROWS)
                ]

            for r, v in product(range(ROWS), range(vectors)):
                prefetch(builder, out.place(_index(r), v), SECOND_LEVEL)
            _chain(builder, out, vectors, values[3], values[5], link)
            return context.get_dummy_value()

        return types.void(s, x, out, types.int64, ahead, types.boolean), generate

    return generated(_block)


def scaled_block(group: int) -> Any:
    """Return the operation (s, x, scales, out, k), which computes one vector of columns of a
    product.

    The sum of a group is multiplied by both float64 scales, rounded to float32, and added to the
    chain. SHARED rows have the same scale."""

    def _block(typingctx: Any, s: Any, x: Any, scales: Any, out: Any, k: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            kinds = [*signature.args[:2], *signature.args[2].types, signature.args[3]]
            arguments = [*values[:2], *cgutils.unpack_tuple(builder, values[2]), values[3]]
            places = zip(kinds, arguments, strict=True)
            s, x, s_scale, x_scale, out = (_Matrix(context, builder, *place) for place in places)

            def link(step: Any, sums: list[list[Any]]) -> list[list[Any]]:
                rows = _rows(builder, step, group)
                moving = [x.vectors(row, 1)[0] for row in rows]
                shared = builder.udiv(rows[0], _index(SHARED))
                scale = x_scale.vectors(shared, 1)[0]
                results = []
                for r in range(ROWS):
                    products = _products(builder, [s.splat(row, r) for row in rows], moving)
                    by = builder.fmul(s_scale.splat(shared, r), scale)
                    scaled = builder.fmul(builder.fpext(products, by.type), by)
                    rounded = builder.fptrunc(scaled, products.type)
                    results.append([builder.fadd(sums[r][0], rounded)])
                return results

            _chain(builder, out, 1, values[4], cgutils.false_bit, link)
            return context.get_dummy_value()

        return types.void(s, x, scales, out, types.int64), generate

    return generated(_block)


def copied(lanes: int, vectors: int = 1, stacked: bool = False) -> Any:
    """Return the operation (source, target, rows) that copies the first columns of `rows` rows.
    With `stacked`, vectors of columns are put below each other."""

    def _copied(typingctx: Any, source: Any, target: Any, rows: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            places = zip(signature.args[:2], values[:2], strict=True)
            source, target = (_Matrix(context, builder, *place, lanes) for place in places)
            with cgutils.for_range(builder, values[2]) as loop:
                for v, vector in enumerate(source.vectors(loop.index, vectors)):
                    below = builder.add(loop.index, builder.mul(values[2], _index(v)))
                    place = target.place(below, 0) if stacked else target.place(loop.index, v)
                    builder.store(vector, place, align=4)
            return context.get_dummy_value()

        return types.void(source, target, types.int64), generate

    return generated(_copied)


def turned(size: int) -> Any:
    """Return the operation (source, target) that sets target[j, i] to source[i, j] in the first
    `size` rows and columns. `size` is a power of two."""

    def _turned(typingctx: Any, source: Any, target: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            places = zip(signature.args, values, strict=True)
            source, target = (_Matrix(context, builder, *place, size) for place in places)
            rows = [source.vectors(_index(i), 1)[0] for i in range(size)]
            for _ in range(size.bit_length() - 1):  # interleave rows i and i + size / 2
                halves = zip(rows[: size // 2], rows[size // 2 :], strict=True)
                rows = [_interleaved(builder, a, b, h) for a, b in halves for h in (0, 1)]
            for i, row in enumerate(rows):
                builder.store(row, target.place(_index(i), 0), align=target.align)
            return context.get_dummy_value()

        return types.void(source, target), generate

    return generated(_turned)


def _interleaved(builder: Any, a: Any, b: Any, half: int) -> Any:
    """Return a[i], b[i], a[i + 1], b[i + 1], ... for the lower half (0) or the upper half (1) of a
    and b."""
    count = a.type.count
    order = [half * count // 2 + lane // 2 + lane % 2 * count for lane in range(count)]
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_LANE, count), order))


class _Matrix:
    """A two-dimensional array of numba's type `kind`, whose rows are read in vectors."""

    def __init__(self, context: Any, builder: Any, kind: Any, value: Any, lanes: int = LANES):
        array = context.make_array(kind)(context, builder, value)
        self.builder, self.data = builder, array.data
        self.align = kind.dtype.bitwidth // 8
        self.step = builder.udiv(builder.extract_value(array.strides, 0), _index(self.align))
        self.lanes = lanes

    def element(self, row: Any, column: Any) -> Any:
        start = self.builder.mul(row, self.step)
        return self.builder.gep(self.data, [self.builder.add(start, column)])

    def place(self, row: Any, vector: int) -> Any:
        kind = ir.VectorType(self.data.type.pointee, self.lanes)
        start = self.element(row, _index(vector * self.lanes))
        return self.builder.bitcast(start, ir.PointerType(kind))

    def vectors(self, row: Any, count: int) -> list[Any]:
        """Load the first `count` vectors of a row."""
        return [self.builder.load(self.place(row, v), align=self.align) for v in range(count)]

    def splat(self, row: Any, column: int) -> Any:
        """Return a vector with the element at index `row`, `column` in all lanes."""
        scalar = self.builder.load(self.element(row, _index(column)))
        undefined = ir.Constant(ir.VectorType(scalar.type, self.lanes), ir.Undefined)
        first = self.builder.insert_element(undefined, scalar, ir.Constant(_LANE, 0))
        everywhere = ir.Constant(ir.VectorType(_LANE, self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(first, undefined, everywhere)


def _index(value: int) -> ir.Constant:
    return ir.Constant(_INDEX, value)


def _rows(builder: Any, step: Any, group: int) -> list[Any]:
    first = builder.mul(step, _index(group))
    return [builder.add(first, _index(g)) for g in range(group)]


def _chain(
    builder: Any, out: _Matrix, vectors: int, steps: Any, accumulate: Any, link: Any
) -> None:
    """Write chains to `out`, or add them if `accumulate` is true. A chain is a sum that starts at 0
    and has `steps` (at least 1) links."""
    entry = builder.block
    loop, done = (builder.append_basic_block(name) for name in ("chain", "done"))
    builder.branch(loop)
    builder.position_at_end(loop)
    vector = ir.VectorType(_FLOAT, LANES)
    step = builder.phi(_INDEX)
    step.add_incoming(_index(0), entry)
    sums = [[builder.phi(vector) for _ in range(vectors)] for _ in range(ROWS)]
    results = link(step, sums)
    following = builder.add(step, _index(1))
    step.add_incoming(following, loop)
    for before, after in zip(chain(*sums), chain(*results), strict=True):
        before.add_incoming(ir.Constant(vector, [0.0] * LANES), entry)
        before.add_incoming(after, loop)
    builder.cbranch(builder.icmp_signed("<", following, steps), loop, done)
    builder.position_at_end(done)
    with builder.if_else(accumulate) as branches:
        for branch, adding in zip(branches, (True, False), strict=True):
            with branch:
                for r, row in enumerate(results):
                    for v, value in enumerate(row):
                        place = out.place(_index(r), v)
                        total = (
                            builder.fadd(builder.load(place, align=4), value) if adding else value
                        )
                        builder.store(total, place, align=4)


def _linked(
    builder: Any, weights: list[Any], moving: list[list[Any]], sums: list[Any]
) -> list[Any]:
    """Return one row of `sums`, after the next link was added to the chain of each sum."""
    if len(weights) == 1:
        return [_fused(builder, weights[0], m, t) for m, t in zip(moving[0], sums, strict=True)]
    columns = zip(*moving, strict=True)
    return [
        builder.fadd(total, _products(builder, weights, column))
        for total, column in zip(sums, columns, strict=True)
    ]


def _products(builder: Any, weights: list[Any], moving: Any) -> Any:
    """Return the sum of a group's products, added from the left. The products are exact."""
    products = builder.fmul(weights[0], moving[0])
    for weight, vector in zip(weights[1:], moving[1:], strict=True):
        products = _fused(builder, weight, vector, products)
    return products


def _fused(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c with one rounding.

    A processor without this instruction uses float64, in which the product is exact. The sum is
    rounded to odd, so that the second rounding changes nothing: an inexact sum moves one step
    toward the lost part (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved
    algorithms using rounding to odd", 2008)."""
    if FUSED:
        kind = ir.FunctionType(a.type, [a.type] * 3)
        name = f"llvm.fma.v{a.type.count}f32"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [a, b, c])
    wide, word = (ir.VectorType(t, a.type.count) for t in (_DOUBLE, _INDEX))
    x, y, addend = (builder.fpext(v, wide) for v in (a, b, c))
    product = builder.fmul(x, y)
    total = builder.fadd(product, addend)
    addend_in_total = builder.fsub(total, product)
    lost = builder.fadd(
        builder.fsub(product, builder.fsub(total, addend_in_total)),
        builder.fsub(addend, addend_in_total),
    )
    zero, one = ir.Constant(wide, [0.0] * a.type.count), ir.Constant(word, [1] * a.type.count)
    bits = builder.bitcast(total, word)
    outwards = builder.icmp_signed(
        "==", builder.fcmp_ordered(">", lost, zero), builder.fcmp_ordered(">", total, zero)
    )
    back = ir.Constant(word, [-1] * a.type.count)
    to_odd = builder.add(bits, builder.select(outwards, one, back))
    even = builder.icmp_signed("==", builder.and_(bits, one), builder.sub(one, one))
    inexact = builder.and_(builder.fcmp_ordered("!=", lost, zero), even)
    odd = builder.select(inexact, to_odd, bits)
    return builder.fptrunc(builder.bitcast(odd, wide), a.type)
