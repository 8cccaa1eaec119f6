"""Iterations of loops that are made from earlier iterations, without executing the kernel's Python.

In a loop that `repeatable` accepts, every number is an affine function of the variables of the
running loops. An iteration that Python executes is traced (`tracing`) and becomes a template. Two
iterations that differ in one variable show how each number changes with this variable. Then the
numbers of further iterations can be computed.

The decisions of the frontend must be the same as in the template. Bounds of the numbers (guards)
and the state of tensors show whether the decisions are the same. If a decision may differ, Python
executes the iteration.

A block is a tile of a tensor with axes before the partition axis (`blocks`). Events are the
instructions, new tiles and inner loops of an iteration."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore.core.core import Core, current
from neuroncore.core.core import running as core_of_kernel
from neuroncore.frontend.neuronxcc.nki import tracing
from neuroncore.frontend.neuronxcc.nki.known_iterations import KnownIterations
from neuroncore.frontend.neuronxcc.nki.lifetimes import bound
from neuroncore.frontend.neuronxcc.nki.repeatable import is_repeatable, values_read
from neuroncore.frontend.neuronxcc.nki.repetition import (
    BLOCK,
    FIXED,
    MADE,
    IssuedStep,
    Limits,
    NewStorage,
)
from neuroncore.frontend.neuronxcc.nki.scopes import Loop, LoopRun, Running, running
from neuroncore.frontend.neuronxcc.nki.tracing import (
    Begin,
    Guard,
    IterationStart,
    NewBlock,
    NewTile,
    Trace,
    TracedStep,
    TracedTile,
)
from neuroncore.memory.storage import Storage
from neuroncore.record.columns import birth

Numbers = npt.NDArray[np.int64]
Values = tuple[int, ...]  # the variables of the running loops, outermost first
VARIANTS, FAILURES = (
    4,
    16,
)  # the most templates of a loop, and the most iterations that fit none of them
AHEAD = 4096  # the most numbers that are computed at once, for successive iterations
BIRTH = len(birth(0, 0))
PLAIN = (bool, int, float, str, tuple, np.generic)


class TracedLoop(Loop):
    """A loop whose body the device's compiler traces once, for all iterations."""

    def __iter__(self) -> Iterator[int]:
        state, frame = running(), sys._getframe(1)
        loop_run, several = LoopRun(self, state), len(self.values) > 1
        # the names that Python would carry from one iteration to the next
        names = bound(frame) if several else None
        plan = _plan(frame, state, self) if bound(frame) is None else None
        try:
            number = 0
            while number < len(self.values):
                if names and number:
                    # a note if the body places tensors: published kernels increment addresses
                    names.again("warning" if state.met == loop_run.met else "note")
                if plan and (repeated := plan.repeats(loop_run, self.values[number:])):
                    number += repeated
                    continue
                value, number = self.values[number], number + 1
                traces = plan is not None and plan.begin(value)
                index = loop_run.begin(value)
                try:
                    yield index
                finally:
                    loop_run.end(index)
                if plan is not None and traces:
                    plan.end()
        finally:
            if plan is not None:
                plan.stop()
            if not state.loops:
                state.plans.clear()
                state.shared.clear()
        loop_run.end_loop()


def _plan(frame: Any, state: Running, loop: Loop) -> Plan | None:
    """Return how to repeat iterations of the loop that begins in a frame; None if Python has to
    execute all, for example for a debugger."""
    core = current()
    options = core.options
    watched = core.shadow or options.stacks or _is_debugged()
    if watched or core.program is None or options.uninitialized == "raise":
        return None
    key = id(frame.f_code), frame.f_lasti
    if key not in state.plans:
        repeatable = is_repeatable(frame, len(state.loops))
        state.plans[key] = Plan(core, state, values_read(frame)) if repeatable else None
    plan: Plan | None = state.plans[key]
    if plan is not None and not plan.reads(values_read(frame)):
        plan = state.plans[key] = None
    # in a short outermost loop there is nothing to repeat
    return plan if plan is None or state.loops or len(loop.values) > 2 else None


