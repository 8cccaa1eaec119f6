"""Executes one program of a record on a new core.

The record of an instruction lists its Call, line, windows and values. A Call is a distinct
instruction, which equal instructions share. A window is the record of a tile:
its storage (the memory of one tensor), its geometry and its offset.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from neuroncore.base.errors import KernelError, UsageError
from neuroncore.clause.instruction import Call
from neuroncore.core.arguments import ArgumentPlan, plan
from neuroncore.core.core import CarryOut, Core, Point, SentValues, nothing, on
from neuroncore.memory.geometry import Geometry
from neuroncore.memory.register import VirtualRegister
from neuroncore.memory.storage import Storage
from neuroncore.memory.tile import Dynamic, Tile
from neuroncore.record.inputs import Leaf, RegisterId, leaves, values_of
from neuroncore.record.instructions import Registers
from neuroncore.record.program import Program
from neuroncore.replay.batches import Batches, BatchesOnCore
from neuroncore.replay.tensors import Tensors, last_uses


class Waits(Exception):
    """Raised if an instruction must wait for other cores, and be executed again when they have
    arrived."""


class Syncs:
    """The synchronizations of cores: points at which cores wait for each other and exchange data.

    `open`: the points at which cores wait now, each with the data that cores have sent
    `waiting`: the waiting cores, in the order of their arrival
    `complete`: the data of a complete synchronization for each core that waited, until the core
        executes its instruction again"""

    def __init__(self) -> None:
        self.open: dict[Point, SentValues] = {}
        self.complete: dict[int, SentValues] = {}
        self.waiting: dict[int, None] = {}

    def copy(self) -> Syncs:
        """Return a copy for a snapshot, without the data of waiting cores: they will send it
        again."""
        copy = Syncs()
        copy.complete, copy.waiting = dict(self.complete), dict(self.waiting)
        return copy

    def meet(self, number: int, point: Point, value: Any, then: CarryOut = nothing) -> SentValues:
        """Let core `number` arrive at a point and send `value`. Return the data of all cores
        that meet there.

        Raise Waits if some cores have not arrived. The last core to arrive calls `then` with all
        data."""
        if number in self.complete:
            return self.complete.pop(number)
        values = self.open.setdefault(point, {})
        values[number] = value
        if len(values) < len(point.cores):
            self.waiting[number] = None
            raise Waits
        del self.open[point]
        then(values)
        for other in values.keys() - {number}:
            self.complete[other] = values
            self.waiting.pop(other, None)
        return values


CHUNK = 128  # instructions that are converted to Python lists at a time


class OtherPath(UsageError):
    """Raised if the kernel would take another path with these inputs.

    `decisions`: the register values on which the kernel has branched; only the last differs from
        the record"""

    def __init__(self, message: str, decisions: tuple[int, ...]) -> None:
        super().__init__(message)
        self.decisions = decisions


def _by_first(column: Sequence[int], width: int) -> dict[int, list[tuple[int, ...]]]:
    """Return a dict from the first number of a row to the rest of each such row. `column` is a flat
    table of `width` columns."""
    rows_by_first: dict[int, list[tuple[int, ...]]] = {}
    for first, *rest in np.array(column, np.int64).reshape(-1, width).tolist():
        rows_by_first.setdefault(first, []).append(tuple(rest))
    return rows_by_first


class _Tables:
    """Tables about a program for all its executions. `values`, `moves`, `places`, `branches` and
    `begun` are entries of the program's `Data`, by the number of an instruction or window."""

    def __init__(self, program: Program) -> None:
        self.rows, self.begins = program.raw()
        windows = program.windows()
        self.geometry, self.offset = windows.geometry.tolist(), windows.offset.tolist()
        self.storage, self.moving = windows.storage.tolist(), windows.moving.tolist()
        self.values = [values_of(key) for key in program.data.values]
        self.places = np.array(program.data.places, np.int64).reshape(-1, 2).tolist()
        self.moves = _by_first(program.data.moves, 5)
        self.branches = _by_first(program.data.branches, 4)
        self.begun = _by_first(program.data.programs, 2)
        window, storage = last_uses(program)
        self.window_ends = window
        order = np.argsort(np.concatenate([window, storage]), kind="stable")
        last_used = np.concatenate([np.arange(len(window)), -1 - np.arange(len(window))])[order]
        # Two parallel lists, sorted by instruction: instructions, and a window or storage that each
        # instruction is the last to use. A number w >= 0 means window w, and -1 - w means the
        # storage of window w.
        self.ends = np.concatenate([window, storage])[order].tolist(), last_used.tolist()
        self.kept = {leaf.storage for leaf in leaves(program.data.results)}
        # the batches of the last replay, and the settings on which they depend
        self.planned: tuple[Any, Batches] | None = None


