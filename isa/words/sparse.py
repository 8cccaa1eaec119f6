"""Operands, rules and costs of products with structured sparsity, in no released API.

An unreleased section of the SDK's trainium2_arch.rst describes compressed weights, tags of 4 bits
and a moving tile of several slots. How a tag divides, and the order of the sum, are our reading.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from neuroncore.base.errors import OutOfBoundsError, SignatureError, UnknownNameError
from neuroncore.clause import PSUM, SBUF, Call, Immediate, Operand, Static, cost, product
from neuroncore.clause.rules import holds, one_of, within_one_bank
from neuroncore.core.core import Core
from neuroncore.machine import Machine
from neuroncore.memory.tile import Array, Tile
from neuroncore.numerics import sparsity
from neuroncore.numerics.formats import (
    bfloat16,
    float8_e4m3,
    float8_e5m2,
    float16,
    float32,
    tfloat32,
    uint16,
)

from .tensor import operand_formats, rate_of

INPUTS = (bfloat16, float16, tfloat32, float8_e4m3, float8_e5m2)

Values = Annotated[
    Tile, Operand(reads=True, regions=(SBUF,), dtypes=INPUTS, eight_bits="sparse_float8")
]
Tags = Annotated[Tile, Operand(reads=True, regions=(SBUF,), dtypes=(uint16,))]
Sum = Annotated[Tile, Operand(writes=True, regions=(PSUM,), dtypes=(float32,))]
Pattern = Annotated[tuple[int, ...], Immediate(int, depth=1, keyed=True)]
Places = Annotated[str, Static()]

PRODUCT = (
    "stationary: K 4*T<=stationary_free; moving: K R*N; tags: K T; dst: 4*T N<=moving_free_float32"
)


def slots(call: Call) -> int:
    """Numbers of the moving tile for each partition and column."""
    kept, among = call["pattern"] if len(call["pattern"] or ()) == 2 else (1, 1)
    return among // (kept or 1) or 1


MATMUL = (
    one_of("pattern", sparsity.PATTERNS, SignatureError),
    one_of("places", sparsity.PLACES, SignatureError),
    holds(
        "moving", "moving is [K, slots, N], with as many slots as the pattern has",
        lambda call: call.view("moving").shape[1:2] == (slots(call),)
        and len(call.view("moving").shape) == 3,
    ),
    holds(
        "stationary", "K is of whole groups",
        lambda call: call["pattern"] in sparsity.PATTERNS
        and call.view("stationary").partitions % call["pattern"][0] == 0,
    ),
    operand_formats,
    within_one_bank("dst"),
)  # fmt: skip


def sparse_cost(call: Call, machine: Machine) -> cost.Cost:
    """As a dense product of the compressed tile."""
    columns, weights = call.view("dst").free_size, call.view("stationary").free_size
    kind = rate_of({call.view("stationary").dtype, call.view("moving").dtype})
    return cost.systolic(call, machine, kind, columns, weights)


def picked(core: Core, moving: Array, tags: Tile, pattern: tuple[int, ...], places: str) -> Array:
    """The number that each of [K, M] weights multiplies: [K, M, N] of the moving numbers [K, slots,
    N].

    Raises UnknownNameError without `Options.experimental`, OutOfBoundsError for a tag that is
    beyond its pattern.
    """
    if not core.options.experimental:
        raise UnknownNameError(
            "products with structured sparsity are in no released API",
            because="no public compiler accepts them; their semantics here are an interpretation",
            hint="Options(experimental=True)",
        )
    kept, among = pattern
    found = sparsity.unpacked(tags.codes().reshape(tags.shape[0], -1))
    if (largest := found.max(initial=0)) >= among:
        raise OutOfBoundsError(
            f"a tag says place {largest} of {among}", argument="tags", expected=f"0 to {among - 1}"
        )
    partition, slot = sparsity.split(found, (kept, among), places)
    first = np.arange(len(found))[:, None] // kept * kept
    numbers: Array = moving[first + partition, slot]
    return numbers


def by_column(core: Core, weights: Array, numbers: Array) -> product.Sum:
    """Each column of [K, M] weights times the numbers [K, M, N] that it has picked."""
    multiply = product.of(False, core.options)

    def fill(out: Array, add: bool) -> None:
        for m in range(weights.shape[1]):
            multiply(weights[:, m : m + 1], numbers[:, m], out[m : m + 1], add, 1)

    return fill
