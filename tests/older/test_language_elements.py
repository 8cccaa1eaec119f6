"""neuronxcc.nki.language compared with numpy: elementwise functions, numbers and broadcasting."""

import functions
import ml_dtypes
import numpy as np
import pytest
from alu import PLAIN as ARITHMETIC
from every import for_all
from functions import COMPARISONS, POSITIVE, reference
from neuronxcc import nki
from neuronxcc.nki import isa as nisa
from neuronxcc.nki import language as nl
from older_kernels import applied, numbers, stored

from neuroncore.base.errors import (
    DtypeError,
    KernelError,
    ShapeError,
    SignatureError,
    StartPartitionError,
)

BITWISE = (*functions.BITWISE, "right_shift")
P, F = 77, 33
PROMOTED = (  # (format, format, format of the result)
    ("int32", "float16", "float16"),
    ("float16", "bfloat16", "float32"),
    ("float8_e4m3", "float16", "float16"),
    ("float8_e4m3", "bfloat16", "bfloat16"),
    ("float8_e4m3", "float8_e5m2", "bfloat16"),
    ("int16", "int32", "int32"),
    ("uint8", "uint16", "uint16"),
    ("uint16", "int32", "int32"),
    ("int8", "uint8", "int16"),
    ("int8", "uint16", "int32"),
    ("int32", "uint32", "float32"),
)

FUNCTIONS = (
    *functions.FUNCTIONS,
    *("abs", "negative", "floor", "ceil", "trunc", "sin", "cos", "reciprocal", "copy"),
)


def close(got, want, tolerance=1e-5):
    assert got.shape == want.shape
    got, want = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


# --- two operands ---------------------------------------------------------------------------------


def pair(form, dtype=np.float32):
    """Two operands: tiles, columns, rows, one element or numbers."""
    x, y = numbers(P, F, dtype=dtype), numbers(P, F, seed=1, dtype=dtype)
    three = {"x": 3, "y": 3} if np.dtype(dtype).kind in "iu" else {"x": 1.5, "y": -2.5}
    parts = {
        "tile tile": (x, y),
        "tile column": (x, y[:, :1].copy()),
        "column tile": (x[:, :1].copy(), y),
        "tile row": (x, y[:1].copy()),
        "row tile": (x[:1].copy(), y),
        "column row": (x[:, :1].copy(), y[:1].copy()),
        "element tile": (x[:1, :1].copy(), y),
        "tile number": (x, three["y"]),
        "number tile": (three["x"], y),
    }
    return parts[form]


FORMS = (
    *("tile tile", "tile column", "column tile", "tile row", "row tile"),
    *("column row", "element tile", "tile number", "number tile"),
)


@for_all("form", FORMS)
@pytest.mark.parametrize("name", ARITHMETIC)
def test_two_operands_are_broadcast_to_each_other(name, form):
    x, y = pair(form)
    want = getattr(np, name)(np.float32(x), np.float32(y))
    close(applied(getattr(nl, name), x, y), want, 1e-6)


@for_all("form", FORMS)
@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_give_bools(name, form):
    x, y = (np.rint(v) for v in pair(form))
    given = [v if v.ndim else float(v) for v in (x, y)]
    got = applied(getattr(nl, name), *given)
    assert got.dtype == np.bool_
    assert np.array_equal(got, getattr(np, name)(x, y))
    in_numbers = applied(getattr(nl, name), *given, dtype=nl.float32)
    assert in_numbers.dtype == np.float32 and np.array_equal(in_numbers, got)


@for_all("form", FORMS)
@for_all("dtype", [np.int32, np.uint8, np.uint16])
@pytest.mark.parametrize("name", BITWISE)
def test_bits_are_combined(name, dtype, form):
    x, y = (abs(v) for v in pair(form, np.int32))
    if "shift" in name:
        y = y % 8
    given = [v.astype(dtype) if isinstance(v, np.ndarray) else v for v in (x, y)]
    got = applied(getattr(nl, name), *given)
    assert got.dtype == dtype
    assert np.array_equal(got, getattr(np, name)(x, y).astype(dtype))


