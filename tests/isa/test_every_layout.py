"""Operands of every instruction in unusual layouts: strided, with more free axes, in other
memories, in different formats, overlapping. Results are compared with the plain reading."""

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
    """Return a tile with the elements of another, as a part of a tile with the given shape."""
    place, missing = buffer or PLACES[tile.region], tile.unwritten()
    if missing is not None and missing.all():
        return where(case.device.empty(shape, tile.dtype, place))
    whole = case.device.zeros(shape, tile.dtype, place)
    view = where(whole)
    view.codes()[...] = tile.codes().reshape(view.shape)
    case.device.enter(whole)
    return view


def one_by_one(case, change):
    """Yield changes of one operand after the other, and of all of them."""
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
            yield part(case, tile, (rows, 2, last // 2), lambda whole: whole.permute((0, 2, 1)))

    return one_by_one(case, change)


def repeated(case):
    """Repeat the first column of each operand that is read, instead of using all columns."""
    for name, tile in tiles_of(case).items():
        if len(tile.shape) == 2 and tile.shape[1] > 1 and not case.declared(name).writes:
            yield {name: tile[:, :1].broadcast(1, tile.shape[1])}


def in_memories(case):
    """Yield each operand in each memory, in all combinations."""
    tiles = tiles_of(case)
    places = [sorted({PLACES[region] for region in case.declared(n).regions}) for n in tiles]
    for chosen in product(*places):
        pairs = zip(tiles.items(), chosen, strict=True)
        yield {n: part(case, t, t.shape, lambda whole: whole, place) for (n, t), place in pairs}


def in_formats(case):
    """Yield each operand in each format: alone, then while others change their formats too."""
    tiles = tiles_of(case)
    forms = {n: [f for f in FORMATS if takes(case.declared(n), f, case.machine)] for n in tiles}

    def make(name, form):
        tile, declared = tiles[name], case.declared(name)
        only_written = declared.writes and not declared.partial
        made = case.device.empty if only_written else case.tile
        return made(tile.shape, form, PLACES[tile.region])

    for name in forms:
        yield from ({name: make(name, form)} for form in forms[name])
    for turn in range(2 * len(FORMATS)):
        step = 1 + turn // len(FORMATS)  # so that each format is combined with several others
        yield {
            name: make(name, several[(turn + step * n) % len(several)])
            for n, (name, several) in enumerate(forms.items())
            if several
        }


def over_one_another(case):
    """Yield results that overlap an operand, or begin shortly before or after it; all operands in
    one tile; columns that are parts of a result."""
    tiles = {name: tile for name, tile in tiles_of(case).items() if len(tile.shape) == 2}
    reads = {name for name in tiles if not case.declared(name).writes}
    for out, dst in ((name, tile) for name, tile in tiles.items() if name not in reads):
        alike = dst.dtype, dst.region, dst.shape[0]
        over = [n for n in reads if (tiles[n].dtype, tiles[n].region, tiles[n].shape[0]) == alike]
        for name, (to, start) in product(over, ((0, 0), (1, 0), (0, 1), (2, 0))):
            yield in_one_tile(case, {out: dst, name: tiles[name]}, (to, start))
        wide = [name for name in over if tiles[name].shape == dst.shape]
        for starts in ((0, 1, 2), (2, 1, 0), (1, 0, 2)) if len(wide) > 1 else ():
            yield in_one_tile(case, {n: tiles[n] for n in (out, *wide)}, [*starts, 1])
        for name in over:
            if tiles[name].shape[1] == 1 < dst.shape[1]:
                yield from ({name: dst[:, n : n + 1]} for n in (0, dst.shape[1] - 1))


def in_one_tile(case, tiles, starts):
    """Return the tiles as parts of one tile, each from a given column on."""
    first, places = next(iter(tiles.values())), dict(zip(tiles, starts))
    width = max(starts) + max(tile.shape[1] for tile in tiles.values())
    whole = case.device.zeros((first.shape[0], width), first.dtype, PLACES[first.region])
    parts = {n: whole[:, places[n] : places[n] + tile.shape[1]] for n, tile in tiles.items()}
    for name, tile in tiles.items():
        if not case.declared(name).writes:
            parts[name].codes()[...] = tile.codes()
    case.device.enter(whole)
    return parts


LAYOUTS = {  # and the refusals of operands that cannot be combined in this way
    strided: ((), ""),
    with_axes: (ShapeError, r"must have two axes|or \[P, 6\]"),
    repeated: ((), ""),
    in_memories: (BufferKindError, "(are|is) in psum"),
    in_formats: ((DtypeError, OutOfBoundsError), ""),
    over_one_another: ((), ""),
}
BASES = [("trn1", "float32", 1), ("trn2", "bfloat16", 32), ("trn3", "int16", 5)]


def base(name, layout):
    """Return a machine, a format and lanes, chosen from those that the instruction has: they differ
    between layouts of an instruction, and between instructions in a layout."""
    first = (OF_TILES.index(name) + [*LAYOUTS].index(layout)) % len(BASES)
    having = (b for b in BASES[first:] + BASES[:first] if accepted(name, b[0]))
    target, form, lanes = next(having)
    forms = accepted(name, target)
    return target, next(f for f in (form, "float32", *forms) if f in forms), lanes


@for_all("layout", LAYOUTS)
@pytest.mark.parametrize("name", OF_TILES)
def test_operands_may_have_any_layout(name, layout):
    target, form, lanes = base(name, layout)
    device, (errors, words) = Device(target), LAYOUTS[layout]
    forms = {form, *accepted(name, target)} & {form, "float32", "bfloat16", "int32"}
    for kind in sorted(forms) if layout is over_one_another else [form]:
        case = Case(device, name, kind, lanes, 12)
        for change in layout(case):
            try:
                device.issue(name, **case.arguments | change)
            except errors as error:
                assert re.search(words, str(error))
    if len(device.core.program):
        device.agrees()