def _is_debugged() -> bool:
    """Return whether a debugger or a tracer follows Python, by sys.settrace or sys.monitoring."""
    monitoring: Any = getattr(sys, "monitoring", None)
    tool = monitoring and monitoring.get_tool(monitoring.DEBUGGER_ID)
    return sys.gettrace() is not None or tool is not None


class Plan:
    """How to repeat the iterations of a loop. A plan is kept until the outermost running loop
    ends."""

    def __init__(self, core: Core, state: Running, read: list[Any]) -> None:
        self._core, self._state, self._read = core, state, read
        self._templates: list[Template] = []
        self._failures = 0
        self._owner = False  # whether this loop started the trace

    def reads(self, values: list[Any]) -> bool:
        """Return whether `values`, those of the names that the loop only reads, are the same
        objects as when the plan was made."""
        return all(a is b for a, b in zip(self._read, values, strict=True))

    def repeats(self, loop_run: LoopRun, values: range) -> int:
        """Execute iterations with these `values` without Python, while a template fits. Return how
        many."""
        state = self._state
        if state.pending is not None:
            return 0
        outer = (*map(int, state.loops),)
        return next(filter(None, (t.repeat(loop_run, outer, values) for t in self._templates)), 0)

    def begin(self, value: int) -> bool:
        """Begin to trace the iteration `value`, and return True. Return False if too many fitted no
        template."""
        state = self._state
        if self._failures > FAILURES:
            return False
        if state.trace is None or state.trace.is_full:
            state.trace, self._owner = Trace(self._core), True
        trace = self._trace = state.trace
        values = (*map(int, state.loops), value)
        self._begun = values, len(trace.events) + 1, len(trace.guards), self._stand()
        return True

    def end(self) -> None:
        """End the trace of an iteration, and make a template from it. The template either shows how
        the numbers of an earlier template change, or is a new one."""
        state, trace = self._state, self._trace
        values, first, guard, stand = self._begun
        template = None
        if trace.is_full:
            if self._owner:  # otherwise an iteration of an outer loop is too long, not this one
                self._failures = FAILURES
        elif state.pending is None:
            events = trace.events[first:-1]
            if self._is_all(events, stand):
                template = made_of(state, values, events, trace.guards[guard:])
        self.stop()
        if template is None:
            self._failures += 1
        elif not any(known.learn(template) for known in self._templates):
            self._failures += bool(self._templates)
            self._templates = [*self._templates[-VARIANTS + 1 :], template]

    def stop(self) -> None:
        """Stop tracing if this loop started it."""
        if self._owner:
            self._state.trace, self._owner = None, False

    def _stand(self) -> tuple[int, ...]:
        """Return six counts that an iteration may increase: instructions, new storages, reports,
        broadcasts in PSUM, rows of ones, and explicit addresses."""
        core, state, program = self._core, self._state, self._core.program
        assert program is not None
        reports = len(core._by_site) + len(core._by_place)
        mine = len(state.broadcasts), len(state.ones), len(state.addresses)
        return program.issued, program.births.size // BIRTH, reports, *mine

    def _is_all(self, events: Sequence[Any], before: tuple[int, ...]) -> bool:
        """Return whether only the `events` have changed the counts of `_stand` since they were
        `before`."""
        issued, births, *others = (a - b for a, b in zip(self._stand(), before, strict=True))
        steps = sum(type(event) is TracedStep for event in events)
        tiles = sum(type(event) in (NewTile, NewBlock) for event in events)
        whole = tracing.FAULT not in events and not any(others)
        return whole and issued == steps and births == tiles