@pytest.mark.parametrize("shape", [(5, 1, 4), (5, 3, 1), (5, 1, 1), (1, 3, 4)])
def test_axes_of_size_1_repeat_in_more_than_two_axes(shape):
    x, y = numbers(5, 3, 4), numbers(*shape, seed=1)
    close(applied(nl.subtract, x, y), x - y, 1e-6)
    close(applied(nl.subtract, y, x), y - x, 1e-6)


def test_a_tile_of_fewer_axes_is_aligned_with_the_last_axes():
    x, y = numbers(5, 3, 4), numbers(5, 4, seed=1)
    close(applied(nl.add, x, y), x + y[:, None, :], 1e-6)


@pytest.mark.parametrize("shape", [(P, F + 1), (P - 1, F), (2, F)])
def test_shapes_that_differ_are_refused(shape):
    with pytest.raises(ShapeError, match=r"tensor_tensor: data2 .*dst"):
        applied(nl.add, numbers(P, F), numbers(*shape))


def test_a_row_that_does_not_go_along_all_rows_is_refused():
    x = numbers(3, 4)
    close(applied(nl.add, x, x[:1]), x + x[:1], 1e-6)
    with pytest.raises(ShapeError, match=r"3 x 4 float32.*1 x 2 float32 in sbuf\) do not match"):
        applied(nl.add, x, x[:1, :2])


def test_values_that_are_not_numbers_are_refused():
    with pytest.raises(KernelError):
        applied(lambda x: nl.add(x, "1"), numbers(P, F))


def test_functions_of_numpy_accept_numbers_and_other_functions_only_tiles():
    x = numbers(P, F)
    close(applied(lambda t: t * nl.exp(2.0), x), x * np.exp(2.0))
    for name in ("rsqrt", "sigmoid"):
        with pytest.raises(SignatureError, match=f"nl.{name} can't take the number 2.0"):
            applied(lambda t, name=name: t * getattr(nl, name)(2.0), x)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_the_wider_format_is_the_results(dtype):
    x, y = numbers(P, F, dtype=dtype), numbers(P, F, seed=1)
    got = applied(nl.add, x, y)
    assert got.dtype == np.float32
    close(got, x.astype(np.float32) + y, 1e-6)


@for_all("given", PROMOTED)
@for_all("function", [nl.add, nl.maximum, nisa.tensor_tensor])
def test_two_formats_are_promoted_as_the_documentation_says(given, function):
    """The examples of "NKI Type Promotion", in both orders."""
    *formats, promoted = map(np.dtype, given)
    for one, other in (formats, formats[::-1]):
        x, y = np.full((P, F), 7).astype(one), np.full((P, F), 3).astype(other)
        op = {"op": nl.add} if function is nisa.tensor_tensor else {}
        got = applied(function, x, y, **op)
        assert got.dtype == promoted
        want = np.full((P, F), 7 if function is nl.maximum else 10).astype(promoted)
        assert np.array_equal(got, want)


def test_a_sum_of_bytes_and_shorts_has_room():
    x, y = np.full((P, F), 100, np.int8), np.full((P, F), 200, np.uint16)
    got = applied(lambda x, y: nl.where(nl.greater(x, 0), nl.add(x, y), y), x, y)
    assert got.dtype == np.int32 and np.all(got == 300)


@for_all("function", [nl.add, nl.subtract, nl.maximum, nl.multiply])
@for_all(
    "given",
    [
        *(("int8", 50, "int32"), ("int16", 0.5, "float32"), ("uint32", 2, "uint32")),
        *(("int8", np.int8(2), "int8"), ("uint8", np.int16(2), "int16"), ("bool", 0.5, "float32")),
        *(("float16", 1.5, "float16"), ("bfloat16", 2, "bfloat16"), ("float16", True, "float16")),
    ],
)
def test_an_integer_tile_and_a_number_are_promoted(given, function):
    name, number, promoted = given
    x = np.arange(P * F).reshape(P, F) % 128
    x = x.astype(np.dtype(name))
    got = applied(function, x, number)
    assert got.dtype == np.dtype(promoted)
    if np.dtype(promoted).itemsize == 4:
        want = getattr(np, function.__name__)(x.astype(np.float64), number)
        assert np.array_equal(got, np.maximum(want, 0) if name == "uint32" else want)
    assert applied(lambda x: nl.where(x, x, number), x).dtype == np.dtype(promoted)


def test_a_tile_has_the_operator_of_negative():
    x = numbers(P, F)
    assert np.array_equal(applied(lambda t: 1 - -t, x), 1 + x)


