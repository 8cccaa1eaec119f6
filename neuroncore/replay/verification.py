"""Compares the emulator with the plain reading, a second implementation of every instruction in
plain numpy (`neuroncore.plain`).

Both execute the same record, and their results are compared after each instruction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from neuroncore.base import source
from neuroncore.base.units import dimensions, plural
from neuroncore.core.replica_groups import chip_ranks
from neuroncore.memory.storage import Storage
from neuroncore.plain.arithmetic import ULPS
from neuroncore.plain.formats import Array, decode
from neuroncore.plain.memory import Operand
from neuroncore.plain.reading import Reading, approximate
from neuroncore.record.inputs import leaves
from neuroncore.record.instructions import Recorded
from neuroncore.record.program import Record
from neuroncore.replay.cursor import Replay
from neuroncore.replay.execution import Execution
from neuroncore.replay.tensors import inputs_in_memory

# Used in place of a function's name for matrix products with an unknown order of additions
# (Options.matmul).
BLAS = "blas"
BLAS_ROOM = 2.0**-12  # the allowed difference of these products, relative to the largest result


def native(array: Any) -> Array:
    """Return an array with at least one axis, in the byte order of this computer."""
    native_array = np.atleast_1d(np.asarray(array))
    return native_array.astype(native_array.dtype.newbyteorder("="), copy=False)


def unequal_arrays(actual: Array, expected: Array) -> Array:
    """Return whether the bits of each element differ. All NaN are equal. For another shape or type,
    return a single True in an array of shape (1, 1, ...)."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return np.ones((1,) * actual.ndim, np.bool_)
    wrong: Array = _bits(actual) != _bits(expected)
    if wrong.any() and actual.dtype.kind not in "iub":
        wrong &= ~((actual != actual) & (expected != expected))
    return wrong


def _bits(array: Array) -> Array:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)


