"""Statements of the older API that use a part of a tile: by a mask, or by a tile of row indices.
Numpy evaluates the text of the mask to find the elements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from bench.programs.maker import Maker
from bench.programs.older import FORMS, ROWS, Box, Tiles, columns, filled, grid, load, say, viewed
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


STEPS = ((computed, 1.5), (loaded, 0.7), (stored, 0.7), (picked, 1.3), (added, 0.7))
