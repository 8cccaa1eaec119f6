"""Instructions that work element by element: copies, operators, functions. The attributes of `i`
are the arguments of an instruction, and `i.core` executes it."""

from typing import Any

import numpy as np

from neuroncore.base.enums import reduce_cmd
from neuroncore.plain.arithmetic import BITS, INTEGER, activation_of, apply
from neuroncore.plain.formats import Array, Coding, F, encode
from neuroncore.plain.memory import Operand

IDLE = reduce_cmd.idle
FLOAT_ONLY = ("power", "abs_max", "abs_min", "divide", "mod", "fmod")


def tensor_copy(i: Any) -> None:
    """dst[p, f] = src[p, f]; if the formats differ, elements are converted through float32"""
    i.dst.put(i.src.codes()) if i.dst.form is i.src.form else i.dst.set(i.src.values())


def memset(i: Any) -> None:
    """dst[p, f] = value"""
    i.dst.put(constant(i.dst.held, i.value))


def tensor_copy_predicated(i: Any) -> None:
    """dst[p, f] = src[p, f] if predicate[p, f] != 0, else unchanged"""
    where = (i.predicate.codes() != 0) ^ bool(i.reverse_pred)
    i.dst.put(i.src.codes() if isinstance(i.src, Operand) else constant(i.dst.held, i.src), where)


def tensor_tensor(i: Any) -> None:
    """dst[p, f] = data1[p, f] <op> data2[p, f]; on GpSimd integers are exact and wrap around"""
    operands = i.dst, i.data1, i.data2
    if i.op in BITS:
        i.dst.put(BITS[i.op](i.data1.bits(), i.data2.bits()).view(i.dst.held.codes))
    elif i.engine.name == "gpsimd" and i.op not in FLOAT_ONLY and are_whole(*operands):
        a, b = (data.codes().astype(np.int64).reshape(i.dst.shape) for data in operands[1:])
        i.dst.put(np.asarray(INTEGER[i.op](a, b)))
    else:
        i.dst.set(apply(i.core.operator(i.op), i.data1.rows(), i.data2.rows()))


def tensor_scalar(i: Any) -> None:
    """dst[p, f] = (data[p, f] <op0> operand0[p]) <op1> operand1[p]"""
    steps = [(i.op0, i.operand0, i.reverse0), (i.op1, i.operand1, i.reverse1)][: 2 if i.op1 else 1]
    value = chain(i, i.data, *steps)
    i.dst.put(value.view(i.dst.held.codes)) if i.op0 in BITS else i.dst.set(value)


def scalar_tensor_tensor(i: Any) -> None:
    """dst[p, f] = (data[p, f] <op0> operand0[p]) <op1> operand1[p, f]"""
    steps = (i.op0, i.operand0, i.reverse0), (i.op1, i.operand1, i.reverse1)
    i.dst.set(chain(i, i.data, *steps))


def reciprocal(i: Any) -> None:
    """dst[p, f] = 1 / data[p, f]"""
    i.dst.set(apply("reciprocal", i.data.values()))


def nc_stream_shuffle(i: Any) -> None:
    """dst[32q + k, f] = src[32q + shuffle_mask[k], f] in each quadrant q; 255 keeps dst unchanged

    The quadrants of src repeat if dst has more."""
    rows, size, lanes = np.arange(i.dst.lanes), len(i.shuffle_mask), i.src.lanes
    wanted = np.array(i.shuffle_mask)[rows % size]
    source = rows // size * size % (-(-lanes // size) * size) + wanted
    codes = i.src.bits()[np.where(wanted == 255, 0, source)]
    i.dst.put(codes, np.broadcast_to((wanted != 255)[:, np.newaxis], codes.shape))


def activation(i: Any) -> None:
    """dst[p, f] = op(data[p, f] * scale[p] + bias[p]);  reduce_res[p] = the accumulator

    Multiplication and addition round separately. The accumulator adds the float32 results."""
    activated(i, i.reduce_cmd)


def activation_reduce(i: Any) -> None:
    """dst[p, f] = op(data[p, f] * scale[p] + bias[p]);  reduce_res[p] = sum over f of op(...)"""
    activated(i, reduce_cmd.reset_reduce)


def activated(i: Any, command: reduce_cmd) -> None:
    x = apply("multiply", i.data.rows(), column(i.scale))
    out = activation_of(i.op, x if i.bias is None else apply("add", x, column(i.bias)))
    i.core.reduce(i, i.data, out, None if command is IDLE else "add", command)


def activate2(i: Any) -> None:
    """dst[p, f] = op((data[p, f] <op0> imm0[p]) <op1> imm1[p]);  reduce_res[p] = the accumulator"""
    x = chain(i, i.data, (i.op0, i.imm0, i.reverse0), (i.op1, i.imm1, i.reverse1))
    out = activation_of(i.op, x)
    if i.op == "prelu":
        out = np.where(x > 0, x, column(i.relu_param) * x)
    op = None if i.reduce_cmd is IDLE else i.reduce_op
    i.core.reduce(i, i.data, out, op, i.reduce_cmd)


def exponential(i: Any) -> None:
    """dst[p, f] = exp(src[p, f] - max_value[p]);  reduce_res[p] = sum over f of exp(...)"""
    out = activation_of("exp", apply("subtract", i.src.rows(), column(i.max_value)))
    i.core.reduce(i, i.src, out, "add", i.reduce_cmd, i.reduce_init)


def are_whole(*operands: Operand) -> bool:
    return all(operand.form.name in ("int32", "uint32") for operand in operands)


def constant(form: Coding, value: Any) -> Array:
    """Return the code of a constant: rounded to nearest even for floats, its low bits for integers,
    and 0 for packed formats."""
    if form.kind == "packed" or (form.kind == "scale" and value == 0):
        return np.zeros((), form.codes)
    if form.kind == "integer":
        return np.array(int(value), np.int64).astype(form.codes)
    return encode(form, np.array(value, F))


def column(operand: Any) -> Any:
    """Return the float32 values of an operand, [P, 1] or [P, F], or a number as float32."""
    return operand.rows() if isinstance(operand, Operand) else F(operand)


def chain(i: Any, data: Operand, *steps: tuple[Any, Any, bool]) -> Array:
    """Return ((data <op> operand) <op> operand), [P, F], rounded to float32 after each step. A step
    is (op, operand, reverse). Operators on bit patterns use the width of data's format."""
    bitwise = steps[0][0] in BITS
    value = data.bits() if bitwise else data.rows()
    for op, operand, reverse in steps:
        other = 0 if operand is None else column(operand)
        if bitwise:
            number = operand.bits() if isinstance(operand, Operand) else int(operand or 0)
            mask = (1 << 8 * value.itemsize) - 1
            other = (np.asarray(number).astype(np.int64) & mask).astype(value.dtype)
            value = BITS[op](*((other, value) if reverse else (value, other)))
        else:
            value = apply(i.core.operator(op), value, other, reverse)
    return np.broadcast_to(value, data.rows().shape)
