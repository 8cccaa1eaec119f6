"""Float64 beside one core: each instruction that writes floats is evaluated there as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from neuroncore.clause.instruction import Call
from neuroncore.clause.operand import Operand
from neuroncore.core.core import CarryOut, Core
from neuroncore.core.indirection import Picked, scatter
from neuroncore.core.staging import perform
from neuroncore.enums import engine
from neuroncore.memory.storage import Storage
from neuroncore.memory.tile import Array, Tile
from neuroncore.numerics.formats import Format, bool_
from neuroncore.precision.around import Around, Stand
from neuroncore.precision.doubles import (
    Beside,
    Doubles,
    Energy,
    adopted,
    begun,
    chip_doubles,
    copied,
    is_float,
    made,
    on,
    source_of,
)
from neuroncore.precision.evaluation import WIDE_INTEGERS, Evaluation, evaluation
from neuroncore.precision.findings import (
    ROUNDED,
    SATURATED,
    Precision,
    add,
    distance,
    portions,
)
from neuroncore.precision.step import Step, Written

EXACT_INTEGER = 1 << 24  # float32 has all integers up to here


class _Peers:
    """The other cores, met a second time for what is beside the data that cores exchange."""

    def __init__(self, shadow: Shadow) -> None:
        self.shadow = shadow

    def meet(
        self,
        number: int,
        point: str,
        cores: Sequence[int],
        bring: Any,
        carry_out: CarryOut | None = None,
    ) -> dict[int, Any]:
        peers = self.shadow.core.peers
        assert peers is not None

        def carried(met: dict[int, Any]) -> None:
            if carry_out is not None:
                carry_out({other: brought for other, (brought, _) in met.items()})

        sent = bring, self.shadow.sent
        met = peers.meet(number, f"{point}, in float64", cores, sent, carried)
        self.shadow.received = {}
        for other, (_, owed) in met.items():
            if other != number:
                add(self.shadow.received, owed)
        return {other: brought for other, (brought, _) in met.items()}


class Shadow:
    """What computes beside one core (`Core.beside`)."""

    def __init__(self, core: Core, found: Precision) -> None:
        self.core, self.found = core, found
        self.doubles = Doubles()
        self.accumulators = {u: a.astype(np.float64) for u, a in core.accumulators.items()}
        self.owed: dict[engine, Energy] = {unit: {} for unit in core.accumulators}
        self.sent: Energy = {}
        self.received: Energy = {}
        self._known: dict[Call, Evaluation] = {}
        self._around = Around(core, found)
        self._scattered: list[Written] = []

    def perform(self, call: Call, arguments: dict[str, Any]) -> None:
        """Let the core perform a call, and compute it in float64 beside it."""
        known = self._known.get(call)
        if known is None:
            known = self._known[call] = evaluation(call)
        if not call.instruction.traits.computes:
            perform(call, arguments, self.core)
            return
        floats = [n for n in known.floats if is_float(arguments[n])]
        if not floats:
            self._whole_numbers(call, arguments, known)
        else:
            self._floats(call, arguments, known, floats)
        others = [n for n in call.writes if n not in floats]
        if others:
            self.doubles.end(source_of(arguments[n]).storage for n in others)

    # --- instructions that write floats ----------------------------------------------------------

    def _floats(
        self, call: Call, arguments: dict[str, Any], known: Evaluation, floats: list[str]
    ) -> None:
        exchanges = call.instruction.traits.exchanges
        before = {n: self.doubles.of(arguments[n]) for n in floats}
        inexact = {
            n: double
            for n in call.reads
            if is_float(arguments[n]) and (double := self.doubles.of(arguments[n]))
        }
        if known.moves and not (inexact or exchanges or any(before.values())):
            perform(call, arguments, self.core)
            self.doubles.end(source_of(arguments[n]).storage for n in floats)
            return
        self._rounded_on_reading(arguments, known)
        step = Step(self._around, call, arguments, known, before, inexact)
        unit = call.engine if known.registers else None
        if not exchanges:
            step.evaluate(self.accumulators, self.owed[unit] if unit else {}, None)
        perform(call, arguments, self.core)
        received: Energy = {}
        if exchanges:  # once the chip's cores have met
            self.sent = {}
            for double in inexact.values():
                add(self.sent, double.energy)
            step.evaluate(self.accumulators, {}, _Peers(self))
            received = self.received
        owed = step.compare(received)
        if unit:
            error, _, _ = distance(self.core.accumulators[unit], self.accumulators[unit])
            self.owed[unit] = portions(owed, error)
        for written in step.written:
            self._keep(written)

    def _keep(self, written: Written) -> None:
        """Note what float64 has in the place of a tile, and which lines the difference is owed
        to."""
        if isinstance(written.tile, Picked):
            self._scattered.append(written)  # once the chip has written it
            return
        storage, double, shadow = written.tile.storage, written.before, written.shadow
        if not written.wrong and (written.covers or double is None):
            self.doubles.end([storage])
            return
        if double is None and written.covers:
            double = adopted(shadow.storage.data, storage)
        elif double is None:
            double = begun(storage, written.tile)
            on(double.storage, written.tile).codes()[...] = shadow.codes()
        left = 0.0 if written.covers else sum(double.energy.values()) - written.old
        double.energy = portions(double.energy, left)
        add(double.energy, written.energy)
        double.infinite = written.infinite or (double.infinite and not written.covers)
        self.doubles.put(double, storage)

    def scatter(self, results: Sequence[tuple[Picked, Operand]]) -> None:
        """Put what float64 has in the places that an index has picked."""
        done, self._scattered = self._scattered, []
        partial = {id(tile): operand.partial for tile, operand in results}
        for written in done:
            tile = written.tile
            assert isinstance(tile, Picked)
            storage = tile.source.storage
            double = written.before
            if double is None and not written.wrong:
                continue
            double = double or copied(storage)
            shadow = Picked.like(written.shadow)
            shadow.held = written.shadow.held
            shadow.source, shadow.places = on(double.storage, tile.source), tile.places
            shadow.group = tile.group
            shadow.storage.gaps = tile.storage.gaps
            scatter(shadow, partial[id(tile)])
            add(double.energy, written.energy)
            double.infinite |= written.infinite
            self.doubles.put(double, storage)

    # --- integers --------------------------------------------------------------------------------

    def _rounded_on_reading(self, arguments: dict[str, Any], known: Evaluation) -> None:
        for name in known.integers:
            codes = arguments[name].codes()
            if _beyond(codes):
                count = int((codes.astype(np.float32).astype(np.float64) != codes).sum())
                self._rounded(name, arguments[name], count)

    def _rounded(self, name: str, tile: Tile, count: int) -> None:
        if not count:
            return
        self.core.report(
            ROUNDED,
            f"{name} ({tile}) has {count} integers beyond 2^24 that float32, in which the engine "
            "computes, does not have",
            tile.storage.id,
        )

    def _whole_numbers(self, call: Call, arguments: dict[str, Any], known: Evaluation) -> None:
        """Integers are what the chip makes of them; but they may have been cut off or rounded."""
        tiles = {n: arguments[n] for n in (*call.reads, *call.writes)}
        results = [n for n in call.writes if _counts(tiles[n].dtype)]
        dynamic = any(tile.dynamic for tile in tiles.values())
        if not known.casts or not results or dynamic:
            perform(call, arguments, self.core)
            return
        written = [tiles[n].storage for n in call.writes]
        given = {n: _apart(tiles[n], written) for n in call.reads}
        perform(call, arguments, self.core)
        if not any(_suspect(tile, n in results) for n, tile in tiles.items()):
            return
        exact = {n: made(np.zeros(tiles[n].shape), tiles[n]) for n in call.writes}
        registers = {unit: a.astype(np.float64) for unit, a in self.core.accumulators.items()}
        stand = Stand(self._around, registers)
        perform(call, {**arguments, **given, **exact}, stand)
        for name in results:
            self._cut_off(name, tiles[name], exact[name].codes())

    def _cut_off(self, name: str, tile: Tile, exact: Array) -> None:
        low, high = tile.dtype.range
        outside = int(((exact > high + 0.5) | (exact < low - 0.5)).sum())
        if outside:
            self.core.report(
                SATURATED,
                f"{outside} of {tile.size} results for {name} ({tile}) are outside {low} to "
                f"{high}, and have become the nearest of these",
                tile.storage.id,
            )
        elif tile.dtype in WIDE_INTEGERS:
            self._rounded(name, tile, int((np.abs(exact - tile.codes()) >= 1).sum()))


def _counts(form: Format) -> bool:
    return form.is_integer and form is not bool_


def _beyond(codes: Array) -> bool:
    """Whether 32-bit integers are as large as float32 has no longer all."""
    return bool(codes.size) and (
        int(codes.max()) >= EXACT_INTEGER or int(codes.min()) <= -EXACT_INTEGER
    )


def _suspect(tile: Tile, written: bool) -> bool:
    """Whether a tile has integers that may be cut off or rounded."""
    if not _counts(tile.dtype) or not tile.size:
        return False
    codes = tile.codes()
    if tile.dtype in WIDE_INTEGERS:
        return _beyond(codes)
    low, high = tile.dtype.range
    return written and (int(codes.max()) == high or int(codes.min()) == low)


def _apart(tile: Tile, written: list[Storage]) -> Beside:
    """An input for float64, that the chip's results don't overwrite."""
    if is_float(tile):
        return made(chip_doubles(tile), tile)
    if any(storage.data is tile.storage.data for storage in written):
        return made(np.array(tile.codes(), order="C"), tile, tile.held)
    return on(tile.storage, tile)
