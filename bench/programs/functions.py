"""Statements with functions of nki.language that issue several instructions. Their results must be
equal to those of instructions that get the same numbers in another way."""

from __future__ import annotations

from dataclasses import replace

from bench.programs.maker import Maker
from bench.programs.views import Tensor, View

KINDS = ("a function of the language",)
FORMS = ("float32", "float32", "bfloat16", "float16")
OPERATORS = ("add", "subtract", "multiply", "maximum", "minimum")
FOLDS = {"sum": "add", "max": "maximum", "min": "minimum", "prod": "multiply"}
MOST = 40  # partitions, and elements of a partition


def _sizes(maker: Maker) -> tuple[int, int]:
    return maker.between(1, MOST), maker.between(1, MOST)


def _made(maker: Maker, text: str, shape: tuple[int, ...], form: str, region: str = "sbuf") -> View:
    """Return the tile that a call makes."""
    tensor = Tensor(maker.name("p" if region == "psum" else "t"), region, shape, form)
    maker.say(f"{tensor.name} = {text}", makes=tensor.name, kinds=KINDS)
    maker.tensors.append(tensor)
    maker.wrote(tensor.whole())
    return tensor.whole()


def _loaded(maker: Maker, source: View) -> View:
    return _made(maker, f"nl.load({source.text})", source.shape, source.form)


def _equal(maker: Maker, one: View, other: View) -> None:
    """Return two tiles from the kernel, which must be equal. Nothing writes these results again."""
    names, issued, used = [], [*maker.issued], [*maker.used]
    for view in (one, other):
        maker.result(view)
        names.append(maker.results[-1])
    maker.statements[-1] = replace(maker.statements[-1], equal=tuple(names))
    maker.issued, maker.used = issued, used


def binary(maker: Maker) -> None:
    """Combine a tile with another of the same shape, or with one row, or one column."""
    (lanes, free), form = _sizes(maker), maker.choose(FORMS)
    x = maker.given((lanes, free), form)
    shape = maker.choose(((lanes, free), (lanes, 1), (1, free)))
    y = maker.given(shape, "float32" if shape[1] == 1 else form)
    wide, there = maker.new("sbuf", (lanes, free), y.form), "[:]"
    turns = 1
    if shape != (lanes, free):
        turns, there = (free, "[:, n:n + 1]") if shape[0] == lanes else (lanes, "[n:n + 1, :]")
    maker.say(f"for n in range({turns}):\n    nisa.dma_copy(dst={wide.text}{there}, src={y.text})")
    maker.wrote(wide)
    tiles, wider = [_loaded(maker, x), _loaded(maker, y)], [_loaded(maker, x), wide]
    if maker.chance(0.5):
        tiles, wider = tiles[::-1], wider[::-1]
    op, other = maker.choose(OPERATORS), maker.new("sbuf", (lanes, free), form)
    maker.issue(
        "nisa.tensor_tensor", dst=other, data1=wider[0], data2=wider[1], op=f"nl.{op}"
    )  # fmt: skip
    texts = ", ".join(tile.text for tile in tiles)
    text = f"nl.{op}({texts}, dtype=nl.{form})"
    _equal(maker, _made(maker, text, (lanes, free), form), other)


def transposed(maker: Maker) -> None:
    """Transpose a tensor by DMA, or a tile by the Tensor engine."""
    (lanes, free), form = _sizes(maker), maker.choose(FORMS)
    x, other = maker.given((lanes, free), form, "plain"), maker.new("sbuf", (free, lanes), form)
    maker.issue("nisa.dma_copy", dst=other, src=x.permute((1, 0)))
    text, region = f"nl.load_transpose2d({x.text})", "sbuf"
    if maker.room_in_psum(lanes, form) and maker.chance(0.5):
        text, region = f"nl.transpose(nl.load({x.text}))", "psum"
    _equal(maker, _made(maker, text, (free, lanes), form, region), other)


def product(maker: Maker) -> None:
    """Multiply two tiles, of which one may have to be transposed."""
    (depth, rows), columns, form = _sizes(maker), maker.between(1, MOST), maker.choose(FORMS)
    if not maker.room_in_psum(2 * columns, "float32"):
        return
    turned = maker.chance(0.5)
    x = maker.given((rows, depth) if turned else (depth, rows), form, "plain")
    y = _loaded(maker, maker.given((depth, columns), form, "plain"))
    stationary, dst = (
        maker.new("sbuf", (depth, rows), form),
        maker.new("psum", (rows, columns), "float32"),
    )
    maker.issue("nisa.dma_copy", dst=stationary, src=x.permute((1, 0)) if turned else x)
    maker.issue("nisa.nc_matmul", dst=dst, stationary=stationary, moving=y)
    text = f"nl.matmul({_loaded(maker, x).text}, {y.text}{', transpose_x=True' * (not turned)})"
    _equal(maker, _made(maker, text, (rows, columns), "float32", "psum"), dst)