def test_a_tile_has_the_operator_of_invert():
    x = numbers(P, F, dtype=np.int16)
    assert np.array_equal(applied(lambda t: ~t & 7, x), ~x & 7)


def test_dtype_rounds_once():
    x, y = numbers(P, F), numbers(P, F, seed=1)
    got = applied(nl.multiply, x, y, dtype=nl.bfloat16)
    assert np.array_equal(got, (x * y).astype(ml_dtypes.bfloat16))
    with pytest.raises(SignatureError, match="not a NeuronCore number format"):
        applied(nl.multiply, x, y, dtype=np.float64)


@nki.jit
def divided(x, y):
    out = nl.zeros((P, F), dtype=nl.float32, buffer=nl.sbuf)
    i, j = nl.mgrid[0:P, 0:F]
    a, b = nl.load(x), nl.load(y)
    out[i, j] = nl.divide(a, b, mask=(i < 32) & (j < 7))
    out[i, j] = nl.divide(a, b, mask=(i >= 64) & (j > 20))
    return stored(out)


@pytest.mark.parametrize("form", ["tile tile", "tile column", "tile row"])
def test_a_mask_over_axes_that_only_the_dividend_has(form):
    x, y = pair(form)
    want = np.zeros((P, F))
    want[:32, :7], want[64:, 21:] = (x / y)[:32, :7], (x / y)[64:, 21:]
    close(divided(x, y), want)


@for_all("form", [f for f in FORMS if f not in ("column row", "element tile")])
def test_power_and_divide(form):
    x, y = (np.float32(v) for v in pair(form))
    base, divisor = np.abs(x) + 0.5, np.where(np.abs(y) < 0.1, np.float32(2), y)
    given = [v if v.ndim else float(v) for v in (base, y, divisor)]
    close(applied(nl.power, given[0], given[1]), np.power(base, y), 1e-4)
    close(applied(nl.divide, given[0], given[2]), base / divisor)


@for_all("form", [f for f in FORMS if f not in ("column row", "element tile")])
@pytest.mark.parametrize("name", ["mod", "fmod"])
def test_remainders_have_the_sign_of_one_operand(name, form):
    x, y = pair(form)
    x = x * 9 if isinstance(x, np.ndarray) else x
    y = np.where(np.abs(y) < 0.1, np.float32(2), y) if isinstance(y, np.ndarray) else y
    got = applied(getattr(nl, name), x, y)
    close(got, getattr(np, name)(np.float32(x), np.float32(y)), 1e-4)


@pytest.mark.parametrize("name", ["mod", "fmod"])
def test_remainders_of_integers_are_exact(name):
    x = np.arange(-500, 500, dtype=np.int32).reshape(100, 10)
    y = np.tile(np.array([-9, -7, -3, -2, -1, 1, 3, 7, 49, 100], np.int32), (100, 1))
    got = applied(getattr(nl, name), x, y)
    assert got.dtype == np.int32 and np.array_equal(got, getattr(np, name)(x, y))
    for number in (7, -49):
        got = applied(getattr(nl, name), x, number)
        assert np.array_equal(got, getattr(np, name)(x, number))


def test_operators_are_the_functions():
    x, y = numbers(P, F), numbers(P, F, seed=1)
    close(applied(lambda a, b: (a + b) * 2 - b / 4, x, y), (x + y) * 2 - y / 4)
    close(applied(lambda a, b: 1 - a * b, x, y), 1 - x * y)
    i = numbers(P, F, dtype=np.int32)
    assert np.array_equal(applied(lambda a: (a << 2) ^ (a & 3), i), (i << 2) ^ (i & 3))
    assert np.array_equal(applied(lambda a, b: a > b, x, y), x > y)


def test_the_host_computes_with_numbers():
    assert nl.add(2, 3) == 5 and nl.mod(-7, 3) == 2 and nl.fmod(-7, 3) == -1
    assert nl.exp(0.0) == 1.0 and nl.maximum(2, 3) == 3 and nl.divide(1, 4) == 0.25


# --- one operand ----------------------------------------------------------------------------------


def inputs(name, *shape):
    """Normal numbers; for arctan those up to pi / 2, the range of its tables."""
    return np.clip(numbers(*shape), *((-1.5, 1.5) if name == "arctan" else (None, None)))


