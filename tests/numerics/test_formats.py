"""Every number format compared with the published table, and found by each of its names."""

import copy
import json
import pickle

import ml_dtypes
import numpy as np
import pytest
from every import for_all

from neuroncore import numerics
from neuroncore.base.errors import UsageError
from neuroncore.numerics import codec
from neuroncore.numerics.formats import FLOATS, FORMATS, INTEGERS, Format, lookup

# name: exponent, mantissa, bias, largest, smallest normal, smallest subnormal, eps, inf, NaN
FLOAT_TABLE = {
    "float32": (8, 23, 127, 3.4028235e38, 2**-126, 2**-149, 2**-23, 0x7F800000, 0x7FC00000),
    "bfloat16": (8, 7, 127, 3.3895314e38, 2**-126, 2**-133, 2**-7, 0x7F80, 0x7FC0),
    "float16": (5, 10, 15, 65504, 2**-14, 2**-24, 2**-10, 0x7C00, 0x7E00),
    "float8_e5m2": (5, 2, 15, 57344, 2**-14, 2**-16, 2**-2, 0x7C, 0x7E),
    "float8_e4m3": (4, 3, 7, 240, 2**-6, 2**-9, 2**-3, 0x78, 0x7C),
    "float8_e3m4": (3, 4, 3, 15.5, 2**-2, 2**-6, 2**-4, 0x70, 0x78),
    "float8_e4m3fn": (4, 3, 7, 448, 2**-6, 2**-9, 2**-3, None, 0x7F),
}
TF32 = (8, 10, 127, 3.4011621e38, 2**-126, 2**-136, 2**-10)
INTEGER_TABLE = {
    "int8": (8, -128, 127),
    "int16": (16, -32768, 32767),
    "int32": (32, -2147483648, 2147483647),
    "uint8": (8, 0, 255),
    "uint16": (16, 0, 65535),
    "uint32": (32, 0, 4294967295),
    "bool": (8, 0, 1),
}
every_format = pytest.mark.parametrize("form", FORMATS.values(), ids=str)


def test_the_table_holds_these_formats():
    assert set(FORMATS) == {*FLOAT_TABLE, "tfloat32", *INTEGER_TABLE}
    assert {*FLOATS} == {*FLOAT_TABLE, "tfloat32"}
    assert {*INTEGERS} == {*INTEGER_TABLE}


@for_all("name", FLOAT_TABLE)
def test_a_float_has_the_published_numbers(name):
    form = FORMATS[name]
    *numbers, infinity, nan = FLOAT_TABLE[name]
    derived = (form.exponent, form.mantissa, form.bias, form.max)
    assert (*derived, form.min_normal, form.min_subnormal, form.eps) == pytest.approx(
        numbers, rel=1e-7
    )
    assert form.inf_code == infinity and form.nan_code == nan
    assert form.infinite is (infinity is not None)


@for_all("name", FLOAT_TABLE)
def test_a_float_has_the_numbers_of_ml_dtypes(name):
    form, info = FORMATS[name], ml_dtypes.finfo(name)
    assert form.max == float(info.max)
    assert form.min_normal == float(info.smallest_normal)
    assert form.min_subnormal == float(info.smallest_subnormal)
    assert form.eps == float(info.eps)
    assert form.bits == info.bits and form.itemsize * 8 == info.bits
    assert int(np.array(info.max).view(form.code_type)) == form.max_code


def test_tfloat32_is_float32_with_13_bits_less():
    form = FORMATS["tfloat32"]
    numbers = (form.exponent, form.mantissa, form.bias, form.max)
    assert (*numbers, form.min_normal, form.min_subnormal, form.eps) == pytest.approx(
        TF32, rel=1e-7
    )
    assert form.max == (2 - 2**-10) * 2.0**127
    assert (form.bits, form.itemsize, form.numpy, form.storage) == (32, 4, "float32", "float32")


@for_all("name", INTEGER_TABLE)
def test_an_integer_has_its_range(name):
    form = FORMATS[name]
    bits, low, high = INTEGER_TABLE[name]
    assert (form.bits, form.range, form.max) == (bits, (low, high), float(high))
    assert form.is_integer and not form.is_float


@for_all("form", FLOATS)
def test_a_format_holds_another_if_it_has_all_its_finite_numbers(form):
    narrow = [other for other in FLOATS if other.bits <= 16]
    for other in narrow:
        codes = np.arange(2**other.bits).astype(other.code_type)
        values = codec.decode(other, codes)
        values = values[np.isfinite(values)]
        assert form.holds(other) == np.array_equal(
            codec.decode(form, codec.encode(form, values)), values
        )


@every_format
def test_every_element_is_whole_bytes(form):
    assert form.itemsize * 8 == form.bits
    assert form.numpy.itemsize == form.storage.itemsize == form.code_type.itemsize == form.itemsize
    assert form.code_type.kind == "u"


@every_format
def test_memory_holds_codes_that_numpy_calculates_with(form):
    """Narrow floats are stored as unsigned integers; numpy has loops for everything else."""
    assert form.storage.kind in "fiu"
    assert np.zeros(3, form.storage).view(form.numpy).dtype == form.numpy


# --- a format is its name -------------------------------------------------------------------------


@every_format
def test_a_format_is_a_string(form):
    assert isinstance(form, str)
    assert form == form.name == str(form)
    assert hash(form) == hash(form.name)
    assert {form: 1}[form.name] == 1 and {form.name: 1}[form] == 1
    assert f"{form}" == form.name and json.dumps([form]) == f'["{form.name}"]'


