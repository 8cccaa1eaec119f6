"""Index expressions and masks of the older API compared with numpy's grids."""

import numpy as np
import pytest
from every import for_all
from hypothesis import given
from hypothesis import strategies as st
from neuronxcc.nki import language as nl

from neuroncore.base.errors import DynamicControlError, KernelError, ShapeError, SignatureError

SIZES = st.integers(1, 6)
NUMBERS = st.integers(-9, 9)


@st.composite
def expressions(draw):
    """An expression over a grid of two or three axes, and the same in numpy."""
    sizes = draw(st.lists(SIZES, min_size=2, max_size=3))
    starts = draw(st.lists(st.integers(0, 5), min_size=len(sizes), max_size=len(sizes)))
    steps = draw(st.lists(st.integers(1, 3), min_size=len(sizes), max_size=len(sizes)))
    spans = tuple(slice(a, a + n * s, s) for a, n, s in zip(starts, sizes, steps, strict=True))
    ours, numpys = nl.mgrid[spans], np.mgrid[spans]
    total, want = ours[0] * 0, numpys[0] * 0
    for axis, factor in enumerate(draw(st.lists(NUMBERS, min_size=3, max_size=3))[: len(sizes)]):
        total, want = total + ours[axis] * factor, want + factor * numpys[axis]
    offset = draw(NUMBERS)
    return offset + total, offset + want


def same(index, want):
    assert np.array_equal(np.broadcast_to(index.values(), want.shape), want)


@given(expressions(), NUMBERS)
def test_arithmetic_is_numpy_s(pair, number):
    index, want = pair
    same(index, want)
    same(index + number, want + number)
    same(number - index, number - want)
    same(-index * number, -want * number)
    same(np.int64(number) * index, want * number)
    assert index.extent() == (want.min(), want.max())


@given(st.integers(-5, 9), st.integers(1, 20), st.integers(1, 4))
def test_arange_is_numpy_s(start, length, step):
    stop = start + length
    same(nl.arange(start, stop, step), np.arange(start, stop, step))
    same(nl.arange(length), np.arange(length))
    assert nl.arange(start, stop, step).shape == np.arange(start, stop, step).shape


def test_arange_counts_in_integers_however_often_it_has():
    first, second = nl.arange(7), nl.arange(7)
    shifted = first + 3
    same(second, np.arange(7))
    same(shifted, np.arange(7) + 3)
    with pytest.raises(TypeError):
        nl.arange(7.0)


@given(st.data(), SIZES, SIZES)
def test_parts_of_an_expression_are_those_of_the_array(data, rows, columns):
    index, want = nl.arange(rows)[:, None] * 7 + nl.arange(columns)[None, :], np.arange(rows)
    want = want[:, None] * 7 + np.arange(columns)[None, :]
    start, stop = sorted(data.draw(st.lists(st.integers(0, rows), min_size=2, max_size=2)))
    column = data.draw(st.integers(-columns, columns - 1))
    for key in (np.s_[start:stop], np.s_[::2, None], np.s_[..., column], np.s_[:, None, ::-1]):
        assert index[key].shape == want[key].shape
        assert np.array_equal(index[key].values(), want[key])


def test_the_axes_of_a_grid_have_names():
    grid = nl.mgrid[0:3, 2:6, 1:9:4]
    want = np.mgrid[0:3, 2:6, 1:9:4]
    for name, index, axis in zip("pxy", grid, want, strict=True):
        assert getattr(grid, name) is index
        same(index, axis)
    with pytest.raises(AttributeError, match="3 axes has no attribute 'z'"):
        _ = grid.z


