"""Microscaling formats: the values of codes, the packing of four elements, and engines that only
move them."""

import copy
import math
import pickle

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import Device, bits
from every import for_all
from hypothesis import given
from hypothesis import strategies as st

from neuroncore.base.errors import DtypeError, TargetError, UsageError
from neuroncore.frontend.settings import settings
from neuroncore.numerics import codec
from neuroncore.numerics.formats import (
    FORMATS,
    OPAQUE,
    PACKED,
    float4_e2m1fn,
    float8_e8m0fnu,
    lookup,
)

ROWS = {  # bits, element
    "float8_e5m2_x4": (32, "float8_e5m2"),
    "float8_e4m3fn_x4": (32, "float8_e4m3fn"),
    "float4_e2m1fn_x4": (16, "float4_e2m1fn"),
}
NAMES = (*ROWS, "float8_e8m0fnu")
packed = pytest.mark.parametrize("name", ROWS)
opaque = pytest.mark.parametrize("name", NAMES)

SWEEP = np.concatenate(  # every high half of a float32, with low halves near ties
    [(np.arange(1 << 16, dtype=np.uint32) << 16) | low for low in (0, 1, 0x7FFF, 0x8000, 0xFFFF)]
).view(np.float32)


def whole(name):
    """Every code of 8 or 4 bits."""
    return np.arange(16 if name == "float4_e2m1fn" else 256, dtype=np.uint8)


# --- elements and scales --------------------------------------------------------------------------


def test_the_sixteen_numbers_of_four_bits():
    positive = [0.0, 0.5, 1, 1.5, 2, 3, 4, 6]
    want = np.array([*positive, *(-v for v in positive)], np.float32)
    got = codec.decode(float4_e2m1fn, whole("float4_e2m1fn"))
    assert np.array_equal(bits(got), bits(want))
    assert [codec.decode_one(float4_e2m1fn, c) for c in range(16)] == want.tolist()
    assert np.array_equal(
        got, whole("float4_e2m1fn").view(ml_dtypes.float4_e2m1fn).astype(np.float32)
    )


def test_four_bits_round_to_even_and_saturate():
    values = SWEEP[~np.isnan(SWEEP)]
    want = values.astype(ml_dtypes.float4_e2m1fn).view(np.uint8)
    assert np.array_equal(codec.encode(float4_e2m1fn, values), want)
    ties = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, 7, np.inf, -1e30], np.float32)
    rounded = codec.decode(float4_e2m1fn, codec.encode(float4_e2m1fn, ties))
    assert rounded.tolist() == [0, 1, 1, 2, 2, 4, 4, 6, 6, -6]


def test_C12_nan_is_the_largest_of_four_bits():
    """The format has no NaN, so NaN becomes the largest number, like infinity; ml_dtypes makes it
    -0."""
    nan = np.array([np.nan, -np.nan, np.inf, -np.inf], np.float32)
    values = codec.decode(float4_e2m1fn, codec.encode(float4_e2m1fn, nan))
    assert np.abs(values).tolist() == [6, 6, 6, 6] and values[2:].tolist() == [6, -6]


def test_a_scale_is_a_power_of_two_and_ff_is_nan():
    codes = whole("float8_e8m0fnu")
    got = codec.decode(float8_e8m0fnu, codes)
    assert got[:-1].tolist() == [math.ldexp(1, b - 127) for b in range(255)]
    assert np.isnan(got[-1])
    one_by_one = [codec.decode_one(float8_e8m0fnu, int(c)) for c in codes]
    assert np.array_equal(got, np.array(one_by_one, np.float32), equal_nan=True)


def test_scales_come_back_from_their_values():
    codes = whole("float8_e8m0fnu")
    assert np.array_equal(codec.encode(float8_e8m0fnu, codec.decode(float8_e8m0fnu, codes)), codes)


@for_all(
    ("value", "code"),
    [
        *((0.0, 0), (-0.0, 0), (1e-45, 0), (2.0**-127, 0), (1, 127), (1.25, 127), (1.5, 128)),
        *((3, 128), (3.1, 129), (2.0**127, 254), (3.4e38, 254)),
        *((np.inf, 255), (np.nan, 255), (-1, 255)),
    ],
)
def test_scales_are_rounded_to_the_nearest_power(value, code):
    """A tie goes to the even code; zero is the least scale, where ml_dtypes makes it NaN."""
    assert codec.encode_one(float8_e8m0fnu, value) == code
    assert codec.encode(float8_e8m0fnu, np.array([value], np.float32)).tolist() == [code]


