"""Statements that fold the elements of each partition, or scan them."""

from __future__ import annotations

from typing import Any

from bench.programs import picks
from bench.programs.draws import INTEGERS, ON_CHIP
from bench.programs.elementwise import FUNCTIONS, bias, operators, scalar
from bench.programs.maker import Maker
from bench.programs.program import TIES
from bench.programs.views import View

NARROW = ("float32", "bfloat16", "float16", "float8_e5m2", "float8_e4m3")
SMALL = (*NARROW, "int16", "int8", "uint16", "uint8")
FOLDS = ("add", "maximum", "minimum", "multiply")
RESETS = ("nisa.activate2", "nisa.range_select")  # which may reset the registers without adding
LOGICAL = ("logical_and", "logical_or", "logical_xor")
BITWISE = ("bitwise_and", "bitwise_or", "bitwise_xor")


def total(maker: Maker, dst: View, forms: tuple[str, ...] = ("float32",)) -> View:
    """Return a view for the fold of each partition. The view shares no bytes with `dst`, the other
    result of the instruction."""
    return maker.to_write(dst.lanes, 1, forms, apart=dst, flat=True)


def with_ties(maker: Maker, lanes: int, free: int) -> View:
    """Return a tile in which many elements have the same magnitude but different signs."""
    form = maker.choose(NARROW[:3])
    made = maker.new("sbuf", (lanes, free), form)
    maker.issue("nisa.dma_copy", dst=made, src=maker.given((lanes, free), form, TIES))
    return made


