"""Lines that are executed several times, on tensors of different sizes: bodies of loops whose
tensors end with each iteration, and functions that a kernel calls. This module also has statements
that must wait for earlier ones, and statements that delete tensors."""

from __future__ import annotations

import re

from bench.programs.elementwise import FUNCTIONS, TWO
from bench.programs.maker import Maker
from bench.programs.program import APART, Statement, Views
from bench.programs.views import Tensor, View

LOOPS = ("nl.static_range", "nl.affine_range", "nl.sequential_range", "range")
OF_FUNCTIONS = {
    "tensor_copy": ("dst", "src"),
    "activation": ("dst", "data"),
    "tensor_scalar": ("dst", "data", "operand0"),
    "tensor_tensor": ("dst", "data1", "data2"),
    "dma_copy": ("dst", "src"),
}


def say(maker: Maker, lines: list[str], views: dict[int, list[Views]], *told: str) -> None:
    """Add lines as one statement. `views` has, by line, the operands of its instruction for each
    time that the line is executed."""
    given = [view for each in views.values() for one in each for view in one.values()]
    kinds = frozenset(told).union(*(one.kinds for one in given if isinstance(one, View)))
    maker.statements.append(Statement("\n".join(lines), views, None, kinds))


# --- loops ----------------------------------------------------------------------------------------


def body(maker: Maker) -> None:
    """Add a loop over blocks of columns, the last of which is narrower. Each iteration makes a new
    tensor. In many programs its product is also added to the products of the other iterations."""
    lanes, width, turns = min(maker.lanes(), 64), maker.between(1, 9), maker.between(2, 5)
    free = width * turns - maker.between(0, width - 1)
    src = maker.to_read(lanes, free, maker.forms, flat=True)
    dst = maker.to_write(lanes, free, maker.forms, flat=True)
    pieces = [slice(n * width, min(free, (n + 1) * width)) for n in range(turns)]
    form, here, index = maker.form(), maker.name("u"), maker.name("k")
    tensors = [Tensor(here, "sbuf", (lanes, one.stop - one.start), form) for one in pieces]
    part, count = f"[:, {index} * {width} : {index} * {width} + n]", f"{free} - {index} * {width}"
    lines = [
        f"for {index} in {maker.choose(LOOPS)}({turns}):",
        f"    n = min({width}, {count})",
        f"    {here} = nl.ndarray(({lanes}, n), dtype=nl.{form}, buffer=nl.sbuf)",
        f"    nisa.tensor_copy(dst={here}, src={src.text}{part})",
    ]
    whole = [one.whole() for one in tensors]
    views: dict[int, list[Views]] = {
        3: [{"dst": u, "src": _piece(src, one)} for u, one in zip(whole, pieces, strict=True)]
    }
    if maker.chance(0.6):
        views[len(lines)] = [{"dst": u, "data": u} for u in whole]
        op = maker.choose(FUNCTIONS[:5])
        lines.append(f"    nisa.activation(dst={here}, op=nl.{op}, data={here})")
    views[len(lines)] = [
        {"dst": _piece(dst, one), "src": u} for u, one in zip(whole, pieces, strict=True)
    ]
    lines.append(f"    nisa.dma_copy(dst={dst.text}{part}, src={here})")
    total = _total(maker, lanes, width, form)
    if total is not None:
        one = f"stationary={here}, moving={here}[:, 0:1]"
        lines.append(f"    nisa.nc_matmul(dst={total.text}[0:n, :], {one})")
        views[len(lines) - 1] = [
            {
                "dst": total.index(slice(0, u.free)),
                "stationary": u,
                "moving": _piece(u, slice(0, 1)),
            }
            for u in whole
        ]
    apart = [APART] * (total is None and not dst.tensor.shares(src.tensor))
    say(maker, lines, views, "a body of a loop", *apart)
    for one in (dst, total):
        if one is not None:
            maker.wrote(one)
    maker.used += [src, dst]


