"""A format is one row of the table, in which it is found by all of its names."""

import ml_dtypes
import numpy as np
import pytest
from every import for_all
from numbers_of_formats import LAYOUT

from neuroncore import numerics
from neuroncore.base.errors import UsageError
from neuroncore.numerics import formats
from neuroncore.numerics.formats import CONFIGURABLE, FORMATS, OPAQUE, PACKED, ROWS, Format, lookup
from neuroncore.plain import formats as plain

NAMES = [
    (name, row)
    for row in ROWS
    if row.held != "nothing"
    for name in (str(row), *row.other_names, *row.short_names)
]


def test_the_table_has_all_formats():
    known = [f for f in vars(formats).values() if isinstance(f, Format)]
    assert set(known) == set(ROWS) and len({name for name, _ in NAMES}) == len(NAMES)
    outside = {row for row in ROWS if row not in FORMATS | OPAQUE}
    assert outside == {row for row in ROWS if row.held in ("packs", "nothing")}
    assert {row.element for row in PACKED} <= set(ROWS)
    assert all(row.is_float and row.bits == 8 for row in CONFIGURABLE)


def test_every_float_is_described_a_second_time():
    """tests/numbers_of_formats.py has the second description, which tests of conversions use."""
    floats = {str(row) for row in ROWS if row.is_float and row.held != "nothing"}
    assert set(LAYOUT) == floats - {"float32"}


def test_every_format_of_a_machine_has_a_row_in_the_plain_reading_and_a_numpy_type():
    """The plain reading converts with the type; a packed format has no type."""
    assert set(FORMATS) | set(OPAQUE) <= set(plain.FORMATS)
    for row in FORMATS.values():
        assert row == "tfloat32" or row.numpy.name == row


@for_all(("name", "row"), NAMES)
def test_a_format_is_found_by_each_of_its_names(name, row):
    assert numerics.info(name).name == row
    kernels = row.held in ("engines", "memory") and name not in row.short_names
    if kernels:
        assert lookup(name) is row
    else:
        with pytest.raises(UsageError, match="not a NeuronCore number format"):
            lookup(name)


def test_a_format_without_a_machine_has_no_name_in_the_language():
    with pytest.raises(UsageError, match="'float64' is not a NeuronCore number format"):
        numerics.info("float64")


def test_a_row_adds_a_format(monkeypatch):
    """The other 6-bit float of OCP's microscaling formats is compared with ml_dtypes."""
    row = Format("float6_e3m2fn", 6, "float", 3, 2, 3, infinite=False, nan=False, held="packs",
                 short_names=("fp6",))  # fmt: skip
    monkeypatch.setattr(formats, "ROWS", (*ROWS, row))
    values = np.random.default_rng(0).uniform(-30, 30, 10_000).astype(np.float32)
    want = values.astype(ml_dtypes.float6_e3m2fn)
    assert np.array_equal(numerics.encode(values, "float6_e3m2fn"), want.view(np.uint8))
    assert np.array_equal(numerics.round(values, "fp6"), want.astype(np.float32))
    assert numerics.info("fp6").max == 28 == numerics.encodings("fp6")["value"].max()
    assert set(numerics.compare_casts([1.1], ("fp6",))["outcome"].ravel()) == {"rounded"}
