"""Batches: consecutive instructions of a program that compiled code executes in one call. A Call is
a distinct instruction, which equal instructions share, and its Run is the function that executes
it. An instruction may be in a batch if compiled code can execute the steps of its Run (its
template, `neuroncore.replay.templates`), and if it can't cause an error, a finding or a branch. The
tensors that only one batch uses are in one block of memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from neuroncore.base import buffers, jit
from neuroncore.base.enums import MemoryRegion
from neuroncore.base.errors import KernelError
from neuroncore.base.lazy import Lazy
from neuroncore.clause.alu import steps_of
from neuroncore.core.arguments import ArgumentPlan
from neuroncore.core.binding import stage
from neuroncore.core.core import Core
from neuroncore.memory.geometry import Geometry
from neuroncore.memory.storage import Storage
from neuroncore.memory.tile import Array, Tile
from neuroncore.numerics import codec
from neuroncore.record.columns import tiles_of, valued
from neuroncore.record.inputs import RegisterId
from neuroncore.record.program import Program
from neuroncore.replay.templates import Templates
from neuroncore.replay.tensors import Tensors

if TYPE_CHECKING:
    from neuroncore.replay import loops
else:
    loops = Lazy("neuroncore.replay.loops")

LEAST = 4  # a template is only made for at least this many instructions
FEWEST = 100  # batches are only used if at least this many instructions are executed
# To start a batch takes as long as to execute START instructions one by one, and SHARED
# instructions more for each tensor that the batch shares with other instructions.
START, SHARED = 4.0, 0.75
LONG = 10  # with this many instructions, a typical batch is faster than single instructions


def are_worth(rows: int) -> bool:
    """Return whether compiled code should execute `rows` instructions now: importing numba pays
    only for more than `jit.COLD` instructions."""
    is_there = "numba" in sys.modules or rows > jit.COLD
    return rows >= FEWEST and is_there and loops.execute.over(rows) is loops.execute


def load() -> None:
    """Compile the code that executes batches, or load code that was compiled before."""
    none, steps = np.empty(0, np.int64), np.empty((0, loops.WIDTH), np.int64)
    columns = {**dict.fromkeys(loops.Table._fields, none), "steps": steps}
    loops.execute(loops.Table(**columns), 0, 0)
    loops.place(none, none, none, none, none, none)


class Shared(NamedTuple):
    """A tensor that a batch shares with other instructions.

    `storage`: its position in `Batches.numbers`
    `writes`, `first`: the number of writes, and the first one's position in `Batches.written`
    `doubtful`: whether the batch reads elements that may be unwritten"""

    storage: int
    writes: int
    first: int
    doubtful: bool


class Uses(NamedTuple):
    """The first and the last instruction that use each tensor, and whether the first has a template
    and writes the whole tensor.

    `after_parts`: the operands that read a tensor whose previous use wrote only a part of it, in a
        instruction with a template"""

    first_row: Array
    last_row: Array
    starts_full: Array
    after_parts: Array


class Batches:
    """The batches of a program, shared by all its replays (`BatchesOnCore`).

    `ends`: maps the first instruction of each batch to the instruction after it
    `contents`: the storages with contents before the first instruction
    `kept`: the storages of results
    `alone`: the instructions that must not be in a batch"""

    def __init__(
        self,
        program: Program,
        rows: tuple[Array, Array],
        plans: Sequence[ArgumentPlan],
        values: Sequence[Sequence[Any]],
        core: Core,
        *,
        contents: set[int],
        kept: set[int],
        alone: Sequence[int],
    ) -> None:
        self.ends: dict[int, int] = {}
        self._operands, self._row = program.operand_windows(), program.users()
        if core.hbm.rounding is not codec.encode or core.hbm.wide or not len(self._operands):
            return
        self.geometries = program.geometries
        self._rows, self._begins = rows
        windows = program.windows()
        self.geometry, self.offset = windows.geometry, windows.offset
        storages = program.storages()
        self.numbers, self._storage = storages.number, storages.of_window
        self._window = np.empty(len(self.numbers), np.int64)  # a window of each storage
        self._window[self._storage] = np.arange(len(self._storage))
        self._call = self._rows[self._begins[:-1]]
        if not _are_long(np.array([_may_have_steps(plan) for plan in plans], np.bool_)[self._call]):
            return
        self._start = np.concatenate([[0], np.cumsum(tiles_of(program.calls)[self._call])])
        self._of_operand = self._storage[self._operands]
        self._is_read = program.is_read()
        self.templates = Templates()
        has_values = valued(program.calls)[self._call]
        value = np.where(has_values, self._rows[self._begins[1:] - 1], -1)
        key = self._call * (len(values) + 1) + value + 1
        self._template = self._templates(
            key, lambda row: self._new_template(row, plans, values, core)
        )
        self._template[[row for row in alone if row < len(self._call)]] = -1
        self._exclude_overlaps()
        if _are_long(self._template >= 0):
            self._find(contents, kept)

    # --- templates of instructions ----------------------------------------------------------------

    def _templates(self, key: Array, new: Callable[[int], int]) -> Array:
        """Return each instruction's template, by number; -1 for none. Instructions with equal keys
        share a template, which `new` makes from one of them."""
        _, first, of_row, count = np.unique(
            key, return_index=True, return_inverse=True, return_counts=True
        )
        numbers = [
            new(row) if rows >= LEAST else -1
            for row, rows in zip(first.tolist(), count.tolist(), strict=True)
        ]
        templates: Array = np.array(numbers, np.int64)[of_row.reshape(-1)]
        return templates

    def _new_template(
        self,
        row: int,
        plans: Sequence[ArgumentPlan],
        values_of: Sequence[Sequence[Any]],
        core: Core,
    ) -> int:
        """Add a template for instructions like this one. Return its number, or -1 if none is
        possible."""
        plan = plans[self._call[row]]
        call, instruction = plan.call, plan.call.instruction
        if not _may_have_steps(plan):
            return -1
        (result,) = (p.operand for p in instruction.operands if p.name in call.writes)
        if result.partial and call.view(*call.writes).region is MemoryRegion.psum:
            return -1  # it does not mark the elements as written by an engine other than Tensor
        fields = self._rows[self._begins[row] : self._begins[row + 1]].tolist()
        tiles = {at: self._example(fields[at], core) for at in plan.operands.values()}
        values = values_of[fields[-1]] if plan.values else ()
        if any(isinstance(value, RegisterId) for value in values):
            return -1
        arguments = plan.constants.copy()
        for slot, at in plan.tiles:
            arguments[slot] = tiles[at]
        for slot, i in plan.values:
            arguments[slot] = values[i]
        by_name = dict(zip((p.name for p in instruction.parameters), arguments, strict=False))
        windows = {id(tile): at for at, tile in tiles.items()}
        try:
            run = stage(call, by_name, core)
            steps = steps_of(run, *[by_name[name] for name in instruction.varying_names])
        except KernelError:
            return -1
        if steps is None:
            call.results[__name__] = False
            return -1
        return self.templates.add(by_name[call.writes[0]], steps, windows, fields)

    def _example(self, window: int, core: Core) -> Tile:
        """Return a tile without memory for a window."""
        geometry, hbm = self.geometries[self.geometry[window]], core.hbm
        storage = Storage(-1, geometry.layout, hbm.held(geometry.layout.dtype))
        storage.launch = hbm
        return Tile(storage, geometry, int(self.offset[window]))

    def _exclude_overlaps(self) -> None:
        """Remove the templates of instructions that read and write different windows of one
        tensor."""
        result = self._operands[self._start[1:] - 1]
        other = self._operands != result[self._row]
        other &= self._of_operand == self._storage[result][self._row]
        self._template[self._row[other]] = -1

    # --- batches of instructions ------------------------------------------------------------------

    def _find(self, contents: set[int], kept: set[int]) -> None:
        """Find the batches, and the tensors that they share with other instructions."""
        uses, geometries = self._uses(), self.geometries
        self.last_rows = uses.last_row.tolist()
        of_storage = self.geometry[self._window].tolist()
        layouts = [geometries[geometry].layout for geometry in of_storage]
        self.place_of = [*zip(self.numbers.tolist(), layouts, strict=True)]
        # Tensors with elements that may be unwritten. A batch checks for such elements only when
        # it starts. So if a part of such a tensor is written, the next read begins a new batch.
        self._doubtful = ~(uses.starts_full | np.isin(self.numbers, [*contents]))
        after = uses.after_parts
        batch = self._split(self._row[after[self._doubtful[self._of_operand[after]]]])
        on_chip = np.array([g.layout.on_chip for g in geometries], np.bool_)
        local = on_chip[self.geometry[self._window]] & ~np.isin(self.numbers, [*kept])
        local &= uses.starts_full & (batch[uses.last_row] >= 0)
        local &= batch[uses.first_row] == batch[uses.last_row]
        self.base, self.local = np.zeros(len(self.numbers), np.int64), np.flatnonzero(local)
        self._place(uses)
        self._share(batch[self._row], ~local[self._of_operand])
        self.table = loops.Table(
            rows=self._rows,
            begins=self._begins,
            template=self._template,
            steps_of=np.array(self.templates.begins, np.int64),
            steps=np.array(self.templates.steps, np.int64).reshape(-1, loops.WIDTH),
            storage=self._storage,
            starts=_starts(geometries, self.geometry, self.offset),
            base=self.base,
            fixed=np.empty(0, np.int64),
        )

    def _uses(self) -> Uses:
        order = np.argsort(self._of_operand, kind="stable")
        storage, reads = self._of_operand[order], self._is_read[order]
        new = np.append(True, storage[1:] != storage[:-1])
        fills = np.array([g.fills for g in self.geometries], np.bool_)
        full = fills[self.geometry[self._operands]]
        self._fills = ~self._is_read & full & (self._template[self._row] >= 0)
        first, parts = order[new], ~reads & ~full[order] & (self._template[self._row[order]] >= 0)
        return Uses(
            first_row=self._row[first],
            last_row=self._row[order[np.append(new[1:], True)]],
            starts_full=self._fills[first],
            after_parts=order[1:][~new[1:] & parts[:-1] & reads[1:]],
        )

    def _split(self, cuts: Array) -> Array:
        """Divide the instructions into batches that end before the instructions `cuts`, and set
        `ends`. Return the first instruction of each instruction's batch; -1 for none."""
        inside, cut = self._template >= 0, np.zeros(len(self._call), np.bool_)
        cut[cuts] = True
        begins = inside & (cut | ~np.append(False, inside[:-1]))
        first = np.flatnonzero(begins)
        length = np.bincount(np.cumsum(begins)[inside] - 1, minlength=len(first))
        batch, chosen = np.full(len(inside), -1, np.int64), length > START
        batch[inside] = np.repeat(np.where(chosen, first, -1), length)
        ends = first[chosen] + length[chosen]
        self.ends = dict(zip(first[chosen].tolist(), ends.tolist(), strict=True))
        return batch

    def _place(self, uses: Uses) -> None:
        """Choose positions in one block of memory for tensors that only one batch uses."""
        self.total = 0  # bytes of the block
        local = self.local[np.argsort(uses.first_row[self.local], kind="stable")]
        if not len(local):
            return
        sizes = np.array([g.layout.nbytes for g in self.geometries], np.int64)
        nbytes = sizes[self.geometry[self._window[local]]]
        size, kind = np.unique(-(-nbytes // buffers.CACHE_LINE), return_inverse=True)
        size, at = size * buffers.CACHE_LINE, np.empty(len(local), np.int64)
        first, last = uses.first_row[local], uses.last_row[local]
        by_last = np.argsort(last, kind="stable")
        self.total = loops.place(first, last, by_last, kind.reshape(-1), size, at)
        self.base[local] = at

    def _share(self, batch: Array, shared: Array) -> None:
        """List the shared tensors of each batch. Remove a batch that would be slower than
        single instructions.

        `batch`: the first instruction of each operand's batch; -1 for none
        `shared`: flags operands on shared tensors"""
        used = np.flatnonzero(shared & (batch >= 0))
        used = used[np.lexsort((self._of_operand[used], batch[used]))]
        storage, of_batch = self._of_operand[used], batch[used]
        begins = np.flatnonzero(
            np.append(True, (np.diff(storage) != 0) | (np.diff(of_batch) != 0))[: len(used)]
        )
        read = self._is_read[used]
        self.written = self._operands[used[~read]].tolist()
        writes = np.add.reduceat(~read, begins, dtype=np.int64) if len(begins) else begins
        storage, of_batch = storage[begins], of_batch[begins]
        reads = np.diff(np.append(begins, len(used))) - writes
        doubtful = self._doubtful[storage] & (reads > 0) & ~self._fills[used[begins]]
        columns = storage, writes, np.cumsum(writes) - writes, doubtful
        listed = [*map(Shared, *(column.tolist() for column in columns))]
        firsts = np.array([*self.ends], np.int64)
        begin, end = (np.searchsorted(of_batch, firsts, side) for side in ("left", "right"))
        lengths = np.array([*self.ends.values()], np.int64) - firsts
        worth = lengths > START + SHARED * (end - begin)
        bounds = zip(begin[worth].tolist(), end[worth].tolist(), strict=True)
        of_first = zip(firsts[worth].tolist(), bounds, strict=True)
        self.shared = {first: listed[low:high] for first, (low, high) in of_first}
        self.ends = {first: self.ends[first] for first in self.shared}

    # --- executing -------------------------------------------------------------------------------


class BatchesOnCore:
    """Executes the batches of a program on the core of one replay, with separate memory."""

    def __init__(self, batches: Batches, core: Core) -> None:
        self._batches, self._core = batches, core
        self.ends = batches.ends
        if not self.ends:
            return
        fixed, self._memory = batches.templates.memory()
        self._base, block = batches.base.copy(), buffers.fresh(batches.total)
        self._base[batches.local] += _address(block)
        self._memory.append(block)
        self._table = batches.table._replace(base=self._base, fixed=fixed)

    def run(self, first: int, tensors: Tensors) -> bool:
        """Execute the batch that begins with instruction `first`. Return False, without executing
        anything, if only `Execution.step` can execute one of its instructions."""
        core, batches = self._core, self._batches
        shared = batches.shared[first]
        if core.undefined is not None or core.watch is not None or core.shadow is not None:
            return False
        storages = []
        for each in shared:
            number, layout = batches.place_of[each.storage]
            storage = tensors.get(core, number, layout).storage
            if each.doubtful and storage.gaps is not None:
                return False
            storages.append(storage)
        for each, storage in zip(shared, storages, strict=True):
            self._base[each.storage] = _address(storage.settled) + storage.origin
        end = self.ends[first]
        loops.execute(self._table, first, end)
        for each, storage in zip(shared, storages, strict=True):
            if each.writes:
                self._note_writes(each, storage)
            if storage.on_chip and batches.last_rows[each.storage] < end:
                tensors.free(batches.place_of[each.storage][0])
        return True

    def _note_writes(self, each: Shared, storage: Storage) -> None:
        """Record in `storage` that a batch has written to this tensor."""
        storage.version += each.writes
        batches = self._batches
        psum = storage.region is MemoryRegion.psum
        if not psum and storage.gaps is None:
            return
        for window in dict.fromkeys(batches.written[each.first : each.first + each.writes]):
            geometry = batches.geometries[batches.geometry[window]]
            tile = Tile(storage, geometry, int(batches.offset[window]))
            tile.mark_written()
            if psum:
                tile.mark_other_engine(True)


def _may_have_steps(plan: ArgumentPlan) -> bool:
    """Return whether instructions with this Call may have a template: not if the Run had no steps
    for an earlier instruction."""
    call = plan.call
    simple = call.instruction.staged and not (call.dynamic or plan.lists or call.transposes)
    return simple and len(call.writes) == 1 and call.results.get(__name__, True)


def _are_long(rows: Array) -> bool:
    """Return whether at least a quarter of all instructions have a flag and are in sequences of at
    least LONG flags."""
    bounds = np.flatnonzero(np.diff(np.concatenate([[False], rows, [False]])))
    lengths = bounds[1::2] - bounds[::2]
    return bool(4 * lengths[lengths >= LONG].sum() >= len(rows) > 0)


def _starts(geometries: Sequence[Geometry], geometry: Array, offset: Array) -> Array:
    """Return the position of the first element of each window, in bytes (`Geometry.start`)."""
    layouts = [g.layout for g in geometries]
    item, row, pitch, spread = (
        np.array(column, np.int64)[geometry]
        for column in (
            [g.dtype.itemsize for g in geometries],
            [max(layout.row_bytes, 1) for layout in layouts],
            [layout.pitch for layout in layouts],
            [layout.spread for layout in layouts],
        )
    )
    rows, columns = np.divmod(offset * item, row)
    starts: Array = rows * pitch + columns * spread
    return starts


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])