def codes_at(storage: Storage, operand: Operand) -> Array:
    """Return the emulator's codes for the elements of an operand of the plain reading."""
    layout, kind = storage.layout, np.dtype(operand.held.codes)
    if layout.in_rows:
        row, column = np.divmod(operand.positions, layout.row_bytes)
        where = row * layout.pitch + column * layout.spread
    else:
        where = operand.positions * layout.spread
    where = where + storage.origin
    if not where.size:
        return np.empty(where.shape, kind)
    first = int(where.flat[0]) % kind.itemsize
    data = storage.settled.reshape(-1).view(np.uint8)
    count = (len(data) - first) // kind.itemsize
    words = data[first : first + count * kind.itemsize].view(kind)
    codes: Array = words[where // kind.itemsize]
    return codes


def differing(
    arguments: Mapping[str, Any], name: str, emulator: Array, row: Recorded, function: str | None
) -> Array:
    """Return whether each element of a result differs by more than is allowed. Elements that were
    never written do not count.

    `arguments`: the plain reading's operands by name
    `emulator`: the emulator's codes of the operand `name`
    `function`: BLAS, or a function that the plain reading only approximates
        (`plain.reading.approximate`); None if all bits must be equal"""
    operand: Operand = arguments[name]
    if function == BLAS:
        actual = decode(operand.held, emulator)
        room = np.abs(actual[np.isfinite(actual)]).max(initial=0) * BLAS_ROOM
        wrong = ~(np.abs(actual - operand.values()) <= room)
        wrong &= unequal(operand, emulator, strict=False)
    elif function is not None and name != row.call.writes[0]:
        wrong = _beyond_sum(operand, emulator, arguments[row.call.writes[0]])
    elif function is not None:
        allowed = ULPS[function].get(operand.held.name, 1)
        wrong = unequal(operand, emulator, strict=False) & (_ulps(operand, emulator) > allowed)
    else:
        wrong = unequal(operand, emulator, strict=_moves_bits(row, arguments))
    written: Array = wrong & ~operand.missing()
    return written


def _moves_bits(row: Recorded, arguments: Mapping[str, Any]) -> bool:
    """Return whether an instruction only moves bits, so that even the bits of NaN must be equal."""
    traits = row.call.instruction.traits
    operands = [arguments[n] for n in (*row.call.reads, *row.call.writes)]
    same = len({operand.held for operand in operands}) == 1
    return bool(traits.moves_bits or (traits.copies and same))


def unequal(operand: Operand, emulator: Array, strict: bool) -> Array:
    """Return whether each code of the emulator differs from the plain reading's. All NaN are equal
    unless `strict`."""
    codes = operand.codes()
    wrong: Array = codes != emulator
    if not strict and operand.held.kind == "float" and wrong.any():
        wrong &= ~(np.isnan(decode(operand.held, codes)) & np.isnan(decode(operand.held, emulator)))
    return wrong


def _ulps(operand: Operand, emulator: Array) -> Array:
    """Return the distance between the codes of the plain reading and the emulator, in units in the
    last place."""
    bits = 8 * operand.held.size

    def order(codes: Array) -> Array:
        whole = codes.astype(np.int64)
        if operand.held.kind != "float":
            return whole
        magnitude = whole & (1 << bits - 1) - 1
        ordered: Array = np.where(whole >> bits - 1, -magnitude, magnitude)
        return ordered

    step = 1 << 13 if operand.held.name == "tfloat32" else 1
    apart: Array = np.abs(order(operand.codes()) - order(emulator)) // step
    return apart


def _beyond_sum(operand: Operand, emulator: Array, terms: Operand) -> Array:
    """Return a flag for each sum: whether rounding can't explain the difference.

    The allowed difference is (n + 2) * 2^-22 * m, plus two units in the last place of the sum. n is
    the number of terms in a lane, and m is the largest magnitude of the terms and the sum."""
    actual, expected = decode(operand.held, emulator), operand.values()
    largest = np.abs(np.nan_to_num(terms.rows(), posinf=0, neginf=0)).max(axis=1).max(initial=0)
    count = terms.positions.size // terms.lanes + 2
    room = np.maximum(largest, np.abs(expected)) * (count * 2.0**-22)
    room = room + np.abs(expected) * 2.0 ** -(operand.held.mantissa - 1)
    with np.errstate(invalid="ignore"):
        wrong: Array = ~(np.abs(actual.astype(np.float64) - expected) <= room)
    wrong &= (actual != expected) & ~(np.isnan(actual) & np.isnan(expected))
    return wrong


def take_over(operand: Operand, emulator: Array) -> None:
    """Copy the emulator's codes to the plain reading's operand, which then continues with the same
    numbers. Unwritten elements stay."""
    wrong = (operand.codes() != emulator) & ~operand.missing()
    if wrong.any():
        size = operand.form.size
        operand.tensor.write(operand.positions[wrong], emulator[wrong], size)


def described(operand: Operand) -> str:
    """Return the shape, the format and the memory of an operand as text."""
    shape = dimensions(operand.shape)
    return f"{shape} {operand.form.name} in {operand.tensor.layout.region.value}"


def text_of(operand: Operand, code: Any) -> str:
    """Return an element as text: its number and its bits. `code` is the code of the element."""
    bits = int(np.asarray(code).view(f"u{operand.held.size}"))
    if operand.held.kind == "packed":
        return f"{bits:#x}"
    value = decode(operand.held, np.asarray(code).reshape(1))[0]
    return f"{value} ({bits:#0{2 + 2 * operand.held.size}x})"


@dataclass(frozen=True)
class Mismatch:
    """The first result that differs from the plain reading by more than is allowed.

    `element`: the index of the first such element
    `emulator`, `reading`: the element as text, in the emulator and in the plain reading
    `row`: the instruction, in the program of `core`"""

    instruction: str
    row: int
    core: int
    element: tuple[int, ...]
    emulator: str
    reading: str
    count: int
    """The number of elements of the operand that differ."""
    operand: str = ""
    place: source.Place | None = None
    operands: Mapping[str, str] = field(default_factory=dict)
    """The operands of the instruction, by name."""

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        operands = ", ".join(f"{name}: {text}" for name, text in self.operands.items())
        return (
            f"{where}{self.instruction} (instruction {self.row} of core {self.core}) has "
            f"{self.operand}{list(self.element)} = {self.emulator}; the plain reading has "
            f"{self.reading}; number of elements that differ: {self.count:,}"
            + (f"; operands {operands}" if operands else "")
        )


@dataclass(frozen=True)
class Verdict:
    """The result of a verification.

    `difference`: the first mismatch, or None
    `compared`: how many instructions had equal results, bit by bit
    `taken_over`: how many instructions were within the limits for approximate results
        (`differing`). The plain reading continued with the emulator's bits."""

    instructions: int
    compared: int
    taken_over: int
    difference: Mismatch | None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dict for JSON. The first mismatch is a text."""
        text = None if self.difference is None else str(self.difference)
        return {
            "instructions": self.instructions,
            "compared": self.compared,
            "taken_over": self.taken_over,
            "difference": text,
            "text": str(self),
        }

    def __str__(self) -> str:
        if self.difference is not None:
            return f"differs from the plain reading at {self.difference}"
        return (
            f"agrees with the plain reading: {plural(self.compared, 'instruction')} bit for bit, "
            f"{self.taken_over:,} within the allowed difference"
        )


class _Before(NamedTuple):
    """Data that is only available before an instruction runs.

    `storages`: the storages of its results, by number
    `undefined`: flags of the elements that depend on uninitialized memory, by operand name"""

    storages: Mapping[int, Storage]
    undefined: Mapping[str, Array]


class Verification:
    """Executes a record in the emulator and in the plain reading. Raises the errors of `Replay`."""

    def __init__(self, record: Record) -> None:
        self._before: dict[tuple[int, int], _Before] = {}
        self.replay = Replay(record, snapshots=0, turns=self._turn)
        cores = self.replay.cores
        inputs_by_storage = inputs_in_memory(self.replay.setting, None, cores[0].memory)
        contents = {
            number: array.reshape(-1).view(np.uint8) for number, array in inputs_by_storage.items()
        }
        chip = chip_ranks(cores[0]) if self.replay.world.ranks > 1 else 1
        self.reading = Reading(record, contents, chip)
        self.compared = self.taken_over = 0

    @property
    def instructions(self) -> int:
        """The number of instructions in the record."""
        return self.replay.steps

    def run(self) -> Verdict:
        """Execute the record, up to the first difference or to its end. Return the verdict."""
        difference = None
        while difference is None and self.replay.step < self.instructions:
            difference = self._step()
        if difference is None:
            difference = next(self._of_results(), None)
        # the method `_turn` refers to this object, and would keep all tensors in memory
        self.replay.turns = None
        return Verdict(self.instructions, self.compared, self.taken_over, difference)

    def with_results(
        self, verdict: Verdict, run: Sequence[Any], replayed: Sequence[Any]
    ) -> Verdict:
        """Return `verdict` with the first difference between the arrays of the run and of the
        replay. They may differ because a run may use other code of the emulator."""
        for number, (run_result, replayed_result) in enumerate(zip(run, replayed, strict=True)):
            actual, expected = native(run_result), native(replayed_result)
            wrong = unequal_arrays(actual, expected)
            if wrong.any():
                at = tuple(int(i) for i in np.argwhere(wrong)[0])
                mismatch = Mismatch(
                    instruction="the run",
                    row=self.instructions,
                    core=0,
                    operand=f"result {number}",
                    element=at,
                    emulator=str(actual[at]),
                    reading=str(expected[at]),
                    count=int(wrong.sum()),
                )
                return replace(verdict, difference=mismatch)
        return verdict

    def _turn(self, able: Sequence[int]) -> int | None:
        """Return the core out of `able` that continues: the core of the last step, or the next in
        order.

        Also store the storages that it will write: the replay frees tensors after their last
        use."""
        if not able:
            return None
        replay = self.replay
        number = min(able, key=lambda n: (n - replay.last) % len(replay.cores))
        execution = replay.executions[number]
        if (number, execution.row) not in self._before:
            self._before[number, execution.row] = _Before(
                execution.written(), _undefined_flags(execution)
            )
        return number

    def _step(self) -> Mismatch | None:
        self.replay.forward()
        core = self.replay.last
        number = self.reading.next[core]
        before = self._before.pop((core, number))
        row = self.reading.rows[core][number]
        instruction = self.reading.step(core, before.undefined)
        with np.errstate(all="ignore"):
            return self._compared(core, number, row, instruction, before.storages)

    def _compared(
        self,
        core: int,
        number: int,
        row: Recorded,
        instruction: Any,
        storages: Mapping[int, Storage],
    ) -> Mismatch | None:
        """Return a Mismatch for the first result of an instruction that differs by more than is
        allowed. If no result does, copy the emulator's bits to the plain reading and return
        None."""
        function, arguments = approximate(instruction), vars(instruction)
        if row.call.instruction.traits.multiplies and instruction.core.options.matmul == "blas":
            function = BLAS
        for name in row.call.writes:
            emulator = codes_at(storages[row.windows[name].tensor], arguments[name])
            if np.array_equal(arguments[name].codes(), emulator):
                continue  # all bits are equal
            wrong = differing(arguments, name, emulator, row, function)
            if wrong.any():
                return self._difference(core, number, row, arguments, name, emulator, wrong)
            take_over(arguments[name], emulator)
        if function is None:
            self.compared += 1
        else:
            self.taken_over += 1
            for unit, registers in self.replay.cores[core].accumulators.items():
                self.reading.cores[core].accumulators[unit][:] = registers
        return None

    def _difference(
        self, core: int, number: int, row: Recorded, arguments: Mapping[str, Any], name: str,
        emulator: Array, wrong: Array,
    ) -> Mismatch:  # fmt: skip
        return _first(
            arguments[name], emulator, wrong,
            instruction=row.call.name,
            row=number,
            core=core,
            place=self.replay.record.programs[core].place(row.line),
            operand=name,
            operands={n: described(v) for n, v in arguments.items() if isinstance(v, Operand)},
        )  # fmt: skip

    def _of_results(self) -> Iterator[Mismatch]:
        """Yield a Mismatch for each result of the kernel that differs. All instructions agreed, so
        something else changed the tensor."""
        for core, program in enumerate(self.replay.record.programs):
            execution = self.replay.executions[core]
            for leaf in leaves(program.data.results):
                operand = self.reading.operand(core, self.reading.rows[core].of_leaf(leaf))
                emulator = codes_at(execution.result(leaf).storage, operand)
                wrong = unequal(operand, emulator, strict=False) & ~operand.missing()
                if wrong.any():
                    where = {"instruction": "the result", "row": len(program), "core": core}
                    yield _first(operand, emulator, wrong, **where)


def _first(tile: Operand, emulator: Array, wrong: Array, **where: Any) -> Mismatch:
    """Return the Mismatch for the first element that `wrong` flags. `where`: its other fields."""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return Mismatch(
        **where,
        element=at,
        emulator=text_of(tile, emulator[at]),
        reading=text_of(tile, tile.codes()[at]),
        count=int(wrong.sum()),
    )


def _undefined_flags(execution: Execution) -> dict[str, Array]:
    """Return flags of the elements that depend on uninitialized memory, by operand name, for
    products and transposes. The plain reading does not track these elements itself."""
    traits, undefined = execution.call.instruction.traits, execution.core.undefined
    if undefined is None or not (traits.multiplies or traits.transposes):
        return {}
    tiles = {name: execution.operand(name) for name in execution.call.reads}
    flags_of = {name: undefined.within(tile) for name, tile in tiles.items() if tile is not None}
    return {name: flags for name, flags in flags_of.items() if flags is not None}
