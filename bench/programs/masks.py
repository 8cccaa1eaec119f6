"""Statements of the older API that use a part of a tile: by a mask, or by a tile of row indices.
Numpy evaluates the text of the mask to find the elements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from bench.programs import calls
from bench.programs.maker import Maker
from bench.programs.older import (
    FORMS,
    ROWS,
    Box,
    Tiles,
    columns,
    filled,
    grid,
    load,
    result,
    say,
    viewed,
)
from bench.programs.program import Statement
from bench.programs.views import STARTS, Array, Tensor, View


class Mask(NamedTuple):
    """The text of a mask in a kernel, and flags of the elements of a tile that it selects
    (`chosen`)."""

    text: str
    chosen: Array

    def boxes(self) -> Iterator[tuple[slice, slice]]:
        """Yield the selected elements as rectangles, (rows, columns). Adjacent rows with equal
        flags share rectangles."""
        rows = _runs([row.tobytes() for row in self.chosen])
        for top, end in rows:
            flags = self.chosen[top]
            for left, right in _runs(flags.tolist()):
                if flags[left]:
                    yield slice(top, end), slice(left, right)


def _runs(items: Sequence[object]) -> list[tuple[int, int]]:
    """Return the bounds (begin, end) of each run of equal neighbors."""
    edges = [n for n in range(1, len(items)) if items[n] != items[n - 1]]
    return [*zip([0, *edges], [*edges, len(items)])]


def mask(maker: Maker, lanes: int, free: int, moved: bool, block: bool = False) -> Mask:
    """Return a mask of one or two conditions. If the data is `moved` by DMA, any condition is
    possible; with `block`, the selected elements are a block. Otherwise the mask selects partitions
    at which engines can start."""
    terms = [_term(maker, lanes, free, moved, block) for _ in range(maker.choose((1, 1, 2)))]
    text = terms[0] if len(terms) == 1 else " & ".join(f"({term})" for term in terms)
    i, j = np.ogrid[:lanes, :free]
    return Mask(text, np.broadcast_to(eval(text, {}, {"i": i, "j": j}), (lanes, free)))


def _term(maker: Maker, lanes: int, free: int, moved: bool, block: bool) -> str:
    s, p, f = maker.between(1, 4), maker.between(0, lanes), maker.between(0, free)
    starts = range(lanes) if moved else [s for s, most in STARTS.items() if 0 < lanes - s <= most]
    top = maker.choose(starts)
    ways = [
        *(f"i < {p}", f"j < {f}", f"i*{s} <= {s * p - maker.between(0, s)}", f"i >= {top}"),
        *(f"j*{s} < {s * f - maker.between(0, s)}", f"j*{s} >= {s * f - maker.between(0, s)}"),
        *(f"{f} - j > 0", f"j*{s} + {f} > {free}"),
    ]
    if moved and not block:
        ways += [f"i + j < {p + f}", f"i*{s} >= j", f"i != {top}", f"j - i*{s} > {-f}"]
    if not block:
        ways += [f"j != {f}", f"j*{s} == {s * f}"]
    return maker.choose(ways)


def computed(tiles: Tiles) -> None:
    """Compute a part of a tile again, from another tile or from the tile itself."""
    maker, a = tiles.maker, tiles.any()
    lanes, free = a.shape
    b = tiles.any(lanes, free)
    where = Box(0, free - 1, lanes, free, -1) if maker.chance(0.3) else Box(0, 0, lanes, free)
    chosen = mask(maker, lanes, free, moved=False)
    ahead = f"nl.multiply({b.name}{where.text()}, {maker.number()}, mask={chosen.text})"
    text = f"{grid(maker, lanes, free)}\n{a.name}[i, j] = {ahead}"
    views = [
        {"dst": part(a, rows, wide), "data": part(b, rows, wide, where)}
        for rows, wide in chosen.boxes()
    ]
    held = views if b.form in (a.form, "float32") else []
    say(maker, text, None, ["mask", "index expression", "reused tile"], held)


def part(tensor: Tensor, rows: slice, wide: slice, where: Box | None = None) -> View:
    """Return elements of a tensor, or of the block `where` of the tensor, as a view."""
    whole = tensor.whole()
    at = whole.at if where is None else where.of(whole.at)
    return viewed(tensor, at[rows, wide], f"[{rows}, {wide}]")


def loaded(tiles: Tiles) -> None:
    """Load a part of a tile again."""
    maker, a = tiles.maker, tiles.any()
    lanes, free = a.shape
    source = maker.given((lanes + maker.between(0, 9), free + maker.between(0, 9)), a.form)
    where = Box(maker.between(0, source.shape[0] - lanes), 0, lanes, free)
    chosen = mask(maker, lanes, free, moved=True)
    call = f"nl.load({source.text}{where.text()}, mask={chosen.text})"
    views = [
        {"dst": part(a, *box), "src": part(source.tensor, *box, where)} for box in chosen.boxes()
    ]
    text = f"{grid(maker, lanes, free)}\n{a.name}[i, j] = {call}"
    say(maker, text, None, ["mask", "load", "index expression", "reused tile"], views)


def stored(tiles: Tiles) -> None:
    """Store a part of a tile."""
    maker, a = tiles.maker, tiles.any()
    lanes, free = a.shape
    out = Tensor(filled(maker, (lanes, free), a.form), "hbm", (lanes, free), a.form)
    chosen = mask(maker, lanes, free, moved=True)
    views = [{"dst": part(out, *box), "src": part(a, *box)} for box in chosen.boxes()]
    call = f"nl.store({out.name}[i, j], {a.name}, mask={chosen.text})"
    text = f"{grid(maker, lanes, free)}\n{call}"
    say(maker, text, None, ["mask", "store", "index expression"], views)


def picked(tiles: Tiles) -> None:
    """Load, store, or add to rows that a tile of indices selects, in some programs with a mask."""
    maker = tiles.maker
    adds, stores = maker.chance(0.25), maker.chance(0.5)
    lanes, free = maker.between(1, ROWS), columns(maker)
    rows = lanes + maker.between(0, 20)
    kind = "distinct" if stores and not adds else "known"
    source = maker.known_input((lanes, 1), rows - 1, "int32", kind)
    numbers, index = maker.last_numbers()[:, 0], maker.name("t")
    maker.say(f"{index} = nl.load({source.text})", index, ["load"])
    chosen = mask(maker, lanes, free, moved=True, block=True)
    if maker.chance(0.4):
        chosen = Mask("", np.ones((lanes, free), np.bool_))
    more = f", mask={chosen.text}" if chosen.text else ""
    there = f"[{index}[i, 0], j]"
    kinds = ["indirect DMA", "index expression", *["mask"] * bool(chosen.text)]
    if adds or stores:
        given = tiles.any(lanes, free)
        out = Tensor(filled(maker, (rows, free), given.form), "hbm", (rows, free), given.form)
        call = f"nl.store({out.name}{there}, {given.name}{more})"
        if adds:
            call = f"nl.atomic_rmw({out.name}{there}, value={given.name}, op=np.add{more})"
        views = [
            {"dst": _rows(out, numbers, *box), "src": part(given, *box)} for box in chosen.boxes()
        ]
        text = f"{grid(maker, lanes, free)}\n{call}"
        say(maker, text, None, [*kinds, "atomic" if adds else "store"], views)
        return
    form = maker.choose(FORMS)
    table = maker.given((rows, free), form)
    made = load(tiles, lanes, free, form)
    views = [
        {"dst": part(made, *box), "src": _rows(table.tensor, numbers, *box)}
        for box in chosen.boxes()
    ]
    call = f"{made.name}[i, j] = nl.load({table.text}{there}{more})"
    text = f"{grid(maker, lanes, free)}\n{call}"
    say(maker, text, None, [*kinds, "load"], views)


def _rows(table: Tensor, numbers: Array, rows: slice, wide: slice) -> View:
    at = table.whole().at[numbers][rows, wide]
    return table.whole().with_rows("[index]", at)


def added(tiles: Tiles) -> None:
    """Add a tile to a tensor in HBM."""
    maker, a = tiles.maker, tiles.any()
    lanes, free = a.shape
    out = filled(maker, (lanes, free), a.form)
    text = f"{grid(maker, lanes, free)}\nnl.atomic_rmw({out}[i, j], value={a.name}, op=np.add)"
    say(maker, text, None, ["atomic"])


def moved(tiles: Tiles) -> None:
    """Copy parts of a tile from columns, or to columns. The number of their first column is in
    another tile."""
    maker, a = tiles.maker, tiles.any()
    (lanes, free), turns = a.shape, maker.between(1, 3)
    count = maker.between(1, free)
    source = maker.known_input((1, turns), free - count, maker.choose(("int32", "uint32")))
    starts, columns = maker.last_numbers()[0], maker.name("t")
    made = load(tiles, lanes, count * turns)
    there, here = f"{a.name}[i, {columns}[0, k] + j]", f"{made.name}[i, k*{count} + j]"
    reads = maker.chance(0.5)
    call = f"{here} = nisa.tensor_copy_dynamic_src({there}"
    if not reads:
        call = f"nisa.tensor_copy_dynamic_dst(dst={there}, src={here}"
    if maker.chance(0.3):
        call += f", mask={mask(maker, lanes, count, moved=False).text}"
    views = []
    for k, start in enumerate(starts.tolist()):
        ends = _rows_of(a, start, count), _rows_of(made, k * count, count)
        views.append(dict(zip(("src", "dst") if reads else ("dst", "src"), ends, strict=True)))
    loop = maker.choose(("affine_range", "sequential_range", "static_range"))
    text = (
        f"{columns} = nl.load({source.text})\n{grid(maker, lanes, count)}\n"
        f"for k in nl.{loop}({turns}):\n    {call})"
    )
    kinds = frozenset(("dynamic offset", "index expression", "loop", *["mask"] * ("mask" in call)))
    held = {} if "mask" in call or made.form != a.form else {3: views}
    maker.statements.append(Statement(text, held, None, kinds))


def _rows_of(tensor: Tensor, first: int, count: int) -> View:
    """Return some columns of a tile, of which the first one is known at run time."""
    at = tensor.whole().at[:, first : first + count]
    return viewed(tensor, at, f"[:, {first}:{first + count}]")


def multiplied(tiles: Tiles) -> None:
    """Multiply by a part of the moving tile, which a mask selects. Stationary often has as many
    columns as moving."""
    maker, moving = tiles.maker, tiles.any()
    lanes, free = moving.shape
    wide = free if maker.chance(0.5) else columns(maker)
    stationary = load(tiles, lanes, wide, moving.form)
    chosen = mask(maker, lanes, free, moved=False, block=True)
    for rows, wanted in chosen.boxes():
        out, product = tiles.new(wide, free, "float32"), maker.name("p")
        places = f"[0:{wide}, {wanted.start}:{wanted.stop}]"
        call = f"nisa.nc_matmul({stationary.name}, {moving.name}, mask={chosen.text})"
        text = (
            f"{grid(maker, lanes, free)}\n{product} = {call}\n"
            f"{out.name} = nl.zeros(({wide}, {free}), dtype=nl.float32)\n"
            f"{out.name}{places} = nl.copy({product}{places})"
        )
        views = {
            "stationary": part(stationary, rows, slice(0, wide)),
            "moving": part(moving, rows, wanted),
        }
        kinds = frozenset(("mask", "index expression", "masked product or fold"))
        maker.statements.append(Statement(text, {1: [views]}, out.name, kinds))


def folded(tiles: Tiles) -> None:
    """Reduce a part of a tile of three axes along one or two of them."""
    maker = tiles.maker
    lanes, sizes = maker.between(1, ROWS), (maker.between(2, 6), maker.between(2, 6))
    data = load(tiles, lanes, sizes[0] * sizes[1])
    axes = maker.choose(((1,), (2,), (1, 2)))
    box = [slice(0, maker.between(1, lanes)), *(_piece(maker, size) for size in sizes)]
    limits = [f"i < {box[0].stop}"]
    for name, size, (begin, end, _) in zip(
        "jl", sizes, (b.indices(9) for b in box[1:]), strict=True
    ):
        limits += [f"{name} >= {begin}"] * (begin > 0) + [f"{name} < {end}"] * (end < size)
    made = tuple(size for axis, size in enumerate((lanes, *sizes)) if axis not in axes)
    kept = [each for axis, each in enumerate(box) if axis not in axes]
    if len(made) == 1:
        made, kept = (lanes, 1), [*kept, slice(0, 1)]
    out, total = tiles.new(*made, "float32"), maker.name("r")
    places = ", ".join(f"{each.start}:{each.stop}" for each in kept)
    call = f"nisa.tensor_reduce(nl.{maker.choose(OPERATORS)}, u, axis={[*axes]}"
    text = (
        f"u = {data.name}.reshape({(lanes, *sizes)})\n"
        f"i, j, l = nl.mgrid[0:{lanes}, 0:{sizes[0]}, 0:{sizes[1]}]\n"
        f"{total} = {call}, mask={' & '.join(f'({one})' for one in limits)}, dtype=nl.float32)\n"
        f"{out.name} = nl.zeros({made}, dtype=nl.float32)\n"
        f"{out.name}[{places}] = nl.copy({total}[{places}])"
    )
    whole = data.whole().at.reshape(lanes, *sizes)
    order = [axis for axis in range(3) if axis not in axes] + [*axes]
    views = {"data": viewed(data, whole[tuple(box)].transpose(order), f"{box}")}
    kinds = frozenset(("mask", "index expression", "masked product or fold"))
    maker.statements.append(Statement(text, {2: [views]}, out.name, kinds))


def _piece(maker: Maker, size: int) -> slice:
    """Return a random part of an axis, which is not empty."""
    begin = maker.between(0, size - 1)
    return slice(begin, maker.between(begin + 1, size))


OPERATORS = ("add", "maximum", "minimum")


def with_and_without(tiles: Tiles) -> None:
    """Return a part of a tile that is computed with a mask, and the same part of the tile that is
    computed without it. They must be equal."""
    maker, data = tiles.maker, tiles.any()
    lanes, free = data.shape
    chosen = mask(maker, lanes, free, moved=False)
    boxes = [*chosen.boxes()]
    if not boxes:
        return
    call, before = _of_places(tiles, data)
    a, b = (result(maker, (lanes, free), "float32") for _ in range(2))
    lines = [grid(maker, lanes, free), *before]
    for out, more in ((a, ""), (b, f", mask={chosen.text}")):
        lines += [
            f"r = {call}, dtype=nl.float32{more})",
            f"u = nl.zeros({(lanes, free)}, dtype=nl.float32)",
        ]
        for rows, wide in boxes:
            part_of = f"[{rows.start}:{rows.stop}, {wide.start}:{wide.stop}]"
            lines.append(f"u{part_of} = nl.copy(r{part_of})")
        lines.append(f"nl.store({out}, u)")
    kinds = frozenset(("mask", "index expression"))
    maker.statements.append(Statement("\n".join(lines), {}, None, kinds, (a, b)))


def _of_places(tiles: Tiles, data: Tensor) -> tuple[str, list[str]]:
    """Return the beginning of a call that computes with the positions of elements or with the
    elements, and the lines that precede the call."""
    maker, (lanes, free), x = tiles.maker, data.shape, data.name
    draw = maker.random.random()
    index = f"i*{maker.between(-2, 3)} + j*{maker.between(1, 4)} + {maker.between(0, 9)}"
    if draw < 0.15:
        return f"nisa.iota({index}", []
    if draw < 0.3:
        return f"nisa.affine_select({index} >= {maker.between(0, 3 * free)}, {x}, -1.0", []
    if draw < 0.45 and data.form == "float32" and maker.target != "trn1":
        bounds = [
            f"{name} = nisa.memset(({lanes}, 1), {maker.between(0, free)}, nl.float32)"
            for name in ("v", "w")
        ]
        kept = "comp_op0=nl.greater_equal, comp_op1=nl.less_equal, bound0=v, bound1=w"
        start = f"range_start={maker.between(0, 3)}"
        return f"nisa.range_select(on_true_tile={x}, {kept}, {start}", bounds
    return calls.elementwise(tiles, data), []


STEPS = (
    (computed, 1.5),
    (loaded, 0.7),
    (stored, 0.7),
    (picked, 1.3),
    (added, 1.3),
    (multiplied, 1.1),
    (folded, 1.1),
    (with_and_without, 0.9),
    (moved, 0.6),
)
