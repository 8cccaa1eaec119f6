"""The Tensor engine's time: a column per cycle, weights that are loaded behind or before the
stream, peak rates."""

from dataclasses import replace

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import TARGETS, Device
from every import for_all
from published_machines import since

from neuroncore import machine
from neuroncore.report.summary import summary
from neuroncore.time.schedule import schedule

NARROW = ("bfloat16", "float16", "float8_e4m3", "float8_e5m2", "tfloat32")
VISIBLE = [t for t in TARGETS if not machine.load(t).fixed.weights_hidden]
HIDDEN = [t for t in TARGETS if machine.load(t).fixed.weights_hidden]


def operands(device, k=128, m=128, n=512, form="bfloat16"):
    tiles = (
        device.empty((m, n), buffer="psum"),
        device.zeros((k, m), form),
        device.zeros((k, n), form),
    )
    return list(tiles)


def warm(device):
    """Return the timeline of an array that needs no warm-up."""
    it = device.core.machine
    fixed = replace(it.fixed, clock_window_ns=0.0, cold_clock_share=1.0)
    return schedule(device.core.program, replace(it, fixed=fixed))


def clock(device):
    return device.core.machine.engines["tensor"].clock_ghz


def columns(device, which=-1):
    """Return the cycles, which are columns at full rate, for which an instruction occupies the
    engine."""
    return warm(device).busy[which] * clock(device)


def matmul_cycles(target, k=128, m=128, n=512, form="bfloat16", **how):
    """Return the cycles of a second matmul with the same stationary tile, whose weights are already
    loaded."""
    device = Device(target)
    device.issue("nc_matmul", *operands(device, k, m, n, form), **how)
    device.repeat(1)
    return columns(device)


PASS = 7  # cycles between two passes (trn2's traces: 216 ns for 512 columns, 429.5 of float32)


@for_all("target", TARGETS)
@for_all("form", [*NARROW, "float32"])
def test_a_long_stream_reaches_the_peak(target, form):
    device = Device(target)
    device.issue("nc_matmul", *operands(device, form=form))
    device.repeat(399)
    it = device.core.machine
    engine = it.engines["tensor"]
    rate = engine.rate["float8" if form.startswith("float8") else form]
    peak = 2 * 128 * 128 * engine.clock_ghz * rate
    reached = 400 * 2 * 128 * 128 * 512 / warm(device).total_ns
    assert 0.98 * peak < reached <= peak
    if not form.startswith("float8"):
        assert peak / 1000 == pytest.approx(it.peak_tflops[form], rel=0.02)


@for_all("target", TARGETS)
@for_all("n, cycles", [(1, 64), (57, 64), (58, 65), (512, 519)])
def test_a_column_of_moving_takes_a_cycle_and_a_product_at_least_64(target, n, cycles):
    assert matmul_cycles(target, n=n) == pytest.approx(cycles)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("n", "cycles"), [(1, 256), (512, 2062)])
def test_float32_takes_four_times_as_long(target, n, cycles):
    """trn2's traces have 859 ns, which are 2062 cycles."""
    assert matmul_cycles(target, n=n, form="float32") == pytest.approx(cycles)


@for_all(
    "target, form, cycles",
    [
        ("trn1", "float32", 2 * 512 + PASS),
        ("trn2", "float32", 4 * 512 + 2 * PASS),  # as measured
        ("trn3", "float32", 2 * 512 + PASS),
        *((target, "bfloat16", 519) for target in TARGETS),
    ],
)
@for_all("which", ["stationary", "moving"])
def test_zeros_and_ones_halve_the_time_of_float32_where_it_was_not_measured(
    target, which, form, cycles
):
    found = matmul_cycles(target, form=form, **{f"is_{which}_onezero": True})
    assert found == pytest.approx(cycles)


@for_all("target", TARGETS)
@for_all("step, cycles", [(7, 519), (8, 2 * 512 + PASS), (9, 2 * 512 + PASS)])
def test_columns_16_bytes_apart_have_half_the_rate(target, step, cycles):
    device = Device(target)
    dst, stationary, _ = operands(device)
    moving = device.zeros((128, 512 * step), "bfloat16")[:, 0 : 512 * step : step]
    device.issue("nc_matmul", dst, stationary, moving)
    device.repeat(1)
    assert columns(device) == pytest.approx(cycles)


