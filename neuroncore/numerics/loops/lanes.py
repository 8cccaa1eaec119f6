"""Arithmetic on whole vector registers, for loops that the compiler doesn't vectorize well.

A `Lanes` is one vector value while machine code is generated: its operators append instructions. So
one formula serves vectors and scalars."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils, config

from neuroncore.base.jit import generated


def _features() -> dict[str, bool]:
    """Return the features of the processor for which numba compiles: NUMBA_CPU_FEATURES, by default
    those of this processor."""
    if config.CPU_FEATURES is None:
        return dict(llvmlite.binding.get_host_cpu_features())
    return {f[1:]: f[0] == "+" for f in config.CPU_FEATURES.split(",") if f}


_FEATURES = _features()
_IS_X86 = llvmlite.binding.get_default_triple()[:4] in ("x86_", "i386", "i686")
# the processor has instructions for a * b + c; processors other than x86 always do
FUSED = _FEATURES.get("fma", not _IS_X86)
# the number of 32-bit lanes in a vector register
LANES = 16 if _FEATURES.get("avx512f") else 8 if _FEATURES.get("avx2") else 4
VECTORS = 4  # vectors per step of a loop, so that rare cases are tested for less often
STEP = LANES * VECTORS
_WORD, _INDEX, _FLOAT = ir.IntType(32), ir.IntType(64), ir.FloatType()
FIRST_LEVEL, SECOND_LEVEL = 3, 2  # numbers of cache levels for llvm.prefetch
# elements to prefetch ahead; memory was read a fifth faster with it
AHEAD = ir.Constant(_INDEX, 1024)


class Lanes:
    """A vector of unsigned integers or of float32. The second operand of an operator is another
    vector, or a number for all lanes."""

    __array_ufunc__ = None  # numpy's scalars leave operators to this class

    def __init__(self, builder: ir.IRBuilder, value: Any) -> None:
        self.builder, self.value = builder, value

    def _lanes(self, value: Any) -> Lanes:
        return Lanes(self.builder, value)

    def _like(self, other: Any) -> Any:
        """Return the second operand of an operator as a vector of this operand's type."""
        if isinstance(other, Lanes):
            return other.value
        kind = self.value.type
        number = float(other) if isinstance(kind.element, ir.FloatType) else int(other)
        return ir.Constant(kind, [number] * kind.count)

    def each(self, numbers: Iterable[int]) -> Lanes:
        """Return a vector of the same type with these numbers in its lanes."""
        return self._lanes(ir.Constant(self.value.type, list(numbers)))

    def all(self, number: int) -> Lanes:
        """Return a vector with this number in every lane."""
        return self._lanes(self._like(number))

    def __and__(self, other: Any) -> Lanes:
        return self._lanes(self.builder.and_(self.value, self._like(other)))

    def __or__(self, other: Any) -> Lanes:
        return self._lanes(self.builder.or_(self.value, self._like(other)))

    def __xor__(self, other: Any) -> Lanes:
        return self._lanes(self.builder.xor(self.value, self._like(other)))

    def __lshift__(self, other: Any) -> Lanes:
        return self._lanes(self.builder.shl(self.value, self._like(other)))

    def __rshift__(self, other: Any) -> Lanes:
        return self._lanes(self.builder.lshr(self.value, self._like(other)))

    def __add__(self, other: Any) -> Lanes:
        add = self.builder.fadd if self.is_float else self.builder.add
        return self._lanes(add(self.value, self._like(other)))

    def __sub__(self, other: Any) -> Lanes:
        subtract = self.builder.fsub if self.is_float else self.builder.sub
        return self._lanes(subtract(self.value, self._like(other)))

    def __mul__(self, other: Any) -> Lanes:
        multiply = self.builder.fmul if self.is_float else self.builder.mul
        return self._lanes(multiply(self.value, self._like(other)))

    __rand__, __rmul__, __radd__ = __and__, __mul__, __add__

    def __lt__(self, other: Any) -> Lanes:
        return self._lanes(self.builder.icmp_unsigned("<", self.value, self._like(other)))

    def __gt__(self, other: Any) -> Lanes:
        return self._lanes(self.builder.icmp_unsigned(">", self.value, self._like(other)))

    @property
    def is_float(self) -> bool:
        return isinstance(self.value.type.element, ir.FloatType)

    def where(self, condition: Lanes, other: Any) -> Lanes:
        """Return this vector's lanes where the condition is true, and lanes of `other`
        elsewhere."""
        return self._lanes(self.builder.select(condition.value, self.value, self._like(other)))

    def least(self, other: Any) -> Lanes:
        return self.where(self < other, other)

    def greatest(self, other: Any) -> Lanes:
        return self.where(self > other, other)

    def is_nan(self) -> Lanes:
        return self._lanes(self.builder.fcmp_unordered("uno", self.value, self.value))

    def as_float(self) -> Lanes:
        """Return the same bits as float32."""
        return self._lanes(self.builder.bitcast(self.value, self._of(_FLOAT)))

    def as_word(self) -> Lanes:
        """Return the same bits as uint32."""
        return self._lanes(self.builder.bitcast(self.value, self._of(_WORD)))

    def to_float(self) -> Lanes:
        """Convert integers below 2^31 to float32."""
        return self._lanes(self.builder.sitofp(self.value, self._of(_FLOAT)))

    def to_word(self) -> Lanes:
        """Convert floats in [0, 2^32) to integers; the fraction is truncated."""
        return self._lanes(self.builder.fptoui(self.value, self._of(_WORD)))

    def upper(self) -> Lanes:
        """Return the upper half of each 64-bit lane, with arbitrary bits above it. A shift would do
        this too, but fewer ports of a processor execute shifts."""
        halves = ir.VectorType(_WORD, 2 * self.value.type.count)
        odd = ir.Constant(ir.VectorType(_WORD, halves.count), [i | 1 for i in range(halves.count)])
        words = self.builder.bitcast(self.value, halves)
        picked = self.builder.shuffle_vector(words, words, odd)
        return self._lanes(self.builder.bitcast(picked, self.value.type))

    def lowest(self, bits: int) -> Lanes:
        """Return the lowest `bits` bits of each lane, as lanes of `bits` bits."""
        if bits == self.value.type.element.width:
            return self
        return self._lanes(self.builder.trunc(self.value, self._of(ir.IntType(bits))))

    def _of(self, element: ir.Type) -> ir.VectorType:
        return ir.VectorType(element, self.value.type.count)