@every_format
def test_copies_and_pickles_are_the_row_itself(form):
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(form, protocol)) is form
    assert copy.copy(form) is form and copy.deepcopy([form])[0] is form


@for_all("form", [f for f in FORMATS.values() if f != "tfloat32"])
def test_numpy_takes_a_format_for_a_dtype(form):
    assert np.dtype(form) == form.numpy
    assert np.zeros(2, form).dtype == form.numpy


def test_formats_differ():
    assert len({*FORMATS.values()}) == len(FORMATS)
    assert FORMATS["float8_e4m3"] != FORMATS["float8_e4m3fn"]


# --- lookup ---------------------------------------------------------------------------------------


@every_format
def test_a_format_is_found_by_itself_and_by_name(form):
    assert lookup(form) is form
    assert lookup(form.name) is form
    assert lookup("".join(form.name)) is form


@for_all(
    "alias, name",
    [
        *((getattr(ml_dtypes, n), n) for n in FLOAT_TABLE if hasattr(ml_dtypes, n)),
        *((getattr(np, n), n) for n in ("float32", "float16", *INTEGER_TABLE) if n != "bool"),
        (np.bool_, "bool"),
        (bool, "bool"),
        ("bool_", "bool"),
        ("float8e4", "float8_e4m3"),
        ("float8e5", "float8_e5m2"),
        (np.str_("bfloat16"), "bfloat16"),
    ],
)
def test_aliases(alias, name):
    assert lookup(alias) is FORMATS[name]
    if isinstance(alias, type) and not issubclass(alias, str):
        assert lookup(np.dtype(alias)) is FORMATS[name]
        assert lookup(np.zeros(1, alias).dtype) is FORMATS[name]


def test_a_torch_dtype_is_known_by_its_name():
    class dtype:
        def __init__(self, name):
            self.name = name

        def __repr__(self):
            return f"torch.{self.name}"

    dtype.__module__ = "torch"
    for name in ("float32", "bfloat16", "float8_e4m3fn", "int8", "bool"):
        assert lookup(dtype(name)) is FORMATS[name]
    with pytest.raises(UsageError, match="'int64' is not a NeuronCore number format"):
        lookup(dtype("int64"))


def test_real_torch_dtypes():
    torch = pytest.importorskip("torch")
    for name in ("float32", "float16", "bfloat16", "float8_e5m2", "int32", "uint8", "bool"):
        assert lookup(getattr(torch, name)) is FORMATS[name]


@for_all(
    "wrong, nearest",
    [
        *(("float23", "float32"), ("bfloat61", "bfloat16"), ("float8_e4m3n", "float8_e4m3fn")),
        *(("uint61", "uint16"), ("boool", "bool"), ("e4m3", "float8_e4m3'.*'float8_e4m3fn")),
        *(("bf16", "bfloat16"), ("fp8_e5m2", "float8_e5m2"), ("E4M3FN", "float8_e4m3fn")),
    ],
)
def test_an_unknown_format_is_refused_with_the_nearest_one(wrong, nearest):
    with pytest.raises(UsageError, match=f"is not a .*; did you mean .*{nearest}"):
        lookup(wrong)


@for_all(
    "wrong, said",
    [
        (np.int64, "int32 is the widest integer"),
        (np.float64, "float32 is the widest float"),
        ("float8_e4m3fnuz", "without -0; float8_e4m3 reaches 240 too"),
        ("torch.float8_e5m2fnuz", "float8_e5m2 reaches 57344 too"),
        ("mxfp8", "quantize"),
        ("mxfp6", "of 6 bits; float8_e4m3fn holds all its numbers"),
        ("nvfp4", "'mxfp4'"),
        ("float4_e2m1fn_x2", "float4_e2m1fn_x4"),
    ],
)
def test_formats_of_other_libraries_are_refused_with_an_explanation(wrong, said):
    for find in (lookup, numerics.info):
        with pytest.raises(UsageError, match=f"is not a .*; it (is|means) .*{said}"):
            find(wrong)


def test_the_suggestions_for_formats_of_others_are_right():
    for name, format in (("float6_e2m3fn", "e4m3"), ("float6_e3m2fn", "e4m3")):
        theirs = np.arange(64, dtype=np.uint8).view(name).astype(np.float32)
        assert np.array_equal(numerics.round(theirs, format), theirs)
    for name in ("float8_e4m3", "float8_e5m2"):
        assert numerics.finfo(name).max == float(ml_dtypes.finfo(f"{name}fnuz").max)


@for_all("wrong", ["", "xyzzy", np.complex128, "S5", np.dtype("M8[s]"), object()])
def test_a_name_that_resembles_no_format_is_refused_with_the_list(wrong):
    with pytest.raises(UsageError, match="is not a NeuronCore number format") as caught:
        lookup(wrong)
    said = str(caught.value)
    assert "did you mean" in said or "; it " in said or all(name in said for name in FORMATS)


def test_a_structured_dtype_is_refused():
    with pytest.raises(UsageError):
        lookup(np.dtype([("x", np.float32)]))


# --- the names that kernels use -------------------------------------------------------------------


def test_the_language_names_the_rows():
    import nki.language as nl

    names = {"bool_" if name == "bool" else name for name in FORMATS} - {"float8_e3m4"}
    for name in names:
        assert getattr(nl, name) is lookup(name)
    assert isinstance(nl.float32, nl.DType) and nl.DType is Format
