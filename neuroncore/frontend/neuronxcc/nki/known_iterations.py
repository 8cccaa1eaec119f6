"""Iterations of a loop that are made from a template (`templates`), without Python. The template is
an earlier iteration that Python executed: its instructions were issued and recorded in the usual
way.

A made iteration differs from the template only in numbers: indices and offsets (the numbers of the
template), and the numbers that identify storages. Therefore all instructions and marks of the
iteration are written to the record at once, and a tile that several instructions use is made once.

The record of an instruction consists of words of 8 bytes. Marks show in the record
where the iterations of parallel loops begin and end. A block is a tile of a tensor with axes before
the partition axis (`blocks`). An event is an instruction, a new storage, or the start or end of an
inner loop or of an iteration of the inner loop.

The values of the variables of inner loops are not needed. They would only show which write to a
tensor is the first of an iteration, and whether the previous iteration wrote the same elements
(`scopes.first_writes`). If all writes to the tensor move by the same steps from iteration to
iteration, both answers are the same as in the template.

A tile ends with the iteration if no later line of the kernel can name the tile. If such a tile is a
block, it is not entered into the table of its tensor, because only the instructions of the
iteration can name it. If such a tile is on the chip, it takes the storage of an earlier tile that
no later instruction uses, if there is one. All iterations of all templates share these storages,
and use the same tile objects. `Memory.renew` prepares such a storage for a new tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from weakref import ref

import numpy as np
import numpy.typing as npt

from neuroncore.core.core import Core
from neuroncore.frontend.neuronxcc.nki import tracing
from neuroncore.frontend.neuronxcc.nki.repetition import (
    BLOCK,
    FIXED,
    MADE,
    WORD,
    Again,
    IssuedStep,
    NewStorage,
    fault,
)
from neuroncore.frontend.neuronxcc.nki.scopes import LoopRun, Running, first_writes, note_writes
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor
from neuroncore.frontend.neuronxcc.nki.tracing import (
    Begin,
    IterationStart,
    Trace,
    TracedStep,
    TracedTile,
)
from neuroncore.memory.geometry import Layout
from neuroncore.memory.storage import Memory, Storage
from neuroncore.record.program import Program

Numbers = npt.NDArray[np.int64]
# counters: the number of instructions before the iteration, the number of words of marks before the
# iteration, and the same number with a minus sign
COUNT, LENGTH, LESS, COUNTERS = range(4)
MARK = 3  # the words of a mark at the begin or the end of an iteration


class _Words:
    """Words that each iteration writes to the record. Words that differ between iterations have an
    element of the iteration's vector (`KnownIterations._counter`), which is added."""

    def __init__(self) -> None:
        self.words: list[int] = []
        self._at: list[int] = []
        self._of: list[int] = []

    def add(self, word: int, element: int = -1) -> None:
        """Append a word. `element` is the index of the element that is added to it; -1 for none."""
        if element >= 0:
            self._at.append(len(self.words))
            self._of.append(element)
        self.words.append(word)

    def end(self) -> None:
        """Prepare the calls of `filled`. No word is added later."""
        self._base = np.array(self.words, np.int64)
        self._places = np.array(self._at, np.intp), np.array(self._of, np.intp)

    def filled(self, elements: Numbers) -> Numbers:
        """Return the words of several iterations, one iteration per row. `elements`: the vectors of
        the iterations, which are added to the words that differ."""
        words, (at, of) = np.tile(self._base, (len(elements), 1)), self._places
        words[:, at] += elements[:, of]
        return words


class _Known:
    """An instruction of the template, which numbers its tiles.

    `slots`: (position among the arguments, number) of each tile of the instruction
    `moving`: the slots whose tile changes from iteration to iteration. The other tiles are in
        `again.arguments`.
    `new`: the tiles that no earlier instruction uses"""

    __slots__ = "again", "dst", "is_noted", "marks", "moving", "new", "slots", "step", "words"

    def __init__(self, step: IssuedStep, again: Again) -> None:
        self.step, self.again, self.is_noted = step, again, False
        self.dst = 0  # the number of the tile that the instruction writes
        self.words = 0  # words of the record, up to the end of this instruction
        self.marks = 0  # words of marks before this instruction
        # for each tile: its number, kind and place of its storage, geometry, position of its offset
        self.new: list[tuple[int, int, Any, Any, int]] = []
        self.slots: list[tuple[int, int]] = []
        self.moving: list[tuple[int, int]] = []


