"""Statements of the older API with nested loops: over blocks of tensors and parts of tiles, with
masks that end inside a tensor, and with sums that one loop begins and another continues."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from bench.programs.maker import Maker
from bench.programs.older import FORMS, UNARY, Tiles, grid, result
from bench.programs.program import APART, Statement

LOOPS = ("affine_range", "affine_range", "sequential_range")


class Nest(NamedTuple):
    """Nested loops: the variable and the number of iterations of each, outermost first."""

    loops: tuple[tuple[str, int], ...]

    @property
    def count(self) -> int:
        """The total number of iterations of the innermost loop."""
        return prod(turns for _, turns in self.loops)

    def place(self, step: int) -> str:
        """Return the number of an iteration of the innermost loop times a step, as the beginning of
        a sum."""
        text = ""
        for name, turns in reversed(self.loops):
            text, step = f"{step}*{name} + {text}", step * turns
        return text

    def around(self, maker: Maker, *body: str, of: Sequence[str] = LOOPS) -> list[str]:
        """Return the source of the nested loops, as lines. `body` has the lines in the innermost
        loop, without their indentation. The kind of each loop is drawn from `of`."""
        lines, space = [], ""
        for name, turns in self.loops:
            lines.append(f"{space}for {name} in nl.{maker.choose(of)}({turns}):")
            space += "    "
        return [*lines, *(space + line for line in body)]

    def sum(self, maker: Maker, unit: int) -> tuple[str, int]:
        """Return the text of an offset, and the length of an axis that has room for `unit` elements
        after each value of the offset. The offset is a sum of loop variables times steps. The
        number of the program in the grid counts as a variable too."""
        text, most = str(maker.between(0, 2)), 2 + unit
        for name, turns in (*self.loops, ("g", maker.programs)):
            step = maker.choose((0, unit, unit, 1, 2 * unit))
            text += f" + {step}*{name}" * bool(step and (name != "g" or turns > 1))
            most += step * (turns - 1)
        return text, most


def nest(maker: Maker) -> Nest:
    depth = maker.choose((1, 2, 2, 3))
    return Nest(tuple((f"k{n}", maker.between(1, 5 - depth)) for n in range(depth)))


def say(maker: Maker, lines: list[str], *kinds: str, equal: Sequence[str] = ()) -> None:
    told = frozenset({"nest of loops", "loop", "load", "store", *kinds})
    maker.statements.append(Statement("\n".join(lines), {}, None, told, tuple(equal)))


def stored_before(maker: Maker, lines: list[str], shape: tuple[int, int], form: str) -> str:
    """Return the name of a new result. Statements that write all of it are added to `lines`."""
    out, before = result(maker, shape, form), maker.given(shape, form)
    for top in range(0, shape[0], 128):
        rows = f"[{top}:{min(shape[0], top + 128)}, 0:{shape[1]}]"
        lines.append(f"nl.store({out}{rows}, nl.load({before.text}{rows}))")
    return out


def _end(maker: Maker, most: int) -> int:
    return maker.between(1 if maker.chance(0.4) else most // 2 + 1, most)


def moved(tiles: Tiles) -> None:
    """Copy parts of an input to parts of a result through a function, often under a mask. In some
    programs another part of the input is added, whose offset changes in another way."""
    maker, form, loops = tiles.maker, tiles.maker.choose(FORMS), nest(tiles.maker)
    lanes, free = maker.choose((4, 8, 32)), maker.between(1, 12)
    (row, rows), (column, columns) = loops.sum(maker, lanes), loops.sum(maker, free)
    there, height = (row, rows) if maker.chance(0.5) else loops.sum(maker, lanes)
    source = maker.given((rows, columns), form)
    lines = [grid(maker, lanes, free)]
    out = stored_before(maker, lines, (height, columns), form)
    ways = (  # bounds are mostly in the second half, so that later iterations end early
        *(f"{row} + i < {_end(maker, rows)}", f"{column} + j < {_end(maker, columns)}"),
        *(f"{column} + 2*j >= {maker.between(1, columns)}", f"k0 + i >= {maker.between(0, 3)}"),
    )
    mask = f", mask={maker.choose(ways)}" if maker.chance(0.8) else ""
    value = f"nl.{maker.choose(UNARY[:4])}(u)"
    if maker.chance(0.4):
        place = maker.choose((f"{row} + i, j", f"i, {column} + j", "i, j"))
        value = f"nl.add({value}, nl.load({source.text}[{place}]))"
    body = [
        f"u = nl.load({source.text}[{row} + i, {column} + j])",
        f"v = {value}",
        f"nl.store({out}[{there} + i, {column} + j], v{mask})",
    ]
    say(maker, [*lines, *loops.around(maker, *body)], *["mask", "ragged end"] * bool(mask))


def turns(tiles: Tiles) -> None:
    """Read an input at two offsets, of which the second changes by half the step of the first, by
    the same step or by twice the step. In many programs the stores end inside the last iteration of
    the outer loop."""
    maker, form = tiles.maker, tiles.maker.choose(FORMS)
    outer, inner = maker.choose((1, maker.between(4, 6))), maker.between(4, 8)
    lanes, free = maker.choose((4, 8, 32)), 2 * maker.between(1, 3)
    loops = Nest((("k0", outer), ("k1", inner)))
    wide, step = inner * free, maker.choose((free // 2, free, 2 * free))
    column, turned = (
        f"{wide}*k0 + {free}*k1",
        maker.choose((f"{step}*k1", f"{step}*k1 + {step}*k0")),
    )
    source = maker.given((lanes, 2 * outer * wide), form)
    lines = [grid(maker, lanes, free)]
    out = stored_before(maker, lines, (lanes, outer * wide), form)
    end = maker.between((outer - 1) * wide + 1, outer * wide)
    mask = f", mask={column} + j < {end}" * maker.chance(0.7)
    body = [
        f"u = nl.load({source.text}[i, {column} + j])",
        f"v = nl.add(u, nl.load({source.text}[i, {turned} + j]))",
        f"nl.store({out}[i, {column} + j], v{mask})",
    ]
    say(maker, [*lines, *loops.around(maker, *body)], APART, *["mask", "ragged end"] * bool(mask))


def registers(tiles: Tiles) -> None:
    """Let each iteration reset the accumulator registers, and read the sums of several
    instructions."""
    maker, form, count = tiles.maker, tiles.maker.choose(FORMS), tiles.maker.between(2, 5)
    lanes, free = maker.choose((4, 8, 32)), maker.between(1, 12)
    source = maker.given((lanes, count * free), form)
    out, total = result(maker, (lanes, count * free), form), result(maker, (lanes, count), form)
    commands = [maker.choose(("reset_reduce", "reset_reduce", "reset"))]
    commands += ["reduce"] * maker.between(1, 2)
    ops = [f"np.{name}" for name in ("exp", "tanh", "square", "abs")]
    body = [f"u = nl.load({source.text}[i, {free}*k + j])"]
    for command in commands:
        read = f"c = nl.ndarray(({lanes}, 1), nl.float32, buffer=nl.sbuf)"
        given = f"{maker.choose(ops)}, u, reduce_op=np.add, reduce_res=c"
        body += [read, f"v = nisa.activation({given}, reduce_cmd=nisa.reduce_cmd.{command})"]
    body.append(f"nl.store({out}[i, {free}*k + j], v)")
    body.append(f"nl.store({total}[nl.arange({lanes})[:, None], k], c)")
    loops = Nest((("k", count),))
    lines = [grid(maker, lanes, free), *loops.around(maker, *body)]
    say(maker, lines, APART, "accumulator registers")


def blocks(tiles: Tiles) -> None:
    """Write the blocks of a tensor in one nest of loops. In other nests, read the blocks, and in
    some programs write them again."""
    maker, form = tiles.maker, tiles.maker.choose(FORMS)
    lanes, free = maker.choose((4, 8, 32)), maker.between(1, 12)
    count, inner = maker.between(2, 4), maker.between(1, 2)
    source = maker.given((count * lanes, inner * free), form)
    out = result(maker, (count * lanes, inner * free), form)
    shape = f"({count}, {inner}, nl.par_dim({lanes}), {free})"
    lines = [grid(maker, lanes, free), f"b = nl.ndarray({shape}, nl.{form}, buffer=nl.sbuf)"]
    loops = Nest((("k", count), ("h", inner)))
    part = f"[{lanes}*k + i, {free}*h + j]"
    lines += loops.around(maker, f"b[k, h, i, j] = nl.load({source.text}{part})")
    function = maker.choose((f"nl.{maker.choose(UNARY[:4])}(b[k, h])", "b[k, h, i, j] + b[0, h]"))
    apart = maker.chance(0.5)
    if not apart:
        mask = f", mask=k + i < {maker.between(1, lanes)}" * maker.chance(0.5)
        again = f"nl.add(b[k, h, i, j], b[{count - 1} - k, h, i, j]{mask})"
        lines += loops.around(maker, f"b[k, h, i, j] = {again}")
    loops = loops if maker.chance(0.5) else Nest(loops.loops[::-1])
    lines += loops.around(maker, f"nl.store({out}{part}, {function})")
    say(maker, lines, "blocks", *[APART] * apart)


def sums(tiles: Tiles) -> None:
    """Add products to blocks in PSUM: to all rows of a block, or to the first rows of a block of
    zeros; to all columns, or to the two halves one after the other."""
    maker, form = tiles.maker, tiles.maker.choose(FORMS)
    depth, lanes, free = maker.choose((4, 8, 33)), maker.between(1, 32), maker.between(1, 16)
    count, turns, halves = maker.between(2, 3), maker.between(2, 3), maker.choose((1, 2, 2))
    a, b = (maker.given((depth * n, wide), form) for n, wide in ((turns, lanes), (count, free)))
    wide, zeros = halves * free, maker.choose(("zeros", "ndarray"))
    tall = lanes + maker.choose((0, 0, 1, 40)) * (zeros == "zeros")
    out = result(maker, (tall, count * wide), "float32")
    shape = f"({count}, nl.par_dim({tall}), {wide})"
    lines = [
        f"p = nl.{zeros}({shape}, nl.float32, buffer=nl.psum)",
        f"d = nl.arange({depth})[:, None]",
        f"m, n = nl.arange({lanes})[None, :], nl.arange({free})[None, :]",
        grid(maker, tall, wide),
    ]
    for half in range(halves):
        more = maker.choose((1, turns))
        place = f"p[c, nl.arange({lanes})[:, None], {half * free} + n]"
        body = [
            f"u, v = nl.load({a.text}[{depth}*k + d, m]), nl.load({b.text}[{depth}*c + d, n])",
            f"{place} += nl.matmul(u, v, transpose_x=True)",
        ]
        lines += Nest((("c", count), ("k", more))).around(maker, *body)
    copied = Nest((("c", count),))
    lines += copied.around(maker, f"nl.store({out}[i, {wide}*c + j], nl.copy(p[c]))")
    say(maker, lines, "blocks", "accumulation")


def reduced(tiles: Tiles) -> None:
    """Reduce parts of an input over inner or outer loops of a nest, into a tile or into parts of a
    tile. Often compute the same with operators in Python loops; both results must be equal."""
    maker, form = tiles.maker, tiles.maker.choose(FORMS)
    lanes, free = maker.choose((4, 8, 32)), maker.between(1, 12)
    counts = [maker.between(1, 4), maker.between(2, 3), maker.between(1, 3)]
    loops = Nest(tuple(zip("abc", counts))[: maker.choose((2, 2, 3))])
    inner, last, outer = loops.loops[1:], loops.loops[-1:], loops.loops[:1]
    over = maker.choose((inner, inner, last, outer, outer))
    left = Nest(tuple(one for one in loops.loops if one not in over))
    row, rows = loops.sum(maker, lanes)
    source, count = maker.given((rows, free), form), left.count
    shape = (count * lanes, free)
    out, place = result(maker, shape, "float32"), f"[{left.place(lanes)}i, j]"
    lines = [grid(maker, lanes, free), f"s = nl.ndarray(({lanes}, {count * free}), nl.float32)"]
    op = maker.choose(("add", "max", "min"))
    bound = f", mask=a + i < {maker.between(1, lanes)}" * maker.chance(0.2)
    data = f"nl.load({source.text}[{row} + i, j])" + maker.choose(("", " * 2.0"))
    names = ", ".join(name for name, _ in over)
    call = f"nl.loop_reduce({data}, np.{op}, [{names}], dtype=nl.float32{bound})"
    total = maker.choose((part := f"s[i, {left.place(free)}j]", "s[i, j]", "r", "r"))
    stored = f"nl.store({out}{place}, {total if total == 'r' else part})"
    inside = total == "r" and over == outer
    lines += loops.around(maker, f"{total} = {call}", *[stored] * inside)
    if total != "r":
        lines += left.around(maker, stored)
    elif not inside:
        lines.append("    " * len(left.loops) + stored)
    equal = [out] if not bound and total != "s[i, j]" and maker.chance(0.8) else []
    if equal:
        equal.append(other := result(maker, shape, "float32"))
        joined = f"nl.{OPERATORS[op]}(w, {data}, dtype=nl.float32)"
        first = " + ".join(name for name, _ in over)
        body = f"w = nl.copy({data}, dtype=nl.float32) if {first} == 0 else {joined}"
        lines += Nest((*left.loops, *over)).around(maker, body, of=("static_range",))
        lines.append("    " * len(left.loops) + f"nl.store({other}{place}, w)")
    say(maker, lines, equal=equal)


OPERATORS = {"add": "add", "max": "maximum", "min": "minimum"}


STEPS = (  # at least 3 % of programs must have blocks
    *(moved, blocks, blocks, sums, sums, reduced, reduced, turns, registers),
)
