"""Views of a tensor read the same elements as numpy's views, and none of them moves data."""

import nki.language as nl
import numpy as np
import pytest
from device import Device
from every import for_all
from hypothesis import given
from hypothesis import strategies as st

from neuroncore.base.errors import OutOfBoundsError, ShapeError, SignatureError, ViewError

MOST_AXES = 5


def counting(shape, dtype="float32"):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def chip_and_hbm(shape=(4, 6, 5)):
    device, values = Device(), counting(shape)
    return device.tile(values), device.tile(values, buffer="hbm"), values


# --- the same view of a tile and of an array ------------------------------------------------------
# Each returns (tile's, array's), or (a function that must be refused, None).  `first` is the first
# axis that may be changed: 1 on the chip.


def expect_axes(array, first):
    """Tensors keep two axes on the chip and one in HBM."""
    return array.reshape((*array.shape, 1)) if array.ndim < 1 + first else array


def index(data, tile, array, first):
    keys, plain = [], []
    for axis, size in enumerate(array.shape):
        start = data.draw(st.integers(0, size - 1))
        kind = data.draw(st.sampled_from(["all", "int", "negative", "slice", "ds"]))
        stop = data.draw(st.integers(start + 1, size))
        step = data.draw(st.integers(1, 3))
        keys.append(
            {
                "all": slice(None),
                "int": start,
                "negative": start - size,
                "slice": slice(start, stop, step),
                "ds": nl.ds(start, stop - start),
            }[kind]
        )
        kept = slice(start, start + 1) if first > axis else start
        plain.append(
            {"all": slice(None), "slice": slice(start, stop, step), "ds": slice(start, stop)}.get(
                kind, kept
            )
        )
    if all(isinstance(key, int) for key in plain):
        plain[-1] = slice(plain[-1], plain[-1] + 1)
    return tile[tuple(keys)], expect_axes(array[tuple(plain)], first)


def some_axis(data, array, first):
    axis = data.draw(st.integers(first, array.ndim - 1))
    return axis, data.draw(st.sampled_from([axis, axis - array.ndim]))


def slice_(data, tile, array, first):
    axis, asked = some_axis(data, array, 0)
    start = data.draw(st.integers(0, array.shape[axis] - 1))
    end = data.draw(st.integers(start + 1, array.shape[axis]))
    step = data.draw(st.integers(1, 3))
    keys = (*[slice(None)] * axis, slice(start, end, step))
    return tile.slice(asked, start, end, step), array[keys]


def select(data, tile, array, first):
    axis, asked = some_axis(data, array, 0)
    at = data.draw(st.integers(0, array.shape[axis] - 1))
    kept = slice(at, at + 1) if axis < first or array.ndim == 1 else at
    got = tile.select(asked, at)
    return got, expect_axes(array[(*[slice(None)] * axis, kept)], first)


def permute(data, tile, array, first):
    order = data.draw(st.permutations(range(first, array.ndim)))
    order = (*range(first), *order)
    return tile.permute(order), array.transpose(order)


def expand(data, tile, array, first):
    axis = data.draw(st.integers(first, array.ndim))
    return tile.expand_dim(axis), np.expand_dims(array, axis)


def squeeze(data, tile, array, first):
    axis, asked = some_axis(data, array, first)
    if array.shape[axis] != 1:
        return lambda: tile.squeeze_dim(asked), None
    return tile.squeeze_dim(asked), expect_axes(np.squeeze(array, axis), first)


def broadcast(data, tile, array, first):
    axis, asked = some_axis(data, array, first)
    size = data.draw(st.integers(1, 3))
    if array.shape[axis] != 1:
        return lambda: tile.broadcast(asked, size), None
    shape = (*array.shape[:axis], size, *array.shape[axis + 1 :])
    return tile.broadcast(asked, size), np.broadcast_to(array, shape)


def factors(data, size):
    """A shape of `size` elements."""
    shape = []
    while size > 1 and len(shape) < 3:
        part = data.draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0]))
        shape.append(part)
        size //= part
    return (*shape, size) if size > 1 or not shape else tuple(shape)


def numpy_view(array, shape):
    """numpy's view of another shape, None if it would need a copy."""
    try:
        return np.reshape(array, shape, copy=False)
    except ValueError:
        return None


def reshape(data, tile, array, first):
    free = factors(data, int(np.prod(array.shape[first:])))
    shape = (*array.shape[:first], *free)
    hole = data.draw(st.sampled_from([None, *range(len(shape))]))
    asked = tuple(-1 if axis == hole else size for axis, size in enumerate(shape))
    wanted = numpy_view(array, shape)
    if wanted is None:
        return lambda: tile.reshape(asked), None
    return tile.reshape(asked), wanted


