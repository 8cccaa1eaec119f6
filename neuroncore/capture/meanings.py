"""The effect of each instruction of a device. For each opcode, the field `does` in
`isa/encoding.toml` names a function of this module.

Arithmetic is float32 with one rounding per operation. Operators, functions and products are those
of neuroncore's own instructions. Codes are the bits of elements, as integers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.base.errors import UsageError
from neuroncore.base.units import plural
from neuroncore.capture.encoding import DecodedInstruction, Scalar, our_function, our_operator
from neuroncore.capture.neff import Graph, StaticBlock
from neuroncore.capture.storage import ChipMemories, fitted, form_of, parts
from neuroncore.clause import arithmetic, product
from neuroncore.clause.alu import FUNCTIONS, OPERATORS, Operator
from neuroncore.numerics import codec
from neuroncore.numerics.formats import float32

Array = npt.NDArray[Any]
Pairs = list[tuple[Array, Array]]

RINGS = 16  # DMA engines, each of which increments the semaphore of a transfer
FIRST = 1  # bit of acc_flags: the first product of a sum, which replaces the contents of PSUM
SKIPPED = {"LOW_HIGH": 0, "HIGH": 1}  # how many pairs of halves each moving mode leaves out
AXES = {"X": 1, "XY": 2}  # how many of the innermost axes a reduction folds


class State:
    """The state of a core: its memories, its semaphores and the weights in the Tensor engine's
    array."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.storage = graph, ChipMemories(graph)
        self.semaphores: dict[int, int] = {}
        self.weights: tuple[DecodedInstruction, Array] | None = None
        self.blocks: Mapping[tuple[str, int], StaticBlock] = {
            (block.queue, block.number): block for each in graph.blocks.values() for block in each
        }

    def add(self, semaphore: int, amount: int) -> None:
        self.semaphores[semaphore] = self.semaphores.get(semaphore, 0) + amount


def nothing(state: State, kind: DecodedInstruction) -> None:
    """Do nothing, for instructions that only wait, or that only put other instructions in order."""


def load(state: State, kind: DecodedInstruction) -> None:
    """Load weights into the array. The device reads them from the last column to the first."""
    codes = state.storage.codes(kind.operand("src"))
    rows = kind.settings["rows"]
    state.weights = kind, np.ascontiguousarray(codes.reshape(rows, -1)[:, ::-1])


def multiply(state: State, kind: DecodedInstruction) -> None:
    """Write a product, or a transpose, to PSUM."""
    if state.weights is None:
        raise UsageError("a product is issued before weights are loaded")
    loaded, codes = state.weights
    form = form_of(loaded.operand("src").format)
    moving = state.storage.values(kind.operand("src"))
    moving = np.ascontiguousarray(moving.reshape(len(moving), -1))
    if len(codes) != len(moving):
        raise UsageError(
            f"a product has {plural(len(codes), 'row')} of weights, but "
            f"{plural(len(moving), 'row')} of moving numbers"
        )
    target = kind.operand("dst")
    if kind.settings["transpose"] == "ENABLED":
        state.storage.put(target, _transposed(codes, moving), form)
        return
    total = np.zeros((codes.shape[1], moving.shape[1]), np.float32)
    if not kind.settings["acc_flags"] & FIRST:
        total[...] = fitted(state.storage.view(target, float32), total.shape)
    for left, right in _passes(codec.decode(form, codes), moving, loaded, kind):
        product.chain(left, right, total, True)
    state.storage.put(target, total, float32)


def _transposed(codes: Array, moving: Array) -> Array:
    """Return the transpose of the weights, as codes of their format.

    Each column of `moving` selects a row of the weights. Raise UsageError if it does not select
    exactly one row."""
    if not product.picks(moving) or not moving.any(axis=0).all():
        raise UsageError(
            "a column of a transpose's moving matrix does not select exactly one row of weights"
        )
    picked: Array = codes[moving.argmax(axis=0)].T
    return picked


def _passes(
    weights: Array, moving: Array, loaded: DecodedInstruction, kind: DecodedInstruction
) -> Pairs:
    """Return the pairs (weights, moving matrix) whose products one instruction adds.

    `loaded` is the instruction that loaded the weights. For float32, both matrices are split into
    the upper and the lower bits of their numbers (`product.halves`). Each pair then has one half of
    the weights and one half of the moving matrix."""
    modes = [each.settings["fp32_mode"].partition("=")[2] for each in (loaded, kind)]
    stationary, moving_mode = modes
    if not any(modes):
        return [(weights, moving)]
    high, low, finite = product.halves(weights)
    x_high, x_low, x_finite = product.halves(moving)
    chosen = {"LOW": [(low, x_low), (low, x_finite)], "HIGH": [(finite, x_low), (high, x_high)]}
    if stationary not in chosen or moving_mode not in SKIPPED:
        raise UsageError(
            f"the weights have the fp32 mode {stationary or 'none'}, and the product has the mode "
            f"{moving_mode or 'none'}: this combination is not known"
        )
    return chosen[stationary][SKIPPED[moving_mode] :]