class KnownIterations:
    """Makes iterations of a template.

    `numbers`: the numbers of the template
    `changes`: row k is added to the numbers when the variable of loop k increases by 1
    `outside`: an entry for each distinct block that exists before the iteration
    `places`: the position in `outside` of each operand in such a block
    `ends`: maps the index of an event to the new storages that no later event uses
    `shared`: by layout, the storages in `memory` that the iterations of all templates share
    `fits`: False if iterations can't be made this way"""

    def __init__(
        self, program: Program, events: Sequence[Any], ends: Mapping[int, list[int]],
        outside: Sequence[Any], places: Sequence[int], numbers: Numbers, changes: Numbers,
        shared: dict[Layout, list[Storage]], memory: Memory,
    ) -> None:  # fmt: skip
        self._program, self._source = program, events
        self._depth, self._numbers, self._changes = len(changes) - 1, numbers, changes
        self._outside, self._places, self._ends = outside, places, ends
        self._events: list[_Known | tuple[NewStorage, Storage | None]] = []
        self._rows, self._marks = _Words(), _Words()
        # by number; None for a tile that iterations do not share
        self._tiles: list[Tensor | None] = []
        self._numbered: dict[Any, int] = {}
        self._made: list[tuple[NewStorage, Storage | None]] = []
        self._shared, self._memory = shared, memory
        # by layout: the shared storages that no tile uses at this event
        self._free = {layout: [*storages] for layout, storages in shared.items()}
        self._sums: set[tuple[int, Any]] = set()  # kinds and places of tensors that are added to
        self._moves: dict[Any, bytes] = {}  # by tensor: the steps by which writes move
        # for each running loop: the first word of its marks, or -1 if the loop is not parallel
        self._loops: list[int] = []
        self.count = 0  # the number of instructions
        self.fits = all(self._add(number, event) for number, event in enumerate(events))
        self._rows.end()
        self._marks.end()

    def _add(self, number: int, event: Any) -> bool:
        """Add the event with index `number`, and return whether iterations can repeat it."""
        if type(event) is IssuedStep:
            again = event.again(self._program)
            fits = again is not None and self._step(event, again)
            for place in self._ends.get(number, ()):
                if (storage := self._made[place][1]) is not None:
                    self._free[storage.layout].append(storage)
            return fits
        if type(event) is NewStorage:
            self._made.append((event, self._free_storage(event)))
            self._events.append(self._made[-1])
            return True
        marks, loops, rows = self._marks, self._loops, self.count
        if event[0] is Begin:
            loops.append(len(marks.words) if event[2] else -1)
        elif event[0] is tracing.END_LOOP:
            loops.pop()
        elif loops[-1] >= 0:
            marks.add(rows, self._counter(COUNT))
            if event[0] is IterationStart:
                marks.add(loops[-1], self._counter(LENGTH))
                marks.add(0, event[1])
            else:
                marks.add(~loops[-1], self._counter(LESS))
                marks.add(0)
        return True

    def _free_storage(self, new: NewStorage) -> Storage | None:
        """Return a shared storage for a new tile; None if the tile outlives the iteration, or is in
        HBM."""
        layout, held, *_ = new.kind
        if not new.ends_at(self._depth) or not layout.on_chip:
            return None
        free = self._free.setdefault(layout, [])
        if free:
            return free.pop()
        storage = self._memory.unnumbered(layout, held)
        self._shared.setdefault(layout, []).append(storage)
        return storage

    def _counter(self, which: int) -> int:
        """Return the position of a counter (COUNT, LENGTH, LESS) in the vector of an iteration: the
        numbers of the template, the counters, and the numbers of the storages."""
        return len(self._numbers) + which

    def _step(self, step: IssuedStep, again: Again) -> bool:
        """Add an instruction, and return whether iterations can repeat it."""
        known = _Known(step, again)
        for slot, operand in zip(again.slots, step.operands, strict=True):
            tile = self._tile(known, *self._placed(operand))
            known.slots.append((slot, tile))
            again.arguments[slot] = self._tiles[tile]
            if again.arguments[slot] is None:
                known.moving.append(known.slots[-1])
        self._row(known)
        self._events.append(known)
        self.count += 1
        known.words, known.marks = len(self._rows.words), len(self._marks.words)
        known.dst = known.slots[step.dst][1]
        kind, place, _, at = self._placed(step.operands[step.dst])
        ending = kind == MADE and self._made[place][1] is not None
        # an iteration notes only once for each tensor that instructions add to its contents
        known.is_noted = (kind, place) not in self._sums if step.accumulates else not ending
        if step.accumulates:
            self._sums.add((kind, place))
        return ending or step.accumulates or self._moves_alike(kind, place, at)

    def _placed(self, operand: Sequence[Any]) -> Sequence[Any]:
        """Return (kind, place, geometry, at) of an operand.

        `kind`: the kind of its storage
        `place`: the position among the new storages (kind MADE) or in `outside` (BLOCK), or the
            storage itself (FIXED)
        `at`: the position of the operand's offset among the numbers"""
        _, kind, place, *rest = operand
        return (kind, self._places[place] if kind == BLOCK else place, *rest)

    def _tile(self, known: _Known, kind: int, place: Any, geometry: Any, at: int) -> int:
        """Return the number of the tile with these values of `_placed`. Add it to `known.new` if it
        is new, unless all iterations share it."""
        if kind == MADE and self._made[place][1] is not None:
            kind, place = FIXED, self._made[place][1]
        where = id(place) if kind == FIXED else place
        moves = self._changes[:, at]
        key = kind, where, id(geometry), int(self._numbers[at]), moves.tobytes()
        tile = self._numbered.setdefault(key, len(self._tiles))
        stays = kind == FIXED and not moves.any()
        if tile == len(self._tiles):
            self._tiles.append(Tensor(place, geometry, key[3]) if stays else None)
            if not stays:
                known.new.append((tile, kind, place, geometry, at))
        return tile

    def _row(self, known: _Known) -> None:
        """Add the words of an instruction."""
        again, operands, rows = known.again, known.step.operands, self._rows
        # words that differ between iterations, and the elements that are added to them
        changed: dict[int, int] = {}
        elements: dict[int, int] = {}
        for at, number in again.windows:
            kind, place, _, offset = self._placed(operands[number])
            changed[at], changed[at + 2], elements[at + 2] = 0, 0, offset
            if kind == FIXED:
                changed[at] = place.id
            else:
                new = len(self._outside) if kind == MADE else 0
                elements[at] = self._counter(COUNTERS) + new + place
        line, index, *words = again.row
        rows.add(index << 32 | line)
        for at, word in enumerate(words, 2):
            rows.add(changed.get(at, word), elements.get(at, -1))

    def _moves_alike(self, kind: int, place: Any, at: int) -> bool:
        """Return whether a write in a parallel loop moves by the same steps as all earlier writes
        to its tensor. The arguments are results of `_placed`."""
        if kind == MADE or max(self._loops, default=-1) < 0:
            return True
        moves = self._changes[:, at].tobytes()
        if kind == BLOCK:
            place, begin, end, _ = self._outside[place]
            moves += self._changes[:, begin:end].tobytes()
        return self._moves.setdefault(id(place), moves) == moves

    def run(
        self, core: Core, state: Running, loop_run: LoopRun, values: Sequence[int],
        numbers: Numbers, storages_of: Callable[[list[int]], list[Storage] | None],
    ) -> int:  # fmt: skip
        """Execute successive iterations, and write their instructions and marks to the record.
        Return the number of iterations.

        `values`: the values of the loop variable
        `numbers`: the template's numbers in each iteration, one row per iteration
        `storages_of`: a function from these numbers to the storages of the blocks in `outside`; the
            iterations end where it returns None

        If iterations are traced, there may be only one."""
        accumulates, site, trace = state.accumulates, core.site, state.trace
        begun = 0 if trace is None else trace.written
        numbered: list[list[int]] = []  # the ids of storages, by iteration
        self._last = self.count, len(self._rows.words), len(self._marks.words)
        state.trace = storages = None
        try:
            for value, number_list in zip(values, numbers.tolist(), strict=False):
                storages = storages_of(number_list)
                if storages is None:
                    break
                state.accumulates, index = accumulates, loop_run.enter(value)
                numbered.append([storage.id for storage in storages])
                try:
                    self._run(core, state, number_list, storages, numbered[-1])
                finally:
                    loop_run.leave(index)
        finally:
            state.accumulates, core.site, state.trace = accumulates, site, trace
            if numbered:
                self._write(loop_run.number, values, numbers, numbered)
        if trace is not None and storages is not None:
            self._note(trace, begun, values[0], numbers[0].tolist(), numbered[0], storages)
        return len(numbered)

    def _run(
        self, core: Core, state: Running, numbers: list[int], storages: list[Storage],
        numbered: list[int],
    ) -> None:  # fmt: skip
        """Execute one iteration, in which the template's numbers are `numbers`. `storages` are the
        storages of the blocks in `outside`, and `numbered` their ids; ids of new storages are
        appended. An error sets `_last`."""
        made: list[Storage] = []
        tables, tiles = (made, storages), self._tiles.copy()
        issued = words = marks = 0
        try:
            for event in self._events:
                if isinstance(event, tuple):
                    new, storage = event
                    if storage is None:
                        storage = new.made(core, state, numbers)
                    else:
                        new.renew(core, self._program, storage)
                    made.append(storage)
                    numbered.append(storage.id)
                    continue
                marks = event.marks
                for tile, kind, place, geometry, at in event.new:
                    storage = place if kind == FIXED else tables[kind][place]
                    tiles[tile] = Tensor(storage, geometry, numbers[at])
                _execute(core, state, event, tiles)
                issued, words = issued + 1, event.words
        except BaseException:
            self._last = issued, words, marks
            numbered += [0] * (len(storages) + len(self._made) - len(numbered))
            raise

    def _note(
        self, trace: Trace, begun: int, value: int, numbers: list[int], numbered: list[int],
        storages: list[Storage],
    ) -> None:  # fmt: skip
        """Add the events of an iteration to the trace.

        `begun`: the byte of the record at which the iteration's instructions begin
        `value`: the loop variable
        `numbers`: the values of the template's numbers
        `numbered`: the ids of `storages`, followed by the ids of the new storages"""
        rows, made, steps = trace.rows_from(begun), iter(numbered[len(storages) :]), self._steps()
        trace.begin_iteration(value)
        for event in self._source:
            if type(event) is NewStorage:
                trace.add(event.traced(numbers, next(made)))
            elif type(event) is IssuedStep:
                begin, end = next(steps)
                operands = ((tile[0], *self._placed(tile)) for tile in event.operands)
                used = [_operand(tile, numbers, numbered, storages) for tile in operands]
                row = rows[WORD * begin : WORD * end]
                trace.add(TracedStep(event.name, tuple(used), *event.more, row))
            elif event[0] is IterationStart:
                trace.add(IterationStart(numbers[event[1]]))
            else:
                trace.add(Begin(*event[1:]) if event[0] is Begin else event[0])
        trace.end_iteration()

    def _steps(self) -> Iterator[tuple[int, int]]:
        """Yield (begin, end) for each instruction: its record has the words from begin to end
        (exclusive)."""
        begin = 0
        for event in self._events:
            if type(event) is _Known:
                yield begin, event.words
                begin = event.words

    def _write(
        self, loop: int | None, values: Sequence[int], numbers: Numbers, numbered: list[list[int]]
    ) -> None:
        """Write the instructions and marks of iterations to the record.

        `loop`: the number of the loop in the marks, or None if its iterations have no marks
        `numbers`: the numbers of each iteration, one row per iteration
        `numbered`: the ids of the storages of each iteration, one row per iteration

        `_last` describes what the last iteration writes: the number of instructions, the words of
        their instructions, and the words of marks inside the iteration."""
        program, count, (issued, words, marks) = self._program, len(numbered), self._last
        begins = np.empty((count, 0 if loop is None else MARK), np.int64)
        ends, written = np.zeros_like(begins), program.data.iterations
        before = program.count + self.count * np.arange(count)
        if loop is not None:
            begins[:, 0], begins[:, 1], begins[:, 2] = before, loop, values[:count]
            ends[:, 0], ends[:, 1] = before + self.count, ~loop
            ends[-1, 0] = before[-1] + issued
        each = len(self._marks.words) + 2 * begins.shape[1]
        length = written.words + begins.shape[1] + each * np.arange(count)
        counters = np.stack((before, length, -length), axis=1)
        ids = np.array(numbered, np.int64)
        elements = np.concatenate((numbers[:count], counters, ids), axis=1)
        rows = self._rows.filled(elements)
        inner = np.concatenate((begins, self._marks.filled(elements)), axis=1)
        program.rows.extend(rows.tobytes()[: WORD * (rows.size - rows.shape[1] + words)])
        whole = np.concatenate((inner[:-1], ends[:-1]), axis=1)
        for part in whole, inner[-1, : begins.shape[1] + marks], ends[-1]:
            written.extend(part.tobytes())
        program.count += self.count * (count - 1) + issued
        program.make_room()