def tensor_reduce(maker: Maker) -> None:
    lanes, free = maker.size()
    whole = maker.chance(0.15)
    forms = (maker.choose(INTEGERS),) if whole else maker.forms
    if not whole and maker.chance(0.15):
        data = with_ties(maker, lanes, free)
    else:
        data = picks.to_read(maker, lanes, free, forms, maker.regions())
    axes = len(data.shape)
    folded = maker.between(1, axes - 1)
    shape = data.shape[: axes - folded]
    keeps = maker.chance(0.5)
    count = data.at[0].size if folded == axes - 1 else data.at.reshape(*shape, -1).shape[-1]
    dst = maker.to_write(lanes, free // count, forms if whole else maker.forms)
    axis = (
        str(tuple(range(axes - folded, axes))) if folded > 1 or maker.chance(0.5) else str(axes - 1)
    )
    ops = BITWISE if whole else (*FOLDS, *FOLDS, "subtract", *LOGICAL)
    given = {"keepdims": "True"} if keeps else {}
    given |= {"negate": "True"} if not whole and maker.chance(0.2) else {}
    op = f"nl.{maker.choose(ops)}"
    maker.issue("nisa.tensor_reduce", dst=dst, op=op, data=data, axis=axis, **given)


def tensor_scalar_reduce(maker: Maker) -> None:
    lanes, free = maker.size()
    data = picks.to_read(maker, lanes, free, maker.forms, maker.regions())
    op = f"nl.{maker.choose(operators(maker))}"
    given: dict[str, Any] = {"data": data, "op0": op, "operand0": scalar(maker, lanes)}
    given["reduce_op"] = f"nl.{maker.choose(FOLDS)}"
    given |= {"reduce_res_negate": "True"} if maker.chance(0.2) else {}
    dst = maker.to_write(lanes, free, maker.forms, maker.regions())
    given |= {"dst": dst, "reduce_res": total(maker, dst, maker.floats)}
    going_on(maker, "nisa.tensor_scalar_reduce", given, "reduce_init")


def going_on(maker: Maker, name: str, given: dict[str, Any], start: str = "") -> None:
    """Issue an instruction that sets the accumulator registers, followed in some programs by one or
    two that continue from their values. The first one resets the registers and adds its elements,
    or only resets them, or loads them from the argument named `start`."""
    resets = name in RESETS and maker.chance(0.3)
    command = "load_reduce" if start and maker.chance(0.3) else "reset" + "_reduce" * (not resets)
    more = {start: scalar(maker, given["dst"].lanes)} if command == "load_reduce" else {}
    writes = [key for key in ("dst", "reduce_res") if isinstance(given.get(key), View)]
    maker.issue(name, writes, **given, **more, reduce_cmd=f"nisa.reduce_cmd.{command}")
    for _ in range(maker.choose((0, 0, 1, 2))):
        kinds = ["accumulator registers"]
        maker.issue(name, writes, **given, reduce_cmd="nisa.reduce_cmd.reduce", kinds=kinds)


def select_reduce(maker: Maker) -> None:
    lanes, free = maker.size()
    predicate = maker.to_read(lanes, free, ("uint8", "uint16", "int8", "int16"))
    chosen = maker.to_read(lanes, free, SMALL, maker.regions())
    dst = maker.to_write(lanes, free, maker.forms, maker.regions())
    given: dict[str, Any] = {"dst": dst, "predicate": predicate, "on_true": chosen}
    given["on_false"] = scalar(maker, lanes)
    if maker.chance(0.3):
        given["reverse_pred"] = "True"
    if maker.chance(0.6):
        given |= {"reduce_res": total(maker, dst, NARROW)}
        going_on(maker, "nisa.select_reduce", given)
    else:
        maker.issue("nisa.select_reduce", **given)


def tensor_partition_reduce(maker: Maker) -> None:
    lanes, free = maker.size()
    whole = maker.chance(0.2)
    forms = (maker.choose(INTEGERS),) if whole else maker.forms
    data, dst = maker.to_read(lanes, free, forms), maker.to_write(1, free, forms)
    op = maker.choose(("bitwise_or", "bitwise_and") if whole else ("add", "maximum", "average"))
    maker.issue("nisa.tensor_partition_reduce", dst=dst, op=f"nl.{op}", data=data)


def bn_stats(maker: Maker) -> None:
    """Issue bn_stats on at most 512 elements per partition."""
    lanes, free = maker.size()
    data = maker.to_read(lanes, min(free, 512), maker.forms, maker.regions())
    dst = maker.to_write(lanes, 6, ("float32",) if maker.chance(0.7) else maker.floats)
    maker.issue("nisa.bn_stats", dst=dst, data=data)


def bn_aggr(maker: Maker) -> None:
    lanes, _ = maker.size()
    count = 3 * maker.between(1, 4)
    data = maker.to_read(lanes, count, maker.floats, maker.regions())
    dst = maker.to_write(lanes, 2, maker.forms, maker.regions())
    maker.issue("nisa.bn_aggr", dst=dst, data=data)


def tensor_tensor_scan(maker: Maker) -> None:
    lanes, free = maker.size()
    a = maker.to_read(lanes, free, maker.forms, maker.regions())
    b = maker.to_read(lanes, free, maker.forms)
    dst = maker.to_write(lanes, free, maker.forms, maker.regions())
    given = {"initial": scalar(maker, lanes)}
    given |= {f"op{i}": f"nl.{maker.choose(operators(maker))}" for i in (0, 1)}
    given |= {f"reverse{i}": "True" for i in (0, 1) if maker.chance(0.2)}
    maker.issue("nisa.tensor_tensor_scan", dst=dst, data0=a, data1=b, **given)


def tensor_scalar_cumulative(maker: Maker) -> None:
    lanes, free = maker.size()
    src = picks.to_read(maker, lanes, free, SMALL, maker.regions())
    dst = picks.to_write(maker, lanes, free, SMALL, maker.regions())
    given: dict[str, Any] = {"dst": dst, "src": src, "imm0": scalar(maker, lanes)}
    given["op0"] = f"nl.{maker.choose(operators(maker))}"
    given["op1"] = f"nl.{maker.choose((*FOLDS, 'subtract'))}"
    going_on(maker, "nisa.tensor_scalar_cumulative", given, "imm1")


def activation_reduce(maker: Maker) -> None:
    lanes, free = maker.size()
    data = maker.to_read(lanes, free, maker.forms, ON_CHIP)
    dst = maker.to_write(lanes, free, maker.forms, ON_CHIP)
    given: dict[str, Any] = {"op": f"nl.{maker.choose(FUNCTIONS[:10])}", "reduce_op": "nl.add"}
    if maker.chance(0.5):
        given["scale"] = scalar(maker, lanes)
    if maker.chance(0.4) and given["op"] != "nl.copy":
        given["bias"] = bias(maker, lanes)
    maker.issue(
        "nisa.activation_reduce", ("dst", "reduce_res"), dst=dst, data=data, **given,
        reduce_res=total(maker, dst, maker.floats),
    )  # fmt: skip


def accumulated(maker: Maker) -> None:
    """Sum several activations in the accumulator registers."""
    lanes = maker.lanes()
    for number in range(maker.between(1, 3)):
        free = maker.columns(40)
        data = maker.to_read(lanes, free, maker.forms, ON_CHIP)
        dst = maker.to_write(lanes, free, maker.forms, ON_CHIP)
        command = "reduce" if number else maker.choose(("reset_reduce", "reset_reduce", "reset"))
        maker.issue(
            "nisa.activation", ("dst", "reduce_res"), dst=dst, op="nl.square", data=data,
            reduce_op="nl.add", reduce_res=total(maker, dst), kinds=["accumulator registers"],
            reduce_cmd=f"nisa.reduce_cmd.{command}",
        )  # fmt: skip


def activate2(maker: Maker) -> None:
    if maker.target != "trn3":
        return
    lanes, free = maker.size()
    data = maker.to_read(lanes, free, maker.forms, ON_CHIP)
    dst = maker.to_write(lanes, free, maker.forms, ON_CHIP)
    ops = maker.choose(STEPS_OF_SCALAR)
    given: dict[str, Any] = {f"op{i}": f"nl.{op}" for i, op in enumerate(ops)}
    for i, op in enumerate(ops):
        if op != "bypass" and maker.chance(0.3):
            given[f"reverse{i}"] = "True"
    numbers = maker.column if maker.chance(0.4) else lambda lanes: maker.number()
    given |= {"dst": dst, "data": data, "imm0": numbers(lanes), "imm1": numbers(lanes)}
    given["op"] = f"nl.{maker.choose(('prelu', *FUNCTIONS[:10]))}"
    if given["op"] == "nl.prelu":
        given["relu_param"] = scalar(maker, lanes)
    if maker.chance(0.6):
        given |= {"reduce_op": f"nl.{maker.choose(FOLDS_OF_SCALAR)}"}
        if maker.chance(0.5):
            signs = maker.choose(("copy", "copy", "sign"))
            given |= {"data": with_ties(maker, lanes, free), "op": f"nl.{signs}"}
            given.pop("relu_param", None)
        given |= {"reduce_res": total(maker, dst)}
        going_on(maker, "nisa.activate2", given)
    else:
        maker.issue("nisa.activate2", **given)


STEPS_OF_SCALAR = (
    *(("multiply", "add"), ("multiply", "subtract"), ("multiply", "bypass"), ("add", "bypass")),
    *(("subtract", "bypass"), ("bypass", "bypass")),
)
FOLDS_OF_SCALAR = ("add", "maximum", "minimum", "abs_max", "abs_min", "abs_max", "abs_min")


def exponential(maker: Maker) -> None:
    if maker.target != "trn3":
        return
    lanes, free = maker.size()
    forms = (*NARROW, "int32", "int16", "int8", "uint16", "uint8")
    src = picks.to_read(maker, lanes, free, forms, ON_CHIP)
    dst = picks.to_write(maker, lanes, free, forms, ON_CHIP)
    given: dict[str, Any] = {"dst": dst, "src": src, "max_value": scalar(maker, lanes)}
    if maker.chance(0.6):
        given["reduce_res"] = total(maker, dst, NARROW)
        going_on(maker, "nisa.exponential", given, "reduce_init")
    else:
        maker.issue("nisa.exponential", **given)


STEPS = (
    *((tensor_reduce, 1), (tensor_scalar_reduce, 0.5), (select_reduce, 0.5)),
    *((tensor_partition_reduce, 0.4), (bn_stats, 0.4), (bn_aggr, 0.3), (tensor_tensor_scan, 0.5)),
    *((tensor_scalar_cumulative, 0.4), (activation_reduce, 0.5), (accumulated, 1)),
    *((activate2, 1), (exponential, 0.9)),
)
