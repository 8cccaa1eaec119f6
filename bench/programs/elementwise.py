"""Statements of the Vector and Scalar engines that work element by element."""

from __future__ import annotations

from typing import Any

from bench.programs import picks
from bench.programs.draws import ON_CHIP
from bench.programs.maker import Maker
from bench.programs.views import SIZES, View

TWO = (
    *("add", "subtract", "multiply", "maximum", "minimum", "equal", "not_equal", "greater"),
    *("greater_equal", "less", "less_equal", "logical_and", "logical_or", "logical_xor"),
)
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")
FUNCTIONS = (
    *("copy", "square", "relu", "abs", "sign", "sigmoid", "tanh", "exp", "gelu", "silu"),
    *("softplus", "erf", "gelu_apprx_tanh", "gelu_apprx_sigmoid", "arctan", "mish", "sin"),
    *("log", "sqrt", "rsqrt", "gelu_dx", "silu_dx", "erf_dx", "reciprocal"),
    "gelu_apprx_sigmoid_dx",
)
OF_32_BITS = ("int32", "uint32")


def scalar(maker: Maker, lanes: int) -> View | str:
    """Return a constant, or a tile with one number for each partition."""
    return maker.column(lanes) if maker.chance(0.5) else maker.number()


def bias(maker: Maker, lanes: int) -> View | str:
    """Return the bias of an activation: a tile with one number for each partition, or a constant
    on a machine that accepts it."""
    if maker.target != "trn1" and maker.chance(0.3):
        return maker.number()
    return maker.column(lanes, ("float32",) if maker.chance(0.5) else maker.biases)


def operators(maker: Maker) -> tuple[str, ...]:
    """Return the operators of the Vector engine that have two operands."""
    return TWO + ("abs_max", "abs_min") * (maker.target == "trn3")


def step(maker: Maker, lanes: int, name: str) -> dict[str, Any]:
    """Return the arguments for one step of an instruction: the operator, the second operand ("None"
    for a unary operator), and sometimes a flag that swaps the operands. `name` is the end of the
    arguments' names, such as "0" for op0."""
    if maker.chance(0.15):
        ops = ("reciprocal", "abs", *("square", "relu") * (maker.target == "trn3"))
        return {f"op{name}": f"nl.{maker.choose(ops)}", f"operand{name}": "None"}
    op = f"nl.{maker.choose(operators(maker))}"
    given = {f"op{name}": op, f"operand{name}": scalar(maker, lanes)}
    return given | ({f"reverse{name}": "True"} if maker.chance(0.2) else {})


def tensor_tensor(maker: Maker) -> None:
    lanes, free = maker.size()
    if maker.chance(0.2):
        forms = maker.choose((("int32", "uint32"), ("int16", "uint16"), ("int8", "uint8")))
        a, b = (maker.to_read(lanes, free, forms) for _ in range(2))
        dst, op = maker.to_write(lanes, free, forms), maker.choose(BITS)
        maker.issue("nisa.tensor_tensor", dst=dst, data1=a, data2=b, op=f"nl.{op}")
        return
    whole = maker.chance(0.5)
    forms = OF_32_BITS if whole else maker.forms
    a = picks.to_read(maker, lanes, free, forms, ("sbuf",) if whole else maker.regions())
    b = maker.to_read(lanes, free, forms)
    dst = picks.to_write(maker, lanes, free, forms, ("sbuf",) if whole else maker.regions())
    given: dict[str, Any] = {}
    if dst.tensor.region == a.tensor.region == "sbuf" and maker.chance(0.2):
        given |= engine(maker, "gpsimd", "gpsimd", "vector")
    given["op"] = f"nl.{maker.choose(operators(maker))}"
    maker.issue(
        "nisa.tensor_tensor", dst=dst, data1=a, data2=b, **given,
        kinds=["whole numbers of 32 bits"] * whole,
    )  # fmt: skip