def elementwise(
    rare: Callable[..., Lanes],
    quick: Callable[..., Lanes],
    careful: Callable[..., Lanes],
    *,
    upper: bool = False,
    single: bool = False,
) -> Callable[..., Any]:
    """Return the operation (inputs, out, i, numbers) that sets out[i : i + STEP], or out[i] if
    `single`.

    `inputs`: a tuple of arrays of 32-bit words
    `numbers`: a tuple of scalars
    `careful`: a formula of (width of an element of `out`, inputs, numbers), always right. The
        result is in the lowest bits, or with `upper` in the upper bits.
    `quick`: a faster formula, right if `rare` is false in every lane
    `rare`: takes a list of vectors of the first input, and the numbers; returns flags"""
    count, vectors = (1, 1) if single else (LANES, VECTORS)

    def operation(typingctx: Any, inputs: Any, out: Any, i: Any, numbers: Any) -> Any:
        width = out.dtype.bitwidth

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            arrays, start = cgutils.unpack_tuple(builder, values[0]), values[2]
            shared = [splat(builder, n, count) for n in cgutils.unpack_tuple(builder, values[3])]
            target = _data(context, builder, out, values[1])
            columns = []
            for kind, array in zip(inputs, arrays, strict=True):
                source = _data(context, builder, kind, array)
                columns.append(_loaded(builder, source, start, count, vectors))
            special = _any(rare(columns[0], *shared))
            with builder.if_else(special, likely=False) as branches:
                for branch, formula in zip(branches, (careful, quick), strict=True):
                    with branch:
                        results = [formula(width, *v, *shared) for v in zip(*columns, strict=True)]
                        _store(target, start, _narrowed(results, width, upper))
            return context.get_dummy_value()

        return types.void(inputs, out, types.int64, numbers), generate

    return generated(operation)


def _loaded(
    builder: ir.IRBuilder, source: Any, start: Any, count: int, vectors: int
) -> list[Lanes]:
    """Load adjacent vectors, and prefetch the vectors of a later step."""
    loaded = []
    for v in range(vectors):
        place = builder.add(start, ir.Constant(_INDEX, v * count))
        loaded.append(Lanes(builder, builder.load(_place(builder, source, place, count), align=1)))
        if vectors > 1:
            prefetch(builder, builder.gep(source, [builder.add(place, AHEAD)]))
    return loaded