@pytest.mark.parametrize(("k", "m"), [(1, 1), (128, 1), (1, 128), (64, 32)])
def test_unused_rows_and_columns_save_no_time(k, m):
    assert matmul_cycles("trn2", k, m) == pytest.approx(matmul_cycles("trn2"))


@pytest.mark.parametrize("target", TARGETS)
def test_the_first_weights_are_loaded(target):
    device = Device(target)
    device.issue("nc_matmul", *operands(device, n=512))
    assert columns(device) == pytest.approx(519 + 64 if target in VISIBLE else 519)


@pytest.mark.parametrize("target", VISIBLE)
def test_changed_weights_take_time_unless_their_load_is_hidden(target):
    device = Device(target)
    dst, one, moving = operands(device)
    other = device.zeros((128, 64), "bfloat16")
    for stationary in (one, one, other, one):
        device.issue("nc_matmul", dst[0 : stationary.shape[1], :], stationary, moving)
    found = [columns(device, i) for i in range(4)]
    assert found == pytest.approx([519 + 64, 519, 519 + 64, 519 + 64])


@for_all("target", TARGETS)
@for_all(
    "form, step, alike, sectors",
    [
        ("bfloat16", 1, 64, 64),
        ("bfloat16", 4, 64, 128),
        ("bfloat16", 8, 64, 256),
        ("float32", 1, 2 * 128, 2 * 128),
    ],
)
def test_weights_load_four_columns_per_cycle_in_at_least_64_cycles(
    target, form, step, alike, sectors
):
    """A sector of 16 bytes takes two cycles on machines that load by sectors. float32 loads a tile
    for each of its passes, at half the rate."""
    device = Device(target)
    dst, _, moving = operands(device, form=form)
    stationary = device.zeros((128, 128 * step), form)[:, 0 : 128 * step : step]
    device.issue("nc_matmul", dst, stationary, moving)
    cycles = sectors if device.core.machine.fixed.weights_by_sectors else alike
    assert device.cost().weights_ns * clock(device) == pytest.approx(cycles)


@pytest.mark.parametrize(
    ("form", "ns"), [("bfloat16", 128 / 2.4 + 44), ("float32", 256 / 2.4 + 44)]
)
def test_the_array_is_filled_at_two_bytes_of_a_row_per_cycle(form, ns):
    """trn2's traces of bfloat16 have 97 ns from begin to end."""
    device = Device("trn2")
    device.issue("nc_matmul", *operands(device, form=form))
    assert device.cost().weights_latency_ns == pytest.approx(ns)


@pytest.mark.parametrize("target", HIDDEN)
@pytest.mark.parametrize(
    ("form", "n", "cycles"), [("bfloat16", 512, 519), ("bfloat16", 1, 64), ("float32", 1, 256)]
)
def test_the_load_of_changed_weights_is_hidden_behind_a_long_stream(target, form, n, cycles):
    device = Device(target)
    dst, one, moving = operands(device, n=n, form=form)
    other = device.zeros((128, 128), form)
    for stationary in (one, other, one):
        device.issue("nc_matmul", dst, stationary, moving)
    assert columns(device) == pytest.approx(cycles)


def test_a_stationary_tile_that_was_rewritten_is_loaded_again():
    (target,) = VISIBLE
    device = Device(target)
    dst, stationary, moving = operands(device)
    device.issue("nc_matmul", dst, stationary, moving)
    device.issue("memset", stationary, 1.0)
    device.issue("nc_matmul", dst, stationary, moving)
    device.repeat(1)
    assert columns(device, 2) == pytest.approx(columns(device, 0))
    assert columns(device, 3) == pytest.approx(519)