class _Layout:
    """All numbers of an iteration in one vector, first those of the guards, and the positions of
    each event's numbers in it."""

    def __init__(self, state: Running, events: Sequence[Any], guards: Sequence[Guard]) -> None:
        self._state = state
        self.numbers = [number for number, _, _ in guards]
        # the bounds of the guards' numbers
        self.low, self.high = ([guard[n] for guard in guards] for n in (1, 2))
        self.events: list[tuple[Any, ...]] = []
        # blocks that exist before the iteration: the tiles of the tensor, the begin and the end of
        # the block's indices, and whether all of the block must have been written
        self.outside: list[tuple[Any, int, int, bool]] = []
        # other storages, and whether all of each must have been written
        self.fixed: list[tuple[Storage, bool]] = []
        # tensors, and the positions of the indices of their new blocks
        self.blocks: list[tuple[Any, int, int]] = []
        # positions of offsets on the chip, and how many successive offsets are equivalent
        self.chip: list[tuple[int, int]] = []
        self.still: list[int] = []  # positions of offsets that must not change
        self.made: dict[int, int] = {}  # by id of a new storage: its place among the new storages
        self.more: dict[int, Any] = {}  # by event: its record, or the kind of its storage
        self._last: dict[int, int] = {}  # by new tile: the last event that uses it
        self.fits = all(map(self._add, events))
        self.ends: dict[int, list[int]] = {}  # by event: the new tiles that no later event uses
        for place, last in self._last.items():
            self.ends.setdefault(last, []).append(place)

    def _put(self, *numbers: int) -> int:
        """Append numbers to the vector, and return the position of the first."""
        at = len(self.numbers)
        self.numbers += map(int, numbers)
        return at

    def _add(self, event: Any) -> bool:
        """Add an event, and return whether it can be repeated."""
        match event:
            case TracedStep():
                return self._step(event)
            case NewTile():
                self._make(event)
                self.events.append((NewTile, *event[:-2]))
            case NewBlock():
                self._make(event)
                at = self._put(*event.block)
                self.blocks.append((event.tensor, at, at + len(event.block)))
                self.events.append((NewBlock, event.tensor, event.depth, event.site, at))
            case Begin():
                self.events.append((Begin, event.values, event.parallel))
            case IterationStart():
                self.events.append((IterationStart, self._put(event.value)))
            case _:
                self.events.append((event,))
        return True

    def _make(self, event: NewTile | NewBlock) -> None:
        place = self.made[event.number] = len(self.made)
        self._last[place] = len(self.events)
        self.more[len(self.events)] = event.kind

    def _step(self, event: TracedStep) -> bool:
        operands = [self._operand(operand, event) for operand in event.operands]
        if None in operands:
            return False
        more = event.others, event.accumulates, event.continues, event.site
        self.more[len(self.events)] = event.row
        self.events.append((TracedStep, event.name, tuple(operands), *more))
        return True

    def _operand(self, operand: TracedTile, event: TracedStep) -> tuple[Any, ...] | None:
        """Return (argument's name, kind, place, geometry, position of the offset) of a tile
        (`repetition.IssuedStep`). Return None if the storage no longer exists, or if the event is a
        product that begins a sum there."""
        name, number = operand.name, operand.number
        if number in self.made:
            at, place = self._put(operand.offset), self.made[number]
            self.still.append(at)
            self._last[place] = len(self.events)
            return name, MADE, place, operand.geometry, at
        storage = operand.storage()
        summed = event.continues if name == "dst" else None
        if storage is None or summed is False:
            return None
        block = self._state.blocks.get(number)
        if block is None:
            self.fixed.append((storage, bool(summed)))
            kind: int = FIXED
            where: Any = storage
        else:
            tiles, key = block
            begin = self._put(*key)
            kind, where = BLOCK, len(self.outside)
            self.outside.append((tiles, begin, begin + len(key), bool(summed)))
        at = self._put(operand.offset)
        if storage.on_chip:
            self.chip.append((at, operand.geometry.apart))
        return name, kind, where, operand.geometry, at


