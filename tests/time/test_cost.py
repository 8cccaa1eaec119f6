r"""The time for which one instruction occupies its engine: elements divided by the rate, and fixed
costs.

Figures of rules that are documented for the hardware are in this file; measured figures are read
from the machine's file."""

from dataclasses import replace

import nki.isa as nisa
import nki.language as nl
import pytest
from device import TARGETS, Device
from every import for_all
from published_machines import since

from neuroncore import machine
from neuroncore.clause import cost
from neuroncore.memory.geometry import View

N = 1024
FAST = since(3)  # whose Vector engine has fast modes
SIXTEEN = ("bfloat16", "float16")


def work(device, unit="vector"):
    """Return the cycles of the last instruction without the fixed costs of its engine and of an
    access to SBUF."""
    engine = device.core.machine.engines[unit]
    fixed = engine.overhead_cycles + engine.sbuf_access_cycles
    return device.cost().busy_ns * engine.clock_ghz - fixed


def copy_work(target, dst="float32", src="float32", to="sbuf", of="sbuf", **how):
    device = Device(target)
    device.issue("tensor_copy", device.empty((2, N), dst, to), device.zeros((2, N), src, of), **how)
    return work(device, how["engine"].name if how else "vector")


def pair_work(target, dst, data1, data2, region1="sbuf", region2="sbuf"):
    device = Device(target)
    inputs = device.zeros((2, N), data1, region1), device.zeros((2, N), data2, region2)
    device.issue("tensor_tensor", device.empty((2, N), dst), *inputs, nl.add)
    return work(device)


# --- fixed costs ----------------------------------------------------------------------------------


COPIERS = [(target, unit) for target in TARGETS for unit in ("vector", "scalar", "gpsimd")]
COPIERS.remove(("trn1", "scalar"))  # v2 copies with activation()


@for_all("target, unit", COPIERS)
def test_one_element_costs_the_overhead_or_the_minimum_interval(target, unit):
    device = Device(target)
    engine = device.core.machine.engines[unit]
    device.issue(
        "tensor_copy", device.empty((1, 1)), device.zeros((1, 1)), engine=nisa.engine[unit]
    )
    found = device.cost()
    rate = engine.rate.get("copy_32bit", 1) if unit == "vector" else 1
    fixed = engine.overhead_cycles + engine.sbuf_access_cycles
    cycles = max(engine.min_interval_cycles, fixed + 1 / rate)
    assert found.busy_ns == pytest.approx(cycles / engine.clock_ghz)
    assert found.latency_ns == pytest.approx(engine.latency_ns)


@pytest.mark.parametrize("partitions", [1, 33, 64, 128])
def test_partitions_are_lanes_and_cost_no_time(partitions):
    device = Device()
    device.issue("tensor_copy", device.empty((partitions, N)), device.zeros((partitions, N)))
    assert work(device) == pytest.approx(copy_work("trn2"))


@pytest.mark.parametrize("target", TARGETS)
def test_a_run_time_address_has_a_minimum_number_of_cycles(target):
    device = Device(target)
    src, register = device.zeros((1, 8)), device.call(nisa.register_alloc, 2)
    moved = src.ap([[8, 1], [1, 4]], scalar_offset=register, indirect_dim=1)
    device.issue("tensor_copy", device.empty((1, 4)), moved)
    it = device.core.machine
    least = it.fixed.dynamic_address_cycles / it.engines["vector"].clock_ghz
    assert device.cost().busy_ns == pytest.approx(least)


def test_a_run_time_address_changes_only_the_interval():
    device = Device()
    src, register = device.zeros((1, 8)), device.call(nisa.register_alloc, 2)
    moved = src.ap([[8, 1], [1, 4]], scalar_offset=register, indirect_dim=1)
    device.issue("tensor_copy", device.empty((1, 4)), moved)
    call, it = device.core.program.calls[-1], device.core.machine
    transfer = cost.Transfer(0, 3, 12.5, store=True)
    given = cost.Cost(1.0, 2.0, 3.0, "data", "exp", transfer)
    found = cost.dynamic(lambda call, machine: given)(call, it)
    assert found == replace(given, busy_ns=found.busy_ns)
    assert found.busy_ns == it.fixed.dynamic_address_cycles / it.engines["vector"].clock_ghz


def test_a_matmul_at_a_run_time_address_still_loads_its_weights():
    device = Device("trn1")
    moving, register = device.zeros((8, 64)), device.call(nisa.register_alloc, 2)
    moved = moving.ap([[64, 8], [1, 4]], scalar_offset=register, indirect_dim=1)
    weights, dst = device.zeros((8, 128)), device.empty((128, 4), buffer="psum")
    for operand in (moving[:, 0:4], moved):
        device.issue("nc_matmul", dst, weights, operand)
    static, dynamic = (c.instruction.cost(c, device.core.machine) for c in _matmuls(device))
    assert dynamic == replace(static, busy_ns=dynamic.busy_ns)
    assert dynamic.busy_ns > static.busy_ns and dynamic.weights_ns > 0


