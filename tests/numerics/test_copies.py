"""Copies equal numpy's for any order of the axes."""

import numpy as np
import pytest
from every import for_all
from hypothesis import given
from hypothesis import strategies as st

from neuroncore.numerics import codec

KINDS = (np.uint8, np.int16, np.float16, np.float32, np.int32, np.float64)


@st.composite
def arrays(draw, shape):
    """An array with a shape, whose axes have any order in memory, with gaps between them."""
    order = draw(st.permutations(range(len(shape))))
    room = [shape[axis] + draw(st.integers(0, 3)) for axis in order]
    kind = draw(st.sampled_from(KINDS))
    whole = (np.arange(np.prod(room)) % 127).astype(kind).reshape(room)
    return whole.transpose(np.argsort(order))[tuple(slice(0, n) for n in shape)]


@given(st.data())
def test_any_order_of_axes(data):
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 3, 33, 64]), min_size=1, max_size=3)))
    source, target = data.draw(arrays(shape)), data.draw(arrays(shape))
    wanted = source.astype(target.dtype)
    codec.copy(source, target)
    np.testing.assert_array_equal(target, wanted)


@for_all("kind", [np.uint8, np.float16, np.float32])
@for_all("shape", [(128, 128), (77, 130), (5, 41, 64)])
def test_matrices_are_transposed(kind, shape):
    source = np.arange(np.prod(shape)).astype(kind).reshape(shape).swapaxes(-1, -2)
    target = np.zeros(source.shape, kind)
    codec.copy(source, target)
    np.testing.assert_array_equal(target, source)


def test_a_matrix_can_be_transposed_in_its_place():
    matrix = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    wanted = matrix.T.copy()
    codec.copy(matrix.T, matrix)
    np.testing.assert_array_equal(matrix, wanted)


@pytest.mark.parametrize("bits", [0x7F800001, 0xFFC12345, 0x80000000])
def test_copies_keep_bits(bits):
    source = np.full((64, 64), bits, np.uint32).view(np.float32).T
    target = np.zeros((64, 64), np.float32)
    codec.copy(source, target)
    assert (target.view(np.uint32) == bits).all()
