"""A kernel that keeps one stationary tile reaches the array's peak, in every legal format."""

import nki.isa as nisa
import pytest
from device import TARGETS, Device
from every import for_all
from published_machines import PUBLISHED

TIMES, WIDTH = 400, 512
WARM = TIMES // 2  # after which the array's clock is as high as it gets
# TFLOPS
PEAK = {name: 128 * 128 * 2 * row.clocks["tensor"] / 1e3 for name, row in PUBLISHED.items()}
ONE = ("bfloat16", "float16", "tfloat32", "float8_e4m3", "float8_e5m2")


def reached(target, form, mode=None):
    """Return TFLOPS of many products of one tile with another tile."""
    device = Device(target)
    halves = (2,) if mode == "double_row" else ()
    weights = device.zeros((128, *halves, 128), form)
    moving = device.zeros((128, *halves, WIDTH), form)
    dst = device.empty((128, WIDTH), buffer="psum")
    if mode == "mx":
        scales = device.zeros((128, 128), "uint8"), device.zeros((128, WIDTH), "uint8")
        device.issue("nc_matmul_mx", dst, weights, moving, *scales)
    else:
        perf_mode = nisa.matmul_perf_mode[mode or "none"]
        device.issue("nc_matmul", dst, weights, moving, perf_mode=perf_mode)
    device.repeat(TIMES)
    begin = device.timeline().begin
    products = {"double_row": 2, "mx": 4}.get(mode, 1) * 2 * 128 * 128 * WIDTH
    return products * WARM / (begin[-1] - begin[-1 - WARM]) / 1e3


@for_all("target", TARGETS)
@for_all("form, share", [*((f, 1) for f in ONE), ("float32", 1 / 4)])
def test_one_stationary_tile_reaches_the_peak(target, form, share):
    assert 0.98 * share * PEAK[target] < reached(target, form) <= share * PEAK[target]


@pytest.mark.parametrize(
    ("target", "form", "mode", "times"),
    [
        ("trn2", "float8_e4m3", "double_row", 2),
        ("trn2", "float8_e5m2", "double_row", 2),
        ("trn3", "float8_e4m3", "double_row", 2),
        ("trn3", "float8_e4m3fn", "double_row", 2),
        ("trn3", "float8_e4m3fn_x4", "mx", 4),
        ("trn3", "float8_e5m2_x4", "mx", 4),
        ("trn3", "float4_e2m1fn_x4", "mx", 4),
    ],
)
def test_several_products_per_element_multiply_the_peak(target, form, mode, times):
    assert 0.98 * times * PEAK[target] < reached(target, form, mode) <= times * PEAK[target]