def test_normal_scales_round_as_the_library_does():
    values = SWEEP[(SWEEP >= 2.0**-126) & (SWEEP <= 2.0**127)]
    values = values[np.frexp(values)[0] != 0.75]  # ties go up there, to even codes here
    want = values.astype(ml_dtypes.float8_e8m0fnu).view(np.uint8)
    assert np.array_equal(codec.encode(float8_e8m0fnu, values), want)


@pytest.mark.parametrize("form", [float4_e2m1fn, float8_e8m0fnu], ids=str)
@given(st.floats(width=32))
def test_both_implementations_agree(form, value):
    assert codec.encode(form, np.array([value], np.float32))[0] == codec.encode_one(form, value)


def test_numbers_of_the_rows():
    assert (float4_e2m1fn.max, float4_e2m1fn.min_normal, float4_e2m1fn.min_subnormal) == (6, 1, 0.5)
    assert (float8_e8m0fnu.max, float8_e8m0fnu.min_normal) == (2.0**127, 2.0**-127)
    assert float4_e2m1fn.inf_code is None and float8_e8m0fnu.nan_code == 0xFF


# --- four in one ----------------------------------------------------------------------------------


@packed
def test_a_packed_row(name):
    form, (width, element) = lookup(name), ROWS[name]
    assert (form.bits, str(form.element), form.itemsize) == (width, element, width // 8)
    assert form.storage == form.numpy == form.code_type == np.dtype(f"uint{width}")
    assert form.element.bits * 4 == width
    assert form.is_opaque and not form.is_float and not form.is_integer


@opaque
def test_the_language_has_the_row(name):
    assert getattr(nl, name) is lookup(name) is OPAQUE[name]
    assert name not in FORMATS
    assert pickle.loads(pickle.dumps(lookup(name))) is copy.deepcopy(lookup(name)) is lookup(name)


@packed
def test_another_package_may_name_the_type(name, monkeypatch):
    """Users' arrays then have its type, and so have results."""
    form = lookup(name)
    stand_in = np.float32 if form.bits == 32 else np.float16
    types = (getattr(np, "_core", None) or np.core).sctypeDict
    monkeypatch.setitem(types, name, stand_in)
    assert form.numpy == np.dtype(stand_in) and form.storage == form.code_type


def test_element_i_is_in_byte_i():
    form = lookup("float8_e5m2_x4")
    assert codec.unpack(form, np.array([0x44332211], np.uint32)).tolist() == [
        [0x11, 0x22, 0x33, 0x44]
    ]
    assert codec.pack(form, np.array([0x11, 0x22, 0x33, 0x44], np.uint8)) == 0x44332211


def test_element_i_is_in_nibble_i():
    form = lookup("float4_e2m1fn_x4")
    assert codec.unpack(form, np.array([0x4321], np.uint16)).tolist() == [[1, 2, 3, 4]]
    assert codec.pack(form, np.array([1, 2, 3, 4], np.uint8)) == 0x4321


@packed
@given(codes=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=12))
def test_taken_apart_and_put_together(name, codes):
    form = lookup(name)
    array = (np.array(codes, np.uint64) % (1 << form.bits)).astype(form.storage)
    assert np.array_equal(codec.pack(form, codec.unpack(form, array)), array)
    square = np.stack([array, array])
    inner = codec.unpack(form, square, axis=1)
    assert inner.shape == (2, 4, len(array))
    assert np.array_equal(np.moveaxis(inner, 1, -1), codec.unpack(form, square))


@packed
def test_a_packed_code_is_not_a_number(name):
    form = lookup(name)
    with pytest.raises(UsageError, match=r"unpack"):
        codec.decode(form, np.zeros(1, form.storage))
    with pytest.raises(UsageError, match=r"unpack"):
        codec.encode(form, np.zeros(1, np.float32))


def test_only_packed_formats_are_unpacked():
    with pytest.raises(UsageError, match="uint32"):
        codec.unpack(lookup("uint32"), np.zeros(1, np.uint32))


# --- engines move them ----------------------------------------------------------------------------


def patterns(name, shape=(3, 7), seed=0):
    form = lookup(name)
    return np.random.default_rng(seed).integers(0, 1 << form.bits, shape, form.code_type)


def made(device, name, codes, buffer="sbuf"):
    return device.tile(codes, buffer=buffer).view(lookup(name))


@opaque
@pytest.mark.parametrize("engine", ["vector", "scalar", "gpsimd"])
def test_copies_are_of_bits(name, engine):
    device, codes = Device("trn3"), patterns(name)
    dst = device.empty((3, 7), name)
    device.issue("tensor_copy", dst, made(device, name, codes), engine=nisa.engine[engine])
    assert np.array_equal(dst.codes(), codes)


