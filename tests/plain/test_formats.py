"""Formats of the plain reading: published vectors, and exact arithmetic."""

import json
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from every import for_all

from neuroncore.plain.formats import FORMATS, decode, encode, pack, poison, stochastic, unpack

VECTORS = json.loads((Path(__file__).parents[1] / "data/golden_vectors.json").read_text())
NAMES = {
    "bf16": "bfloat16", "fp16": "float16", "tf32": "tfloat32", "e5m2": "float8_e5m2",
    "e4m3": "float8_e4m3", "e4m3fn": "float8_e4m3fn", "e3m4": "float8_e3m4",
    "i8": "int8", "i16": "int16", "i32": "int32", "u8": "uint8", "u16": "uint16", "u32": "uint32",
}  # fmt: skip
FLOATS = [name for name, form in FORMATS.items() if form.kind == "float" and form.mantissa > 1]


def floats(bits):
    return np.array(bits, np.uint32).view(np.float32)


def test_the_vectors_cover_all_formats_that_round():
    rounded = {*FLOATS} - {"float32", "tfloat32"}  # tf32 is below
    assert {NAMES[key] for key in VECTORS["rne"]} == rounded
    assert {NAMES[key] for key in VECTORS["sr"]} == rounded


@for_all("key", VECTORS["rne"])
def test_rounding_to_nearest_even(key):
    form, rows = FORMATS[NAMES[key]], np.array(VECTORS["rne"][key])
    values = floats(rows[:, 0])
    with np.errstate(all="ignore"):
        assert encode(form, values).tolist() == rows[:, 1].tolist()
        if form.name == "float8_e4m3fn":  # the one format in which the device may saturate
            assert encode(form, values, saturate=True).tolist() == rows[:, 2].tolist()


@for_all("key", VECTORS["sr"])
def test_stochastic_rounding(key):
    rows = np.array(VECTORS["sr"][key])
    values, words = floats(rows[:, 0]), rows[:, 1].astype(np.uint32)
    with np.errstate(all="ignore"):
        found = stochastic(FORMATS[NAMES[key]], values, words, saturate=False)
    assert found.tolist() == rows[:, 2].tolist()


@for_all("key", VECTORS["f2i"])
def test_floats_to_integers(key):
    form, rows = FORMATS[NAMES[key]], np.array(VECTORS["f2i"][key])
    with np.errstate(all="ignore"):
        assert encode(form, floats(rows[:, 0])).tolist() == rows[:, 1].tolist()


@pytest.mark.parametrize("name", [n for n in FLOATS if FORMATS[n].size < 4])
def test_every_code_is_what_ml_dtypes_says_and_comes_back(name):
    form = FORMATS[name]
    codes = np.arange(1 << 8 * form.size, dtype=form.codes)
    values = decode(form, codes)
    with np.errstate(all="ignore"):
        same = codes.view(getattr(ml_dtypes, name, name)).astype(np.float64)
        np.testing.assert_array_equal(values, same)
        number = ~np.isnan(values)
        assert np.array_equal(encode(form, values)[number], codes[number])
        assert len({*encode(form, np.abs(values[~number])).tolist()}) == 1  # one quiet NaN


def test_tf32_keeps_ten_bits_of_fraction():
    rng = np.random.default_rng(0)
    values = rng.standard_normal(200).astype(np.float32)
    kept = encode(FORMATS["tfloat32"], values)
    assert not (kept & 0x1FFF).any()
    for value, near in zip(values.tolist(), kept.view(np.float32).tolist(), strict=True):
        step = Fraction(2) ** (np.frexp(value)[1] - 11)
        assert abs(Fraction(near) - Fraction(value)) <= step / 2


def test_packed_codes_have_their_elements_from_the_lowest_bits_up():
    form = FORMATS["float8_e4m3fn_x4"]
    element, codes = unpack(form, np.array([0x04030201], np.uint32))
    assert element.name == "float8_e4m3fn" and codes.tolist() == [[1, 2, 3, 4]]
    assert pack(form, codes).tolist() == [0x04030201]
    _, narrow = unpack(FORMATS["float4_e2m1fn_x4"], np.array([0x4321], np.uint16))
    assert narrow.tolist() == [[1, 2, 3, 4]]


def test_poison_is_nan_or_four_for_integers():
    for name, form in FORMATS.items():
        if form.kind == "float" and form.mantissa > 1:
            assert np.isnan(decode(form, np.array([poison(form)], form.codes))).all(), name
    assert poison(FORMATS["int32"]) == 4 and poison(FORMATS["bool"]) == 1