def prefetch(builder: ir.IRBuilder, address: Any, nearness: int = FIRST_LEVEL) -> None:
    """Load the cache line of an address into a cache. The address need not be valid."""
    byte = ir.PointerType(ir.IntType(8))
    kind = ir.FunctionType(ir.VoidType(), [byte, _WORD, _WORD, _WORD])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
    to_read, near, of_data = (ir.Constant(_WORD, n) for n in (0, nearness, 1))
    builder.call(function, [builder.bitcast(address, byte), to_read, near, of_data])


def _narrowed(results: list[Lanes], width: int, upper: bool) -> list[Lanes]:
    """Return lanes of `width` bits: the lowest bits of each lane, or with `upper` the upper bits.
    For 16 bits two vectors are combined."""
    if width == 32:
        return results
    if upper and width == 16 and len(results) > 1:
        return [_upper_halves(a, b) for a, b in zip(results[::2], results[1::2], strict=True)]
    return [(r >> 32 - width if upper else r).lowest(width) for r in results]


def _upper_halves(a: Lanes, b: Lanes) -> Lanes:
    """Return the upper 16 bits of all lanes of two vectors, in one vector."""
    builder, count = a.builder, 2 * a.value.type.count
    halves = [builder.bitcast(x.value, ir.VectorType(ir.IntType(16), count)) for x in (a, b)]
    odd = ir.Constant(ir.VectorType(_WORD, count), [2 * i + 1 for i in range(count)])
    return Lanes(builder, builder.shuffle_vector(*halves, odd))


def splat(builder: ir.IRBuilder, scalar: Any, count: int) -> Lanes:
    """Return a vector with a scalar in every lane."""
    undefined = ir.Constant(ir.VectorType(scalar.type, count), ir.Undefined)
    everywhere = ir.Constant(ir.VectorType(_WORD, count), [0] * count)
    first = builder.insert_element(undefined, scalar, ir.Constant(_WORD, 0))
    return Lanes(builder, builder.shuffle_vector(first, undefined, everywhere))


def interleaved(low: Lanes, high: Lanes) -> Lanes:
    """Return low[0], high[0], low[1], high[1], ..."""
    count = low.value.type.count
    order = [lane + count * half for lane in range(count) for half in range(2)]
    picked = ir.Constant(ir.VectorType(_WORD, 2 * count), order)
    return Lanes(low.builder, low.builder.shuffle_vector(low.value, high.value, picked))


def lower_halves(low: Lanes, high: Lanes) -> Lanes:
    """Return 64-bit lanes: the lower halves of `low`'s lanes below the lower halves of `high`'s
    lanes."""
    builder, count = low.builder, 2 * low.value.type.count
    words = [builder.bitcast(x.value, ir.VectorType(_WORD, count)) for x in (low, high)]
    order = [i if i % 2 == 0 else count + i - 1 for i in range(count)]
    picked = builder.shuffle_vector(*words, ir.Constant(ir.VectorType(_WORD, count), order))
    return Lanes(builder, builder.bitcast(picked, low.value.type))


def store_pairs(context: Any, kind: Any, array: Any, start: Any, pairs: Lanes) -> None:
    """Store 64-bit lanes to an array of 32-bit words from element `start` on, lower halves
    first."""
    builder = pairs.builder
    place = builder.gep(_data(context, builder, kind, array), [start])
    both = builder.bitcast(place, ir.PointerType(pairs.value.type))
    builder.store(pairs.value, both, align=1)


def _any(flags: Lanes) -> Any:
    """Return whether a condition is true in any lane."""
    builder, mask = flags.builder, ir.IntType(flags.value.type.count)
    return builder.icmp_unsigned("!=", builder.bitcast(flags.value, mask), ir.Constant(mask, 0))


def _data(context: Any, builder: ir.IRBuilder, kind: Any, array: Any) -> Any:
    """Return a pointer to the elements of a one-dimensional array, as a pointer to integers. `kind`
    is numba's type of the array."""
    base = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(base, ir.PointerType(ir.IntType(kind.dtype.bitwidth)))


def _store(base: Any, start: Any, vectors: list[Lanes]) -> None:
    done = 0
    for values in vectors:
        builder, count = values.builder, values.value.type.count
        place = builder.add(start, ir.Constant(_INDEX, done))
        builder.store(values.value, _place(builder, base, place, count), align=1)
        done += count


def _place(builder: ir.IRBuilder, base: Any, index: Any, count: int) -> Any:
    vector = ir.VectorType(base.type.pointee, count)
    return builder.bitcast(builder.gep(base, [index]), ir.PointerType(vector))
