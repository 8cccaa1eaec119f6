"""Costs of an access in addition to its elements: set-up, columns of scalars, strides, waits for a
register. Figures of trn2 are nanoseconds in profiler traces."""

import nki.isa as nisa
import nki.language as nl
import pytest
from device import TARGETS, Device
from every import for_all
from published_machines import PUBLISHED

from neuroncore import machine

N = 1024


def cycles(device, unit="vector"):
    return device.cost().busy_ns * PUBLISHED[device.core.machine.name].clocks[unit]


def copied(src, dst=None, target="trn2", unit="vector", form="float32"):
    """A device that has copied between two views of tiles [2, ...]; functions create the views."""
    device = Device(target)
    whole = lambda tile: tile  # noqa: E731
    source = (src or whole)(device.zeros((2, 32 * N), form))
    result = (dst or whole)(device.empty((2, 32 * N), form))
    if src and not dst:
        result = device.empty(tuple(source.shape), form)
    if dst and not src:
        source = device.zeros(tuple(result.shape), form)
    device.issue("tensor_copy", result, source, engine=nisa.engine[unit])
    return device


# --- set-up ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "of", "set_up"),
    [("trn2", "psum", 60), ("trn2", "sbuf", 60 + 50), ("trn3", "sbuf", 110), ("trn3", "psum", 60)],
)
def test_the_scalar_engine_takes_longer_to_reach_sbuf(target, of, set_up):
    device = Device(target)
    src = device.zeros((2, N), buffer=of)
    device.issue("tensor_copy", device.empty((2, N)), src, engine=nisa.engine.scalar)
    assert cycles(device, "scalar") == pytest.approx(set_up + N)


@pytest.mark.parametrize("of", ["psum", "sbuf"])
def test_the_vector_engine_reaches_both_memories_equally_fast(of):
    device = Device()
    column = device.empty((2, 1))
    device.issue("tensor_reduce", column, nl.add, device.zeros((2, N), buffer=of), 1)
    assert cycles(device) == pytest.approx(60 + N)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("column", "more"), [(True, 60), (False, 0)])
def test_a_column_of_scalars_is_fetched_first(target, column, more):
    device = Device(target)
    operand = device.zeros((2, 1)) if column else 3.0
    device.issue("tensor_scalar", device.empty((2, N)), device.zeros((2, N)), nl.add, operand)
    rate = 1 if target == "trn1" else 2
    assert cycles(device) == pytest.approx(60 + more + N / rate)


def test_two_columns_are_fetched_together():
    device = Device()
    one, two = device.zeros((2, 1)), device.zeros((2, 1))
    dst, data = device.empty((2, N)), device.zeros((2, N))
    device.issue("tensor_scalar", dst, data, nl.add, one, op1=nl.multiply, operand1=two)
    assert cycles(device) == pytest.approx(60 + 60 + N / 2)


@pytest.mark.parametrize(
    ("op", "biased", "set_up"),
    [(nl.copy, False, 110), (nl.copy, True, 220), (nl.exp, False, 220), (nl.exp, True, 220)],
)
def test_a_function_fetches_a_bias_even_if_it_has_none(op, biased, set_up):
    device = Device()
    bias = device.zeros((2, 1)) if biased else None
    device.issue("activation", device.empty((2, N)), op, device.zeros((2, N)), bias=bias)
    assert cycles(device, "scalar") == pytest.approx(set_up + N)


# --- traces of trn2 -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "of", "duration"), [(512, "sbuf", 707), (512, "psum", 686), (4096, "sbuf", 3704)]
)
def test_an_exponential_takes_as_long_as_on_trn2(n, of, duration):
    device = Device()
    device.issue("activation", device.empty((128, n)), nl.exp, device.zeros((128, n), buffer=of))
    found = device.cost()
    assert found.busy_ns + found.latency_ns == pytest.approx(duration, rel=0.02)


@pytest.mark.parametrize(("n", "duration"), [(128, 290.5), (512, 690)])
def test_a_copy_from_psum_takes_as_long_as_on_trn2(n, duration):
    device = Device()
    device.issue("tensor_copy", device.empty((128, n)), device.zeros((128, n), buffer="psum"))
    found = device.cost()
    assert found.busy_ns + found.latency_ns == pytest.approx(duration, rel=0.02)


# --- profiles of v2 in the guide ------------------------------------------------------------------


def lasted(device):
    found = device.cost()
    return found.busy_ns + found.latency_ns


def test_on_v2_an_addition_of_two_streams_takes_as_long_as_in_the_guide():
    device = Device("trn1")
    tiles = (device.zeros((64, 8192)) for _ in range(3))
    device.issue("tensor_tensor", *tiles, nl.add)
    assert lasted(device) == pytest.approx(14968, rel=0.02)


def test_on_v2_one_activation_takes_as_long_as_in_the_guide():
    device = Device("trn1")
    one = device.zeros((1, 1))
    device.issue("activation", device.empty((1, 1)), nl.exp, one, bias=one)
    assert lasted(device) == pytest.approx(159, rel=0.02)


def test_on_v2_a_product_takes_as_long_as_in_the_guide():
    device = Device("trn1")
    weights, moving = device.zeros((128, 96), "bfloat16"), device.zeros((128, 128), "bfloat16")
    device.issue("nc_matmul", device.empty((96, 128), buffer="psum"), weights, moving)
    assert lasted(device) == pytest.approx(219, rel=0.02)


