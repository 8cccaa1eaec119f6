"""An iteration of a loop that is made from an earlier one (`templates`), event by event.

The function of an instruction (`issue`) binds and checks its arguments. When a step is issued the
second time, it has a tile for each tile of the first, with an equal View, and equal other
arguments; so its Call is the same, and so is its row in the record, except for storages and
offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from struct import unpack_from
from typing import Any, NamedTuple

from neuroncore.base.errors import KernelError, NeuronError
from neuroncore.clause.instruction import Call
from neuroncore.core.arguments import Held, plan, values_of
from neuroncore.core.binding import NOT_OURS, our_fault
from neuroncore.core.core import Core
from neuroncore.frontend.neuronxcc.nki import notes as noted
from neuroncore.frontend.neuronxcc.nki.notes import Begin, NewBlock, NewTile, Turn
from neuroncore.frontend.neuronxcc.nki.results import explain, issue, new
from neuroncore.frontend.neuronxcc.nki.scopes import (
    Loop,
    LoopIndex,
    Running,
    Turns,
    first_writes,
    note_writes,
)
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor
from neuroncore.memory.storage import Storage
from neuroncore.memory.tile import Tile
from neuroncore.record.program import Program

MADE, BLOCK, FIXED = range(3)  # kinds of storages: of the iteration, a block, another
WORD = 8  # bytes of a number in a row of a record


class IssuedStep:
    """An instruction of an iteration. `operands` are the name, the kind and the place of the
    storage, the geometry, and the place of the offset of each tile."""

    def __init__(
        self, name: str, operands: Sequence[Any], others: Sequence[Any], accumulates: bool,
        continues: bool | None, site: Any,
    ) -> None:  # fmt: skip
        self.name, self.operands, self.others = name, operands, others
        self.accumulates, self.continues, self.site = accumulates, continues, site
        self.dst = next((i for i, one in enumerate(operands) if one[0] == "dst"), -1)
        self.again: _Again | None = None

    def arguments(self, tiles: Sequence[Tile]) -> dict[str, Any]:
        names = (one[0] for one in self.operands)
        return {**dict(self.others), **dict(zip(names, tiles, strict=True))}

    def issue(self, core: Core, state: Running, tiles: list[Tensor]) -> None:
        """Issue the instruction with these tiles for its operands, and keep how to do so again."""
        program = core.program
        assert program is not None
        count, size = program.count, len(program.rows)
        if state.notes is not None:
            state.notes.continues = self.continues
        issue(self.name, **self.arguments(tiles))
        if self.again is None and self.dst >= 0 and program.count == count + 1:
            names = [one[0] for one in self.operands]
            self.again = _again(program, bytes(program.rows[size:]), names)


class _Again(NamedTuple):
    """How to execute and record an instruction like one that has been issued: its arguments, with
    the slot of each tile; and its row, with the place and the tile of each window."""

    call: Call
    execute: Callable[..., Any]
    given: list[Any]
    slots: list[int]
    row: list[int]
    windows: list[tuple[int, int]]
    pack: Callable[..., bytes]


def _again(program: Program, written: bytes, names: list[str]) -> _Again | None:
    """Return how to repeat the instruction whose row was written last, on tiles with these names;
    None if its arguments are not all in the row, or known."""
    line, index = unpack_from("<ii", written)
    call = program.calls[~index]
    made, windows = plan(call), [*call.reads, *call.writes]
    if call.dynamic or made.loads >= 0 or {*names} != {*windows} or call.pack is None:
        return None
    row = [line, index, *unpack_from(f"<{len(written) // WORD - 1}q", written, WORD)]
    given = made.given.copy()
    if made.values:
        values = values_of([*program.data.values][row[-1]])
        if any(type(value) is Held for value in values):
            return None
        for slot, number in made.values:
            given[slot] = values[number]
    slots = {call.instruction.parameters[slot].name: slot for slot, _ in made.tiles}
    places = [(2 + 3 * at, names.index(name)) for at, name in enumerate(windows)]
    return _Again(call, made.run, given, [slots[n] for n in names], row, places, call.pack)


def _fault(core: Core, call: Call, error: Exception) -> Exception:
    """Return the error of an instruction, as the function that issues it raises it."""
    if isinstance(error, NeuronError) and core.leftovers is not None:
        core.leftovers.refused()
    if isinstance(error, KernelError):
        explain(call.name, error)
    if isinstance(error, NOT_OURS):
        return error
    ours = our_fault(call.instruction, core, error)
    ours.__cause__ = error
    return ours


class Repetition:
    """An iteration that is being made from a template."""

    def __init__(
        self, core: Core, state: Running, events: Sequence[Any], ends: Mapping[int, list[int]],
        numbers: list[int], storages: list[Storage],
    ) -> None:  # fmt: skip
        self._core, self._state, self._events, self._ends = core, state, events, ends
        self._numbers, self._storages = numbers, storages
        self._made: list[Any] = []  # storages, until no event uses them any more
        self._inner: list[tuple[Turns, LoopIndex | None]] = []

    def run(self) -> None:
        ends = self._ends
        for number, event in enumerate(self._events):
            if type(event) is IssuedStep:
                self._step(event)
            elif event[0] is NewBlock:
                self._block(*event[1:])
            elif event[0] is NewTile:
                self._tile(*event[1:])
            else:
                self._loop(*event)
            if number in ends:
                for place in ends[number]:
                    self._made[place] = None

    def _step(self, step: IssuedStep) -> None:
        core, state, numbers = self._core, self._state, self._numbers
        tables, tiles = (self._made, self._storages), []
        for _, kind, place, geometry, at in step.operands:
            storage = place if kind == FIXED else tables[kind][place]
            tiles.append(Tensor(storage, geometry, numbers[at]))
        state.accumulates, core.site = step.accumulates, step.site
        again, program = step.again, core.program
        if again is None or state.notes is not None or program is None or program.full:
            step.issue(core, state, tiles)
            return
        dst = tiles[step.dst]
        if first := first_writes(state, dst):
            note_writes(first, dst, step.arguments(tiles))
        call, execute, constant, slots, row, windows, pack = again
        given = constant.copy()
        for slot, tile in zip(slots, tiles, strict=True):
            given[slot] = tile
        try:
            execute(core, call, *given)
        except Exception as error:
            raise _fault(core, call, error)  # noqa: B904
        for at, number in windows:
            tile = tiles[number]
            row[at], row[at + 2] = tile.storage.id, tile.offset
        program.rows.extend(pack(*row))
        program.count += 1

    def _tile(self, region: Any, shape: Any, dtype: Any, name: str, filled: Any, site: Any) -> None:
        self._core.site = site
        storage = new(shape, dtype, region, name).storage
        if filled is not None:
            self._state.fills[storage.id] = filled
        self._made.append(storage)

    def _block(self, tensor: Any, depth: int | None, site: Any, at: int) -> None:
        self._core.site = site
        block = tuple(self._numbers[at : at + tensor.axes])
        ending = None if depth is None else self._state.loops[depth]
        self._made.append(tensor.new_tile(block, ending).storage)

    def _loop(self, kind: Any, *given: Any) -> None:
        inner, state = self._inner, self._state
        if kind is Begin:
            inner.append((Turns(Loop(*given), state), None))
        elif kind is Turn:
            turns, _ = inner[-1]
            inner[-1] = turns, turns.begin(self._numbers[given[0]])
        elif kind is noted.END:
            turns, index = inner[-1]
            assert index is not None
            turns.end(index)
        else:
            inner.pop()[0].end_loop()