def reshape_dim(data, tile, array, first):
    axis, asked = some_axis(data, array, first)
    sizes = factors(data, array.shape[axis])
    shape = (*array.shape[:axis], *sizes, *array.shape[axis + 1 :])
    return tile.reshape_dim(asked, sizes), numpy_view(array, shape)


def flatten(data, tile, array, first):
    start, end = sorted(data.draw(st.tuples(*[st.integers(first, array.ndim - 1)] * 2)))
    merged = int(np.prod(array.shape[start : end + 1]))
    wanted = numpy_view(array, (*array.shape[:start], merged, *array.shape[end + 1 :]))
    if wanted is None:
        return lambda: tile.flatten_dims(start, end), None
    return tile.flatten_dims(start, end), wanted


def rearrange(data, tile, array, first):
    names = "abcdefgh"[: array.ndim]
    axis, _ = some_axis(data, array, first)
    outer = data.draw(
        st.sampled_from([n for n in range(1, array.shape[axis] + 1) if array.shape[axis] % n == 0])
    )
    src = [(n, "x") if n == names[axis] else n for n in names]
    split = np.reshape(
        array, (*array.shape[:axis], outer, -1, *array.shape[axis + 1 :]), copy=False
    )
    flat = [n for group in src for n in group]
    order = [*flat[:first], *data.draw(st.permutations(flat[first:]))]
    wanted = split.transpose([flat.index(n) for n in order])
    return tile.rearrange(src, order, {names[axis]: outer}), wanted


VIEWS = [
    *(index, slice_, select, permute, expand, squeeze, broadcast),
    *(reshape, reshape_dim, flatten, rearrange),
]


@pytest.mark.parametrize("buffer", ["hbm", "sbuf", "psum"])
@given(data=st.data())
def test_chains_of_views_read_the_same_elements_as_numpy(buffer, data):
    shape = data.draw(
        st.sampled_from([(1, 1), (3, 7), (4, 6, 5), (2, 12), (96, 5, 3), (2, 3, 4, 2)])
    )
    array = counting(shape)
    tile = Device().tile(array, buffer=buffer)
    for _ in range(data.draw(st.integers(1, 5))):
        make = data.draw(st.sampled_from(VIEWS))
        if array.ndim >= MOST_AXES and make in (expand, reshape_dim, rearrange):
            continue
        new, expected = make(data, tile, array, first=int(buffer != "hbm"))
        if expected is None:
            with pytest.raises((ViewError, ShapeError)):
                new()
            continue
        assert new.shape == expected.shape
        assert new.storage is tile.storage
        assert np.array_equal(new.numpy(), expected)
        tile, array = new, expected


@given(data=st.data())
def test_contiguity_agrees_with_numpy(data):
    array = counting((3, 4, 6))
    tile = Device().tile(array, buffer="hbm")
    for _ in range(data.draw(st.integers(1, 3))):
        tile, array = data.draw(st.sampled_from([index, permute, expand]))(data, tile, array, 0)
    assert tile.is_contiguous() == array.flags.c_contiguous


@given(data=st.data())
def test_the_pattern_of_a_view_gives_the_same_view(data):
    array = counting((3, 4, 6))
    base = tile = Device().tile(array, buffer="hbm")
    for _ in range(data.draw(st.integers(1, 3))):
        tile, array = data.draw(st.sampled_from([index, permute, slice_]))(data, tile, array, 0)
    again = base.ap(tile.get_pattern(), offset=tile.offset)
    assert np.array_equal(again.numpy(), array)


def test_a_tensor_describes_itself():
    tile = Device().empty((4, 6, 5), "bfloat16", "psum")
    assert (tile.shape, tile.strides, tile.offset) == ((4, 6, 5), (30, 5, 1), 0)
    assert (tile.ndim, tile.size, tile.dtype, tile.buffer) == (3, 120, nl.bfloat16, nl.psum)
    assert tile.get_pattern() == [[30, 4], [5, 6], [1, 5]]
    assert tile.is_contiguous() and not tile.is_indirect()
    part = tile[2:, 1, ::2]
    assert (part.shape, part.strides, part.offset) == ((2, 3), (30, 2), 65)
    assert not part.is_contiguous()


def test_a_tensor_keeps_its_name():
    device = Device()
    tile = device.call(nl.ndarray, (2, 2), nl.float32, name="weights")
    assert tile.name == tile[:, 0].name == "weights"
    assert "'weights'" in repr(tile)


