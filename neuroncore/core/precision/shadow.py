"""The float64 shadow of one core: each instruction that writes floats is also evaluated in float64.

The chip's values are the results that the emulator computes. A float64 copy contains the elements
of a storage (the memory of one tensor) in float64. An Energy contains the sums of squared errors by
line (`core.precision.findings`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from neuroncore.base.enums import engine
from neuroncore.clause.instruction import Call
from neuroncore.clause.operand import Operand
from neuroncore.core.binding import perform
from neuroncore.core.core import CarryOut, Core, Point, SentValues, nothing
from neuroncore.core.indirection import Picked, scatter
from neuroncore.core.precision import watch
from neuroncore.core.precision.around import SharedState
from neuroncore.core.precision.findings import (
    Energy,
    Float64Copies,
    Float64Copy,
    Precision,
    add,
    distance,
    float64_copy,
    float64_copy_of_tile,
    is_float,
    new_float64_copy,
    on,
    portions,
    source_of,
)
from neuroncore.core.precision.step import Step, Written
from neuroncore.core.precision.watch import Evaluation, evaluation
from neuroncore.memory.tile import Tile


class _Peers:
    """The other cores, for the exchange of float64 data. It follows the exchange of the chip's
    data."""

    def __init__(self, shadow: Shadow) -> None:
        self.shadow = shadow

    def meet(self, number: int, point: Point, value: Any, then: CarryOut = nothing) -> SentValues:
        peers = self.shadow.core.peers
        assert peers is not None

        def carried(met: SentValues) -> None:
            then({other: value for other, (value, *_) in met.items()})

        gone_on: list[int] = []
        sent = value, self.shadow.sent, gone_on
        in_float64 = point._replace(name=f"{point.name}, in float64")
        met = peers.meet(number, in_float64, sent, carried)
        self.shadow.received = {}
        for other, (_, by_line, _) in met.items():
            if other != number:
                add(self.shadow.received, by_line)
        core = self.shadow.core
        first = min(met.keys() & set(core.world.cores_of(core.rank)))
        self.shadow.is_first = not met[first][-1]
        met[first][-1].append(number)
        return {other: value for other, (value, *_) in met.items()}


class Shadow:
    """An observer of one core (`Core.shadow`), which also computes its instructions in float64."""

    def __init__(self, core: Core, analysis: Precision) -> None:
        self.core, self.analysis = core, analysis
        self.copies = Float64Copies()
        self.accumulators = {u: a.astype(np.float64) for u, a in core.accumulators.items()}
        self.register_errors: dict[engine, Energy] = {unit: {} for unit in core.accumulators}
        self.sent: Energy = {}
        self.received: Energy = {}
        self.is_first = True  # the first core of its rank to continue after a synchronization
        self._shared = SharedState(core, analysis)
        self._scattered: list[Written] = []

    def perform(self, call: Call, arguments: dict[str, Any]) -> None:
        """Execute a call on the core, and also compute its float results in float64."""
        facts = evaluation(call)
        if not call.instruction.traits.computes:
            perform(call, arguments, self.core, call.run)
            return
        floats = [n for n in facts.floats if is_float(arguments[n])]
        if not floats:
            run = partial(perform, call, arguments, self.core, call.run)
            watch.check_written(self.core, lambda: self._shared, call, arguments, facts, True, run)
        else:
            self._floats(call, arguments, facts, floats)
        others = [n for n in call.writes if n not in floats]
        if others:
            self.copies.end(source_of(arguments[n]).storage for n in others)

    # --- instructions that write floats ----------------------------------------------------------

    def _floats(
        self, call: Call, arguments: dict[str, Any], facts: Evaluation, floats: list[str]
    ) -> None:
        exchanges = call.instruction.traits.exchanges
        waits, once = call.participation if self.core.world.cores > 1 else (False, False)
        if waits:
            self._wait_for_the_rank(call)
        before: dict[str, Float64Copy | None] = {n: self.copies.of(arguments[n]) for n in floats}
        if waits:
            before = {n: d or self._begun(arguments[n]) for n, d in before.items()}
        inexact = {
            n: double
            for n in call.reads
            if is_float(arguments[n]) and (double := self.copies.of(arguments[n]))
        }
        if facts.moves and not (inexact or exchanges or any(before.values())):
            perform(call, arguments, self.core, call.run)
            self.copies.end(source_of(arguments[n]).storage for n in floats)
            return
        watch.check_read(self.core, arguments, facts)
        step = Step(self._shared, call, arguments, facts, before, inexact)
        unit = call.engine if facts.registers else None
        if not exchanges:
            step.evaluate(self.accumulators, self.register_errors[unit] if unit else {}, None)
        perform(call, arguments, self.core, call.run)
        received: Energy = {}
        if exchanges:  # only now, because the chip's cores have met
            self.sent = {}
            for double in inexact.values():
                add(self.sent, double.energy)
            step.evaluate(self.accumulators, {}, _Peers(self))
            received = self.received
            if once and not self.is_first:
                return  # the other core has stored the result that both share
        by_line = step.compare(received)
        if unit:
            error, _, _ = distance(self.core.accumulators[unit], self.accumulators[unit])
            self.register_errors[unit] = portions(by_line, error)
        for written in step.written:
            self._keep(written)

    def _wait_for_the_rank(self, call: Call) -> None:
        """Wait for the rank's other cores, which may still write data."""
        assert self.core.peers is not None
        cores = frozenset(self.core.world.cores_of(self.core.rank))
        self.core.peers.meet(self.core.number, Point(call.name, cores), None)

    def _begun(self, tile: Tile) -> Float64Copy:
        """Return a new float64 copy with the chip's values, for a storage that several cores
        share."""
        double = float64_copy(tile.storage)
        self.copies.put(double, tile.storage)
        return double

    def _keep(self, written: Written) -> None:
        """Store the float64 values and the energy of a tile in the float64 copy of its storage. An
        exact storage gets no float64 copy."""
        if isinstance(written.tile, Picked):
            self._scattered.append(written)  # stored by `scatter`, after the chip has written it
            return
        storage, double, shadow = written.tile.storage, written.before, written.shadow
        if not written.wrong and (written.covers or double is None):
            self.copies.end([storage])
            return
        if double is None and written.covers:
            double = float64_copy_of_tile(shadow, written.tile)
        elif double is None:
            double = new_float64_copy(storage, written.tile)
            double.window(written.tile).codes()[...] = shadow.codes()
        left = 0.0 if written.covers else sum(double.energy.values()) - written.old
        double.energy = portions(double.energy, left)
        add(double.energy, written.energy)
        double.infinite = written.infinite or (double.infinite and not written.covers)
        self.copies.put(double, storage)

    def scatter(self, results: Sequence[tuple[Picked, Operand]]) -> None:
        """Write the float64 values of results to the elements that an index chose. The chip has
        already written them."""
        done, self._scattered = self._scattered, []
        partial = {id(tile): operand.partial for tile, operand in results}
        for written in done:
            tile = written.tile
            assert isinstance(tile, Picked)
            storage = tile.source.storage
            double = written.before
            if double is None and not written.wrong:
                continue
            double = double or float64_copy(storage)
            shadow = Picked.like(written.shadow)
            shadow.held = written.shadow.held
            shadow.source, shadow.places = on(double.storage, tile.source), tile.places
            shadow.group = tile.group
            shadow.storage.gaps = tile.storage.gaps
            scatter(shadow, partial[id(tile)])
            add(double.energy, written.energy)
            double.infinite |= written.infinite
            self.copies.put(double, storage)