class _Blocks:
    """The blocks that iterations of a template use.

    `outside`: for each block that exists before: (tiles of the tensor, begin, end, whether the
        whole block must have been written); its indices are `numbers[begin:end]`
    `places`: for each entry of `layout.outside`, the position of its block in `outside`
    `changes`: row k is added to `numbers` when loop variable k increases by 1"""

    def __init__(self, layout: _Layout, numbers: Numbers, changes: Numbers) -> None:
        def moves(begin: int, end: int) -> bytes:
            return changes[:, begin:end].tobytes()

        known: dict[Any, int] = {}
        self.outside: list[tuple[Any, int, int, bool]] = []
        self.places: list[int] = []
        for tiles, begin, end, whole in layout.outside:
            key = id(tiles), numbers[begin:end].tobytes(), moves(begin, end), whole
            if key not in known:
                known[key] = len(self.outside)
                self.outside.append((tiles, begin, end, whole))
            self.places.append(known[key])
        self._new = layout.blocks
        ways = {(id(tensor), moves(a, b)) for tensor, a, b in self._new}
        # blocks that differ in the template differ in all iterations if the blocks of each tensor
        # move alike
        self._stay_apart = len(ways) == len({tensor for tensor, _ in ways})

    def are_new(self, numbers: list[int]) -> bool:
        """Return whether all blocks that an iteration makes differ, and have no tiles yet."""
        if not self._new:
            return True
        keys = [(tensor, tuple(numbers[a:b])) for tensor, a, b in self._new]
        if not self._stay_apart and len({(id(t), key) for t, key in keys}) < len(keys):
            return False
        return not any(tensor.has(key) for tensor, key in keys)


def made_of(
    state: Running, values: Values, events: Sequence[Any], guards: Sequence[Guard]
) -> Template | None:
    """Return the template of an iteration with the loop variables `values`, or None if the
    iteration can't be repeated."""
    layout = _Layout(state, events, guards)
    keys = [(id(tensor), *layout.numbers[a:b]) for tensor, a, b in layout.blocks]
    return Template(state, values, layout) if layout.fits and len({*keys}) == len(keys) else None


