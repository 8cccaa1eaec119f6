"""Statements with functions of nki.language that issue several instructions. Their results must be
equal to the results of other instructions that compute the same numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bench.programs.maker import Maker, text_of
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


def _pair(maker: Maker, forms: Sequence[str] = FORMS) -> tuple[View, View]:
    """Return a tile that is loaded from an input, and a new tile of the same shape and format."""
    x = _loaded(maker, maker.given(_sizes(maker), maker.choose(forms)))
    return x, maker.new("sbuf", x.shape, x.form)


def _equal(maker: Maker, one: View, other: View) -> None:
    """Let the kernel return two tiles, which must be equal. No later statement writes them."""
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
    text, region = f"nl.load_transpose2d({x.text})", "sbuf"
    if maker.room_in_psum(lanes, form) and maker.chance(0.5):
        text, region = f"nl.transpose(nl.load({x.text}))", "psum"
    tile = _made(maker, text, (free, lanes), form, region)
    maker.issue("nisa.dma_copy", dst=other, src=x.permute((1, 0)))
    _equal(maker, tile, other)


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
    """Choose elements of two tiles by the numbers in a third tile."""
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
    """Make tiles by functions. Only the plain reading and the replay check the results. Operands
    have no NaN, because the bits of a sum of two NaNs may differ in a replay."""
    (lanes, free), form = _sizes(maker), maker.choose(FORMS)
    parts = maker.parts(free)
    x, other = (_loaded(maker, maker.given((lanes, free), form, "plain")) for _ in range(2))
    y = other.text if maker.chance(0.5) else "0.75"
    three = x.reshape(lanes, *parts)
    kept = [1] * (maker.dialect == "today")
    ways = [
        *((f"nl.{name}({x.text}", (lanes, free)) for name in ONE),
        *((f"nl.{name}({x.text}, {y}", (lanes, free)) for name in TWO),
        (f"nl.softmax({x.text}, axis=1", (lanes, free)),
        (f"nl.rand(({lanes}, {free})", (lanes, free)),
        (f"nl.mean({x.text}, axis=1, keepdims=True", (lanes, 1)),
        (f"nl.var({x.text}, axis=1", (lanes, 1)),
        (f"nl.mean({three.text}, axis=2", (lanes, parts[0])),
        (f"nl.var({three.text}, axis=2", (lanes, parts[0], *kept)),
        (f"nl.copy(nl.broadcast_to({x.text}[:, 0:1], shape=({lanes}, {free}))", (lanes, free)),
    ]
    for call, shape in maker.random.sample(ways, 3):
        if "mod(" in call:
            maker.options["simulator_operators"] = True
        made = maker.choose(FORMS)
        tile = _made(maker, f"{call}, dtype=nl.{made})", shape, made)
    if maker.chance(0.5):
        out = maker.new("hbm", shape, made)
        maker.issue("nl.store", dst=out, value=tile)


ONE = ("ceil", "cos", "floor", "logical_not", "negative", "tan", "trunc", "exp", "sqrt", "gelu")
TWO = ("divide", "fmod", "mod", "power", "subtract", "less", "maximum")


def dropped(maker: Maker) -> None:
    """Set random elements to zero, twice from the same seed."""
    x, other = _pair(maker)
    seed, _ = maker.known(1, 1, 99, maker.choose(("int32", "uint32")))
    rate = maker.column(x.lanes) if maker.chance(0.4) else maker.choose(("0.5", "0.0", "1.0"))
    maker.say(f"nl.random_seed({seed.text})")
    tile = _made(maker, f"nl.dropout({x.text}, {text_of(rate)})", x.shape, x.form)
    maker.say(f"nl.random_seed({seed.text})")
    maker.issue("nisa.dropout", dst=other, data=x, prob=rate)
    _equal(maker, tile, other)


def normed(maker: Maker) -> None:
    """Divide each row by the root of the mean of its squares."""
    (lanes, free), form = _sizes(maker), maker.choose(FORMS)
    x, w = (_loaded(maker, maker.given((lanes, free), form, "plain")) for _ in range(2))
    squares, scaled = (maker.new("sbuf", (lanes, free), "float32") for _ in range(2))
    total, scale = (maker.new("sbuf", (lanes, 1), "float32") for _ in range(2))
    maker.issue(
        "nisa.activation", ("dst", "reduce_res"), dst=squares, op="nl.square", data=x,
        reduce_op="nl.add", reduce_res=total, reduce_cmd="nisa.reduce_cmd.reset_reduce",
    )  # fmt: skip
    mean = {"op0": "nl.multiply", "operand0": repr(1 / free), "op1": "nl.add", "operand1": "1e-06"}
    maker.issue("nisa.tensor_scalar", dst=total, data=total, **mean)
    maker.issue("nisa.activation", dst=scale, op="nl.rsqrt", data=total)
    maker.issue("nisa.tensor_scalar", dst=scaled, data=x, op0="nl.multiply", operand0=scale)
    other = maker.new("sbuf", (lanes, free), form)
    maker.issue("nisa.tensor_tensor", dst=other, data1=scaled, data2=w, op="nl.multiply")
    text = f"nl.rms_norm({x.text}, {w.text}, axis=1, n={free}, dtype=nl.{form})"
    _equal(maker, _made(maker, text, (lanes, free), form), other)


def gathered(maker: Maker) -> None:
    """Pick elements of each partition by their indices."""
    x = _loaded(maker, maker.given(_sizes(maker), maker.choose(FORMS)))
    shape, form = (x.lanes, maker.between(1, MOST)), maker.choose(("uint32", "int32", "uint16"))
    index, _ = maker.known(*shape, x.free - 1, form)
    places, other = maker.new("sbuf", shape, "uint32"), maker.new("sbuf", shape, x.form)
    maker.issue("nisa.tensor_copy", dst=places, src=index)
    places.tensor.constant = True  # the instruction that uses it may be issued again
    tile = _made(maker, f"nl.gather_flattened({x.text}, {index.text})", shape, x.form)
    maker.issue("nisa.nc_n_gather", dst=other, data=x, indices=places)
    _equal(maker, tile, other)


def every(maker: Maker) -> None:
    """Test whether all elements of each partition are different from zero."""
    lanes, free = maker.between(1, MOST), maker.between(2, MOST)
    form = maker.choose((*FORMS, "uint8", "int32"))
    x = _loaded(maker, maker.known_input((lanes, free), maker.choose((1, 40)), form))
    other = maker.new("sbuf", (lanes, 1), "uint8")
    maker.issue("nisa.tensor_reduce", dst=other, op="nl.logical_and", data=x, axis="1")
    text = f"nl.all({x.text}, axis=1, dtype=nl.uint8)"
    _equal(maker, _made(maker, text, (lanes, 1), "uint8"), other)


def inverted(maker: Maker) -> None:
    """Invert all bits of integers."""
    x, other = _pair(maker, ("uint8", "int32", "int16"))
    ones = "255" if x.form == "uint8" else "-1"
    maker.issue("nisa.tensor_scalar", dst=other, data=x, op0="nl.bitwise_xor", operand0=ones)
    _equal(maker, _made(maker, f"nl.invert({x.text})", x.shape, x.form), other)


def filled(maker: Maker) -> None:
    """Make a tile with the same number everywhere."""
    x, other = _pair(maker)
    shape, value = f"{x.shape}, ", maker.number()
    name, number, given = maker.choose((
        ("zeros", "0", shape), ("ones", "1", shape), ("full", value, f"{shape}{value}, "),
        ("zeros_like", "0", f"{x.text}, "),
    ))  # fmt: skip
    psum = maker.room_in_psum(x.free, x.form) and maker.chance(0.3)
    region = "psum" if psum else "sbuf"
    text = f"nl.{name}({given}dtype=nl.{x.form}, buffer=nl.{region})"
    maker.issue("nisa.memset", dst=other, value=number)
    tile = _made(maker, text, x.shape, x.form, region)
    _equal(maker, _made(maker, f"nl.copy({tile.text})", x.shape, x.form), other)


def viewed(maker: Maker) -> None:
    """Copy a tile with a new axis to an empty tile of the same shape."""
    x, name = _loaded(maker, maker.given(_sizes(maker), maker.choose(FORMS))), maker.name("v")
    maker.say(f"{name} = nl.expand_dims({x.text}, 1)", makes=name, kinds=KINDS)
    wide = replace(x, text=name, at=x.at[:, np.newaxis])
    out = _made(maker, f"nl.empty_like({name})", wide.shape, x.form)
    maker.issue("nisa.tensor_copy", dst=out, src=wide)
    _equal(maker, out.reshape(*x.shape), x)


def constant(maker: Maker) -> None:
    """Load a constant of the program: an identity matrix, or increasing numbers."""
    (lanes, free), form = _sizes(maker), maker.choose(FORMS)
    other = maker.new("sbuf", (lanes, free), "float32")
    if maker.chance(0.5):
        array = f"np.arange({lanes * free}, dtype=np.float32).reshape({lanes}, {free})"
        tile = _made(maker, f"nl.load(nl.shared_constant({array}))", (lanes, free), "float32")
        numbers = {"pattern": str([[1, free]]), "channel_multiplier": str(free)}
        maker.issue("nisa.iota", dst=other, offset="0", **numbers)
        _equal(maker, tile, other)
        return
    shape, text = (lanes, lanes), f"nl.shared_identity_matrix({lanes}, dtype=nl.{form})"
    tile = _made(maker, f"nl.load({text})" if maker.dialect == "older" else text, shape, form)
    ones, other = (maker.new("sbuf", shape, form) for _ in range(2))
    maker.issue("nisa.memset", dst=ones, value="1.0")
    diagonal = {"pattern": str([[-1, lanes]]), "channel_multiplier": "1", "offset": "0"}
    diagonal |= {"cmp_op": "nl.equal", "on_false_value": "0.0"}
    maker.issue("nisa.affine_select", dst=other, on_true_tile=ones, **diagonal)
    _equal(maker, tile, other)


def in_order(maker: Maker) -> None:
    """Add a tile to another one several times, in a loop whose iterations are kept in order."""
    (lanes, free), turns = _sizes(maker), maker.between(1, 3)
    x, start = (maker.given((lanes, free), "float32", "plain") for _ in range(2))
    x, other, name = _loaded(maker, x), _loaded(maker, start), maker.name("t")
    shape = f"(nl.par_dim({lanes}), {free})"
    made = Tensor(name, "sbuf", (lanes, free), "float32")
    maker.say(f"{name} = nl.ndarray({shape}, dtype=nl.float32, buffer=nl.sbuf)", makes=name)
    maker.tensors.append(made)
    maker.issue("nisa.tensor_copy", dst=made.whole(), src=other)
    given = {"data1": made.whole(), "data2": x, "op": "nl.add"}
    call = maker.call("nisa.tensor_tensor", {"dst": made.whole(), **given})
    text = f"for n in nl.range({turns}):\n    with nl.no_reorder():\n        {call}"
    maker.say(text, kinds=KINDS, views=[{"dst": made.whole(), "data1": made.whole()}], line=2)
    for _ in range(turns):
        maker.issue("nisa.tensor_tensor", dst=other, data1=other, data2=x, op="nl.add")
    _equal(maker, made.whole(), other)


def asked(maker: Maker) -> None:
    """Print a tile, and compare facts of the machine, of the launch and of a tile with those that
    the generator knows."""
    tile = maker.fill(maker.new("sbuf", _sizes(maker), "float32"))
    count = maker.cores * maker.programs
    facts = [
        f"nisa.get_nc_version() == nisa.nc_version.{GENERATIONS[maker.target]}",
        f"nl.num_programs(0) == {count}",
    ]
    if maker.ranks == 1:
        facts.append(f"nl.program_ndim() == {int(count > 1)}")
    if maker.dialect == "today":
        facts += [f"nl.is_sbuf({tile.text})", f"nl.is_on_chip({tile.text}.buffer)"]
        facts += [f"not nl.is_psum({tile.text})", f"not nl.is_hbm({tile.text}.buffer)"]
    else:
        facts.append("nl.finfo(nl.float16).max == 65504")
    maker.say(f"assert {' and '.join(facts)}\nnl.device_print('tile', {tile.text})", kinds=KINDS)


GENERATIONS = {"trn1": "gen2", "trn2": "gen3", "trn3": "gen4"}
STEPS = (
    *((called, 2), (binary, 0.7), (transposed, 0.6), (product, 0.5), (folded, 0.5), (chosen, 0.4)),
    *((dropped, 0.4), (normed, 0.4), (gathered, 0.4), (every, 0.3), (inverted, 0.3)),
    *((filled, 0.5), (viewed, 0.3), (constant, 0.5), (in_order, 0.3), (asked, 0.3)),
)
