"""Replays: executes the programs of a record instruction by instruction, forward and back."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from neuroncore.base.errors import DeadlockError, UsageError
from neuroncore.core import undefined
from neuroncore.core.core import Core, launch_memory, on
from neuroncore.core.system import cores_together
from neuroncore.memory.storage import Storage
from neuroncore.memory.tile import Array, Tile
from neuroncore.numerics import codec
from neuroncore.numerics.formats import Format
from neuroncore.numerics.stochastic import Stochastic
from neuroncore.record.inputs import Setting, is_leaf, is_tile, leaves, mapped
from neuroncore.record.program import Record
from neuroncore.replay import batches
from neuroncore.replay.execution import Execution, Syncs, Waits
from neuroncore.replay.tensors import (
    Content,
    Snapshot,
    Tensors,
    content,
    inputs_in_memory,
    narrow_inputs,
    state,
)

# A function that chooses the next core. Its argument lists the cores that can continue. It returns
# one of these cores, or None if the list is empty.
Turns = Callable[[Sequence[int]], int | None]
ROOM = 1 << 30  # the bytes that all snapshots together may take
APART = 64  # the initial distance between snapshots, in steps


class Values(NamedTuple):
    """The elements of a tile. `unwritten` flags the elements that were never written; None if all
    were.

    Such an element has the value that an instruction would read: poison (NaN for floats), or 0 if
    Options.uninitialized is "zeros"."""

    elements: Array
    unwritten: Array | None


class Replay:
    """A record that is executed again, forward or back.

    The position of a replay is before a step, or at the end. A step is one instruction of one core.
    Steps of several cores are in the order of the run. The replay returns the contents of tiles at
    its position.

    `inputs` is one of these: a dictionary of arrays by name, a sequence of arrays in the order of
    the record's inputs, or a sequence with the inputs of each rank. By default, the inputs of the
    run are used, if the record contains them.

    To move back, the replay restores a snapshot, and executes the steps after it. All snapshots
    together take at most `snapshots` bytes. If this is 0, moving back begins at the first step.

    `turns` is a function that chooses the core of the next step (`Turns`). Its argument is the list
    of the cores that can continue. The list begins with the core of the last step, if this core can
    continue. Without `turns`, the first core in the list continues, as in the run.

    Raises UsageError for inputs with other names, shapes or formats, for an incomplete record, and
    if the kernel would take another branch with these inputs. Raises KernelError, with the kernel's
    line, if the device would refuse an instruction."""

    def __init__(
        self,
        record: Record,
        inputs: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        snapshots: int = ROOM,
        turns: Turns | None = None,
    ) -> None:
        setting = _complete(record)
        if inputs is not None and any(program.data.skipped for program in record.programs):
            raise UsageError(
                "the record can't be replayed on other inputs: the kernel skipped an access whose "
                "index was out of bounds, or returns a view at an index, and the record does not "
                "have this index. The index may depend on the inputs: run the kernel on the other "
                "inputs instead"
            )
        self.record, self.setting, self.room = record, setting, snapshots
        self.world = setting.world
        self.cores = _cores(setting)
        inputs_by_storage = inputs_in_memory(setting, inputs, self.cores[0].memory)
        self._tensors = Tensors(self.cores, record.programs, inputs_by_storage)
        # the original inputs for which memory has wider formats, which lose bits of NaN
        self._narrow = narrow_inputs(setting, inputs, self.cores[0].memory)
        self.executions = [
            Execution(program, core, self._tensors)
            for program, core in zip(record.programs, self.cores, strict=True)
        ]
        self._together = len(self.cores) > 1 and self.world.cores <= cores_together(setting.machine)
        self._syncs = Syncs()
        self._order = array("h")  # the core of each step that was executed
        self._snapshots: list[Snapshot] = []
        self._apart = APART
        self._due = 0  # the bytes that instructions write before the next snapshot is due
        self._last, self.turns = 0, turns
        self._set_peers()
        self.step = 0

    def _set_peers(self) -> None:
        for core in self.cores:
            core.peers = self._syncs if self._together else None

    @cached_property
    def steps(self) -> int:
        """The number of instructions of all cores."""
        return sum(len(program) for program in self.record.programs)

    # --- moving ----------------------------------------------------------------------------------

    def to(self, instruction: int, core: int = 0) -> None:
        """Move to the position before an instruction of a core. The number of the core's
        instructions means the core's end."""
        execution = self.executions[core]
        if not 0 <= instruction <= len(execution.program):
            raise UsageError(
                f"core {core} has no instruction {instruction}: it has {len(execution.program)}"
            )
        if execution.row > instruction:
            self.to_step(int(np.flatnonzero(self.order == core)[instruction]))
        while execution.row < instruction:
            self.forward()

    def to_step(self, step: int) -> None:
        """Move to the position before step `step`, or to the end if `step` equals `steps`."""
        if not 0 <= step <= self.steps:
            raise UsageError(f"the record has no step {step}: it has {self.steps} steps")
        if step < self.step:
            self._return_to(step)
        with np.errstate(all="ignore"):
            while self.step < step:
                if len(self.cores) > 1 or self.turns is not None:
                    self._step_next()
                else:
                    self._run_to(step)

    def forward(self) -> None:
        """Execute one step. Raise UsageError at the end."""
        self.to_step(self.step + 1)

    def back(self) -> None:
        """Move back by one step. Raise UsageError at the beginning."""
        self.to_step(self.step - 1)

    def finish(self) -> None:
        """Execute all remaining steps."""
        self.to_step(self.steps)
        for execution in self.executions:
            execution.check_branches()

    @property
    def last(self) -> int:
        """The core of the last step, or a core that was tried afterwards and had to wait."""
        return self._last

    @property
    def order(self) -> Array:
        """The number of the core that executed each step so far, in the order of the steps."""
        return np.array(self._order, np.int16)

    # --- contents --------------------------------------------------------------------------------

    @property
    def next(self) -> tuple[int, int] | None:
        """The core of the next step and the number of its instruction; None at the end."""
        if self.step == self.steps:
            return None
        core = self._next_core()
        return core, self.executions[core].row

    def tile(self, instruction: int, name: str, core: int = 0, *, after: bool = False) -> Values:
        """Move to an instruction, and return its operand `name` before it runs (or `after`).

        The elements have the numpy type of the format. If an index chooses elements or rows, return
        all from which it chooses. Raise UsageError if `name` is not a tile of the instruction."""
        self.to(instruction, core)
        execution = self.executions[core]
        operand = None if execution.over else execution.operand(name)
        if operand is None:
            raise UsageError(f"instruction {instruction} of core {core} has no tile {name!r}")
        if after:
            while execution.row == instruction:
                self.forward()
        elements = np.array(undefined.contents(operand, self.setting.options.undefined_as_zeros))
        return Values(elements, operand.missing())

    def results(self) -> Any:
        """Move to the end, and return the kernel's results as numpy arrays; a list of them for
        several ranks.

        If the kernel returns no tensor, the results are a tuple of the inputs that it changed."""
        self.finish()
        results = [self._results_of(rank) for rank in range(self.world.ranks)]
        return results if len(results) > 1 else results[0]

    def _results_of(self, rank: int) -> Any:
        numbers = self.world.cores_of(rank)
        returned, *others = [self._returned(self.executions[number]) for number in numbers]
        for other in others:
            for _ in undefined.complete(returned, other):
                pass
        if not leaves(self.record.programs[numbers[0]].data.results):
            return tuple(self._changed(rank).values())
        return mapped(returned, self._elements, is_tile)

    def changed(self) -> dict[str, Array]:
        """Return the current contents, by name, of the inputs that the kernel writes to."""
        return self._changed(None)

    def _changed(self, rank: int | None) -> dict[str, Array]:
        """Return the changed inputs of `rank`, or of all ranks if `rank` is None."""
        written, roots = self._tensors.written, self._tensors.roots
        inputs = (item for item in self.setting.inputs if rank in (None, item.rank))
        names = {item.storage: item.name for item in inputs}
        changed = [number for number in names if number in written and number in roots]
        return {names[number]: self._elements(roots[number]).copy() for number in changed}

    def _returned(self, execution: Execution) -> Any:
        return mapped(execution.program.data.results, execution.result, is_leaf)

    def _elements(self, tile: Tile) -> Array:
        elements = undefined.contents(tile, self.setting.options.undefined_as_zeros)
        form = self._format_for_caller(tile)
        if form is tile.held:
            return elements
        narrow = codec.encode(form, elements).view(form.numpy).reshape(tile.shape)
        (number,) = (n for n, root in self._tensors.roots.items() if root.storage is tile.storage)
        return np.where(self._tensors.changed(number), narrow, self._narrow[number])

    def _format_for_caller(self, tile: Tile) -> Format:
        """Return the format in which the caller gets a tensor: the input's format for a whole
        input, otherwise the format in memory."""
        roots = (self._tensors.roots.get(item.storage) for item in self.setting.inputs)
        inputs = [root.storage for root in roots if root is not None]
        return tile.dtype if tile.storage in inputs and tile.is_storage else tile.held

    # --- one step --------------------------------------------------------------------------------

    def _next_core(self) -> int:
        """Return the core that executes the next step.

        It is the choice of `turns`, if given. Otherwise it is the core that was tried last, or the
        next that can continue. Raise DeadlockError if none can."""
        count = len(self.cores)
        in_turn = ((self._last + i) % count for i in range(count))
        able = (n for n in in_turn if not (self.executions[n].over or n in self._syncs.waiting))
        rank = next(able, None) if self.turns is None else self.turns([*able])
        if rank is not None:
            return rank
        raise DeadlockError("the cores of the record wait for each other")

    def _step_next(self) -> None:
        """Execute the next instruction that does not have to wait for a core."""
        if self._is_due():
            self._take_snapshot()
        for _ in self.cores:  # each starts an instruction at most once before some core ends one
            rank = self._last = self._next_core()
            if self._attempt(rank):
                break
        else:
            raise DeadlockError("the cores of the record wait for each other")
        if len(self._order) == self.step:
            self._order.append(rank)
        self.step += 1

    def _run_to(self, step: int) -> None:
        """Execute instructions of a record with one core, up to a step or until a snapshot is
        due."""
        if self._is_due():
            self._take_snapshot()
        end = min(step, (self.step // self._apart + 1) * self._apart) if self.room else step
        execution = self.executions[0]
        in_batches = not self.room and batches.are_worth(end - self.step)
        with on(self.cores[0]):
            try:
                while execution.row < end:
                    if in_batches:
                        execution.advance(end)
                    else:
                        execution.step()
            finally:
                self.step = execution.row
                self._order.extend([0] * (self.step - len(self._order)))

    def _attempt(self, number: int) -> bool:
        """Execute the next instruction of a core. Return False if it has to wait for other
        cores."""
        execution, core = self.executions[number], self.cores[number]
        before = core.rounding.issued.copy() if core.rounding and execution.meets else None
        try:
            with on(core):
                execution.step()
        except Waits:
            if core.rounding is not None and before is not None:
                core.rounding.issued = before
            return False
        return True

    # --- going back ------------------------------------------------------------------------------

    def _is_due(self) -> bool:
        """Return whether to take a snapshot before the next step.

        A snapshot is due before the first step. Later, a snapshot is due at every `_apart`-th step
        if the number of bytes written since the last snapshot is at least the number of bytes that
        the last snapshot copied. So copying takes no longer than executing."""
        if self.step == 0 or not self.room or self.step % self._apart:
            return self.step == 0
        return self._written() >= self._due

    def _written(self) -> int:
        return sum(execution.wrote for execution in self.executions)

    def _take_snapshot(self) -> None:
        """Take a snapshot of this step, unless this or a later step has one.

        Only the first snapshot may copy more than `room` bytes (the argument `snapshots` of
        Replay). If all snapshots together exceed `room` bytes, keep every second snapshot."""
        last = self._snapshots[-1] if self._snapshots else None
        if last is not None and last.step >= self.step:
            return
        copied = self._to_copy(last)
        self._due = self._written() + copied
        if copied > self.room and last is not None:
            return
        self._snapshots.append(self._snapshot(last))
        if sum(snapshot.nbytes for snapshot in self._snapshots) > self.room:
            self._apart *= 2
            self._snapshots = [s for s in self._snapshots if s.step % self._apart == 0]

    def _changing(self) -> dict[int, Storage]:
        """Return the storages that the programs write to, by their numbers."""
        roots = self._tensors.roots.items()
        return {n: root.storage for n, root in roots if n in self._tensors.written}

    def _to_copy(self, last: Snapshot | None) -> int:
        """Return the size in bytes of the storages changed since the last snapshot."""
        known = last.contents if last else {}
        changing = self._changing().items()
        return sum(s.nbytes for n, s in changing if n not in known or known[n].version != s.version)

    def _snapshot(self, last: Snapshot | None) -> Snapshot:
        """Return a new snapshot, which shares unchanged storages with the snapshot `last`."""
        contents: dict[int, Content] = {}
        new = 0
        storages = self._changing()
        for number, storage in storages.items():
            saved = last.contents.get(number) if last else None
            if saved is None or saved.version != storage.version:
                saved = content(self._tensors.owners[number], storage)
                new += saved.data.nbytes
            contents[number] = saved
        issued = [rounding.issued.copy() for rounding in self._roundings()]
        cores = tuple(
            state(e.core, e.row, e.registers.loaded, [*storages.values()]) for e in self.executions
        )
        return Snapshot(
            step=self.step,
            last=self._last,
            contents=contents,
            cores=cores,
            issued=issued,
            syncs=self._syncs.copy(),
            nbytes=new + sum(core.nbytes for core in cores),
        )

    def _roundings(self) -> list[Stochastic]:
        """Return the state of stochastic rounding of each rank; an empty list if there is none."""
        firsts = (self.cores[self.world.cores_of(rank)[0]] for rank in range(self.world.ranks))
        return [core.rounding for core in firsts if core.rounding is not None]

    def _return_to(self, step: int) -> None:
        """Restore the last snapshot of this or an earlier step. Step 0 always has one."""
        *_, snapshot = (s for s in self._snapshots if s.step <= step)
        unchanged = {n: r for n, r in self._tensors.roots.items() if n not in self._tensors.written}
        self._tensors.roots = unchanged
        for each in self.cores:
            each.hbm.lasting = 0
        for number, saved in snapshot.contents.items():
            root = self._tensors.get(saved.core, number, saved.layout)
            saved.restore(root.storage)
        storages = [self._tensors.roots[n].storage for n in snapshot.contents]
        for execution, core in zip(self.executions, snapshot.cores, strict=True):
            core.restore(execution.core, storages)
            execution.registers.loaded = dict(core.loaded)
            execution.restart(core.row)
        for rounding, issued in zip(self._roundings(), snapshot.issued, strict=True):
            rounding.issued = issued.copy()
        self._syncs = Syncs()
        self._syncs.complete = dict(snapshot.syncs.complete)
        self._set_peers()
        for rank in snapshot.syncs.waiting:
            self._attempt(rank)
        self._last, self.step = snapshot.last, snapshot.step


def _complete(record: Record) -> Setting:
    """Return the settings of a launch. Raise UsageError if settings or instructions are missing."""
    if record.setting is None:
        raise UsageError("the record can only be timed: it lacks the data to execute the programs")
    short = [program.coverage for program in record.programs if program.left_out]
    if short:
        raise UsageError(
            f"the record covers {short[0]}: only a record of the whole run can be executed "
            "(Options.record_limit is the largest number of instructions)"
        )
    return record.setting


def _cores(setting: Setting) -> list[Core]:
    """Return new cores with the settings of the run, rank by rank."""
    options = replace(setting.options, record=False, precision=False)
    cores, world = [], setting.world
    for rank in range(world.ranks):
        shared = launch_memory(options, rank)
        for number in world.cores_of(rank):
            program, on_what = world.core(number), (setting.machine, options)
            core = Core(*on_what, program, setting.grid, shared, number=number, world=world)
            core.defers_undefined = True
            cores.append(core)
    return cores
