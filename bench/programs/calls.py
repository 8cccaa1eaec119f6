"""Statements of the older API that call its functions with random arguments."""

from __future__ import annotations

from bench.programs.choices import COMPARISONS
from bench.programs.elementwise import BITS, TWO
from bench.programs.folds import FOLDS
from bench.programs.maker import Maker
from bench.programs.older import FORMS, Tiles, box, columns, grid, load, result, say, viewed
from bench.programs.program import APART, Statement
from bench.programs.views import Tensor

UNARY = (
    *("abs", "arctan", "ceil", "copy", "cos", "erf", "erf_dx", "exp", "floor", "gelu"),
    *("gelu_apprx_sigmoid", "gelu_apprx_tanh", "gelu_dx", "log", "logical_not", "mish"),
    *("negative", "reciprocal", "relu", "rsqrt", "sigmoid", "sign", "silu", "silu_dx", "sin"),
    *("softplus", "sqrt", "square", "tan", "tanh", "trunc"),
)
BINARY = (*TWO, "divide", "power")
ACTIVATIONS = ("exp", "tanh", "sigmoid", "relu", "square", "silu", "gelu", "erf", "softplus")
INTEGERS = ("int32", "uint8", "int16")
KINDS = ["a call of the older API"]


def elementwise(tiles: Tiles, data: Tensor) -> str:
    """Return the text of a call without its last parenthesis, so that a format or a mask can
    follow. Its result has the shape of `data`, and each element of it depends on one element of
    each operand."""
    maker, (lanes, free), x = tiles.maker, data.shape, data.name
    draw = maker.random.random()
    if draw < 0.3:
        return f"nl.{maker.choose(UNARY)}({x}"
    if draw < 0.45:
        other = _scalar(tiles, lanes) if maker.chance(0.5) else tiles.any(lanes, free).name
        return f"nl.{maker.choose(BINARY)}({x}, {other}"
    if draw < 0.55:
        return f"nisa.activation({_activation(tiles, x, lanes)}"
    if draw < 0.7:
        last = f", {_step(tiles, lanes, 1)}" if maker.chance(0.5) else ""
        return f"nisa.tensor_scalar({x}, {_step(tiles, lanes, 0)}{last}"
    if draw < 0.8:
        other = tiles.any(lanes, free).name
        last = f"op1=nl.{maker.choose(TWO)}, operand1={other}{_reversed(maker, 1)}"
        return f"nisa.scalar_tensor_tensor(data={x}, {_step(tiles, lanes, 0)}, {last}"
    if draw < 0.88:
        condition = f"nl.{maker.choose(COMPARISONS)}({x}, {tiles.any(lanes, free).name})"
        return f"nl.where({condition}, {x}, {tiles.any(lanes, free).name}"
    return maker.choose((f"nisa.tensor_copy({x}", f"nisa.reciprocal({x}"))


def _activation(tiles: Tiles, x: str, lanes: int) -> str:
    maker = tiles.maker
    given = f"nl.{maker.choose(ACTIVATIONS)}, {x}"
    if maker.chance(0.5):
        given += f", scale={_scalar(tiles, lanes)}"
    if maker.chance(0.5):
        given += f", bias={load(tiles, lanes, 1, maker.choose(FORMS)).name}"
    return given


def _step(tiles: Tiles, lanes: int, number: int) -> str:
    """Return the text of the arguments for one step of an instruction."""
    maker = tiles.maker
    given = f"op{number}=nl.{maker.choose(TWO)}, operand{number}={_scalar(tiles, lanes)}"
    return given + _reversed(maker, number)


def _reversed(maker: Maker, number: int) -> str:
    return f", reverse{number}=True" if maker.chance(0.2) else ""


def _scalar(tiles: Tiles, lanes: int) -> str:
    """Return the text of a constant, or of a tile with one number for each partition."""
    maker = tiles.maker
    return load(tiles, lanes, 1, "float32").name if maker.chance(0.5) else maker.number()


def called(tiles: Tiles) -> None:
    """Make a new tile by a function whose result has the shape of its operand."""
    maker, data = tiles.maker, tiles.any()
    call = elementwise(tiles, data)
    out = tiles.new(*data.shape, maker.choose(FORMS))
    say(maker, f"{out.name} = {call}, dtype=nl.{out.form})", out.name, KINDS)


def bits(tiles: Tiles) -> None:
    """Combine the bits of integers, and convert the result to float32."""
    maker, form = tiles.maker, tiles.maker.choose(INTEGERS)
    lanes, free = tiles.any().shape
    a, b = (load(tiles, lanes, free, form) for _ in range(2))
    tiles.made = [one for one in tiles.made if one not in (a, b)]
    out, op, number = tiles.new(lanes, free, "float32"), maker.choose(BITS), maker.between(0, 7)
    call = maker.choose((
        f"nl.{op}({a.name}, {b.name}", f"nl.{op}({a.name}, {number}", f"nl.invert({a.name}",
        f"nisa.tensor_tensor({a.name}, {b.name}, op=nl.{op}",
        f"nisa.tensor_scalar({a.name}, op0=nl.{op}, operand0={number}",
    ))  # fmt: skip
    text = f"{out.name} = nl.copy({call}, dtype=nl.{form}), dtype=nl.float32)"
    say(maker, text, out.name, KINDS)