def tensor_scalar(maker: Maker) -> None:
    lanes, free = maker.size()
    if maker.chance(0.15):
        forms = maker.choose((("int32", "uint32"), ("int16", "uint16"), ("int8", "uint8")))
        data, dst = maker.to_read(lanes, free, forms), maker.to_write(lanes, free, forms)
        given = _bits(maker, lanes, forms, "0")
        given |= _bits(maker, lanes, forms, "1") if maker.chance(0.3) else {}
        maker.issue("nisa.tensor_scalar", dst=dst, data=data, **given)
        return
    if maker.chance(0.1):
        data, dst = (
            maker.to_read(lanes, free, maker.forms),
            maker.to_write(lanes, free, maker.forms),
        )
        given = maker.choose(({"op0": "nl.rsqrt", "operand0": "None"}, POWER))
        maker.issue("nisa.tensor_scalar", dst=dst, data=data, **given, **engine(maker, "gpsimd"))
        return
    data = picks.to_read(maker, lanes, free, maker.narrow, maker.regions())
    given = step(maker, lanes, "0")
    if maker.chance(0.5):
        given |= step(maker, lanes, "1")
    if maker.target != "trn1" and maker.chance(0.1):
        given = {"op0": "nl.multiply", "operand0": scalar(maker, lanes), **engine(maker, "scalar")}
        if maker.chance(0.5):
            given |= {"op1": "nl.add", "operand1": scalar(maker, lanes)}
    elif maker.chance(0.1):
        given |= engine(maker, "vector")
    dst = picks.to_write(maker, lanes, free, maker.forms, maker.regions())
    maker.issue("nisa.tensor_scalar", dst=dst, data=data, **given)


POWER = {"op0": "nl.power", "operand0": "2.0"}


def _bits(maker: Maker, lanes: int, forms: tuple[str, ...], name: str) -> dict[str, Any]:
    """Return the arguments for a step with a bitwise operator. `step` does this for arithmetic."""
    number = str(maker.between(0, 7))
    operand = maker.column(lanes, forms) if maker.chance(0.4) else number
    given = {f"op{name}": f"nl.{maker.choose(BITS)}", f"operand{name}": operand}
    return given | ({f"reverse{name}": "True"} if maker.chance(0.2) else {})


def engine(maker: Maker, *names: str) -> dict[str, str]:
    """Return the argument `engine` with a random one of these engines."""
    return {"engine": f"nisa.engine.{maker.choose(names)}"}


def scalar_tensor_tensor(maker: Maker) -> None:
    lanes, free = maker.size()
    data = maker.to_read(lanes, free, maker.forms, maker.regions())
    given = step(maker, lanes, "0")
    if given["operand0"] == "None":
        given["operand0"] = "0.0"
    other = maker.to_read(lanes, free, maker.forms)
    dst = maker.to_write(lanes, free, maker.forms, maker.regions())
    given["op1"] = f"nl.{maker.choose(operators(maker))}"
    if maker.chance(0.3):
        given["reverse1"] = "True"
    maker.issue("nisa.scalar_tensor_tensor", dst=dst, data=data, **given, operand1=other)


def tensor_copy(maker: Maker) -> None:
    lanes, free = maker.size()
    src = maker.to_read(lanes, free, maker.forms, ON_CHIP, moves=True)
    dst = maker.to_write(lanes, free, maker.forms, ON_CHIP, moves=True)
    given: dict[str, Any] = {}
    if maker.target == "trn3" and maker.chance(picks.SHARE):
        dst = picks.to_write(maker, lanes, free, maker.forms)
        src = picks.to_read(maker, lanes, free, maker.forms)
    elif maker.chance(0.3):
        units = ["vector"] + ["scalar"] * (maker.target != "trn1")
        units += ["gpsimd"] * (src.tensor.region == dst.tensor.region == "sbuf")
        given["engine"] = f"nisa.engine.{maker.choose(units)}"
    maker.issue("nisa.tensor_copy", dst=dst, src=src, **given)


def converted(maker: Maker) -> None:
    """Compute a part of a tile from another part of the same tile in another format."""
    lanes, free = (1 if maker.chance(0.4) else maker.lanes()), maker.columns(200)
    source, form = maker.choose((("float32", "bfloat16"), ("float32", "uint8"), WIDENED))
    data = maker.to_read(lanes, free, (source,))
    whole = data.tensor.whole()
    if data.tensor.constant or whole.shape[-1] * whole.size % SIZES[form]:
        return
    base = whole if whole.form == form else whole.view(form)
    if base.free < free or data.first_lane:
        return
    dst = maker.window(base, lanes, free)
    if maker.chance(0.6):
        maker.issue("nisa.tensor_copy", dst=dst, src=data)
    else:
        op = f"nl.{maker.choose(('copy', 'square', 'relu'))}"
        maker.issue("nisa.activation", dst=dst, op=op, data=data)


