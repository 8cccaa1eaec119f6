"""One instruction in float64.

The instruction is evaluated on the float64 inputs. A sample of its results is also evaluated
several times, while the chip's inputs replace the float64 inputs one after the other. The sample of
a large result consists of some lanes or columns (`_sample`); the sample of a small result is the
whole result.

The chip's values are the results that the emulator computes. A float64 copy contains the elements
of a storage (the memory of one tensor) in float64. An Energy contains the sums of squared errors by
line (`core.precision.findings`). A call is the use of an instruction with certain formats, shapes
and operators, but without data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, log10
from typing import Any

import numpy as np

from neuroncore.base.enums import engine
from neuroncore.clause.instruction import Call, Run
from neuroncore.core.binding import perform, stage
from neuroncore.core.indirection import Picked
from neuroncore.core.precision.around import Registers, SharedState, StandIn
from neuroncore.core.precision.findings import (
    CANCELLATION,
    OVERFLOW,
    Energy,
    Float64Copy,
    Float64Tile,
    add,
    all_finite,
    chip_float64,
    chip_values,
    distance,
    float64_copy,
    is_float,
    largest_rounding,
    new_tile,
    on,
    portions,
)
from neuroncore.core.precision.watch import Evaluation
from neuroncore.memory.access import is_dense
from neuroncore.memory.geometry import make_room
from neuroncore.memory.tile import Array, Tile
from neuroncore.numerics.formats import float64
from neuroncore.numerics.loops import precision as native

SAMPLED = f"{__name__}.sample"  # in `Call.results`
SAMPLE = 4096  # elements of a result whose errors are attributed to inputs
LOST = 2.0  # a loss of at least this many decimal digits is reported
DECIMAL = log10(2)
Inputs = dict[str, Tile]


@dataclass(eq=False)
class Written:
    """A tile that an instruction writes: on the chip (`tile`), in float64 (`shadow`), and the
    difference."""

    name: str
    tile: Tile
    before: Float64Copy | None  # the float64 copy of its storage before the write
    shadow: Float64Tile
    keeps: bool  # whether the result depends on the previous contents of the tile
    covers: bool  # whether the tile is its whole storage, in memory order
    fresh: Any  # the elements that start a sum: True for all, False for none, or flags
    index: Any  # the index of the sample in the tile
    old: float = 0.0  # the sum of the squared errors of the previous contents
    # the results of the evaluations of the sample, each with the chip's values for one more input
    parts: list[Array] = field(default_factory=list)
    energy: Energy = field(default_factory=dict)
    infinite: bool = False  # whether the chip has infinity or NaN where float64 has a number

    @property
    def wrong(self) -> bool:
        return bool(self.energy) or self.infinite


@dataclass(eq=False)
class Joining:
    """An input of the sample that has float64 values first, and the chip's values in later
    evaluations.

    `real`, `exact`: tiles with the chip's and the float64 values; None for accumulator registers
    `energy`: the squared errors by the line that caused them"""

    name: str
    energy: Energy
    real: Tile | None
    exact: Tile | None


class Step:
    """The float64 evaluation of one instruction. `before` lists the float64 copy (or None) of each
    float destination, `inexact` the float64 copies of inputs that have errors."""

    def __init__(
        self,
        shared: SharedState,
        call: Call,
        arguments: dict[str, Any],
        traits: Evaluation,
        before: dict[str, Float64Copy | None],
        inexact: dict[str, Float64Copy],
    ) -> None:
        self.shared, self.call, self.traits = shared, call, traits
        self.core, self.analysis = shared.core, shared.analysis
        self.arguments = dict(arguments)
        self.inexact = inexact
        self.slots = shared.slots.of(call)
        names = (*call.reads, *call.writes) if call.dynamic else ()
        dynamic = any(arguments[n].dynamic for n in names)
        # if addresses are known only at run time, or results may overlap, use whole storages
        self.windows = dynamic or (
            len(before) > 1 and len({arguments[n].storage for n in before}) < len(before)
        )
        # no sample is evaluated for data that is moved or comes from other cores
        self.exchanges = call.instruction.traits.exchanges
        self.whole = self.windows or traits.moves or self.exchanges
        self.sample: dict[str, Any] = {}
        if not self.whole:
            self.sample = call.derived(SAMPLED, lambda: _sample(call, arguments))
        self.written = [self._written(n, double) for n, double in before.items()]
        self.inputs = {n: self._input(n) for n in call.reads}
        self.joining: list[Joining] = []
        self.added: Joining | None = None  # the sum to which a product is added

    # --- tiles -----------------------------------------------------------------------------------

    def _written(self, name: str, double: Float64Copy | None) -> Written:
        tile: Tile = self.arguments[name]
        fresh: Any = False
        if self.traits.accumulates:
            adds_name = self.call.instruction.traits.adds
            fresh = _fresh(tile, self.arguments[adds_name])
            self.arguments[adds_name] = fresh is not True
        adds = self.traits.accumulates and fresh is not True
        # a DMA writes all of a result at a known address
        in_part = name in self.traits.partial and (self.windows or not _is_dma(self.call))
        keeps = adds or in_part
        if isinstance(tile, Picked):
            shadow = new_tile(_picked(tile, double), tile)
        elif self.windows or double is not None:
            double = double or float64_copy(tile.storage)
            shadow = double.window(tile)
        else:
            shadow = new_tile(chip_float64(tile), tile) if keeps else self.slots.fresh(name, tile)
        if isinstance(fresh, np.ndarray):
            shadow.codes()[fresh] = 0
        covers = bool(tile.dynamic) or _covers(tile)
        index = self.sample.get(name, ...)
        written = Written(name, tile, double, shadow, keeps, covers, fresh, index)
        if double is not None and (keeps or not covers):
            written.old = self._overwritten(written)
        return written

    def _overwritten(self, written: Written) -> float:
        """Return the sum of a destination's squared errors before the write."""
        tile = written.tile
        assert written.before is not None
        if tile.dynamic or _covers(tile):
            return sum(written.before.energy.values())
        unwritten = tile.unwritten()
        if unwritten is not None and unwritten.all():
            return 0.0
        index = written.index
        real, exact = chip_float64(tile, index), written.shadow.codes()[index]
        if isinstance(written.fresh, np.ndarray):
            real[written.fresh[index]] = 0
        return distance(real, exact)[0] * tile.size / max(real.size, 1)

    def _input(self, name: str) -> Tile:
        tile: Tile = self.arguments[name]
        double = self.inexact.get(name)
        if not is_float(tile):
            if tile.dynamic or not tile.held.is_float:
                return on(tile.storage, tile)
            return new_tile(chip_float64(tile), tile)  # bits of another format, viewed as floats
        if double is None and (double_of_result := self._copy_of_result(tile)):
            return double_of_result.window(tile)
        if isinstance(tile, Picked):
            return new_tile(_picked(tile, double), tile)
        if double is not None:
            return double.window(tile)
        if tile.dynamic:
            return float64_copy(tile.storage).window(tile)
        if self.traits.accumulates:
            return self.shared.recent.exact(tile)
        return self.slots.copy(("whole", name, 0), tile, chip_values(tile))

    def _copy_of_result(self, tile: Tile) -> Float64Copy | None:
        """Return the float64 copy that the storage of a result had before. Return None if `tile` is
        not in such a storage, or if only tiles are evaluated."""
        same = (w.before for w in self.written if self.windows and w.tile.storage is tile.storage)
        return next(same, None)

    # --- evaluation ------------------------------------------------------------------------------

    def evaluate(self, registers: Registers, by_line: Energy, peers: Any) -> None:
        """Evaluate the instruction in float64, before the chip overwrites its inputs.

        `registers`: the accumulator registers in float64
        `by_line`: their squared errors, by the line that caused them
        `peers`: the other cores of an exchange, or None"""
        if not self.whole:
            self._join(by_line)
            if self.joining:
                self._evaluate_sample(registers)
        tiles: dict[str, Any] = {w.name: w.shadow for w in self.written}
        for name in self.call.writes:
            if name not in tiles and name in self.inputs:
                tiles[name] = self.inputs[name]
            elif name not in tiles:
                tiles[name] = new_tile(np.zeros(self.arguments[name].shape), self.arguments[name])
        arguments = {**self.arguments, **self.inputs, **tiles}
        stand = self.shared.stand_in(registers, peers)
        perform(self.call, arguments, stand, staged(self.shared, self.call, arguments, stand))

    def _join(self, by_line: Energy) -> None:
        """Fill `joining` with the inputs whose chip values differ from float64.

        A destination is an input too if the result depends on its contents. `by_line` is the
        squared error of the accumulator registers."""
        if by_line and self.call.adds_to_registers:
            self.joining.append(Joining("", by_line, None, None))
        for written in self.written:
            if written.keeps and written.old:
                values = chip_values(written.tile, written.index)
                real = self._part("old real", written.name, values)
                if isinstance(written.fresh, np.ndarray):
                    real.codes()[written.fresh[written.index]] = 0
                energy = written.before.energy if written.before else {}
                exact = self._old(written)
                joining = Joining(written.name, energy, real, exact)
                if self.traits.accumulates:
                    self.added = joining
                else:
                    self.joining.append(joining)
        for name, double in self.inexact.items():
            index = self.sample.get(name, ...)
            real = self._part("real", name, chip_values(self.arguments[name], index))
            exact = self._part("exact", name, self.inputs[name].codes()[index])
            self.joining.append(Joining(name, double.energy, real, exact))

    def _part(self, role: str, name: str, values: Array) -> Tile:
        return self.slots.copy((role, name, 0), self.arguments[name], values)

    def _old(self, written: Written) -> Tile:
        """Return a sample of the previous contents of a destination, in float64."""
        return self._part("old exact", written.name, written.shadow.codes()[written.index])

    def _evaluate_sample(self, registers: Registers) -> None:
        """Evaluate the sample repeatedly, each time with the chip's values for one more input."""
        tiles = {name: self._sampled(name, tile) for name, tile in self.inputs.items()}
        state = {j.name: j.exact for j in self.joining if j.exact is not None}
        for written in self.written:
            if written.keeps and written.name not in state:
                state[written.name] = self._old(written)
        run: Run | None = None
        for number, joining in enumerate(self.joining):
            if joining.real is not None:
                state[joining.name] = joining.real
            results = {n: self._result(n, number, state.get(n)) for n in self.call.writes}
            arguments = {**self.arguments, **tiles, **state, **results}
            accumulators = self._chip_registers() if self.traits.registers else registers
            stand = self.shared.stand_in(accumulators)
            # the tiles of all evaluations have the same layouts
            run = run or staged(self.shared, self.call, arguments, stand)
            perform(self.call, arguments, stand, run)
            for written in self.written:
                written.parts.append(results[written.name].codes())

    def _sampled(self, name: str, tile: Tile) -> Tile:
        """Return the sample of an input, or the input itself if it is not sampled or is in
        `joining`."""
        if name not in self.sample or any(joining.name == name for joining in self.joining):
            return tile
        codes = tile.codes()[self.sample[name]]
        if tile.held is float64:
            return self._part("exact", name, codes)
        return new_tile(np.array(codes, order="C"), tile, tile.held)

    def _result(self, name: str, number: int, contents: Tile | None) -> Tile:
        """Return a tile for a result of evaluation `number` of the sample.

        `contents`: the old destination; None if the result does not depend on it"""
        tile = self.arguments[name]
        if contents is not None:
            return self.slots.copy(("result", name, number), tile, contents.codes())
        shape = tile.codes()[self.sample.get(name, ...)].shape
        result = self.slots.tile(("result", name, number), tile, shape)
        result.codes().fill(0)
        return result

    def _chip_registers(self) -> Registers:
        """Return the chip's accumulators in float64. Sampled lanes come first, without
        gaps."""
        accumulators = {unit: a.astype(np.float64) for unit, a in self.core.accumulators.items()}
        for name, index in self.sample.items():
            if self.call.instruction.traits.lanewise and name in self.call.reads:
                tile = self.arguments[name]
                first, lanes = tile.start_partition, tile.shape[0]
                for unit, registers in self.core.accumulators.items():
                    part = registers[first : first + lanes][index]
                    accumulators[unit][first : first + len(part)] = part
        return accumulators

    # --- comparison ------------------------------------------------------------------------------

    def compare(self, received: Energy) -> Energy:
        """Set the energy of each result: its squared errors, by the line that caused them.

        `received`: the squared errors of data from other cores

        Return the squared errors of the last result."""
        number = self.analysis.line()
        by_line: Energy = {}
        for written in self.written:
            if self.whole:
                by_line, error = self._passed_on(written, received), self._moved(written)
                if not self.traits.moves:
                    most = largest_rounding(written.tile) if self.exchanges else inf
                    add(by_line, {number: min(max(error - sum(by_line.values()), 0.0), most)})
            else:
                by_line, error = self._computed(number, written)
            written.energy = portions(by_line, error) or ({number: error} if error else {})
        return by_line

    def _moved(self, written: Written) -> float:
        """Return the squared error of a whole result; of the whole storage if its address is known
        only at run time."""
        doubles, tile, shadow = [*self.inexact.items()], written.tile, written.shadow
        if tile.dynamic:
            tile = Tile.of(tile.storage)
            shadow = on(shadow.storage, tile)
        elif len(doubles) == 1 and not (written.keeps or self.exchanges):
            ((name, double),) = doubles
            if _covers(self.arguments[name]):
                written.infinite = double.infinite
                return sum(double.energy.values())
        error, _, written.infinite = distance(chip_values(tile), shadow.codes())
        return error

    def _passed_on(self, written: Written, received: Energy) -> Energy:
        """Return the squared errors that a result inherits, by line. `received`: those from other
        cores."""
        by_line = dict(received)
        for double in self.inexact.values():
            add(by_line, double.energy)
        if written.before is not None and written.keeps:
            add(by_line, portions(written.before.energy, written.old))
        return by_line

    def _computed(self, number: int, written: Written) -> tuple[Energy, float]:
        """Return (squared errors of the sample by line, sum of squared errors of the whole result).
        `number` is the number of the current line."""
        tile, index = written.tile, written.index
        form, name = tile.held, self.call.name
        real, exact = chip_values(tile, index), written.shadow.codes()[index]
        error, size, written.infinite = distance(real, exact)
        if index is not ... and (error == 0 or not all_finite(tile)):
            whole = chip_values(tile)
            error, size, written.infinite = distance(whole, written.shadow.codes())
        elif index is not ...:
            error, size = (part * tile.size / real.size for part in (error, size))
        if written.infinite:
            self._overflow(written)
        self.analysis.check(number, name, form, error, size)
        if self.added is not None:
            before = written.parts[-1] if written.parts else exact
            real_sum, exact_sum = self.added.real, self.added.exact
            assert real_sum is not None and exact_sum is not None
            written.parts.append(before + (real_sum.codes() - exact_sum.codes()))
            self.joining.append(self.added)
        last = written.parts[-1] if written.parts else exact
        ulps = native.ulps(real.ravel(), last.ravel(), form.mantissa, 1 - form.bias)
        self.analysis.introduced(number, name, form, ulps)
        by_line, previous = {number: ulps[1]}, exact
        for joining, part in zip(self.joining, written.parts, strict=True):
            add(by_line, portions(joining.energy, distance(part, previous)[0]))
            previous = part
        if written.parts and not any(double.infinite for double in self.inexact.values()):
            self._cancelled(written, exact)
        return by_line, error

    def _cancelled(self, written: Written, exact: Array) -> None:
        """Report a result with a much larger relative error than any input."""
        count, places = native.lost(written.parts[-1].ravel(), exact.ravel())
        inputs = [
            native.lost(j.real.codes().ravel(), j.exact.codes().ravel())
            for j in self.joining
            if j.real is not None and j.exact is not None
        ]
        known = [total / n for n, total in inputs if n]
        if not count or not known:
            return
        digits = (places / count - max(known)) * DECIMAL
        if digits >= LOST:
            self.core.report(
                CANCELLATION,
                f"{self.call.name} loses {digits:.1f} decimal digits: the relative error of "
                f"{written.name} ({written.tile}) is 10^{digits:.1f} times the relative error of "
                "its inputs",
                written.tile.storage.id,
            )

    def _overflow(self, written: Written) -> None:
        """Report infinite results of finite inputs (NaN in formats without infinities)."""
        doubles = [*self.inexact.values(), *([written.before] if written.keeps else [])]
        if any(double and double.infinite for double in doubles):
            return
        form, real, exact = written.tile.held, chip_values(written.tile), written.shadow.codes()
        lost = np.isinf(real) if form.infinite else np.isnan(real)
        count = int((lost & np.isfinite(exact)).sum())
        if count:
            self.core.report(
                OVERFLOW,
                f"{count} of {real.size} results for {written.name} ({written.tile}) exceed "
                f"{form.max:.4g}, the largest {form}, and became "
                + ("infinite" if form.infinite else "NaN"),
                written.tile.storage.id,
            )