def folded(tiles: Tiles) -> None:
    """Make a new tile by a function that combines elements."""
    maker, data = tiles.maker, tiles.any()
    (lanes, free), x = data.shape, data.name
    op = f"nl.{maker.choose(FOLDS)}"
    ways = [
        (f"nl.prod({x}, axis=1, keepdims=True", (lanes, 1)),
        (f"nl.var({x}, axis=1", (lanes, 1)),
        (f"nl.softmax({x}, axis=1", (lanes, free)),
        (f"nl.static_cast({x}", (lanes, free)),
        (f"nisa.tensor_reduce({op}, {x}, axis=1, keepdims=True", (lanes, 1)),
        (f"nisa.tensor_partition_reduce(nl.add, {x}", (1, free)),
        (f"nisa.bn_stats({x}", (lanes, 6)),
        (_scan(tiles, data), (lanes, free)),
        (f"nisa.tensor_scalar_cumulative(src={x}, op0={op}, op1=nl.add, imm0=0.5", (lanes, free)),
    ]
    if free >= 8:
        ways.append((f"nisa.max8(src={x}", (lanes, 8)))
    call, shape = maker.choose(ways)
    form = data.form if "max8" in call else "float32"
    out = tiles.new(*shape, form)
    say(maker, f"{out.name} = {call}, dtype=nl.{form})", out.name, KINDS)


def _scan(tiles: Tiles, data: Tensor) -> str:
    maker, (lanes, free) = tiles.maker, data.shape
    other, start = tiles.any(lanes, free).name, _scalar(tiles, lanes)
    ops = f"op0=nl.{maker.choose(TWO)}, op1=nl.{maker.choose(TWO)}"
    return f"nisa.tensor_tensor_scan({data.name}, {other}, initial={start}, {ops}"


def transposed(tiles: Tiles) -> None:
    """Transpose a tile."""
    maker, data = tiles.maker, tiles.any()
    out = tiles.new(*data.shape[::-1], data.form)
    name = maker.choose(("nisa.nc_transpose", "nl.transpose"))
    say(maker, f"{out.name} = nl.copy({name}({data.name}), dtype=nl.{out.form})", out.name, KINDS)


def replaced(tiles: Tiles) -> None:
    """Write the elements of a tile that a predicate selects, or all of them by DMA."""
    maker, dst = tiles.maker, tiles.any()
    lanes, free = dst.shape
    src = load(tiles, lanes, free, dst.form)
    if maker.chance(0.4):
        say(maker, f"nisa.dma_copy(dst={dst.name}, src={src.name})", None, KINDS)
        return
    source = maker.known_input((lanes, free), 1, "uint8")
    given = f"src={src.name}, dst={dst.name}, predicate=nl.load({source.text})"
    more = ", reverse_pred=True" if maker.chance(0.3) else ""
    say(maker, f"nisa.tensor_copy_predicated({given}{more})", None, KINDS)


def tiled(tiles: Tiles) -> None:
    """Add a loop over tiles of rows of an input. A mask ends the last tile at the last row."""
    maker, form = tiles.maker, tiles.maker.choose(FORMS)
    lanes, free, turns = maker.choose((8, 32, 128)), columns(maker), maker.between(1, 5)
    rows = lanes * turns - maker.between(0, lanes - 1)
    source = maker.given((rows, free + maker.between(0, 5)), form)
    out = result(maker, (rows, free), form)
    where = box(maker, (lanes, source.shape[1]), lanes, free)
    loop = maker.choose(("affine_range", "sequential_range", "static_range"))
    mask = f"mask=k*{lanes}+i < {rows}"
    index = where.text(f"k*{lanes}+i").replace(f"+{where.top},", ",")
    u = Tensor("u", "sbuf", (lanes, free), form)
    call = elementwise(tiles, u)
    body = (
        f"{grid(maker, lanes, free)}\nfor k in nl.{loop}({turns}):\n"
        f"    u = nl.load({source.text}{index}, {mask})\n"
        f"    v = {call}, {mask})\n"
        f"    nl.store({out}[k*{lanes}+i, j], v, {mask})"
    )
    blocks = [
        where._replace(top=k * lanes, lanes=min(lanes, rows - k * lanes)) for k in range(turns)
    ]
    views = [{"src": viewed(source.tensor, one.of(source.at), index)} for one in blocks]
    kinds = ("loop", "mask", "ragged end", "index expression", "load", "store", APART)
    maker.statements.append(Statement(body, {2: views}, None, frozenset(kinds)))


STEPS = ((tiled, 2), (called, 1.5), (bits, 0.7), (folded, 1), (transposed, 0.5), (replaced, 0.5))