def test_comparing_with_none_gives_a_bool():
    tile = Device().empty((2, 2))
    assert (tile == None) is False and (tile != None) is True  # noqa: E711


def test_writes_through_a_view_are_visible_in_the_tensor():
    device = Device()
    tile = device.tile(counting((4, 6, 5)))
    expected = counting((4, 6, 5))
    device.issue("memset", tile.permute((0, 2, 1))[:, 1:3, ::2], -1.0)
    expected.transpose(0, 2, 1)[:, 1:3, ::2] = -1
    assert np.array_equal(tile.numpy(), expected)


# --- other formats --------------------------------------------------------------------------------


@for_all("to", ["uint8", "int8", "uint16", "bfloat16", "int32", "float32"])
@for_all("buffer", ["sbuf", "hbm"])
def test_view_shows_the_same_bits_as_numpy(buffer, to):
    values = np.random.default_rng(1).integers(0, 1 << 16, (3, 8), np.uint16)
    tile = Device().tile(values, buffer=buffer)
    assert np.array_equal(tile.view(to).numpy().view(np.uint8), values.view(to).view(np.uint8))
    assert tile.reinterpret_cast(to).shape == values.view(to).shape


def test_view_of_a_part_keeps_its_place():
    values = counting((3, 8), "int32")
    part = Device().tile(values)[1:, 2:6].view(nl.int16)
    assert np.array_equal(part.numpy(), values[1:, 2:6].copy().view(np.int16))
    assert part.offset == 20


def test_formats_of_one_width_need_no_contiguity():
    values = counting((3, 8))
    assert np.array_equal(
        Device().tile(values)[:, ::2].view(nl.uint32).numpy(), values.view(np.uint32)[:, ::2]
    )


@for_all(
    ("make", "kind", "says"),
    [
        (lambda t: t[:, :, ::2].view(nl.float32), ViewError, "contiguous"),
        (lambda t: t.permute((0, 2, 1)).view(nl.float32), ViewError, "contiguous"),
        (lambda t: t[:, :, :3].view(nl.float32), ShapeError, "whole number"),
        (lambda t: t[:, :, 1:3].view(nl.float32), ShapeError, "whole number"),
        (lambda t: t[:, :, 0:1].broadcast(2, 4).view(nl.float32), ViewError, "contiguous"),
        (lambda t: t.view("float33"), SignatureError, "float32"),
    ],
)
def test_bits_that_are_not_whole_elements_are_refused(make, kind, says):
    tile = Device().tile(counting((4, 6, 4), "float16"))
    with pytest.raises(kind, match=says):
        make(tile)


# --- views that are refused -----------------------------------------------------------------------

REFUSED = [
    (lambda t: t.permute((1, 0, 2)), ViewError, "partition"),
    (lambda t: t.broadcast(0, 2), ViewError, "partition"),
    (lambda t: t[0:1].broadcast(0, 2), ViewError, "partition"),
    (lambda t: t.expand_dim(0), ViewError, "partition"),
    (lambda t: t[0:1].squeeze_dim(0), ViewError, "partition"),
    (lambda t: t.reshape_dim(0, (2, 2)), ViewError, "partition"),
    (lambda t: t.flatten_dims(0, 1), ViewError, "partition"),
    (lambda t: t.reshape((2, 60)), ViewError, "partition"),
    (lambda t: t.reshape((120,)), ViewError, "partition"),
    (lambda t: t.rearrange(("p", "a", "b"), ("a", "p", "b")), ViewError, "partition"),
    (lambda t: t.vector_select(0, t), ViewError, "hbm"),
]


@for_all("make, kind, says", REFUSED)
def test_the_partition_axis_cannot_be_moved(make, kind, says):
    chip, _, _ = chip_and_hbm()
    with pytest.raises(kind, match=says):
        make(chip)


@for_all(
    "make",
    [
        lambda t: t.permute((1, 0, 2)),
        lambda t: t[0:1].broadcast(0, 2),
        lambda t: t.expand_dim(0),
        lambda t: t[0:1].squeeze_dim(0),
        lambda t: t.reshape_dim(0, (2, 2)),
        lambda t: t.flatten_dims(0, 1),
        lambda t: t.reshape((2, 60)),
        lambda t: t.reshape((120,)),
        lambda t: t.rearrange(("p", "a", "b"), ("a", "p", "b")),
    ],
)
def test_hbm_has_no_partition_axis(make):
    _, hbm, values = chip_and_hbm()
    assert make(hbm).storage is hbm.storage
    assert set(make(hbm).numpy().ravel()) <= set(values.ravel())


