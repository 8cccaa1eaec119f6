"""Statements of the older API: index expressions, tiles that functions return, and loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

import numpy as np

from bench.programs.maker import Maker
from bench.programs.program import Statement, Views
from bench.programs.views import Array, Tensor, View

FORMS = ("float32", "float32", "bfloat16", "float16")
BINARY = ("add", "subtract", "multiply", "maximum", "minimum")
UNARY = ("copy", "square", "relu", "abs", "exp", "tanh", "sigmoid", "negative", "silu", "gelu")
FOLDS = ("sum", "max", "min", "mean")
COLUMNS_OF_PRODUCTS = 64
ROWS, COLUMNS = 128, 40  # the largest numbers of rows and columns of a tile


class Box(NamedTuple):
    """The indices of a block of a tensor: `lanes` rows from `top` on, and `free` columns from
    `left` on, `step` columns apart (backward if `step` is negative). `way` is a member of WAYS: the
    form in which the kernel writes the columns."""

    top: int
    left: int
    lanes: int
    free: int
    step: int = 1
    way: str = "{j}*{step}+{left}"

    def text(self, row: str = "i", column: str = "j") -> str:
        """Return the index as a kernel writes it. `row` and `column` are the names of its grids of
        row and column numbers."""
        return f"[{row}+{self.top}, {self.columns(column)}]"

    def columns(self, column: str = "j") -> str:
        names = {"j": column, "step": self.step, "left": self.left}
        twice = {"twice": 2 * self.step, "odd": 2 * self.left + 1}
        return self.way.format(**names, **twice)

    def of(self, at: Array) -> Array:
        columns = self.left + self.step * np.arange(self.free)
        return at[self.top : self.top + self.lanes][:, columns]


WAYS = (
    *("{j}*{step}+{left}", "{j}*{step}+{left}", "{left}+{step}*{j}", "{left}-{j}*(-{step})"),
    *("({j}*{twice}+{odd})//2", "({left}+{j}*{step})%1000"),
)


class Tiles:
    """The tiles of the program so far: their names, sizes and formats. All of each tile was
    written."""

    def __init__(self, maker: Maker) -> None:
        self.maker = maker
        self.made: list[Tensor] = []

    def new(self, lanes: int, free: int, form: str, region: str = "sbuf") -> Tensor:
        made = Tensor(self.maker.name("t"), region, (lanes, free), form)
        self.made.append(made)
        return made

    def any(self, lanes: int | None = None, free: int | None = None) -> Tensor:
        """Return a tile of this size, often an existing one; otherwise load a new one."""
        found = [
            one for one in self.made
            if lanes in (None, one.shape[0]) and free in (None, one.shape[1])
        ]  # fmt: skip
        if found and self.maker.chance(0.85):
            return self.maker.choose(found)
        return load(self, lanes or self.maker.between(1, ROWS), free or columns(self.maker))


def columns(maker: Maker) -> int:
    return maker.between(1, COLUMNS)


def grid(maker: Maker, lanes: int, free: int) -> str:
    """Return a line that defines the row indices i and the column indices j of a block."""
    if maker.chance(0.3):
        return f"i, j = nl.mgrid[0:{lanes}, 0:{free}]"
    return f"i, j = nl.arange({lanes})[:, None], nl.arange({free})[None, :]"


def viewed(tensor: Tensor, at: Array, text: str) -> View:
    return replace(tensor.whole(), at=at, text=f"{tensor.name}{text}")


def box(maker: Maker, shape: Sequence[int], lanes: int, free: int) -> Box:
    """Return a random block of a tensor of this shape."""
    step = maker.choose([s for s in (1, 1, 2, 3, -1) if abs(s) * (free - 1) < shape[1]])
    spare = shape[1] - 1 - abs(step) * (free - 1)
    first = maker.between(0, spare)
    left = first + free - 1 if step < 0 else first
    top = maker.between(0, shape[0] - lanes)
    return Box(top, left, lanes, free, step, maker.choose(WAYS))


def load(tiles: Tiles, lanes: int, free: int, asked: str = "") -> Tensor:
    """Load a tile from a new input, and return it. Its format is `asked` if given; otherwise it is
    random, and may differ from the format of the input."""
    maker = tiles.maker
    form = asked or maker.choose(FORMS)
    source = maker.given((lanes + maker.between(0, 9), free * maker.between(1, 3) + 1), form)
    where = box(maker, source.shape, lanes, free)
    given = tiles.new(lanes, free, maker.choose(FORMS) if not asked and maker.chance(0.2) else form)
    cast = f", dtype=nl.{given.form}" if given.form != form else ""
    text = f"{grid(maker, lanes, free)}\n{given.name} = nl.load({source.text}{where.text()}{cast})"
    held = {"src": viewed(source.tensor, where.of(source.at), where.text())}
    say(maker, text, given.name, ["load", "index expression"], [held] if not cast else [])
    return given


def say(
    maker: Maker, text: str, makes: str | None, kinds: Sequence[str], views: Sequence[Views] = (),
) -> None:  # fmt: skip
    """Add a statement whose last line has an instruction. `views` has the operands of this
    instruction."""
    at = {text.count("\n"): views} if views else {}
    maker.statements.append(Statement(text, at, makes, frozenset(kinds)))


def operator(tiles: Tiles) -> None:
    """Make a new tile by a function or an operator of tiles."""
    maker = tiles.maker
    a = tiles.any()
    lanes, free = a.shape
    out = Tensor(maker.name("t"), "sbuf", a.shape, a.form)
    draw = maker.random.random()
    if draw < 0.35:
        b = tiles.any(lanes, free if maker.chance(0.8) else 1)
        other = b.name if maker.chance(0.8) else maker.number()
        sign = maker.choose(("+", "-", "*"))
        call = f"{a.name} {sign} {other}"
        if maker.chance(0.6):
            call = f"nl.{maker.choose(BINARY)}({a.name}, {other})"
    elif draw < 0.55:
        call = f"nl.{maker.choose(UNARY)}({a.name})"
    elif draw < 0.7:
        out = replace(out, shape=(lanes, 1), form="float32")
        call = f"nl.{maker.choose(FOLDS)}({a.name}, axis=1, keepdims=True, dtype=nl.float32)"
    elif draw < 0.85:
        number, more = maker.number(), ", reverse0=True" * maker.chance(0.3)
        call = f"nisa.tensor_scalar({a.name}, nl.{maker.choose(BINARY)}, {number}{more})"
    else:
        b = tiles.any(lanes, free)
        call = f"nisa.tensor_tensor({a.name}, {b.name}, nl.{maker.choose(BINARY)})"
    say(maker, f"{out.name} = nl.copy({call}, dtype=nl.{out.form})", out.name, ["operator"])
    tiles.made.append(out)


def copied(tiles: Tiles) -> None:
    """Read a copy of a tile, or a copy of the copy, before or after the tile is computed again."""
    maker, a = tiles.maker, tiles.any()
    lanes, free = a.shape
    made, copy, out = (tiles.new(lanes, free, a.form) for _ in range(3))
    read = copy
    lines = [
        grid(maker, lanes, free),
        f"{made.name} = nl.{maker.choose(UNARY)}({a.name}, dtype=nl.{a.form})",
        f"{copy.name} = nl.copy({made.name})",
    ]
    if maker.chance(0.3):
        read = tiles.new(lanes, free, a.form)
        lines.append(f"{read.name} = nl.copy({copy.name})")
    bound = f", mask=i < {maker.between(1, lanes)}" * maker.chance(0.3)
    more = [
        f"{maker.choose((made, made, copy)).name}[i, j] = nl.multiply({a.name}, 2.0{bound})",
        f"{out.name} = nl.{maker.choose(BINARY)}({read.name}, {maker.number()}, dtype=nl.{a.form})",
    ]
    lines += more if maker.chance(0.6) else more[::-1]
    say(maker, "\n".join(lines), None, ["copies of a tile that changes"])


def product(tiles: Tiles) -> None:
    """Accumulate products in PSUM over a loop."""
    maker, form = tiles.maker, tiles.maker.choose(FORMS)
    depth, turns = maker.choose((1, 8, 33, 64, 128)), maker.between(1, 5)
    lanes, free = maker.between(1, COLUMNS_OF_PRODUCTS), columns(maker)
    a, b = (maker.given((depth * turns, wide), form).text for wide in (lanes, free))
    out = tiles.new(lanes, free, "float32")
    rows = f"k*{depth}+nl.arange({depth})[:, None]"
    text = (
        f"p = nl.zeros(({lanes}, {free}), dtype=nl.float32, buffer=nl.psum)\n"
        f"for k in nl.affine_range({turns}):\n"
        f"    u = nl.load({a}[{rows}, nl.arange({lanes})[None, :]])\n"
        f"    v = nl.load({b}[{rows}, nl.arange({free})[None, :]])\n"
        f"    {maker.choose(('p', 'p[...]'))} += {maker.choose(PRODUCTS)}\n"
    )
    if maker.chance(0.3):
        total = tiles.new(depth, lanes, form)
        text = f"{total.name} = nl.zeros(({depth}, {lanes}), dtype=nl.{form})\n{text}"
        text += f"    {total.name} {maker.choose(('+=', '-='))} u\n"
    text += f"{out.name} = nl.copy(p)"
    say(maker, text, out.name, ["accumulation", "loop", "load"])


PRODUCTS = ("nl.matmul(u, v, transpose_x=True)", "nisa.nc_matmul(u, v)")


def counted(tiles: Tiles) -> None:
    """Make a tile of numbers by iota, from an expression of indices."""
    maker = tiles.maker
    lanes, free = maker.between(1, ROWS), columns(maker)
    made = tiles.new(lanes, free, "float32")
    index = f"i*{maker.between(-2, 3)} + j*{maker.between(1, 4)} + {maker.between(0, 9)}"
    text = f"{grid(maker, lanes, free)}\n{made.name} = nisa.iota({index}, dtype=nl.float32)"
    say(maker, text, made.name, ["iota", "index expression"])


def result(maker: Maker, shape: tuple[int, int], form: str) -> str:
    """Make a new result in HBM, and return its name."""
    name = maker.name("o")
    made = f"nl.ndarray({shape}, dtype=nl.{form}, buffer=nl.shared_hbm)"
    maker.say(f"{name} = {made}", makes=name)
    maker.results.append(name)
    return name


def filled(maker: Maker, shape: tuple[int, int], form: str) -> str:
    """Make a new result in HBM that is filled from an input, and return its name."""
    out, before = result(maker, shape, form), maker.given(shape, form)
    for top in range(0, shape[0], ROWS):
        part = f"[{top}:{min(shape[0], top + ROWS)}, 0:{shape[1]}]"
        say(maker, f"nl.store({out}{part}, nl.load({before.text}{part}))", None, ["store"])
    return out


def stored(tiles: Tiles, given: Tensor) -> None:
    """Store a tile in a new result of the same shape, in some programs with its columns
    reversed."""
    maker = tiles.maker
    lanes, free = given.shape
    out = result(maker, (lanes, free), given.form)
    held = np.arange(prod(given.shape)).reshape(given.shape)
    tensor = Tensor(out, "hbm", given.shape, given.form)
    where = Box(0, free - 1, lanes, free, -1) if maker.chance(0.2) else Box(0, 0, lanes, free)
    view = viewed(tensor, where.of(held * tensor.whole().size), where.text())
    text = f"{grid(maker, lanes, free)}\nnl.store({view.text}, {given.name})"
    say(maker, text, None, ["store", "index expression"], [{"dst": view}])


STEPS = ((operator, 3), (copied, 1.9), (product, 1.5), (counted, 2))
