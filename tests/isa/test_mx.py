"""quantize_mx: groups of 8 partitions x 4 elements that share a power of two."""

import itertools
import math

import ml_dtypes
import nki.language as nl
import numpy as np
import pytest
from device import Device, bits
from hypothesis import given
from hypothesis import strategies as st
from microscaling import EIGHT, matmul_tiles, pack, rows

from neuroncore.base.errors import (
    BufferKindError,
    DtypeError,
    ShapeError,
    StartPartitionError,
    TargetError,
)
from neuroncore.numerics.formats import lookup

EMAX = {"float8_e4m3fn": 8, "float8_e5m2": 15}
LARGEST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}
RULES = ("ocp_x2", "ocp")


def quantized(values, element, rule="ocp_x2"):
    """Element codes [P, F/4, 4] and scale codes [P/8, F/4], a group at a time in float64."""
    with np.errstate(invalid="ignore"):  # signalling NaN
        wide = values.astype(np.float64)
    groups = wide.reshape(len(values) // 8, 8, -1, 4)
    codes = np.zeros(groups.shape, np.uint8)
    scales = np.zeros((len(groups), groups.shape[2]), np.uint8)
    for g, f in itertools.product(*map(range, scales.shape)):
        group = groups[g, :, f]
        amax = np.abs(group).max()
        if not np.isfinite(amax):
            scales[g, f] = 0xFF
            codes[g, :, f] = np.array(np.nan).astype(element).view(np.uint8)
            continue
        exponent = -127
        if amax:
            exponent = math.frexp(amax)[1] - 1 - EMAX[element] + (rule == "ocp_x2")
        exponent = min(max(exponent, -127), 127)
        scales[g, f] = exponent + 127
        inside = np.clip(group / 2.0**exponent, -LARGEST[element], LARGEST[element])
        codes[g, :, f] = inside.astype(element).view(np.uint8)
    return codes.reshape(len(values), -1, 4), scales


def spread(shape, dtype, seed=0, binades=20):
    """Numbers whose groups have magnitudes far apart."""
    rng = np.random.default_rng([seed, *shape])
    size = 2.0 ** rng.integers(-binades, binades, (shape[0] // 8, shape[1] // 4))
    size = np.repeat(np.repeat(size, 8, axis=0), 4, axis=1)
    return (rng.normal(size=shape) * size).astype(dtype)


def quantize(values, element, **options):
    device = Device("trn3", **options)
    p, f = values.shape
    dst = device.empty((p, f // 4), f"{element}_x4")
    scale = device.empty((p, f // 4), "uint8")
    device.issue("quantize_mx", dst, device.tile(values), scale)
    assert not device.findings
    return dst.codes().copy(), scale.codes()[rows(p)].copy()


# --- quantize_mx ----------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("element", EIGHT)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("shape", [(32, 4), (64, 36), (96, 8), (128, 128)])
def test_groups_are_quantized(shape, dtype, element, rule):
    values = spread(shape, dtype, binades=20 if dtype == "bfloat16" else 7)
    codes, scales = quantize(values, element, mx_scale=rule)
    want = quantized(values, element, rule)
    assert np.array_equal(scales, want[1])
    assert np.array_equal(codes, pack(want[0], element))


@given(st.integers(0, 10**6), st.sampled_from(EIGHT), st.sampled_from(RULES))
def test_any_bits_are_quantized(seed, element, rule):
    """NaN, infinities, subnormals and the largest numbers among them."""
    codes = np.random.default_rng(seed).integers(0, 1 << 16, (32, 8), np.uint16)
    codes[:, 4:] &= 0x81FF  # a column of groups without large numbers
    values = codes.view(ml_dtypes.bfloat16)
    got, want = quantize(values, element, mx_scale=rule), quantized(values, element, rule)
    assert np.array_equal(got[1], want[1]) and np.array_equal(got[0], pack(want[0], element))


def group_of(value, dtype="bfloat16"):
    values = np.zeros((32, 4), np.float32)
    values[0, 1] = value
    return values.astype(dtype)


@pytest.mark.parametrize(
    ("element", "rule", "value", "scale", "code"),
    [
        ("float8_e4m3fn", "ocp_x2", 1.0, 120, 0x70),  # 1 = 128 * 2^-7
        ("float8_e4m3fn", "ocp", 1.0, 119, 0x78),  # 1 = 256 * 2^-8
        ("float8_e5m2", "ocp_x2", -1.0, 113, 0xF4),  # 1 = 2^14 * 2^-14
        ("float8_e5m2", "ocp", 1.0, 112, 0x78),
        ("float8_e4m3fn", "ocp_x2", 1.9921875, 120, 0x78),  # 255 rounds to 256
        ("float8_e4m3fn", "ocp", 1.9921875, 119, 0x7E),  # 510 is cut to 448
        ("float8_e4m3fn", "ocp_x2", 2.0**-126, 0, 0x40),  # 2^-133 can't be had: 2^-127
    ],
)
def test_scales_by_hand(element, rule, value, scale, code):
    codes, scales = quantize(group_of(value), element, mx_scale=rule)
    assert scales.tolist() == [[scale], [0], [0], [0]]
    assert codes[0, 0] == code << 8 and not codes[1:].any()


def test_the_newer_rule_is_the_default():
    values = spread((32, 64), "bfloat16")
    newer, default = (
        quantize(values, "float8_e5m2", mx_scale="ocp_x2"),
        quantize(values, "float8_e5m2"),
    )
    assert np.array_equal(newer[0], default[0]) and np.array_equal(newer[1], default[1])


@pytest.mark.parametrize("element", EIGHT)
def test_the_rules_differ_by_one_and_by_what_is_cut_off(element):
    values = spread((128, 256), "bfloat16")
    newer, older = (quantize(values, element, mx_scale=rule) for rule in RULES)
    assert (newer[1].astype(int) - older[1] == 1).all()
    top = np.array(LARGEST[element]).astype(element).view(np.uint8)
    cut = [(codes.view(np.uint8) & 0x7F == top).mean() for codes, _ in (newer, older)]
    assert cut[1] > 0 and (element != "float8_e4m3fn" or cut[0] == 0)


@pytest.mark.parametrize("special", [np.nan, -np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("element", EIGHT)
def test_a_group_that_is_no_number_is_nan(element, special):
    values = np.ones((32, 8), "bfloat16")
    values[9, 2] = special
    codes, scales = quantize(values, element)
    assert np.flatnonzero(scales == 0xFF).tolist() == [2]
    elements = codes.view(np.uint8).view(element).astype(np.float32).reshape(32, 2, 4)
    assert np.isnan(elements[8:16, 0]).all()
    elements[8:16, 0] = 128.0 if element == "float8_e4m3fn" else 2.0**14
    assert (elements == elements[0, 0, 0]).all()


@pytest.mark.parametrize("element", EIGHT)
def test_the_quantized_is_quantized_to_itself(element):
    """Under the older rule, which leaves the largest element its exponent."""
    rng = np.random.default_rng(3)
    grid = rng.integers(0, 256, (32, 16), np.uint8).view(element).astype(np.float32)
    grid = np.where(np.isfinite(grid), grid, 1)
    grid[::8, ::4] = 2.0 ** EMAX[element]  # the largest exponent occurs in each group
    grid = grid.astype("bfloat16")
    codes, scales = quantize(grid, element, mx_scale="ocp")
    assert (scales == 127).all()
    back = codes.view(np.uint8).view(element).astype(np.float32).reshape(32, 16)
    assert np.array_equal(bits(back), bits(grid.astype(np.float32)))


@pytest.mark.parametrize("offset", [0, 4, 8, 12])
@pytest.mark.parametrize("partitions", [32, 64, 128])
@pytest.mark.parametrize("kind", ["uint8", "float8_e8m0fnu"])
def test_scales_go_to_their_quadrant_and_nowhere_else(partitions, offset, kind):
    device, values = Device("trn3"), spread((partitions, 12), "bfloat16")
    dst = device.empty((partitions, 3), "float8_e5m2_x4")
    scale = device.tile(np.full((128, 3), 77, np.uint8)).view(lookup(kind))
    device.issue("quantize_mx", dst, device.tile(values), scale[offset:])
    got, want = scale.codes().copy(), quantized(values, "float8_e5m2")[1]
    places = [offset + row for row in rows(partitions)]
    assert np.array_equal(got[places], want)
    got[places] = 77
    assert (got == 77).all()


def test_what_it_leaves_is_still_unwritten():
    device = Device("trn3")
    scale = device.empty((64, 3), "uint8")
    src = device.tile(spread((64, 12), "bfloat16"))
    device.issue("quantize_mx", device.empty((64, 3), "float8_e5m2_x4"), src, scale)
    assert np.array_equal(~scale.unwritten().all(axis=1), np.isin(np.arange(64), rows(64)))


def test_a_quadrant_needs_four_partitions_of_scales():
    device, values = Device("trn3"), spread((32, 12), "bfloat16")
    dst, scale = device.empty((32, 3), "float8_e5m2_x4"), device.empty((4, 3), "uint8")
    device.issue("quantize_mx", dst, device.tile(values), scale)
    assert np.array_equal(scale.codes(), quantized(values, "float8_e5m2")[1])


def test_data_may_be_in_any_quadrant():
    device, values = Device("trn3"), spread((128, 12), "bfloat16")
    dst, scale = (
        device.zeros((128, 3), "uint32").view(nl.float8_e5m2_x4),
        device.zeros((128, 3), "uint8"),
    )
    part = slice(64, 96)
    device.issue("quantize_mx", dst[part], device.tile(values)[part], scale[72:96])
    want = quantized(values[part], "float8_e5m2")
    assert np.array_equal(scale.codes()[72:76], want[1])
    assert np.array_equal(dst.codes()[part], pack(want[0], "float8_e5m2"))


def test_free_axes_and_gaps():
    device, values = Device("trn3"), spread((32, 2 * 3 * 4), "bfloat16")
    wide = device.zeros((32, 2, 5, 4), "bfloat16")[:, :, 1:4]
    wide.codes()[...] = values.view(np.uint16).reshape(32, 2, 3, 4)
    dst, scale = device.empty((32, 2, 3), "float8_e4m3fn_x4"), device.empty((32, 6), "uint8")
    device.issue("quantize_mx", dst, wide, scale)
    want = quantized(values, "float8_e4m3fn")
    assert np.array_equal(dst.codes().reshape(32, 6), pack(want[0], "float8_e4m3fn"))
    assert np.array_equal(scale.codes()[:4], want[1])


def test_four_elements_of_a_partition_in_a_cycle():
    def cycles(columns):
        device = Device("trn3")
        tiles = quantize_tiles(device, 32, columns)
        device.issue("quantize_mx", *tiles)
        return device.timeline().busy[-1] * device.core.machine.engines["vector"].clock_ghz

    assert cycles(4096) - cycles(2048) == pytest.approx(512)


# --- quantize_mx: what is refused -----------------------------------------------------------------


def quantize_tiles(device, partitions=64, columns=16, dst="float8_e5m2_x4", src="bfloat16"):
    shape = (partitions, columns // 4)
    source = device.zeros((partitions, columns), src)
    return device.empty(shape, dst), source, device.empty(shape, "uint8")


@pytest.mark.parametrize("target", ["trn1", "trn2"])
@pytest.mark.parametrize("name", ["quantize_mx", "nc_matmul_mx"])
def test_only_v4_has_them(target, name):
    device = Device(target)
    tiles = quantize_tiles(device) if name == "quantize_mx" else matmul_tiles(device)
    with pytest.raises(TargetError, match=f"{target}.* (mx|not have)"):
        device.issue(name, *tiles)


@pytest.mark.parametrize("src", ["float32", "float8_e5m2", "int16"])
def test_sources_have_16_bits(src):
    device = Device("trn3")
    device.refuses(DtypeError, "quantize_mx", *quantize_tiles(device, src=src), words=["src", src])


@pytest.mark.parametrize("dst", ["float4_e2m1fn_x4", "uint32", "float8_e5m2"])
def test_results_are_packed_eight_bits(dst):
    device = Device("trn3")
    device.refuses(DtypeError, "quantize_mx", *quantize_tiles(device, dst=dst), words=["dst", dst])


@pytest.mark.parametrize("kind", ["int8", "float8_e5m2", "uint16"])
@pytest.mark.parametrize("name", ["quantize_mx", "nc_matmul_mx"])
def test_scales_are_bytes(kind, name):
    device = Device("trn3")
    *tiles, last = quantize_tiles(device) if name == "quantize_mx" else matmul_tiles(device)
    scale = device.zeros(last.shape, kind)
    device.refuses(DtypeError, name, *tiles, scale, words=["scale", kind])


@pytest.mark.parametrize("place", [0, 1, 2])
def test_everything_is_in_sbuf(place):
    device = Device("trn3")
    tiles = list(quantize_tiles(device))
    tiles[place] = (
        device.zeros(tiles[place].shape, "uint8", "psum").view(tiles[place].dtype)
        if (place == 2)
        else device.empty(tiles[place].shape, tiles[place].dtype, "psum")
    )
    names = ["dst", "src", "dst_scale"]
    device.refuses(BufferKindError, "quantize_mx", *tiles, words=[names[place], "psum"])


@pytest.mark.parametrize("partitions", [8, 16, 48, 100])
def test_quadrants_are_quantized_whole(partitions):
    device = Device("trn3")
    words = ["src", str(partitions), "32"]
    device.refuses(ShapeError, "quantize_mx", *quantize_tiles(device, partitions), words=words)


@pytest.mark.parametrize("columns", [3, 5, 16])
def test_dst_has_a_quarter_of_the_columns(columns):
    device = Device("trn3")
    _, src, scale = quantize_tiles(device, columns=16)
    dst = device.empty((64, columns), "float8_e5m2_x4")
    device.refuses(ShapeError, "quantize_mx", dst, src, scale, words=["dst", "16", str(columns)])


def test_dst_has_as_many_partitions():
    device = Device("trn3")
    _, src, scale = quantize_tiles(device)
    dst = device.empty((32, 4), "float8_e5m2_x4")
    device.refuses(ShapeError, "quantize_mx", dst, src, scale, words=["dst", "64", "32"])


@pytest.mark.parametrize("shape", [(64, 3), (64, 5), (8, 4), (35, 4)])
def test_scale_tiles_hold_the_scales(shape):
    device = Device("trn3")
    dst, src, _ = quantize_tiles(device)
    scale = device.empty(shape, "uint8")
    words = ["dst_scale"]
    device.refuses(ShapeError, "quantize_mx", dst, src, scale, words=words)


@pytest.mark.parametrize("start", [1, 2, 3, 5, 16, 28, 32, 64])
def test_scales_start_at_four_places(start):
    device = Device("trn3")
    dst, src, _ = quantize_tiles(device, 32)
    scale = device.empty((128, 4), "uint8")[start:]
    words = ["dst_scale", str(start), "[0, 4, 8, 12]"]
    device.refuses(StartPartitionError, "quantize_mx", dst, src, scale, words=words)