@for_all(
    ("make", "kind", "says"),
    [
        (lambda t: t.permute((0, 1)), ShapeError, "permutation"),
        (lambda t: t.permute((0, 1, 1)), ShapeError, "permutation"),
        (lambda t: t.permute((0, 1, 3)), OutOfBoundsError, "no axis 3"),
        (lambda t: t.broadcast(1, 2), ShapeError, "6 elements"),
        (lambda t: t[:, 0:1].broadcast(1, 0), ShapeError, "0 times"),
        (lambda t: t[:, 0:1].broadcast(1, -2), ShapeError, "-2 times"),
        (lambda t: t.squeeze_dim(2), ShapeError, "5 elements"),
        (lambda t: t.expand_dim(4), OutOfBoundsError, "no axis 4"),
        (lambda t: t.reshape_dim(1, (4, 2)), ShapeError, "multiply to 6"),
        (lambda t: t.reshape_dim(1, (4, -1)), ShapeError, "multiply to 6"),
        (lambda t: t.reshape_dim(1, (-1, -1)), ShapeError, "multiply to 6"),
        (lambda t: t.flatten_dims(2, 1), ShapeError, "is before start_dim"),
        (lambda t: t.flatten_dims(1, 3), OutOfBoundsError, "no axis 3"),
        (lambda t: t.permute((0, 2, 1)).flatten_dims(1, 2), ViewError, "contiguous"),
        (lambda t: t[:, :, :4].flatten_dims(1, 2), ViewError, "contiguous"),
        (lambda t: t[:, :, ::2].reshape((4, 18)), ViewError, "contiguous"),
        (lambda t: t.reshape((4, 31)), ShapeError, "120 elements"),
        (lambda t: t.reshape((4, -1, -1)), ShapeError, "120 elements"),
        (lambda t: t.reshape((4, 0, 30)), ShapeError, "120 elements"),
        (lambda t: t.reshape((-4, -30)), ShapeError, "120 elements"),
        (lambda t: t.reshape((4, 30.0)), SignatureError, "integers"),
        (lambda t: t.reshape_dim(1, (2.0, 3)), SignatureError, "integers"),
        (lambda t: t.reshape(()), ShapeError, "120 elements"),
        (lambda t: t.slice(1, 0, 7), OutOfBoundsError, "axis 1 of size 6"),
        (lambda t: t.slice(1, 4, 3), OutOfBoundsError, "axis 1 of size 6"),
        (lambda t: t.slice(3, 0, 1), OutOfBoundsError, "no axis 3"),
        (lambda t: t.slice(1, 0, 6, 0), SignatureError, "steps by 0"),
        (lambda t: t.select(1, 6), OutOfBoundsError, "axis 1 of size 6"),
        (lambda t: t.select(-4, 0), OutOfBoundsError, "no axis -4"),
        (lambda t: t.rearrange(("p", "f"), ("p", "f")), ShapeError, "names 2 axes"),
        (lambda t: t.rearrange(("p", "a", "b"), ("p", "a", "c")), ShapeError, "name the axes"),
        (lambda t: t.rearrange(("p", "a", "a"), ("p", "a", "a")), ShapeError, "name the axes"),
        (lambda t: t.rearrange(("p", ("a", "b"), "c"), ("p", "a", "b", "c")), ShapeError, "-1"),
        (lambda t: t.rearrange(("p", "a", "b"), ("p", "b", "a"), {"a": 4}), ShapeError, "size 6"),
        (lambda t: t.rearrange(("p", "a", "b"), ("p", ("b", "a"))), ViewError, "contiguous"),
    ],
)
def test_impossible_views_are_refused(make, kind, says):
    for tile in chip_and_hbm()[:2]:
        with pytest.raises(kind) as refused:
            make(tile)
        assert says in str(refused.value)


def test_rearrange_splits_reorders_and_merges():
    chip, hbm, values = chip_and_hbm((4, 24))
    split = values.reshape(4, 4, 6)
    sizes = {"h": 4}
    got = chip.rearrange(("b", ("h", "w")), ("b", "w", "h"), sizes)
    assert np.array_equal(got.numpy(), split.transpose(0, 2, 1))
    got = hbm.rearrange(("b", ("h", "w")), (("b", "h"), "w"), sizes)
    assert np.array_equal(got.numpy(), values.reshape(16, 6))