def _total(maker: Maker, lanes: int, width: int, form: str) -> View | None:
    """Return a tensor in PSUM for the sum of products, or None in some programs, or if there is no
    room."""
    if not form.startswith(("f", "b")) or form == "bool_" or maker.chance(0.4):
        return None
    return maker.new("psum", (width, 1), "float32") if maker.room_in_psum(1, "float32") else None


def _piece(view: View, piece: slice) -> View:
    return view.index(slice(None), piece)


# --- functions ------------------------------------------------------------------------------------


def function(maker: Maker) -> None:
    """Add a function with one instruction, and calls of it with views of several sizes and
    formats."""
    name, called = maker.choose([*OF_FUNCTIONS]), maker.name("f")
    keys = OF_FUNCTIONS[name]
    more = {
        "activation": f"op=nl.{maker.choose(FUNCTIONS[:9])}",
        "tensor_scalar": f"op0=nl.{maker.choose(TWO)}",
        "tensor_tensor": f"op=nl.{maker.choose(TWO)}",
    }
    given = ", ".join([*(f"{key}={key}" for key in keys), *([more[name]] if name in more else [])])
    lines, calls = [f"def {called}({', '.join(keys)}):", f"    nisa.{name}({given})"], []
    for _ in range(maker.between(2, 4)):
        lanes, free = maker.size()
        one: dict[str, View | str] = {
            key: maker.to_read(lanes, free, maker.forms) for key in keys[1:]
        }
        one["dst"] = dst = maker.to_write(lanes, free, maker.forms)
        if "operand0" in one:
            one["operand0"] = maker.number()
        maker.wrote(dst)
        maker.used.append(dst)
        lines.append(f"{called}({', '.join(_text(one[key]) for key in keys)})")
        calls.append(one)
    say(maker, lines, {1: calls}, "a function that is called")


def _text(given: View | str) -> str:
    return given if isinstance(given, str) else given.text


# --- an order that the kernel asks for ------------------------------------------------------------


def ordered(maker: Maker) -> None:
    """Add instructions that must wait for earlier ones (`depends_on`), although they share no
    operands."""
    known: list[str] = []
    for _ in range(maker.between(2, 4)):
        lanes, free = maker.size()
        src, dst = maker.to_read(lanes, free, maker.forms), maker.to_write(lanes, free, maker.forms)
        call = f"nisa.{maker.choose(('tensor_copy', 'dma_copy'))}(dst={dst.text}, src={src.text})"
        waits = f".depends_on({maker.choose(known)})" if known else ""
        known.append(maker.name("i"))
        line = f"{known[-1]} = {call}{waits}"
        maker.say(line, known[-1], ["an order that is asked for"], [{"dst": dst, "src": src}])
        maker.wrote(dst)
        maker.used += [src, dst]


# --- tensors that end -----------------------------------------------------------------------------


def delete(maker: Maker) -> None:
    """Delete a tensor on the chip. Later tensors may get its memory."""
    known = [one for one in maker.tensors if one.on_chip and one.places is None]
    if len(known) > 1:
        tensor = maker.choose(known)
        maker.say(f"del {tensor.name}", kinds=["a tensor that is deleted"])
        forget(maker, tensor.name)


def forget(maker: Maker, name: str) -> None:
    """Let no later statement use a tensor, not even as an index."""
    word = re.compile(rf"\b{name}\b")
    maker.tensors = [one for one in maker.tensors if one.name != name]
    maker.used = [one for one in maker.used if not word.search(one.text)]
    for tensor in maker.tensors:
        if tensor.last is not None and word.search(tensor.last.text):
            tensor.last = tensor.whole() if tensor.whole().is_written() else None
    maker.issued = [
        one for one in maker.issued if not word.search(" ".join(map(_words, one[2].values())))
    ]


def _words(given: object) -> str:
    if isinstance(given, list):
        return " ".join(map(_words, given))
    return given.text if isinstance(given, View) else str(given)


STEPS = ((body, 1.3), (function, 1.3), (ordered, 1.1), (delete, 2.8))