def staged(
    shared: SharedState, call: Call, arguments: Mapping[str, Any], stand: StandIn
) -> Run | None:
    """Return the cached function that executes a call on tiles with the layouts and formats of
    `arguments`.

    Return None if positions are known only at run time, or if the clause returns no Run."""
    tiles = [arguments[name] for name in (*call.reads, *call.writes)]
    if not call.instruction.staged or (call.dynamic and any(tile.dynamic for tile in tiles)):
        return None
    adds = arguments.get(call.instruction.traits.adds)
    key = id(call), adds, *[t.geometry for t in tiles], *[t.held for t in tiles]
    known = shared.staged.get(key)
    if known is None:
        make_room(shared.staged)
        known = shared.staged[key] = call, stage(call, arguments, stand)
    return known[1]


def _sample(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return, by name, the index of each operand's sample: every n-th lane, or column of a product.
    The result is {} if whole operands are evaluated."""
    names = (*call.reads, *call.writes)
    if call.instruction.traits.lanewise:
        size = max(arguments[n].size for n in names)
        lanes = {arguments[n].shape[0] for n in names}
        step = size // SAMPLE
        if step < 2 or len(lanes) > 1:
            return {}
        return dict.fromkeys(names, (slice(None, None, min(step, *lanes)),))
    if call.instruction.traits.multiplies:
        dst, moving = arguments["dst"], arguments["moving"]
        step = min(dst.size // SAMPLE, dst.shape[-1])
        if step > 1 and len(dst.shape) == 2 and dst.shape[-1] == moving.shape[-1]:
            columns = (..., slice(None, None, step))
            scaled = {"moving_scale": columns} if "moving_scale" in names else {}
            return {"dst": columns, "moving": columns, **scaled}
    return {}


def _is_dma(call: Call) -> bool:
    """Return whether DMA engines may run the call."""
    return engine.dma in call.instruction.engines


def _fresh(tile: Tile, accumulate: bool | None) -> Any:
    """Return which elements start a new sum in PSUM: True for all, False for none, or flags. If
    `accumulate` is None, unwritten elements start one."""
    if accumulate is not None:
        return not accumulate
    unwritten = tile.unwritten()
    if unwritten is None:
        return False
    return True if unwritten.all() else unwritten


def _covers(tile: Tile) -> bool:
    """Return whether a tile is its whole storage, in the order of memory."""
    if isinstance(tile, Picked):
        return False
    geometry = tile.geometry
    return geometry is geometry.layout.whole or (
        geometry.fills and is_dense(tile.shape, tile.strides)
    )


def _picked(tile: Picked, double: Float64Copy | None) -> Array:
    """Return the elements that an index has picked, in float64."""
    if double is None:
        return chip_float64(tile)
    codes = on(double.storage, tile.source).codes()
    return np.ascontiguousarray(np.take_along_axis(codes, tile.places, 1))
