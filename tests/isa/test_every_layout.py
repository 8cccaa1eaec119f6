"""Operands of every instruction that lie otherwise than alone and in a row: strided, with more free
axes, in other memories, in formats that differ, over one another. Results are those of the plain
reading."""

import re
from itertools import product

import pytest
from accepted import accepted, takes
from calls import ONE_CORE, Case
from device import REGIONS, Device
from every import for_all

from neuroncore.base.enums import MemoryRegion
from neuroncore.base.errors import BufferKindError, DtypeError, OutOfBoundsError, ShapeError
from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import FORMATS

OF_TILES = [name for name in ONE_CORE if INSTRUCTIONS[name].operands]
PLACES = {MemoryRegion.private_hbm: "hbm", **{region: place for place, region in REGIONS.items()}}


def tiles_of(case):
    return {name: value for name, value in case.arguments.items() if isinstance(value, Tile)}


def part(case, tile, shape, where, buffer=None):
    """A tile with the elements of another, as a part of one of a shape."""
    place, missing = buffer or PLACES[tile.region], tile.unwritten()
    if missing is not None and missing.all():
        return where(case.device.empty(shape, tile.dtype, place))
    whole = case.device.zeros(shape, tile.dtype, place)
    view = where(whole)
    view.codes()[...] = tile.codes().reshape(view.shape)
    case.device.enter(whole)
    return view


def one_by_one(case, change):
    """Changes of one operand after the other, and of all of them."""
    changed = {}
    for name, tile in tiles_of(case).items():
        for other in change(tile):
            yield {name: other}
            changed[name] = other
    yield changed


def strided(case):
    def change(tile):
        *first, last = tile.shape
        yield part(case, tile, (*first, 2 * last + 1), lambda whole: whole[..., 1::2])

    return one_by_one(case, change)


def with_axes(case):
    def change(tile):
        rows, *_, last = tile.shape
        if len(tile.shape) == 2 and last % 2 == 0:
            yield part(case, tile, (rows, 3, last), lambda whole: whole[:, ::2, : last // 2])
            yield part(case, tile, (rows, last // 2, 2), lambda whole: whole)

    return one_by_one(case, change)


def in_memories(case):
    """Each operand in each memory, in all combinations."""
    tiles = tiles_of(case)
    places = [sorted({PLACES[region] for region in case.declared(n).regions}) for n in tiles]
    for chosen in product(*places):
        pairs = zip(tiles.items(), chosen, strict=True)
        yield {n: part(case, t, t.shape, lambda whole: whole, place) for (n, t), place in pairs}


def in_formats(case):
    """Each operand in each format, whatever that of the others."""
    for name, tile in tiles_of(case).items():
        declared, place = case.declared(name), PLACES[tile.region]
        only_written = declared.writes and not declared.partial
        make = case.device.empty if only_written else case.tile
        for form in (form for form in FORMATS if takes(declared, form, case.machine)):
            yield {name: make(tile.shape, form, place)}


def over_one_another(case):
    """Results where an operand is, or a little before or after."""
    tiles = {name: tile for name, tile in tiles_of(case).items() if len(tile.shape) == 2}
    writes = {name for name in tiles if case.declared(name).writes}
    for (out, dst), (name, src) in product(tiles.items(), tiles.items()):
        alike = (dst.dtype, dst.region, dst.shape[0]) == (src.dtype, src.region, src.shape[0])
        if out not in writes or name in writes or not alike:
            continue
        for to, start in ((0, 0), (1, 0), (0, 1), (2, 0)):
            whole = case.device.zeros(
                (dst.shape[0], 2 + max(dst.shape[1], src.shape[1])), dst.dtype, PLACES[dst.region]
            )
            read = whole[:, start : start + src.shape[1]]
            read.codes()[...] = src.codes()
            case.device.enter(whole)
            yield {name: read, out: whole[:, to : to + dst.shape[1]]}


LAYOUTS = {  # and how operands are refused that don't go together so
    strided: ((), ""),
    with_axes: (ShapeError, r"must have two axes|is \[P, 6\]"),
    in_memories: (BufferKindError, "(are|is) in psum"),
    in_formats: ((DtypeError, OutOfBoundsError), ""),
    over_one_another: ((), ""),
}
BASES = [("trn1", "float32", 1), ("trn2", "bfloat16", 32), ("trn3", "int16", 5)]


def base(name, layout):
    """A machine, a format and lanes: another one for each layout of an instruction, and for each
    instruction in a layout, among those that it has."""
    first = (OF_TILES.index(name) + [*LAYOUTS].index(layout)) % len(BASES)
    having = (b for b in BASES[first:] + BASES[:first] if accepted(name, b[0]))
    target, form, lanes = next(having)
    forms = accepted(name, target)
    return target, next(f for f in (form, "float32", *forms) if f in forms), lanes


@for_all("layout", LAYOUTS)
@pytest.mark.parametrize("name", OF_TILES)
def test_operands_may_lie_anywhere(name, layout):
    target, form, lanes = base(name, layout)
    device, (errors, words) = Device(target), LAYOUTS[layout]
    case = Case(device, name, form, lanes, 12)
    for change in layout(case):
        try:
            device.issue(name, **case.arguments | change)
        except errors as error:
            assert re.search(words, str(error))
    if len(device.core.program):
        device.agrees()