@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 9))
def test_digits_of_a_split_axis_are_separate_axes(high, low, start):
    index = nl.arange(high)[:, None] * low + nl.arange(low)[None, :] + start * low
    want = np.arange(high)[:, None] * low + np.arange(low) + start * low
    same(index // low, want // low)
    same(index % low, want % low)


@given(expressions(), st.integers(1, 40))
def test_a_quotient_is_correct_or_refused(pair, number):
    index, want = pair
    try:
        quotient, remainder = index // number, index % number
    except SignatureError:
        assert (want // number).min() != (want // number).max()
    else:
        same(quotient, want // number)
        same(remainder, want % number)


@for_all(
    "operation",
    [
        lambda i: i * i,
        lambda i: i // 5,
        lambda i: i % 5,
        lambda i: i // i,
        lambda i: i % 0,
        lambda i: (i + 3) // 2,  # 3 is the number of a loop's iteration
        lambda i: nl.mgrid[0:2, 3],
    ],
)
def test_expressions_that_are_not_affine_are_refused(operation):
    with pytest.raises(SignatureError) as caught:
        operation(nl.arange(12)[None, :])
    assert caught.value.also is None  # the vendor's list has a code for masks only


@pytest.mark.parametrize("other", [1.5, "x", None])
def test_an_index_is_added_to_integers_only(other):
    with pytest.raises(TypeError):
        nl.arange(4) + other


def test_axes_of_different_sizes_cannot_be_combined():
    assert (nl.arange(3)[:, None] + nl.arange(4)[None, :]).shape == (3, 4)
    with pytest.raises(ShapeError, match=r"\(3, 1\) and \(4, 1\)"):
        nl.arange(3)[:, None] + nl.arange(4)[:, None]


# --- masks ----------------------------------------------------------------------------------------

COMPARISONS = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


def painted(mask, shape):
    """The elements that boxes cover, each at most once."""
    count = np.zeros(shape, int)
    for box in mask.boxes(shape):
        count[tuple(slice(first, first + size) for first, size in box)] += 1
    assert count.max(initial=0) <= 1
    return count.astype(bool)


@given(st.data(), expressions())
def test_boxes_cover_what_numpy_s_comparisons_choose(data, pair):
    index, want = pair
    mask, chosen = None, np.ones(want.shape, bool)
    for _ in range(data.draw(st.integers(1, 3))):
        compare = COMPARISONS[data.draw(st.sampled_from(sorted(COMPARISONS)))]
        bound = data.draw(st.integers(-40, 40))
        swapped = data.draw(st.booleans())
        term = compare(bound, index) if swapped else compare(index, bound)
        chosen &= compare(bound, want) if swapped else compare(want, bound)
        mask = term if mask is None else mask & term
    assert np.array_equal(painted(mask, want.shape), chosen)


@given(expressions(), st.integers(-40, 40), st.sampled_from(sorted(COMPARISONS)))
def test_a_comparison_is_numpy_s(pair, bound, symbol):
    index, want = pair
    compare = COMPARISONS[symbol]
    assert np.array_equal(painted(compare(index, bound), want.shape), compare(want, bound))
    assert np.array_equal(painted(compare(bound, index), want.shape), compare(bound, want))


@given(SIZES, SIZES, st.integers(-2, 8), st.integers(-2, 8))
def test_bounds_of_single_axes_are_one_box(rows, columns, last, first):
    p, f = nl.arange(rows)[:, None], nl.arange(columns)[None, :]
    mask = (p < last) & (f >= first)
    chosen = (np.arange(rows)[:, None] < last) & (np.arange(columns)[None, :] >= first)
    assert np.array_equal(painted(mask, (rows, columns)), chosen)
    assert len(mask.boxes((rows, columns))) == chosen.any()


def test_a_mask_is_true_or_false_where_all_elements_agree():
    p = nl.arange(4)[:, None]
    assert (p < 4) and not (p > 3) and (p >= 0 and p < 4)
    assert (True & (p < 2)).boxes((4, 1)) == [((0, 2), (0, 1))]
    assert (False & (p < 2)) is False
    with pytest.raises(DynamicControlError, match="truth value"):
        bool(p < 2)
    with pytest.raises(DynamicControlError, match="truth value"):
        bool(p)


@pytest.mark.parametrize("joined", [lambda m: m | m, lambda m: ~m, lambda m: True | m])
def test_masks_can_only_be_joined_by_and(joined):
    with pytest.raises(SignatureError, match="masks have no operator"):
        joined(nl.arange(4)[:, None] < 2)


def test_masks_get_axes_like_expressions():
    rows, columns = nl.arange(9) < 5, 3 + nl.arange(7) < 8
    chosen = (np.arange(9) < 5)[:, None] & (3 + np.arange(7) < 8)[None, :]
    assert np.array_equal(painted(rows[:, None] & columns[None, :], chosen.shape), chosen)
    both = rows[:, None] & columns[None, :]
    for key in ((slice(2, 8), None), (slice(None, None, 3), slice(1, 5)), (..., 2, None)):
        assert np.array_equal(painted(both[key], chosen[key].shape), chosen[key])


@pytest.mark.parametrize("key", [9, (0, 0, 0), "x"])
def test_a_mask_has_no_axes_beyond_its_own(key):
    with pytest.raises((IndexError, TypeError)):
        (nl.arange(9) < 5)[key]


def test_a_mask_over_other_axes_than_the_tile_is_refused():
    mask = nl.arange(4)[:, None] < 2
    assert mask.boxes((4, 9)) == [((0, 2), (0, 9))]
    with pytest.raises(KernelError, match=r"\(4, 1\), but the tile has \(5, 9\)"):
        mask.boxes((5, 9))
