"""Offsets that are only known when the instruction runs: the operands at the places that registers
and index tiles mean just then. With those it takes the way of every other instruction.
"""

from __future__ import annotations

from types import FrameType
from typing import Any

from neuroncore.base.structs import dataclass
from neuroncore.clause import picking
from neuroncore.clause.instruction import Call
from neuroncore.core import indirection
from neuroncore.core.core import Core
from neuroncore.memory.register import VirtualRegister
from neuroncore.memory.tile import Array, Dynamic, Tile


@dataclass(frozen=True, eq=False)
class Offsets:
    """One instruction's arguments as they were given, and its operands at known places."""

    core: Core
    call: Call
    given: dict[str, Any]
    tiles: dict[str, Any]

    def note(self, frame: FrameType, values: tuple[Any, ...]) -> int:
        """Write out what went to picked places, and append the instruction, as it was given, to
        the record; its row there. `values` is the key of its values, but for its registers."""
        self.write_out()
        core, call, given = self.core, self.call, self.given
        used = [d.index for n in call.dynamic for d in given[n].dynamic]
        indices = (index for index in used if isinstance(index, Tile))
        reads, writes = ([given[n] for n in names] for names in (call.reads, call.writes))
        registers = [index for index in used if isinstance(index, VirtualRegister)]
        if core.program is not None:
            for register in registers:
                values += core.program.data.register(register), VirtualRegister
        row = core.note(call, frame, values, *reads, *indices, *writes)
        for load in (register.load for register in registers):
            if load is not None and load.record is core.program:
                load.record.wait(row, load.row)
        return row

    def write_out(self) -> None:
        """Write what went to picked places."""
        core, call = self.core, self.call
        operands = {p.name: p.operand for p in call.instruction.operands if p.operand}
        results = [(self.tiles[n], operands[n]) for n in call.writes if n in operands]
        picked = [(t, o) for t, o in results if isinstance(t, indirection.Picked)]
        for tile, operand in picked:
            indirection.scatter(tile, operand.partial)
            tile.source.storage.version += 1
        if core.beside is not None:
            core.beside.scatter(picked)


def resolve(core: Core, call: Call, given: dict[str, Any], skip: bool) -> Offsets | None:
    """The operands where their offsets are just now; with `skip`, None for what is out of bounds.

    An offset per partition stays as it is. Raises OutOfBoundsError, and ViewError for scales that
    other places are picked from than their numbers.
    """
    tiles = dict(given)
    picked = {n: given[n] for n in call.dynamic if given[n].picks}
    for name in call.dynamic:
        if name in picked:
            continue
        tile = given[name]
        for index in (d.index for d in tile.dynamic):
            if isinstance(index, Tile) and index.storage.gaps is not None:
                core.check_written("the index", index)
        if not tile.dynamic[0].vector:
            if skip and _out_of_bounds(tile):
                if core.program is not None:
                    core.program.data.skipped += 1
                if core.leftovers is not None:
                    core.leftovers.skipped()
                return None
            tiles[name] = tile.resolved(name)
    tiles.update(_pick(core, call, picked))
    return Offsets(core, call, given, tiles)


def _pick(core: Core, call: Call, picked: dict[str, Tile]) -> dict[str, Tile]:
    """Temporary tiles for the places of indirect views."""

    def check(name: str, tile: Tile, used: Array) -> None:
        core.check_written(name, tile, chosen=used)

    operands = {p.name: p.operand for p in call.instruction.operands if p.operand}
    for name, tile in picked.items():
        if other := operands[name].index_of:
            error = indirection.same_index(name, tile, other, picked[other])
            if error is not None:
                raise error
    size = picking.group(call.engine, core.machine)
    chosen = {n: indirection.places(n, t, size, check) for n, t in picked.items()}
    return {
        n: indirection.pick(n, t, chosen[n], size, operands[n], check) for n, t in picked.items()
    }


def _out_of_bounds(tile: Tile) -> bool:
    def inside(dynamic: Dynamic) -> bool:
        index = dynamic.index
        value = index.value if isinstance(index, VirtualRegister) else int(index.codes().flat[0])
        return 0 <= value <= dynamic.limit

    return not all(inside(d) for d in tile.dynamic)