@for_all("target", TARGETS)
@for_all("rows, free", [(128, 128), (128, 7), (32, 128), (96, 64)])
def test_a_transpose_streams_the_partitions_of_its_data(target, rows, free):
    device = Device(target)
    data = device.zeros((rows, free), "bfloat16")
    narrow = "bfloat16"
    device.issue(
        "nc_transpose", device.empty((free, rows), narrow, "psum"), data, engine=nisa.engine.tensor
    )
    device.repeat(1)
    together = 2 if target in since(4) else 1  # v4 transposes two at a time
    assert columns(device) == pytest.approx(max(64, PASS + rows / together))


@pytest.mark.parametrize(
    ("target", "cycles"), [("trn1", 256 + PASS), ("trn2", 256 + PASS), ("trn3", 128 + PASS)]
)
def test_a_float32_transpose_is_twice_as_fast_as_a_float32_product(target, cycles):
    device = Device(target)
    dst, data = device.empty((128, 128), buffer="psum"), device.zeros((128, 128))
    device.issue("nc_transpose", dst, data, engine=nisa.engine.tensor)
    device.repeat(1)
    assert columns(device) == pytest.approx(cycles)
    assert matmul_cycles(target, n=128, form="float32") == pytest.approx(512 + 2 * PASS)


@pytest.mark.parametrize(("target", "extra"), [("trn2", 0), ("trn3", 128 + PASS)])
def test_a_transpose_in_the_background_takes_as_long_as_before(target, extra):
    """It leaves half of the array's time to another transpose (ARCH3), but does not end earlier."""
    device = Device(target)
    dst, data = device.empty((128, 128), buffer="psum"), device.zeros((128, 128))
    device.issue("nc_transpose", dst, data, engine=nisa.engine.tensor)
    latency = device.core.machine.engines["tensor"].latency_ns + extra / 2.4
    assert device.cost().latency_ns == pytest.approx(latency)


@pytest.mark.parametrize(("turned", "cycles"), [(True, 263), (False, 512 + 2 * PASS)])
def test_a_matmul_in_transpose_mode_is_a_transpose(turned, cycles):
    device = Device("trn2")
    dst, data, identity = operands(device, n=128, form="float32")
    device.issue("nc_matmul", dst, data, identity, is_transpose=turned)
    device.repeat(1)
    assert columns(device) == pytest.approx(cycles)


def test_a_small_transpose_on_the_vector_engine_streams_its_free_axis():
    device = Device()
    device.issue(
        "nc_transpose", device.empty((32, 32)), device.zeros((32, 32)), engine=nisa.engine.vector
    )
    engine = device.core.machine.engines["vector"]
    cycles = max(engine.min_interval_cycles, engine.overhead_cycles + 32)
    assert device.timeline().busy[0] == pytest.approx(cycles / engine.clock_ghz)


@pytest.mark.parametrize("target", TARGETS)
def test_accumulating_products_follow_each_other_without_waiting_for_sums(target):
    """The additions are in PSUM, and the engine does them itself."""
    device = Device(target)
    dst, stationary, moving = operands(device)
    device.issue("nc_matmul", dst, stationary, moving)
    device.repeat(7)
    timeline = warm(device)
    assert np.diff(timeline.begin) == pytest.approx(timeline.busy[:-1])
    device.issue("tensor_copy", device.empty((128, 512)), dst)
    timeline, semaphore = warm(device), device.core.machine.fixed.semaphore_ns
    assert timeline.begin[-1] == pytest.approx(timeline.end[-2] + semaphore)
    assert timeline.cause[-1] == 7


def test_flops_are_counted_independently_of_their_speed():
    device = Device()
    device.issue("nc_matmul", *operands(device, 64, 32, 100))
    device.repeat(2)
    device.issue("activation", device.empty((1, 8)), nl.exp, device.zeros((1, 8)))
    data, dst = device.zeros((64, 32)), device.empty((32, 64), buffer="psum")
    device.issue("nc_transpose", dst, data, engine=nisa.engine.tensor)
    figures = summary(device.timeline())
    assert figures["transpose_flops"] == 2 * 64 * 64 * 32
    assert figures["hardware_flops"] == 3 * 2 * 64 * 32 * 100 + 2 * 64 * 64 * 32