def test_on_v2_weights_of_one_column_take_as_long_as_in_the_guide():
    device = Device("trn1")
    weights, moving = device.zeros((128, 1), "bfloat16"), device.zeros((128, 128), "bfloat16")
    device.issue("nc_matmul", device.empty((1, 128), buffer="psum"), weights, moving)
    assert device.cost().weights_latency_ns == pytest.approx(67, rel=0.02)


# --- strides --------------------------------------------------------------------------------------


@for_all("target, slow", [("trn1", 2), ("trn2", 1), ("trn3", 2)])
@for_all("step, apart", [(3, False), (4, True), (5, True), (-4, True)])
def test_elements_16_bytes_apart_have_half_the_rate(target, slow, step, apart):
    """Half of one word per cycle on v2, and of two words on v3, where it was traced; v4 is assumed
    to be like v2. Elements that are closer have the full rate."""
    device = Device(target)
    tile = device.zeros((2, 5 * N))
    src = tile[:, 0 : N * step : step] if step > 0 else tile.ap([[5 * N, 2], [step, N]], 4 * N - 4)
    device.issue("tensor_copy", device.empty((2, N)), src)
    fast = 1 if target == "trn1" else 2
    assert cycles(device) == pytest.approx(60 + N * (slow if apart else 1 / fast))


@pytest.mark.parametrize(("step", "slow"), [(2, False), (4, True)])
def test_strided_writes_have_half_the_rate_too(step, slow):
    device = copied(None, lambda t: t[:, 0 : N * step : step])
    assert cycles(device) == pytest.approx(60 + (N if slow else N / 2))


@pytest.mark.parametrize(("run", "cycles_each"), [(1, 1), (2, 1), (4, 2), (8, 4)])
def test_runs_up_to_a_sector_take_the_time_of_a_sector(run, cycles_each):
    """Rows of `run` words are far apart. From the length of a sector on, the engine's rate of two
    words per cycle is the limit."""
    device = copied(lambda t: t.reshape((2, N, 32))[:, :, 0:run])
    assert cycles(device) == pytest.approx(60 + N * cycles_each)


@pytest.mark.parametrize(("step", "found"), [(1, N / 4), (2, N / 2), (7, N / 2), (8, N)])
def test_strides_of_16_bits(step, found):
    """The traced rates are four elements per cycle, then two (ARCH2), then one."""
    device = copied(lambda t: t[:, 0 : N * step : step], form="bfloat16")
    assert cycles(device) == pytest.approx(60 + found)


def test_an_element_that_is_read_repeatedly_is_not_strided():
    device = copied(lambda t: t[:, 0:1].broadcast(1, N))
    assert cycles(device) == pytest.approx(60 + N / 2)


@pytest.mark.parametrize(("target", "first"), [("trn1", 2 * N), ("trn2", N)])
def test_a_reduction_over_rows_is_strided(target, first):
    """The reduced axis is the innermost of the access, at any position in the tile."""
    device = Device(target)
    data = device.zeros((2, N // 8, 8)).permute((0, 2, 1))
    device.issue("tensor_reduce", device.empty((2, 8)), nl.add, data, 2)
    assert cycles(device) == pytest.approx(60 + first)


# --- conditions of v2 -----------------------------------------------------------------------------


@for_all(
    "op, form, step, fast",
    [
        (nl.add, "bfloat16", 1, True),
        (nl.subtract, "bfloat16", 1, True),
        (nl.maximum, "bfloat16", 1, False),
        (nl.add, "float16", 1, False),
        (nl.add, "bfloat16", 2, False),
    ],
)
@for_all("target", TARGETS)
def test_v2_has_conditions_for_two_fast_streams_that_v3_lacks(target, op, form, step, fast):
    device = Device(target)
    one, two = (device.zeros((2, N * step), form)[:, 0 : N * step : step] for _ in range(2))
    device.issue("tensor_tensor", device.empty((2, N), form), one, two, op)
    expected = N / 2 if target != "trn1" else N if fast else 2 * N
    assert cycles(device) == pytest.approx(60 + expected)


@pytest.mark.parametrize(
    ("op0", "op1", "each"), [("subtract", "multiply", 1), ("multiply", "subtract", 2)]
)
def test_v2_has_one_fast_pair_of_operators_with_a_scalar(op0, op1, each):
    device = Device("trn1")
    dst, data, other = (device.zeros((2, N), "bfloat16") for _ in range(3))
    ops = getattr(nl, op0), getattr(nl, op1)
    device.issue("scalar_tensor_tensor", dst, data, ops[0], 1.0, ops[1], other)
    assert cycles(device) == pytest.approx(60 + each * N)


# --- registers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("function", "ns"), [("register_load", 650), ("register_move", 64 / 1.2)])
def test_a_register_waits_for_memory_and_not_for_another_register(function, ns):
    device = Device()
    register = device.call(nisa.register_alloc, 1)
    source = device.zeros((1, 1), "int32") if function == "register_load" else 2
    device.issue(function, register, source)
    assert device.cost().busy_ns == pytest.approx(ns)


# --- the clock of the array -----------------------------------------------------------------------


@pytest.mark.parametrize(("target", "ns", "share"), [("trn1", 0, 1), ("trn2", 3413.33, 0.5)])
def test_the_clock_of_v3_has_windows(target, ns, share):
    fixed = machine.load(target).fixed
    assert (fixed.clock_window_ns, fixed.cold_clock_share) == (ns, share)