def _matmuls(device):
    return [c for c in device.core.program.calls if c.name == "nc_matmul"]


# --- the Vector engine ----------------------------------------------------------------------------


@for_all("dst", SIXTEEN)
@for_all("src", SIXTEEN)
@for_all("target", TARGETS)
def test_copies_of_16_bits_within_sbuf_are_four_times_as_fast_from_v3(target, dst, src):
    assert copy_work(target, dst, src) == pytest.approx(N / 4 if target in FAST else N)


@pytest.mark.parametrize(("to", "of"), [("psum", "sbuf"), ("sbuf", "psum")])
@pytest.mark.parametrize("target", TARGETS)
def test_copies_of_16_bits_with_one_side_in_psum_are_twice_as_fast_from_v3(target, to, of):
    found = copy_work(target, "bfloat16", "bfloat16", to, of)
    assert found == pytest.approx(N / 2 if target in FAST else N)


@pytest.mark.parametrize("target", TARGETS)
def test_copies_that_widen_or_stay_in_psum_are_not_fast(target):
    rate = machine.load(target).engines["vector"].rate
    assert copy_work(target, "float32", "bfloat16") == pytest.approx(N / rate["copy_widening"])
    assert copy_work(target, "bfloat16") == pytest.approx(N / rate["copy_32bit"])
    assert copy_work(target) == pytest.approx(N / rate["copy_32bit"])
    assert copy_work(target, of="psum") == pytest.approx(N / rate["default"])
    both = copy_work(target, "bfloat16", "bfloat16", "psum", "psum")
    assert both == pytest.approx(N / rate["default"])


@pytest.mark.parametrize(("target", "rate"), [("trn1", 1), ("trn2", 2), ("trn3", 2)])
def test_a_strided_side_halves_the_fast_mode(target, rate):
    device = Device(target)
    src = device.zeros((2, 2 * N), "bfloat16")
    device.issue("tensor_copy", device.empty((2, N), "bfloat16"), src[:, 0 : 2 * N : 2])
    assert work(device) == pytest.approx(N / rate)