def test_two_axes_remain_on_the_chip():
    chip, hbm, _ = chip_and_hbm((4, 1))
    assert chip.squeeze_dim(1).shape == chip.reshape((4,)).shape == (4, 1)
    assert hbm.squeeze_dim(1).shape == hbm.reshape((4,)).shape == (4,)
    assert hbm[0].squeeze_dim(0).shape == hbm.select(0, 1).select(0, 0).shape == (1,)


# --- explicit patterns ----------------------------------------------------------------------------


def test_a_pattern_is_relative_to_the_storage():
    chip, hbm, values = chip_and_hbm((4, 12))
    assert np.array_equal(chip[1:, 3:].ap([[12, 4], [2, 6]], offset=0).numpy(), values[:, ::2])
    assert np.array_equal(hbm.ap([[1, 5]], offset=7).numpy(), values.ravel()[7:12])
    assert np.array_equal(chip.ap([[12, 2], [-1, 3]], offset=26).numpy(), values[2:, 2::-1])
    assert np.array_equal(
        chip.ap([[24, 4], [1, 24]], dtype=nl.bfloat16).view(nl.float32).numpy(), values
    )


def test_a_pattern_without_an_offset_keeps_the_offset_of_the_view():
    chip, _, values = chip_and_hbm((4, 12))
    assert np.array_equal(chip[2:, 4:].ap([[12, 2], [1, 4]]).numpy(), values[2:, 4:8])


@for_all(
    ("pattern", "offset", "kind", "says"),
    [
        ([[24, 2], [1, 12]], 0, ViewError, "steps by 24"),
        ([[0, 4], [1, 12]], 0, ViewError, "steps by 0"),
        ([[12, 4], [2, 7]], 0, OutOfBoundsError, "elements 0 to 12"),
        ([[12, 4], [1, 12]], 1, OutOfBoundsError, "elements 1 to 12"),
        ([[12, 4], [-1, 2]], 0, OutOfBoundsError, "elements -1 to 0"),
        ([[12, 4], [1, 12]], 12, OutOfBoundsError, "offset 12"),
        ([[12, 4], [1, 12]], -12, OutOfBoundsError, "offset -12"),
        ([[12, 5], [1, 12]], 0, OutOfBoundsError, "[12, 5]"),
        ([[12, 4], [1, 0]], 0, ShapeError, "(4, 0)"),
        ([], 0, ShapeError, "()"),
        ([12, 4], 0, SignatureError, "[stride, count]"),
        ([[12, 4, 1]], 0, SignatureError, "[stride, count]"),
    ],
)
def test_patterns_that_leave_the_tensor_are_refused(pattern, offset, kind, says):
    chip, _, _ = chip_and_hbm((4, 12))
    with pytest.raises(kind) as refused:
        chip.ap(pattern, offset=offset).signature()
    assert says in str(refused.value)


@pytest.mark.parametrize("pattern, offset", [([[1, 49]], 0), ([[6, 8]], 7), ([[-1, 2]], 0)])
def test_patterns_that_leave_hbm_tensors_are_refused(pattern, offset):
    _, hbm, _ = chip_and_hbm((4, 12))
    with pytest.raises(OutOfBoundsError, match="the pattern reaches"):
        hbm.ap(pattern, offset=offset).signature()


@pytest.mark.parametrize("buffer", ["sbuf", "hbm"])
def test_a_pattern_of_elements_wider_than_the_tensor_is_refused(buffer):
    tile = Device().zeros((1, 1), "uint8", buffer=buffer)
    with pytest.raises(ViewError, match="smaller than one float32 element"):
        tile.ap([[1, 1], [1, 1]], dtype=nl.float32)


def test_a_pattern_may_step_by_a_row_of_its_view():
    chip, _, values = chip_and_hbm((4, 12))
    part = chip[:, 6:12].ap([[6, 4], [2, 3]], offset=1)
    np.testing.assert_array_equal(part.numpy(), values[:, 7:12:2])


@pytest.mark.parametrize("buffer", ["sbuf", "hbm"])
def test_the_base_of_any_view_is_the_whole_original_tensor(buffer):
    values = counting((4, 6, 8), "uint16")
    tile = Device().tile(values, buffer=buffer)
    for view in (tile, tile[2:, 1:3], tile.reshape((4, 48)), tile.view(nl.uint8)[:, :, 3:]):
        base = view.base_tensor
        assert base.shape == (4, 6, 8) and base.dtype == "uint16" and base.storage is tile.storage
        np.testing.assert_array_equal(base.numpy(), values)