def _operand(
    operand: Sequence[Any], numbers: Sequence[int], numbered: Sequence[int], storages: list[Storage]
) -> TracedTile:
    """Return the trace of a tile among an instruction's arguments. A storage that the iteration has
    made is traced only by number."""
    name, kind, place, geometry, at = operand
    if kind == MADE:
        return TracedTile(name, _none, numbered[len(storages) + place], geometry, numbers[at])
    storage = place if kind == FIXED else storages[place]
    return TracedTile(name, ref(storage), storage.id, geometry, numbers[at])


def _none() -> None:
    """Return None, as a weak reference to a lost storage does. Traces use this function for
    storages that the iteration has made."""


def _execute(core: Core, state: Running, known: _Known, tiles: list[Any]) -> None:
    """Execute an instruction of the template in an iteration. `tiles[n]` is the iteration's tile
    with number n."""
    step, again = known.step, known.again
    core.site = step.site
    if known.is_noted:
        state.accumulates, dst = step.accumulates, tiles[known.dst]
        if first := first_writes(state, dst):
            used = [tiles[tile] for _, tile in known.slots]
            note_writes(first, dst, step.sources(used))
    arguments = again.arguments
    if known.moving:
        arguments = arguments.copy()
        for slot, tile in known.moving:
            arguments[slot] = tiles[tile]
    try:
        again.execute(core, again.call, *arguments)
    except Exception as error:
        raise fault(core, again.call, error)  # noqa: B904
