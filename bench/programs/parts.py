"""Statements that use parts of a tensor: windows in several formats that share few bytes or none,
and windows with elements that were never written."""

from __future__ import annotations

from dataclasses import replace

from bench.programs.elementwise import operators
from bench.programs.maker import Maker
from bench.programs.views import SIZES, View
from bench.programs.windows import How

SMALL = 64  # bytes per row of a tensor whose parts are used
TRIES = 4  # number of windows that are drawn, until one fits


def _part(maker: Maker, whole: View, reads: bool, dma: bool) -> View | None:
    """Return a few elements of a tensor, in any format and at any distance from each other, or None
    if the drawn elements do not fit. Only with `dma`, rows may begin anywhere, and a pattern may
    continue from one row to the next."""
    forms = [form for form in maker.forms if SMALL % SIZES[form] == 0]
    base, form = whole, maker.choose(forms)
    if form != whole.form:
        base = whole.view(form)
    if dma and not whole.tensor.on_chip and maker.chance(0.5):
        return _over_rows(maker, whole, base, reads)
    lanes = maker.between(1, base.lanes) if maker.chance(0.5) else base.lanes
    free = maker.between(1, max(1, base.free // maker.choose((1, 2, 4))))
    apart = maker.chance(0.5)
    if apart:
        free = min(free, maker.between(2, 4))
    return maker.window(base, lanes, free, How(reads=reads, anywhere=dma, apart=apart))


def _over_rows(maker: Maker, whole: View, base: View, reads: bool) -> View | None:
    """Return a pattern of a tensor in HBM, whose rows may begin and end anywhere. Return None if it
    does not fit."""
    rows, count = maker.between(1, base.lanes), maker.between(1, base.free)
    apart = maker.choose((base.free, base.free, maker.between(1, 2 * base.free)))
    step = maker.choose((1, 1, 2, 3))
    last = base.at.size - 1 - (rows - 1) * apart - (count - 1) * step
    if last < 0:
        return None
    found = whole.ap([[apart, rows], [step, count]], maker.between(0, last), base.form)
    return found if reads or found.is_unique() else None


def overlapping(maker: Maker) -> None:
    """Alternately write and read parts of a small tensor."""
    hbm, form = maker.chance(0.5), maker.choose(("float32", "bfloat16", "int32", "uint8"))
    lanes, wide = maker.between(1, 8) if hbm else maker.lanes(), SMALL // SIZES[form]
    whole = maker.new("hbm" if hbm else "sbuf", (lanes, wide), form)
    maker.issue("nisa.dma_copy", dst=whole, src=maker.given((lanes, wide), form))
    for _ in range(maker.between(3, 6)):
        reads, dma = maker.chance(0.5), hbm or maker.chance(0.3)
        there = _part(maker, whole, reads, dma)
        if there is None or there.lanes > 128:
            continue
        chosen = maker.to_write if reads else maker.to_read
        tile = chosen(there.lanes, there.free, maker.forms, anywhere=dma)
        if tile.tensor is whole.tensor:
            continue
        dst, src = (tile, there) if reads else (there, tile)
        _moved(maker, dst, src, dma)


def _moved(maker: Maker, dst: View, src: View, dma: bool) -> None:
    """Copy elements by DMA, or let one of the engines copy them or compute with them."""
    kinds = ["parts that share bytes"]
    if dma:
        maker.issue("nisa.dma_copy", dst=dst, src=src, kinds=kinds)
    elif maker.chance(0.4):
        op = f"nl.{maker.choose(('copy', 'square', 'exp'))}"
        maker.issue("nisa.activation", dst=dst, data=src, op=op, kinds=kinds)
    else:
        unit = maker.choose(("vector", "gpsimd"))
        maker.issue("nisa.tensor_copy", dst=dst, src=src, engine=f"nisa.engine.{unit}", kinds=kinds)


# --- parts that nothing has written ---------------------------------------------------------------


def gaps(maker: Maker) -> None:
    """Write some parts of a tensor, and in some programs the same parts of another one. Read other
    parts of both, and store parts of the results, or only overwrite the results."""
    form, lanes = maker.form(), maker.lanes()
    wide = maker.columns(70) * 4 // SIZES[form] + 1
    if maker.chance(0.5):  # with even sizes, a flag is for many bytes
        lanes, wide = maker.choose((4, 32, 64, 128)), maker.choose((2, 4, 16, 64))
    tile = maker.new("sbuf", (lanes, wide), form)
    first = _written(maker, tile)
    tiles = [tile]
    if maker.chance(0.4):
        twin = maker.new("sbuf", (lanes, wide), form)
        _write(maker, replace(first, tensor=twin.tensor, text=_renamed(first, twin)))
        tiles.append(twin)
    for one in tiles:
        for _ in range(maker.choose((0, 0, 1, 2))):
            _written(maker, one)
    copy = maker.name("f")
    maker.say(f"def {copy}(dst, src):\n    nisa.tensor_copy(dst=dst, src=src)", makes=copy)
    for _ in range(maker.between(1, 3)):
        one = maker.choose(tiles)
        _read(maker, one, copy)
        if maker.chance(0.3):
            _written(maker, one)
    for one in tiles:
        maker.issue("nisa.memset", dst=one, value="1")


def _renamed(view: View, other: View) -> str:
    """Return the text of a view, in which the name of its tensor is replaced by `other`."""
    return other.text + view.text.removeprefix(view.tensor.name)


def _written(maker: Maker, tile: View) -> View:
    """Write a part of a tile, and return it: some columns, some partitions, or any window."""
    lanes, free = tile.lanes, tile.free
    if maker.chance(0.6):
        lanes = max(1, lanes // 2) if maker.chance(0.4) else maker.between(1, lanes)
    if maker.chance(0.6):
        free = max(1, free // 2) if maker.chance(0.4) else maker.between(1, free)
    part = maker.window(tile, lanes, free)
    _write(maker, part)
    return part


def _write(maker: Maker, part: View) -> None:
    if maker.chance(0.5):
        maker.issue("nisa.memset", dst=part, value="0")
    else:
        src = maker.to_read(part.lanes, part.free, maker.forms, anywhere=True)
        maker.issue("nisa.dma_copy", dst=part, src=src)


def _read(maker: Maker, tile: View, copy: str) -> None:
    """Compute with a part of a tile, or copy it, sometimes by the function `copy` of the kernel.
    Store a part of the result or nothing."""
    lanes = maker.between(1, tile.lanes) if maker.chance(0.6) else tile.lanes
    free = maker.between(1, tile.free) if maker.chance(0.5) else tile.free
    src = maker.window(tile, lanes, free, How(reads=True))
    dst = maker.new("sbuf", (lanes, free), maker.choose(maker.floats))
    kinds = ["elements that were never written"]
    draw = maker.random.random()
    if draw < 0.25:
        maker.say(f"{copy}({dst.text}, {src.text})", kinds=kinds)
        maker.wrote(dst)
    elif draw < 0.4:
        maker.issue("nisa.dma_copy", dst=dst, src=src, kinds=kinds)
    elif draw < 0.6:
        maker.issue("nisa.activation", dst=dst, data=src, op="nl.square", kinds=kinds)
    else:
        _run_along(maker, dst, src, kinds)
    if maker.chance(0.6):
        rows = maker.between(1, lanes) if maker.chance(0.3) else lanes
        maker.result(maker.window(dst, rows, maker.between(1, free)))
    maker.issue("nisa.memset", dst=dst, value="1")


def _run_along(maker: Maker, dst: View, src: View, kinds: list[str]) -> None:
    """Scan or accumulate along the elements of each partition."""
    given = {"kinds": kinds, "op0": f"nl.{maker.choose(operators(maker))}", "op1": "nl.add"}
    if maker.chance(0.5):
        one = maker.to_read(src.lanes, src.free, maker.forms)
        both = [src, one] if maker.chance(0.5) else [one, src]
        given |= dict(zip(("data0", "data1"), both)) | {"initial": maker.number()}
        maker.issue("nisa.tensor_tensor_scan", dst=dst, **given)
        return
    if src.form in ("int32", "uint32", "bool_"):
        return
    given |= {"src": src, "imm0": maker.number(), "reduce_cmd": "nisa.reduce_cmd.reset_reduce"}
    maker.issue("nisa.tensor_scalar_cumulative", dst=dst, **given)


# --- limits of integers ---------------------------------------------------------------------------


def far(maker: Maker) -> None:
    """Use parts of a long row. They begin at offsets where the integer type of the offset changes,
    or at an offset in a register."""
    limit, count = maker.choose(LIMITS), maker.between(1, 9)
    form, wide = maker.choose(("uint8", "int8", "bfloat16")), limit + 2 + count
    row = maker.given((1, wide), form)
    if limit < 1000 and maker.chance(0.5):
        row = maker.fill(maker.new("sbuf", (maker.between(1, 9), wide), form))
    elif not row.tensor.constant and maker.chance(0.5):
        first = maker.between(limit - 1, limit + 1)
        src = maker.to_read(1, count, maker.forms, anywhere=True)
        there = row.index(slice(None), slice(first, first + count))
        maker.issue("nisa.dma_copy", dst=there, src=src, kinds=FAR)
    for moves in (False, maker.chance(0.7)):
        if moves:
            name, first = maker.register(wide - count)
            at = row.at[:, first : first + count]
            src = row.with_register(f"[:, nl.ds({name}, {count})]", at)
        else:
            first = maker.between(limit - 1, limit + 1)
            src = row.index(slice(None), slice(first, first + count))
        dst = maker.to_write(src.lanes, count, maker.forms, anywhere=True)
        if dst.tensor is not row.tensor:
            maker.issue("nisa.dma_copy", dst=dst, src=src, kinds=FAR)


LIMITS = (128, 128, 256, 1 << 15, 1 << 15, 1 << 16)
FAR = ("an offset at a limit of integers",)


def many(maker: Maker) -> None:
    """Issue so many instructions, on so many tensors, that their numbers need another integer
    type."""
    if maker.cores * maker.ranks > 1 or not maker.chance(RARE):
        return
    count = maker.choose((128, 256)) - maker.between(0, 20)
    form, name = maker.form(), maker.name("m")
    src = maker.to_read(1, 2, maker.forms)
    maker.say(
        f"for n in range({count}):\n"
        f"    {name} = nl.ndarray((1, 2), dtype=nl.{form}, buffer=nl.sbuf)\n"
        f"    nisa.tensor_copy(dst={name}, src={src.text})"
    )


RARE = 0.4
STEPS = ((overlapping, 1.4), (gaps, 1.4), (far, 1.1), (many, 0.2))