class Execution:
    """A program that is executed on a core. `row` is the number of the next instruction."""

    def __init__(self, program: Program, core: Core, tensors: Tensors) -> None:
        self.program, self.core, self.tensors = program, core, tensors
        self._tables: _Tables = program.derived(__name__, lambda: _Tables(program))
        self.registers = Registers(program.data)
        self.row = self.wrote = 0  # the next instruction, and the bytes that `step` has written
        self._tiles: dict[int, Tile] = {}
        self.plans = [plan(call.of_launch()) for call in program.calls]
        tensors.kept |= self._tables.kept
        self.restart(0)

    def restart(self, row: int) -> None:
        """Continue at an instruction. Forget all tiles, and the registers that this or later
        instructions have loaded."""
        self.row = row
        self._tiles.clear()
        self._chunk: list[list[int]] = []
        self._first = 0  # the first instruction of the chunk
        self._ended = int(np.searchsorted(self._tables.ends[0], row))
        self.registers.back_to(row)

    @property
    def over(self) -> bool:
        return self.row >= len(self.program)

    @property
    def meets(self) -> bool:
        """True if the next instruction waits for other cores."""
        return not self.over and self.plans[self._row()[0]].call.instruction.meets is not None

    def step(self) -> None:
        """Execute the next instruction. Raise the kernel's errors, with its line, and OtherPath if
        the kernel would branch differently."""
        number, tables = self.row, self._tables
        if number in tables.begun:
            *_, (self.core.program_id,) = tables.begun[number]
        if number in tables.branches:
            self.check_branches()
        at = number - self._first
        row = self._chunk[at] if 0 <= at < len(self._chunk) else self._row()
        plan = self.plans[row[0]]
        self.core.site = self.program.lines[row[1]]
        try:
            arguments = self._arguments(plan, row)
            offsets = plan.run(self.core, plan.call, *arguments)
            if offsets is not None:
                offsets.write_out()
        except KernelError as error:
            error.place, error.stack = self.program.place(row[1]), []
            raise
        if plan.loads >= 0:
            self.registers.loaded[number] = arguments[plan.loads].value
        self.row = number + 1
        self.wrote += plan.nbytes
        ends, windows = tables.ends
        ended = self._ended
        while ended < len(ends) and ends[ended] <= number:
            self._free(windows[ended])
            ended += 1
        self._ended = ended

    def advance(self, end: int) -> None:
        """Execute the next instruction, or all instructions of a batch, which compiled code
        executes in one call. Do not go beyond instruction `end`."""
        first = self.row
        batch_end = self.batches.ends.get(first, end + 1)
        if batch_end > end or not self.batches.run(first, self.tensors):
            self.step()
            return
        self.row = batch_end
        self._tiles = {
            w: t for w, t in self._tiles.items() if self._tables.window_ends[w] >= batch_end
        }
        self._ended = bisect_left(self._tables.ends[0], batch_end)

    @cached_property
    def batches(self) -> BatchesOnCore:
        """The program's batches (instructions that compiled code executes), with memory for this
        execution. They are found again if the settings have changed."""
        core, tensors, tables = self.core, self.tensors, self._tables
        contents, kept = {*tensors.inputs, *tensors.constants}, {*tensors.kept}
        key = core.machine, core.options, contents, kept
        if tables.planned is None or tables.planned[0] != key:
            rows, alone = (tables.rows, tables.begins), [*tables.begun, *tables.branches]
            on_what = self.program, rows, self.plans, tables.values, core
            tables.planned = key, Batches(*on_what, contents=contents, kept=kept, alone=alone)
        return BatchesOnCore(tables.planned[1], core)

    def check_branches(self) -> None:
        """Raise OtherPath if the kernel branches before the next instruction on a register whose
        value differs from the record."""
        for number, value, line in self._tables.branches.get(self.row, ()):
            actual = self.registers.value(number)
            if actual != value:
                where = f"{self.program.place(line)}: " if line >= 0 else ""
                raise OtherPath(
                    f"{where}with these inputs the kernel takes a different path than the record: "
                    f"it branches on a register that is {actual}, and was {value} in the record; "
                    "run the kernel on these inputs instead",
                    self._decided(actual),
                )

    def _decided(self, actual: int) -> tuple[int, ...]:
        """Return the values on which the kernel has branched: those of the record, and then
        `actual`."""
        rows, _, values, _ = np.array(self.program.data.branches, np.int64).reshape(-1, 4).T
        checked = [*values[rows < self.row].tolist()]
        for number, value, _ in self._tables.branches[self.row]:
            if self.registers.value(number) != value:
                break
            checked.append(value)
        return (*checked, actual)

    def operand(self, name: str) -> Tile | None:
        """Return the tile of the next instruction's operand `name` at its current offset, or None.

        If an index chooses rows or elements, return a tile with all from which it chooses."""
        row = self._row()
        plan = self.plans[row[0]]
        if name not in plan.operands:
            return None
        tiles = self._moved(plan, row) if plan.call.dynamic else {}
        at = plan.operands[name]
        tile = tiles.get(at) or self._tile(row[at])
        if tile.picks is not None:
            return tile.picked_from
        if tile.dynamic and tile.dynamic[0].vector:
            return Tile.of(tile.storage)
        return tile.resolved(name) if tile.dynamic else tile

    @property
    def call(self) -> Call:
        """The call of the next instruction."""
        return self.plans[self._row()[0]].call

    def written(self) -> dict[int, Storage]:
        """Return the storages that the next instruction will write, by number."""
        row, storages = self._row(), {}
        plan = self.plans[row[0]]
        for at in map(plan.operands.__getitem__, plan.call.writes):
            number = self._tables.storage[row[at]]
            layout = self.program.geometries[self._tables.geometry[row[at]]].layout
            storages[number] = self.tensors.get(self.core, number, layout).storage
        return storages

    def write_zeros(self, tiles: Sequence[Tile | None]) -> None:
        """Write zeros to the tiles that are not None, as an instruction of this core writes."""
        with on(self.core):
            for tile in tiles:
                if tile is not None:
                    tile.store(np.zeros(tile.shape, np.float32))

    def result(self, leaf: Leaf) -> Tile:
        """Return the tile for `leaf`, a tensor among the kernel's results."""
        return self._window_on(leaf.storage, self.program.geometries[leaf.geometry], leaf.offset)

    # --- arguments -------------------------------------------------------------------------------

    def _row(self) -> list[int]:
        at = self.row - self._first
        if not 0 <= at < len(self._chunk):
            self._first, at = self.row, 0
            begins = self._tables.begins[self.row : self.row + CHUNK + 1].tolist()
            flat = self._tables.rows[begins[0] : begins[-1]].tolist()
            ends = [end - begins[0] for end in begins]
            self._chunk = [flat[i:j] for i, j in pairwise(ends)]
        return self._chunk[at]

    def _arguments(self, plan: ArgumentPlan, row: list[int]) -> list[Any]:
        arguments, known = plan.constants.copy(), self._tiles
        moved = self._moved(plan, row) if plan.call.dynamic else {}
        for slot, at in plan.tiles:
            window = row[at]
            arguments[slot] = known.get(window) or moved.get(at) or self._tile(window)
        for slot, places in plan.lists:
            arguments[slot] = [moved.get(at) or self._tile(row[at]) for at in places]
        if plan.values:
            values = self._tables.values[row[-1]]
            for slot, i in plan.values:
                value = values[i]
                arguments[slot] = self._register(value) if type(value) is RegisterId else value
        if plan.loads >= 0:
            arguments[plan.loads] = VirtualRegister()
        return arguments

    def _register(self, register: RegisterId) -> VirtualRegister:
        return VirtualRegister(self.registers.value(register.number))

    def _tile(self, window: int) -> Tile:
        """Return the tile of a window whose offset does not depend on the run."""
        tile = self._tiles.get(window)
        if tile is None:
            geometry, offset = (
                self.program.geometries[self._tables.geometry[window]],
                self._tables.offset[window],
            )
            tile = self._tiles[window] = self._window_on(
                self._tables.storage[window], geometry, offset
            )
        return tile

    def _window_on(self, storage: int, geometry: Geometry, offset: int) -> Tile:
        root = self.tensors.get(self.core, storage, geometry.layout)
        return root if geometry is root.geometry else root.at(geometry, offset)

    def _moved(self, plan: ArgumentPlan, row: list[int]) -> dict[int, Tile]:
        """Return the tiles whose offsets are only known at run time, by position in the record of
        the instruction. There, index tiles come after the operands that are read. In its values,
        index registers come after the parameters. Both are in the order of `Call.dynamic`."""
        call, tiles = plan.call, {}
        first = 2 + len(call.reads)
        indices = iter(row[first : first + len(call.indices)])
        registers = iter(self._tables.values[row[-1]][len(call.instruction.values) :])
        for name in call.dynamic:
            at = plan.operands[name]
            moving = self._tables.moving[row[at]]
            number, offset = self._tables.places[moving]
            geometry = self.program.geometries[number]
            tile = self._window_on(self._tables.storage[row[at]], geometry, offset)
            moves = tuple(
                self._move(move, indices, registers) for move in self._tables.moves[moving]
            )
            tiles[at] = Tile(tile.storage, geometry, offset, moves)
        return tiles

    def _move(
        self, move: tuple[int, ...], indices: Iterator[int], registers: Iterator[Any]
    ) -> Dynamic:
        kind, step, limit, by_register = move
        index = self._register(next(registers)) if by_register else self._tile(next(indices))
        return Dynamic(index, step, limit, vector=kind == 1, picks=kind == 2)

    # --- freeing ---------------------------------------------------------------------------------

    def _free(self, window: int) -> None:
        """Free a tile or a tensor after its last use. The number is a window w, or -1 - w for the
        storage of window w."""
        if window >= 0:
            self._tiles.pop(window, None)
            return
        window = -1 - window
        layout = self.program.geometries[self._tables.geometry[window]].layout
        if layout.on_chip:
            self.tensors.free(self._tables.storage[window])