class Template:
    """A traced iteration, and how its numbers change with the variables of the running loops."""

    def __init__(self, state: Running, values: Values, layout: _Layout) -> None:
        self._state, self._values, self._layout = state, values, layout
        self._numbers = np.array(layout.numbers, np.int64)
        self._changes = np.zeros((len(values), len(self._numbers)), np.int64)
        self._is_known = [False] * len(values)  # by variable: whether its effect is known
        self._events = [self._event(number, event) for number, event in enumerate(layout.events)]
        self._iterations: KnownIterations | None = None
        self._fixed = {*layout.fixed}
        guards = [*zip(layout.low, layout.high, strict=True)]
        self._limits = Limits(self._numbers, guards, layout.chip, layout.blocks)

    def _event(self, number: int, event: Any) -> Any:
        program, more = current().program, self._layout.more.get(number)
        assert program is not None
        if event[0] is TracedStep:
            name, operands, *others = event[1:]
            return IssuedStep(name, operands, tuple(others), more or b"")
        return event if more is None else NewStorage(program, event, more)

    def _known(self, values: Values, but: int = -1) -> Numbers | None:
        """Return the numbers of the iteration with these loop variables; variable `but` keeps the
        template's value (-1: none). Return None if another variable differs from the template and
        its effect is unknown."""
        steps = [value - first for value, first in zip(values, self._values, strict=True)]
        if but >= 0:
            steps[but] = 0
        if any(step and not known for step, known in zip(steps, self._is_known, strict=True)):
            return None
        numbers: Numbers = self._numbers + np.array(steps, np.int64) @ self._changes
        return numbers

    def learn(self, other: Template) -> bool:
        """Learn the effect of a variable from another traced iteration, and return whether this was
        possible. The iteration must have the same events. Exactly one variable with an unknown
        effect must differ."""
        pairs = zip(self._values, other._values, strict=True)
        unknown = [n for n, (a, b) in enumerate(pairs) if a != b and not self._is_known[n]]
        if len(unknown) != 1 or not self._is_like(other):
            return False
        axis = unknown[0]
        numbers = self._known(other._values, but=axis)
        assert numbers is not None
        steps = other._values[axis] - self._values[axis]
        change, rest = np.divmod(other._numbers - numbers, steps)
        if rest.any() or change[self._layout.still].any():
            return False
        self._changes[axis], self._is_known[axis] = change, True
        self._iterations = None  # they were made with the changes that were known before
        return True

    def _is_like(self, other: Template) -> bool:
        """Return whether another template has the same events with other numbers."""
        mine, theirs = self._layout, other._layout
        if len(self._numbers) != len(other._numbers) or len(mine.events) != len(theirs.events):
            return False
        if mine.low != theirs.low or mine.high != theirs.high:
            return False
        tables = [[id(tiles) for tiles, *_ in layout.outside] for layout in (mine, theirs)]
        return tables[0] == tables[1] and all(map(_same, mine.events, theirs.events))

    def _all_known(self, outer: Values, values: range) -> Numbers | None:
        """Return the numbers of successive iterations, one per row, up to the first that is not
        within the limits. Return None if they are unknown. `outer` are the variables of the loops
        around this loop, and `values` those of this loop."""
        numbers = self._known((*outer, values[0]))
        if numbers is None:
            return None
        several = self._is_known[-1] and self._state.trace is None
        most = AHEAD // max(len(numbers), 1) if several else 1
        steps = np.arange(max(1, min(len(values), most)))
        all_numbers: Numbers = numbers + np.multiply.outer(steps * values.step, self._changes[-1])
        held = self._limits.hold(all_numbers)
        return all_numbers[:held] if held else None

    def _storages(self, numbers: list[int]) -> list[Storage] | None:
        """Return the storages of the blocks in `_Blocks.outside`; None if a decision of the
        frontend may differ."""
        storages = []
        for tiles, begin, end, whole in self._blocks.outside:
            tile = tiles.get(tuple(numbers[begin:end]))
            if tile is None or not self._is_ready(tile.storage, whole):
                return None
            storages.append(tile.storage)
        return storages if self._blocks.are_new(numbers) else None

    def _is_ready(self, storage: Storage, whole: bool) -> bool:
        """Return whether a storage can be used now: its iteration is running, no initial number is
        missing, and with `whole`, all bytes were written."""
        over = storage.scope is not None and storage.scope.over
        missing = storage.gaps is not None and (whole or storage.id in self._state.fills)
        return not over and not missing

    def _iterations_for(self, core: Core, count: int) -> KnownIterations | None:
        """Return how to make `count` iterations of this template. Return None if an instruction
        can't be repeated, or if the record has no room."""
        program = core.program
        if program is None:
            return None
        if self._iterations is None:
            numbers = self._numbers, self._changes
            self._blocks = _Blocks(self._layout, *numbers)
            blocks = self._blocks.outside, self._blocks.places
            shared = self._state.shared, core.memory
            given = *blocks, *numbers, *shared
            ends = self._layout.ends
            self._iterations = KnownIterations(program, self._events, ends, *given)
        iterations = self._iterations
        has_room = program.count + iterations.count * count <= program.limit
        return iterations if iterations.fits and has_room else None

    def repeat(self, loop_run: LoopRun, outer: Values, values: range) -> int:
        """Execute successive iterations without Python, while their numbers and decisions are
        known. Return how many. `outer` are the variables of the loops around this loop, and
        `values` those of this loop."""
        state, core = self._state, core_of_kernel() or current()
        numbers = self._all_known(outer, values)
        iterations = None if numbers is None else self._iterations_for(core, len(numbers))
        if numbers is None or iterations is None:
            return 0
        # ready until the last iteration: no iteration ends a loop around it, or undoes a write
        if not all(self._is_ready(*entry) for entry in self._fixed):
            return 0
        trace = state.trace
        done = iterations.run(core, state, loop_run, values, numbers, self._storages)
        if trace is not None and done:
            low, high = self._layout.low, self._layout.high
            trace.guards.extend(zip(numbers[0].tolist(), low, high, strict=False))
        return done


def _same(a: Any, b: Any) -> bool:
    """Return whether two parts of events are equal. Equal numbers must also have the same type."""
    if a is b:
        return True
    if type(a) is tuple and type(b) is tuple:
        return len(a) == len(b) and all(map(_same, a, b))
    return type(a) is type(b) and isinstance(a, (*PLAIN, range)) and bool(a == b)