@pytest.mark.parametrize("target", FAST)
def test_gaps_between_contiguous_rows_do_not_slow_the_fast_mode(target):
    device = Device(target)
    src = device.zeros((2, 8, 2 * N // 8), "bfloat16")
    dst = device.empty((2, 8, N // 8), "bfloat16")
    device.issue("tensor_copy", dst, src[:, :, 0 : N // 8])
    assert work(device) == pytest.approx(N / 4)


@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_8_bits_have_the_fast_mode_from_v4(target):
    rate = machine.load(target).engines["vector"].rate["copy_32bit"]
    found = copy_work(target, "float8_e4m3", "float8_e4m3")
    assert found == pytest.approx(N / (4 if target == "trn3" else rate))


@pytest.mark.parametrize("target", TARGETS)
def test_tensor_scalar_costs_as_much_as_a_copy_with_one_operation_or_two(target):
    for form in ("float32", "bfloat16"):
        for more in ({}, {"op1": nl.add, "operand1": 1.0}):
            device = Device(target)
            dst, data = device.empty((2, N), form), device.zeros((2, N), form)
            device.issue("tensor_scalar", dst, data, nl.multiply, 2.0, **more)
            assert work(device) == pytest.approx(copy_work(target, form, form))


@pytest.mark.parametrize("target", TARGETS)
def test_the_fast_mode_of_two_streams_needs_three_tiles_of_16_bits(target):
    rate = machine.load(target).engines["vector"].rate
    narrow = pair_work(target, "bfloat16", "bfloat16", "bfloat16")
    assert narrow == pytest.approx(N / 2 if target in FAST else N)
    for forms in (("float32", *2 * ("bfloat16",)), ("bfloat16", "bfloat16", "float32")):
        assert pair_work(target, *forms) == pytest.approx(N / rate["two_streams"])


@pytest.mark.parametrize("target", TARGETS)
def test_two_streams_from_two_memories(target):
    rate = machine.load(target).engines["vector"].rate
    float32 = ("float32",) * 3
    mixed = pair_work(target, *float32, "psum", "sbuf")
    assert mixed == pair_work(target, *float32, "sbuf", "psum")
    assert mixed == pytest.approx(N / rate["two_streams_mixed"])
    assert pair_work(target, *float32) == pytest.approx(N / rate["two_streams"])
    if target == "trn1":
        assert pair_work(target, *float32) == pytest.approx(2 * mixed)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("form", "kind"), [("bfloat16", "memset_zero_16bit"), ("float32", "default")]
)
def test_zeros_of_16_bits_are_written_twice_as_fast(target, form, kind):
    device = Device(target)
    device.issue("memset", device.empty((2, N), form), 0.0)
    assert work(device) == pytest.approx(N / device.core.machine.engines["vector"].rate[kind])


@pytest.mark.parametrize("target", TARGETS)
def test_a_scan_takes_two_cycles_per_element(target):
    device = Device(target)
    a, b, dst = device.zeros((2, N)), device.zeros((2, N)), device.empty((2, N))
    device.issue("tensor_tensor_scan", dst, a, b, 0.0, nl.multiply, nl.add)
    assert work(device) == pytest.approx(2 * N)


@pytest.mark.parametrize(
    ("target", "of", "cycles"), [("trn1", "sbuf", 2 * N), ("trn1", "psum", N), ("trn2", "sbuf", N)]
)
def test_on_v2_a_predicated_copy_is_slower_when_both_streams_come_from_sbuf(target, of, cycles):
    device = Device(target)
    src, predicate = device.zeros((2, N), buffer=of), device.zeros((2, N), "uint32")
    device.issue("tensor_copy_predicated", device.zeros((2, N)), src, predicate)
    assert work(device) == pytest.approx(cycles)


@pytest.mark.parametrize("target", TARGETS)
def test_a_predicated_copy_of_one_number_reads_one_stream(target):
    device = Device(target)
    predicate = device.zeros((2, N), "uint32")
    device.issue("tensor_copy_predicated", device.zeros((2, N)), 1.0, predicate)
    assert work(device) == pytest.approx(N)


@pytest.mark.parametrize("target", TARGETS)
def test_the_reciprocal_has_its_own_rate(target):
    device = Device(target)
    device.issue("reciprocal", device.empty((2, N)), device.zeros((2, N)))
    assert work(device) == pytest.approx(
        N / device.core.machine.engines["vector"].rate["reciprocal"]
    )


@pytest.mark.parametrize("target", TARGETS)
def test_a_reduction_streams_its_input(target):
    rate = machine.load(target).engines["vector"].rate
    for form, op, kind in (
        ("float32", nl.add, "default"),
        ("bfloat16", nl.add, "reduce_16bit"),
        ("bfloat16", nl.minimum, "default"),
    ):
        device = Device(target)
        dst, data = device.empty((2, 4), form), device.zeros((2, 4, N // 4), form)
        device.issue("tensor_reduce", dst, op, data, 2)
        assert work(device) == pytest.approx(N / rate[kind])


def test_reading_an_accumulated_reduction_has_a_fixed_cost():
    device = Device()
    dst, data, column = device.empty((2, N)), device.zeros((2, N)), device.empty((2, 1))
    device.issue("tensor_scalar_reduce", dst, data, nl.add, 1.0, nl.add, column)
    assert work(device) == pytest.approx(N + device.core.machine.fixed.accumulator_read_cycles)


# --- the Scalar and GpSimd engines ----------------------------------------------------------------


def activation_work(op, target="trn2", **how):
    device = Device(target)
    tiles = {name: device.zeros((2, 1)) for name in how.pop("columns", ())}
    device.issue("activation", device.empty((2, N)), op, device.zeros((2, N)), **tiles, **how)
    column = device.core.machine.engines["scalar"].column_cycles
    return work(device, "scalar") - column * (op is not nl.copy)


@for_all("target", TARGETS)
@for_all("op", [nl.copy, nl.exp, nl.gelu, nl.tanh])
def test_an_activation_takes_a_cycle_per_element_whatever_its_function(target, op):
    assert activation_work(op, target) == pytest.approx(N)


def test_scale_and_bias_cost_nothing_but_reading_the_sum_does():
    assert activation_work(nl.exp, scale=2.0, columns=["bias"]) == pytest.approx(N)
    added = activation_work(
        nl.exp, columns=["reduce_res"], reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reset_reduce
    )
    assert added == pytest.approx(N + machine.load("trn2").fixed.accumulator_read_cycles)


@pytest.mark.parametrize(("target", "rate"), [("trn2", 1), ("trn3", 2)])
def test_the_scalar_engine_copies_16_bits_twice_as_fast_from_v4(target, rate):
    scalar = nisa.engine.scalar
    assert copy_work(target, engine=scalar) == pytest.approx(N)
    found = copy_work(target, "bfloat16", "bfloat16", engine=scalar)
    assert found == pytest.approx(N / rate)


@pytest.mark.parametrize("target", TARGETS)
def test_a_gpsimd_program_starts_slowly(target):
    device = Device(target)
    device.issue("iota", device.empty((2, N), "int32"), [[1, N]])
    start = device.core.machine.fixed.gpsimd_start_cycles
    assert work(device, "gpsimd") == pytest.approx(start + N)


def test_a_root_on_gpsimd_takes_four_cycles_per_element():
    device = Device()
    device.issue("tensor_scalar", device.empty((2, N)), device.zeros((2, N)), nl.rsqrt, None)
    assert work(device, "gpsimd") == pytest.approx(4 * N)


# --- dependencies of a cost -----------------------------------------------------------------------


def test_a_cost_depends_only_on_the_call():
    """Two runs with different data have the same call."""
    device = Device()
    for value in (0.0, 7.0):
        device.issue("tensor_scalar", device.empty((2, N)), device.zeros((2, N)), nl.add, value)
    assert len(device.core.program.calls) == 1
    assert not any(isinstance(a, float) for a in device.core.program.calls[0].arguments.values())
    assert any(isinstance(a, View) for a in device.core.program.calls[0].arguments.values())