WIDENED = "bfloat16", "float32"


def memset(maker: Maker) -> None:
    lanes, free = maker.size()
    dst = maker.to_write(lanes, free, maker.forms, ON_CHIP, moves=True)
    units = ("gpsimd", "vector") if dst.tensor.region == "sbuf" else ("vector",)
    more = engine(maker, *units) if maker.chance(0.2) else {}
    maker.issue("nisa.memset", dst=dst, value=maker.value(dst.form), **more)


def activation(maker: Maker) -> None:
    lanes, free = maker.size()
    data = picks.to_read(maker, lanes, free, maker.forms, ON_CHIP)
    op = maker.choose(FUNCTIONS)
    given: dict[str, Any] = {}
    if maker.chance(0.5):
        given["scale"] = scalar(maker, lanes)
    if maker.chance(0.5) and op not in ("copy", "reciprocal"):
        given["bias"] = bias(maker, lanes)
    dst = picks.to_write(maker, lanes, free, maker.forms, ON_CHIP)
    maker.issue("nisa.activation", dst=dst, op=f"nl.{op}", data=data, **given)


def reciprocal(maker: Maker) -> None:
    lanes, free = maker.size()
    data = maker.to_read(lanes, free, maker.forms, ON_CHIP)
    dst = maker.to_write(lanes, free, maker.forms, ON_CHIP)
    maker.issue("nisa.reciprocal", dst=dst, data=data)


def tensor_copy_predicated(maker: Maker) -> None:
    lanes, free = maker.size()
    form = (maker.form(),)
    predicate = picks.to_read(maker, lanes, free, ("uint8", "uint16", "uint32", "bool_"))
    src: View | str = maker.to_read(lanes, free, form, maker.regions())
    if maker.chance(0.2):
        src = maker.value(form[0])
    dst = picks.to_write(maker, lanes, free, form, maker.regions(), written=True)
    given = {"reverse_pred": "True"} if maker.chance(0.3) else {}
    maker.issue("nisa.tensor_copy_predicated", dst=dst, src=src, predicate=predicate, **given)


def nc_stream_shuffle(maker: Maker) -> None:
    lanes, sources, free = maker.lanes(), maker.lanes(), maker.columns(40)
    form, last = (maker.form(),), sources % 32 or 32  # partitions of the last quadrant
    src, dst = maker.to_read(sources, free, form), maker.to_write(lanes, free, form, written=True)
    mask = [maker.between(0, last - 1) if maker.chance(0.8) else 255 for _ in range(32)]
    maker.issue("nisa.nc_stream_shuffle", dst=dst, src=src, shuffle_mask=str(mask))


def unwritten_rest(maker: Maker) -> None:
    """Compute with a whole tile of which only a part was written. Then write the rest of the
    result. If the tile is also the result, write the rest of the tile."""
    lanes, free = maker.lanes(), maker.between(2, 70)
    kept, rest = (slice(0, first := maker.between(1, free - 1)), slice(first, free))
    tile = maker.new("sbuf", (lanes, free), maker.form())
    dst = tile if maker.chance(0.3) else maker.new("sbuf", (lanes, free), maker.form())
    part = tile.index(slice(None), kept)
    maker.issue("nisa.tensor_copy", dst=part, src=maker.to_read(lanes, first, maker.forms))
    if maker.chance(0.5):
        maker.issue("nisa.tensor_copy", dst=dst, src=tile)
    else:
        maker.issue("nisa.activation", dst=dst, op="nl.square", data=tile)
    given = {"dst": dst.index(slice(None), rest), "kinds": ["a rest that was never written"]}
    if maker.chance(0.5):
        maker.issue("nisa.memset", **given, value="1")
    else:
        src = maker.to_read(lanes, free - first, maker.forms)
        maker.issue("nisa.tensor_copy", **given, src=src)


STEPS = (
    *((tensor_tensor, 3), (tensor_scalar, 3), (scalar_tensor_tensor, 1), (tensor_copy, 3)),
    *((memset, 1), (activation, 2), (reciprocal, 0.5), (tensor_copy_predicated, 0.6)),
    *((nc_stream_shuffle, 0.4), (converted, 0.6), (unwritten_rest, 1.1)),
)
