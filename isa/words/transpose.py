"""Rules and costs of transposes by the Tensor and the Vector engine."""

from __future__ import annotations

from neuroncore.base.enums import engine
from neuroncore.base.errors import BufferKindError, DtypeError, FreeSizeError
from neuroncore.clause import PSUM, SBUF, Call, Fault, cost, fault, rule
from neuroncore.clause.rules import holds, within_one_bank
from neuroncore.machine import Machine
from neuroncore.numerics.formats import float32

from .tensor import carries

tensor, vector = engine.tensor, engine.vector


def choose(call: Call, machine: Machine) -> engine:
    """The Tensor engine reads SBUF and writes PSUM; small tiles elsewhere go to the Vector
    engine."""
    on_tensor = call.view("data").region is SBUF and call.view("dst").region is PSUM
    return tensor if on_tensor else vector


@rule(DtypeError, because="the instruction moves bits and converts nothing")
def one_format(call: Call, machine: Machine) -> Fault | None:
    """dst has the format of data, or accepts the result of the Tensor engine. Where that engine
    multiplies (v2), its sums are float32 and may stay so (published kernels for trn1 do it:
    autocomp, SD attention)."""
    dst, data = call.view("dst").dtype, call.view("data").dtype
    if call.engine is tensor:
        native = machine.has("native_transpose")
        if carries(dst, data) if native else data.is_float and dst is float32:
            return None
    if dst is data:
        return None
    return fault("data", f"data is {data}, dst is {dst}", dst, data)


def array(call: Call) -> bool:
    return call.engine is tensor


through_the_array = holds(
    "dst",
    "data is in sbuf and dst in psum",
    lambda call: call.view("data").region is SBUF and call.view("dst").region is PSUM,
    BufferKindError,
    "data in sbuf, dst in psum",
    lambda call: f"data ({call.view('data')}) to dst ({call.view('dst')})",
    because="the array reads SBUF and writes PSUM",
).when("on the Tensor engine", array)


@rule(FreeSizeError)
def fits_the_engine(call: Call, machine: Machine) -> Fault | None:
    """data has at most stationary_free columns on the Tensor engine, and vector_transpose rows and
    columns on the Vector engine"""
    data, limits = call.view("data"), machine.limits
    most = limits.stationary_free if array(call) else limits.vector_transpose
    if max(data.free_size, 0 if array(call) else data.partitions) <= most:
        return None
    said = f"data ({data}) is too large for the {call.engine.name.title()} engine"
    reasons = FITS_ARRAY if array(call) else FITS_LANES
    return fault("data", said, f"at most {most} x {most}", **reasons)


FITS_ARRAY = {"because": "data is the stationary tile of the array"}
FITS_LANES = {
    "because": "a lane exchanges data within its group of partitions only",
    "hint": "put data in SBUF and dst in PSUM, and the Tensor engine does up to 128 x 128",
    "also": "err_transpose_on_tensor_engine_not_allowed_in_allocated_kernel",
}
in_one_bank = within_one_bank("dst").when("on the Tensor engine", array)
RULES = (one_format, through_the_array, fits_the_engine, in_one_bank)


def transpose_cost(call: Call, machine: Machine) -> cost.Cost:
    """The rows of data stream past it, or its columns through the Vector engine."""
    data = call.view("data")
    if call.engine is vector:
        return cost.stream(call, machine, data.free_size)
    kind = cost.transpose_kind(data)
    return cost.systolic(call, machine, kind, data.partitions, data.free_size)