def folded(maker: Maker) -> None:
    """Reduce one free axis of a tile, or both."""
    lanes, free = _sizes(maker)
    parts, form, name = maker.parts(free), maker.choose(FORMS), maker.choose([*FOLDS])
    x = _loaded(maker, maker.given((lanes, *parts), form))
    axes, shape = maker.choose((((1, 2), (lanes, 1)), ((2,), (lanes, parts[0]))))
    other = maker.new("sbuf", shape, "float32")
    maker.issue("nisa.tensor_reduce", dst=other, op=f"nl.{FOLDS[name]}", data=x, axis=str(axes))
    made = shape if len(axes) == 1 else (lanes, 1, 1)
    kept = ", keepdims=True" * (len(axes) > 1)
    text = f"nl.{name}({x.text}, axis={axes}, dtype=nl.float32{kept})"
    tile = _made(maker, text, made, "float32")
    _equal(maker, tile if made == shape else tile.reshape(lanes, 1), other)


def chosen(maker: Maker) -> None:
    """Choose elements of two tiles by the numbers of a third."""
    (lanes, free), form = _sizes(maker), maker.choose(FORMS)
    x, y = (_loaded(maker, maker.given((lanes, free), form)) for _ in range(2))
    condition = _loaded(
        maker, maker.known_input((lanes, free), 1, maker.choose(("float32", "uint8")))
    )
    other, mask = maker.new("sbuf", (lanes, free), form), maker.new("sbuf", (lanes, free), "uint8")
    maker.issue("nisa.tensor_copy", dst=other, src=y)
    maker.issue("nisa.tensor_copy", dst=mask, src=condition)
    maker.issue("nisa.tensor_copy_predicated", dst=other, src=x, predicate=mask)
    text = f"nl.where({condition.text}, {x.text}, {y.text}, dtype=nl.{form})"
    _equal(maker, _made(maker, text, (lanes, free), form), other)


def called(maker: Maker) -> None:
    """Make a tile by a function. Only the plain reading and the replay check the result. Operands
    have no NaN, because the bits of a sum of two NaNs may differ in a replay."""
    (lanes, free), form = _sizes(maker), maker.choose(FORMS)
    parts, made = maker.parts(free), maker.choose(FORMS)
    x, other = (_loaded(maker, maker.given((lanes, free), form, "plain")) for _ in range(2))
    y = other.text if maker.chance(0.5) else "0.75"
    three = x.reshape(lanes, *parts)
    ways = [
        *((f"nl.{name}({x.text}", (lanes, free)) for name in ONE),
        *((f"nl.{name}({x.text}, {y}", (lanes, free)) for name in TWO),
        (f"nl.softmax({x.text}, axis=1", (lanes, free)),
        (f"nl.full(({lanes}, {free}), {maker.number()}", (lanes, free)),
        *((f"nl.{name}(({lanes}, {free})", (lanes, free)) for name in ("zeros", "ones", "rand")),
        *((f"nl.{name}({x.text}, axis=1, keepdims=True", (lanes, 1)) for name in ("mean", "var")),
        (f"nl.mean({three.text}, axis=2", (lanes, parts[0])),
        (f"nl.var({three.text}, axis=2", (lanes, parts[0], 1)),
        (f"nl.broadcast_to({x.text}[:, 0:1], ({lanes}, {free})", (lanes, free)),
    ]
    call, shape = maker.choose(ways)
    if "mod(" in call:
        maker.options["simulator_operators"] = True
    tile = _made(maker, f"{call}, dtype=nl.{made})", shape, made)
    if maker.chance(0.5):
        out = maker.new("hbm", shape, made)
        maker.issue("nl.store", dst=out, value=tile)


ONE = ("ceil", "cos", "floor", "logical_not", "negative", "tan", "trunc", "exp", "sqrt", "gelu")
TWO = ("divide", "fmod", "mod", "power", "subtract", "less", "maximum")
STEPS = (
    (called, 0.8),
    (binary, 0.5),
    (transposed, 0.3),
    (product, 0.3),
    (folded, 0.3),
    (chosen, 0.2),
)