@for_all("name", FUNCTIONS)
def test_functions_of_one_tile(name):
    x = inputs(name, P, F)
    close(applied(getattr(nl, name), x), reference(name)(x), 1e-4)


@for_all("name", FUNCTIONS)
def test_functions_of_more_axes_in_another_format(name):
    x = inputs(name, 7, 3, 5)
    got = applied(getattr(nl, name), x, dtype=nl.bfloat16)
    assert got.dtype == ml_dtypes.bfloat16
    close(got, reference(name)(x), 0.01)


@pytest.mark.parametrize("name", POSITIVE)
def test_functions_of_positive_numbers(name):
    x = np.abs(numbers(P, F)) + 0.1
    close(applied(getattr(nl, name), x), reference(name)(x), 1e-4)


def test_tan_between_its_poles():
    x = np.linspace(-1.4, 1.4, P * F, dtype=np.float32).reshape(P, F)
    close(applied(nl.tan, x), np.tan(x), 1e-4)


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc"])
@for_all("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_whole_numbers_are_exact(name, dtype):
    x = (numbers(P, F) * 5).astype(dtype)
    x[0, :6] = [0, 2, -2, 0.5, -0.5, 1000]
    want = getattr(np, name)(x.astype(np.float32))
    assert np.array_equal(applied(getattr(nl, name), x).astype(np.float32), want)
    assert np.array_equal(applied(getattr(nl, name), x, dtype=nl.int32), want.astype(np.int32))


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc"])
def test_integers_are_unchanged_by_rounding_functions(name):
    x = np.array([[2**30 + 1, -(2**31), 7, -5]], np.int32)
    assert np.array_equal(applied(getattr(nl, name), x), x)


def test_not_of_bits_and_of_truth():
    i, x = numbers(P, F, dtype=np.int32), np.rint(numbers(P, F))
    assert np.array_equal(applied(nl.invert, i), ~i)
    got = applied(nl.logical_not, x)
    assert got.dtype == np.bool_ and np.array_equal(got, x == 0)
    with pytest.raises(DtypeError, match=r"a bitvec operator can.t take"):
        applied(nl.invert, x)


# --- masks and targets ----------------------------------------------------------------------------


def into_zeros(function, mask):
    """A kernel that assigns function(x, mask=mask(i, j)) to a tile of zeros."""

    def kernel(x):
        i, j = nl.mgrid[0:P, 0:F]
        t = nl.zeros((P, F), x.dtype)
        t[i, j] = function(nl.load(x), mask=mask(i, j))
        return stored(t)

    return kernel


MASKS = {
    "rectangle": (lambda i, j: (i < 50) & (j >= 3), lambda i, j: (i < 50) & (j >= 3)),
    "tail": (lambda i, j: 64 + i < 128, lambda i, j: i < 64),
    "and": (lambda i, j: i < 9 and j < 5, lambda i, j: (i < 9) & (j < 5)),
    "everything": (lambda i, j: True, lambda i, j: i >= 0),
    "nothing": (lambda i, j: False, lambda i, j: i < 0),
}


@pytest.mark.parametrize("name", ["exp", "negative", "floor", "trunc", "sin", "reciprocal", "copy"])
@for_all("mask", MASKS)
def test_a_mask_writes_only_selected_elements(name, mask):
    ours, theirs = MASKS[mask]
    x = numbers(P, F)
    i, j = np.mgrid[0:P, 0:F]
    got = nki.simulate_kernel(into_zeros(getattr(nl, name), ours), x)
    close(got, np.where(theirs(i, j), reference(name)(x), 0), 1e-4)


@pytest.mark.parametrize("name", ["add", "divide", "mod"])
def test_a_mask_of_two_operands(name):
    x, y = numbers(P, F) * 5, np.abs(numbers(P, F, seed=1)) + 0.5

    def kernel(a, b):
        i, j = nl.mgrid[0:P, 0:F]
        t = nl.full((P, F), 7.0, a.dtype)
        t[i, j] = getattr(nl, name)(nl.load(a), nl.load(b), mask=(i < 40) & (j < 20))
        return stored(t)

    want = np.full((P, F), 7, np.float32)
    want[:40, :20] = getattr(np, name)(x, y)[:40, :20]
    close(nki.simulate_kernel(kernel, x, y), want, 1e-4)


def test_a_triangular_mask_that_begins_at_an_illegal_partition_is_refused():
    with pytest.raises(StartPartitionError, match="partition 1"):
        nki.simulate_kernel(into_zeros(nl.exp, lambda i, j: i >= j), numbers(P, F))


@pytest.mark.parametrize("mask", [3.5, "i < 5", np.ones((P, F), bool)])
def test_values_that_are_not_masks_are_refused(mask):
    with pytest.raises((SignatureError, TypeError, ValueError)):
        nki.simulate_kernel(into_zeros(nl.exp, lambda i, j: mask), numbers(P, F))


@pytest.mark.parametrize("mask", [lambda i, j: (i < 5) | (j < 5), lambda i, j: ~(i < 5)])
def test_masks_are_joined_by_and_only(mask):
    with pytest.raises(SignatureError, match="masks have no operator"):
        nki.simulate_kernel(into_zeros(nl.exp, mask), numbers(P, F))


def test_named_masks_are_not_joined_by_and():
    def kernel(x):
        i, j = nl.mgrid[0:P, 0:F]
        rows, columns = i < 5, j < 5
        return stored(nl.exp(nl.load(x), mask=rows and columns))

    with pytest.raises(KernelError, match="combine masks with `&`"):
        nki.simulate_kernel(kernel, numbers(P, F))


@pytest.mark.parametrize("name", ["exp", "floor"])
def test_blocks_are_tiles(name):
    x = numbers(3, P, F)

    def kernel(src):
        t = nl.ndarray((3, nl.par_dim(P), F), src.dtype)
        out = nl.ndarray(src.shape, src.dtype, buffer=nl.shared_hbm)
        for b in nl.affine_range(3):
            t[b] = getattr(nl, name)(nl.load(src[b]))
            nl.store(out[b], t[b])
        return out

    close(nki.simulate_kernel(kernel, x), reference(name)(x), 1e-5)


def test_a_tensor_with_blocks_is_not_a_tile():
    def kernel(x):
        t = nl.zeros((3, nl.par_dim(P), F), x.dtype)
        return stored(nl.exp(t))

    with pytest.raises(SignatureError, match="has block axes"):
        nki.simulate_kernel(kernel, numbers(P, F))


def test_loops_sum_in_place_and_by_loop_reduce():
    x = numbers(4, P, F)

    def kernel(src):
        out = nl.ndarray((2, P, F), src.dtype, buffer=nl.shared_hbm)
        total = nl.zeros((P, F), src.dtype)
        for b in nl.affine_range(4):
            tile = nl.load(src[b])
            total += nl.square(tile)
            top = nl.loop_reduce(tile, op=np.max, loop_indices=[b])
        nl.store(out[0], total)
        nl.store(out[1], top)
        return out

    got = nki.simulate_kernel(kernel, x)
    close(got[0], np.square(x).sum(0))
    assert np.array_equal(got[1], x.max(0))


def test_a_sequential_loop_carries_a_tile_by_assignment():
    x = numbers(P, F)

    def kernel(src):
        t = nl.load(src)
        for _ in nl.sequential_range(5):
            t[...] = nl.add(nl.multiply(t, 0.5), 1.0)
        return stored(t)

    want = x.copy()
    for _ in range(5):
        want = want * np.float32(0.5) + 1
    close(nki.simulate_kernel(kernel, x), want)


def test_invert_negates_a_comparison_as_numpy_does():
    x = numbers(P, F)
    for negated in (lambda t: ~(t > 0), lambda t: nl.invert(t > 0), lambda t: ~~~(t > 0)):
        got = applied(negated, x)
        np.testing.assert_array_equal(got, ~(x > 0))
        got = applied(lambda t, negated=negated: nl.where(negated(t), t, 0.0), x)
        np.testing.assert_array_equal(got, np.where(~(x > 0), x, np.float32(0)))
    np.testing.assert_array_equal(applied(nl.invert, x.astype(np.int32)), ~x.astype(np.int32))


def test_an_index_expression_in_arithmetic_is_refused_with_the_way_to_a_tile():
    with pytest.raises(SignatureError, match=r"nisa\.iota"):
        applied(lambda t: t + nl.arange(F)[None, :], numbers(P, F))
