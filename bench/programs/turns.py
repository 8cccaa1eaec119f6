"""Loops of the device whose number of iterations is an input. The number may be 0, and may differ
in a replay on other inputs. The replay must then equal a launch on these inputs, or refuse them."""

from __future__ import annotations

from bench.programs import loops
from bench.programs.maker import Maker
from bench.programs.program import TURNS, Views
from bench.programs.views import View

COUNTED = "for i in nl.dynamic_range({r}):\n    calls"
FROM = "for i in nl.dynamic_range({r}, {most}):\n    calls"
CALLED = "def {f}(i):\n    calls\nnl.fori_loop(0, {r}, {f})"
WHILE = "while {r}:\n    i = {r} - 1\n    calls\n    nisa.register_move({r}, i)"
PASSED = "def {f}(k):\n    i = k - 1\n    calls\n    return i\nnl.while_loop({r}, {f})"
LOADED = "while {r}:\n    i = {r} - 1\n    calls\n    {less}\n    nisa.register_load({r}, {t})"
LESS = "nisa.tensor_scalar(dst={t}, data={t}, op0=nl.subtract, operand0=1.0)"
UPWARD, DOWNWARD = (COUNTED, FROM, CALLED), (WHILE, PASSED, LOADED)


def changing(maker: Maker) -> None:
    """Issue a loop in which each iteration copies a column to another tile."""
    kept = maker.to_write(maker.lanes(), maker.between(1, 3), maker.forms, flat=True, written=True)
    _loop(maker, kept)
    maker.wrote(kept)


def at_the_end(maker: Maker) -> None:
    """Issue the last instructions of a program: a loop in which each iteration copies a column to a
    result."""
    before = maker.to_read(maker.lanes(), maker.between(1, 3), maker.forms, flat=True)
    _loop(maker, maker.result(before))


def _loop(maker: Maker, kept: View) -> None:
    """Issue a loop in which each iteration changes a tile, and copies the tile's first column to a
    column of `kept`."""
    lanes, most = kept.shape
    forms = "float32", "bfloat16", "int32"
    tile = maker.to_write(lanes, maker.columns(40), forms, flat=True, written=True, apart=kept)
    number = maker.new("sbuf", (1, 1), "int32")
    maker.issue("nisa.dma_copy", dst=number, src=maker.known_input((1, 1), most, "int32", TURNS))
    first, form = int(maker.last_numbers()[0, 0]), maker.choose((*UPWARD, *DOWNWARD))
    turns = range(first, most) if form == FROM else range(first)
    names = {"r": maker.name("r"), "f": maker.name("f"), "most": most, "t": number.text}
    maker.say(f"{names['r']} = nisa.register_alloc()", makes=names["r"])
    maker.issue("nisa.register_load", (), dst=names["r"], src=number)
    move = maker.choose(("nisa.tensor_copy", "nisa.dma_copy") if kept.tensor.on_chip else DMA)
    calls = (
        f"nisa.tensor_scalar(dst={tile.text}, data={tile.text}, op0=nl.add, operand0=1.0)",
        f"{move}(dst={kept.text}[:, nl.ds(i, 1)], src={tile.text}[:, 0:1])",
    )
    text = form.format(**names, less=LESS.format(**names))
    columns = [*turns] if form in UPWARD else [*turns][::-1]
    source = tile.index(slice(None), slice(0, 1))
    copies = [
        {"dst": kept.with_register("", kept.at[:, i : i + 1]), "src": source} for i in columns
    ]
    views: dict[int, list[Views]] = {0: [{"dst": tile, "data": tile}], 1: [*copies]}
    line = text.partition("calls")[0].count("\n")
    given = {line + n: each for n, each in views.items()} if columns else {}
    loops.say(maker, [text.replace("calls", "\n    ".join(calls))], given, *KINDS)
    maker.wrote(tile)


DMA = ("nisa.dma_copy",)
KINDS = ("a changing number of iterations",)
STEPS = ((changing, 1.0),)