@opaque
@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_dma_moves_bits_on_every_machine(name, target):
    device, codes = Device(target), patterns(name, (96, 5))
    dst, back = device.empty((96, 5), name), device.empty((96, 5), name, "hbm")
    device.issue("dma_copy", dst, made(device, name, codes, "hbm"))
    device.issue("dma_copy", back, dst)
    assert np.array_equal(bits(back.numpy()), codes)


@packed
@pytest.mark.parametrize("seen_as", ["uint8", "uint16", "uint32", "int8", "element"])
def test_views_are_of_the_same_bytes(name, seen_as):
    device, codes = Device("trn3"), patterns(name, (4, 8))
    if seen_as == "element":
        seen_as = ROWS[name][1] if ROWS[name][0] == 32 else "float8_e5m2"
    got = made(device, name, codes).view(lookup(seen_as)).codes()
    assert np.array_equal(np.ascontiguousarray(got).view(np.uint8), codes.view(np.uint8))


@packed
def test_they_can_be_filled_with_zeros(name):
    device = Device("trn3")
    assert not device.call(nl.zeros, (5, 9), lookup(name)).codes().any()
    dst = made(device, name, patterns(name))
    device.issue("memset", dst, 0)
    assert not dst.codes().any()
    device.refuses(DtypeError, "memset", dst, 1.0, words=[name, "must be 0"])


def test_scales_can_be_filled_with_a_power_of_two():
    device = Device("trn3")
    dst = device.empty((5, 9), "float8_e8m0fnu")
    device.issue("memset", dst, 1.0)
    assert (dst.codes() == 127).all()


@opaque
def test_uninitialized_packed_elements_are_poison(name):
    device = Device("trn3")
    src, dst = device.empty((3, 7), name), device.empty((3, 7), name)
    device.issue("tensor_copy", dst, src)
    assert device.findings == ["UNINIT_READ"]
    form = lookup(name)
    elements = codec.unpack(form, dst.codes()) if form in PACKED else dst.codes()
    values = codec.decode(form.element or form, elements)
    assert (values == 6).all() if name == "float4_e2m1fn_x4" else np.isnan(values).all()


@opaque
def test_a_kernel_takes_and_returns_them(name):
    """Users have unsigned integers of the container's width."""

    @nki.jit
    def copied(x):
        tile = nl.ndarray(x.shape, lookup(name), buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x.view(lookup(name)))
        out = nl.ndarray(x.shape, lookup(name), buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tile)
        return out

    codes = patterns(name, (8, 6))
    with settings(target="trn3"):
        result = copied(codes)
    assert result.dtype == lookup(name).numpy
    assert np.array_equal(bits(result), codes)


# --- and that is all ------------------------------------------------------------------------------


@opaque
@pytest.mark.parametrize("other", ["float32", "uint8", "float8_e5m2", "uint32"])
@pytest.mark.parametrize("instruction", ["tensor_copy", "dma_copy"])
def test_nothing_is_converted(name, other, instruction):
    device, codes = Device("trn3"), patterns(name)
    mine, theirs = made(device, name, codes), device.zeros((3, 7), other)
    device.refuses(
        DtypeError, instruction, theirs, mine, words=["a copy does not convert", name, other]
    )
    device.refuses(
        DtypeError, instruction, mine, theirs, words=["a copy does not convert", name, other]
    )


@opaque
def test_no_engine_computes_with_them(name):
    device = Device("trn3")
    src, number = made(device, name, patterns(name)), device.zeros((3, 7))
    column, words = device.zeros((3, 1)), [name]
    refused = [
        ("tensor_tensor", {"dst": number, "data1": src, "data2": number, "op": nl.add}, "data1"),
        ("tensor_tensor", {"dst": src, "data1": number, "data2": number, "op": nl.add}, "dst"),
        ("tensor_scalar", {"dst": number, "data": src, "op0": nl.add, "operand0": 1.0}, "data"),
        ("tensor_reduce", {"dst": column, "op": nl.add, "data": src, "axis": 1}, "data"),
        ("activation", {"dst": number, "op": nl.exp, "data": src}, "data"),
        ("reciprocal", {"dst": number, "data": src}, "data"),
        ("iota", {"dst": src, "pattern": [[1, 7]]}, "dst"),
    ]
    for instruction, arguments, operand in refused:
        device.refuses(DtypeError, instruction, **arguments, words=[*words, operand])


@opaque
@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_older_machines_do_not_have_them(name, target):
    device = Device(target)
    src, dst = made(device, name, patterns(name)), device.empty((3, 7), name)
    device.refuses(TargetError, "tensor_copy", dst, src, words=[name, target, "trn3"])
    device.refuses(TargetError, "memset", dst, 0, words=[name, target])