def activate(state: State, kind: DecodedInstruction) -> None:
    """Compute function(scale * x + bias)."""
    settings, storage = kind.settings, state.storage
    values = storage.values(kind.operand("src")) * np.float32(settings["scale"])
    function, adds_bias = our_function(settings["function"])
    if adds_bias:
        bias = storage.column(settings["bias"], settings["channels"])
        values += bias.reshape(-1, *[1] * (values.ndim - 1))
    out = np.empty_like(values)
    arithmetic.activate(FUNCTIONS[function].apply, values, out)
    storage.write(kind.operand("dst"), out)


def two_tensors(state: State, kind: DecodedInstruction) -> None:
    left, right = (state.storage.values(kind.operand(name)) for name in ("src0", "src1"))
    right = right.reshape(len(right), -1)
    left = fitted(left, right.shape)
    state.storage.write(kind.operand("dst"), _applied(kind.settings["op"], left, right))


def scalars(state: State, kind: DecodedInstruction) -> None:
    """Compute (x op0 operand0) op1 operand1.

    Each operand is a number, or a number for each partition."""
    values = state.storage.values(kind.operand("src"))
    values = values.reshape(len(values), -1)
    for op, scalar in (("op0", "operand0"), ("op1", "operand1")):
        if our_operator(kind.settings[op]):
            other = _scalar(state, kind.settings[scalar], len(values))
            values = _applied(kind.settings[op], values, other)
    state.storage.write(kind.operand("dst"), values)


def _scalar(state: State, scalar: Scalar, rows: int) -> Array:
    if scalar.is_address:
        return state.storage.column(int(scalar.value), rows)
    return np.full((rows, 1), scalar.value, np.float32)


def _applied(name: str, left: Array, right: Array) -> Array:
    out = np.empty_like(left)
    _operator(name).apply(left, right, out)
    return out


def _operator(name: str) -> Operator:
    return OPERATORS[our_operator(name)]


def reduce(state: State, kind: DecodedInstruction) -> None:
    """Fold the innermost axes, from the first element to the last."""
    values = state.storage.values(kind.operand("src"))
    axes = AXES[kind.settings["dim"]]
    reduced = arithmetic.reduce(_operator(kind.settings["op"]), values, axes)
    state.storage.write(kind.operand("dst"), -reduced if kind.settings["negated"] else reduced)


def copy(state: State, kind: DecodedInstruction) -> None:
    """Copy codes unchanged, or convert numbers if the formats differ."""
    source, target = kind.operand("src"), kind.operand("dst")
    if source.format == target.format:
        state.storage.put(target, state.storage.codes(source))
    else:
        state.storage.write(target, state.storage.values(source))


def invert(state: State, kind: DecodedInstruction) -> None:
    values = state.storage.values(kind.operand("src"))
    state.storage.write(kind.operand("dst"), np.float32(1) / values)


def fill(state: State, kind: DecodedInstruction) -> None:
    target = kind.operand("dst")
    codes = state.storage.view(target, form_of(target.format))
    bits = np.array(kind.settings["value"], np.uint32)
    codes[...] = bits.view(codes.dtype) if codes.itemsize == bits.itemsize else _zero(int(bits))


def _zero(bits: int) -> int:
    """Return 0, the code for `bits` = 0 in a fill of a format that is not 32 bits wide.

    Raise UsageError for other values of `bits`, because their effect is unknown."""
    if bits:
        raise UsageError(
            "it is not known what a fill with a value other than 0 writes to a format that is not "
            "32 bits wide"
        )
    return 0


def trigger(state: State, kind: DecodedInstruction) -> None:
    """Execute the transfers of a static block, which is a group of transfers that one instruction
    starts."""
    key = str(kind.settings["queue"]), int(kind.settings["block"])
    block = state.blocks.get(key)
    if block is None:
        raise UsageError(f"queue {key[0]} has no block {key[1]}")
    for each in block.moves:
        state.storage.move(*parts(each, state.graph))
    state.add(block.semaphore, RINGS)


def transfer(state: State, kind: DecodedInstruction) -> None:
    """Execute the transfer that the instruction describes."""
    source, target = (state.storage.ends_of(kind.block(name)) for name in ("src", "dst"))
    state.storage.move(source, target)
    state.add(kind.settings["semaphore"], kind.settings["increment"])


MEANINGS: Mapping[str, Callable[[State, DecodedInstruction], None]] = {
    each.__name__: each
    for each in (
        *(nothing, load, multiply, activate, two_tensors, scalars, reduce, copy, invert, fill),
        *(trigger, transfer),
    )
}
