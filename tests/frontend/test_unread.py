"""Values of a tensor are known only on the device: Python and numpy operations that need them are
refused, except questions whose answer is known."""

from pathlib import Path

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import Device
from every import for_all
from older_device import Older

from neuroncore.base.errors import DynamicControlError, KernelError, SignatureError

ZEROS = np.zeros((4, 4), np.float32)


def taken_if(tile):
    if nl.greater(tile, 1e9):
        nisa.memset(tile, 1.0)


def never_ends(tile):
    while nl.less(tile, 0.0):
        pass


@for_all(
    "ask",
    [
        *(taken_if, never_ends, lambda t: not t, lambda t: bool(nl.less(t, 1.0))),
        *(lambda t: nl.equal(t, 0.0) and 1, lambda t: 1 if nl.less(t, 1.0) else 2),
        *(np.asarray, np.array, lambda t: np.array([t, t]), lambda t: np.full((2, 2), t)),
        *(int, float, range, lambda t: [1, 2][t], lambda t: 0 in t, np.float32),
        *(lambda t: t < 1, lambda t: t >= 1, lambda t: -t, lambda t: ~t, abs),
        *(lambda t: t // 2, lambda t: t ^ t, lambda t: 1 << t, lambda t: t >> 1),
    ],
)
def test_values_that_only_the_device_knows_are_refused(ask):
    device = Device()
    tile = device.tile(ZEROS)
    with pytest.raises((DynamicControlError, SignatureError)) as caught:
        device.call(ask, tile)
    assert "Tensor(4 x 4" in caught.value.statement
    assert caught.value.because and caught.value.hint
    assert Path(caught.value.place.file).is_relative_to(Path(__file__).parents[1])


@for_all(
    "ask",
    [
        *(lambda t: 1 if t < 1 else 2, lambda t: t > 1 and 1, lambda t: not t >= 1),
        lambda t: [1 for n in range(2) if t < n],
    ],
)
def test_a_comparison_in_a_condition_is_refused_as_a_condition(ask):
    device = Device()
    with pytest.raises(DynamicControlError, match="can't be a condition"):
        device.call(ask, device.tile(ZEROS))


@for_all(
    "ask",
    [
        *(np.asarray, lambda t: np.array([t, t]), int, float, range, lambda t: 0 in t),
        *(lambda t: t > 0 and t < 1, lambda t: bool(t > 0), lambda t: not t),
    ],
)
def test_the_older_api_refuses_uses_of_values_too(ask):
    device = Older()
    tile = device.tile(ZEROS)
    with pytest.raises(DynamicControlError, match="Tensor") as caught:
        device.call(ask, tile)
    assert "register" not in caught.value.hint  # the older API has none


def test_questions_with_a_known_answer_are_answered():
    device = Device()
    chip, hbm = device.tile(ZEROS), device.tile(ZEROS, buffer="hbm")
    assert (chip == None, chip != None) == (False, True)  # noqa: E711
    assert chip is not None and hbm in [chip, hbm]
    assert bool(hbm)  # tests whether it was passed
    assert [row.shape for row in chip] == [row.shape for row in list(chip)] == [(1, 4)] * 4


class Parameters:
    """Parameters like those in nki-library's mlp_tkg_constants.py."""

    def __init__(self, index):
        self.index, self.inner = index, self


def is_given(parameters):
    if parameters and parameters.inner.index:
        return "given"
    return "left out"


def is_given_by_name(index):
    while index is not None and index:
        index = None
    return "given" if index is None else "left out"


@pytest.mark.parametrize("kind", [Device, Older])
def test_a_tile_is_true_with_a_warning(kind):
    """Kernels use this to test whether a tile was passed."""
    device = kind()
    tile = device.tile(ZEROS)
    assert device.call(is_given, Parameters(tile)) == "given"
    (told,) = device.core.findings
    assert (told.code, told.severity) == ("TENSOR_TRUTH", "warning")
    assert told.place.text.strip() == "if parameters and parameters.inner.index:"
    assert "Tensor(4 x 4" in told.message
    assert device.call(is_given_by_name, tile) == "given"
    assert device.call(lambda t: t or 1, tile) is tile


@nki.jit
def asserting(x, wanted: float):
    tile = nl.load(x)
    assert nl.equal(tile, wanted), "not what was wanted"
    assert nl.equal(tile, wanted)
    nl.store(x, tile)
    return x


def test_an_assert_is_about_every_element():
    """Examples of the SDK check results in this way: assert nl.equal(c, expected)."""
    asserting(np.full((2, 3), 2, np.float32), 2.0)
    for wrong in (np.zeros((2, 3), np.float32), np.array([[2, 2, 3]], np.float32)):
        with pytest.raises(AssertionError, match="not what was wanted") as caught:
            asserting(wrong, 2.0)
        assert not isinstance(caught.value, KernelError)


# --- registers ------------------------------------------------------------------------------------


@nki.jit
def counted(data, count):
    """The example of nl.while_loop in the SDK's reference."""
    out = nl.ndarray((1, 1), nl.float32, buffer=nl.shared_hbm)
    val = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=val, src=data)
    acc = nl.zeros((1, 1), dtype=nl.float32, buffer=nl.sbuf)
    count_sb = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=count_sb, src=count)
    one_sb = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(dst=one_sb, value=1)
    reg = nisa.register_alloc()
    nisa.register_load(reg, count_sb)

    def body(r):
        nisa.tensor_tensor(dst=acc, data1=acc, data2=val, op=nl.add)
        nisa.tensor_tensor(dst=count_sb, data1=count_sb, data2=one_sb, op=nl.subtract)
        nisa.register_load(r, count_sb)
        return r

    nl.while_loop(reg, body)
    nisa.dma_copy(dst=out, src=acc)
    return out


@pytest.mark.parametrize("count", [0, 1, 5])
def test_the_body_of_a_while_loop_may_write_and_return_its_register(count):
    result = counted(np.array([[2.5]], np.float32), np.array([[count]], np.int32))
    assert result.item() == 2.5 * count


def test_the_body_of_a_while_loop_has_a_separate_register():
    """The register is passed by value: the caller's register does not change when the body
    writes."""
    device = Device()
    register = device.call(nisa.register_alloc, 3)

    def body(own):
        left = own - 1
        nisa.register_move(own, 100)
        return left

    device.call(nl.while_loop, register, body)
    assert register.value == 3
