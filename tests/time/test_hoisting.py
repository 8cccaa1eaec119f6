"""Work that the older API's compiler moves out of loops."""

import nki.language as nl
import pytest
from device import Device, parallel

from neuroncore.time.compiled import REPEATED, compiled

STATES = 3


def repeated(nest):
    """Return which products the compiler omits. Each is a product of one of two tiles with
    itself."""
    device = Device()
    tiles = [device.zeros((128, 600)) for _ in range(2)]

    def product(k):
        device.issue("tensor_tensor", device.empty((128, 600)), tiles[k], tiles[k], nl.multiply)

    nest(device, product)
    form = compiled(device.core.program, device.core.machine, "compiled")
    return (form.fate == REPEATED).astype(int).tolist()


def states_inside(device, product):
    parallel(device, 2, lambda k: parallel(device, STATES, lambda _: product(k)))


def states_outside(device, product):
    parallel(device, STATES, lambda _: parallel(device, 2, product))


def unrolled(device, product):
    """The inner loop is a Python loop."""
    parallel(device, STATES, lambda _: [product(k) for k in range(2)])


def twice(device, product):
    """The product appears twice in each iteration, and with another tile in the next iteration."""
    parallel(device, 2, lambda k: [product(k) for _ in range(2)])


def without_loops(device, product):
    for k in (0, 1, 0):
        product(k)


def test_negated_maxima_are_moved_out_of_a_loop_but_random_numbers_are_not():
    """autocomp's attention negates the maximum of a row in each iteration of its inner loop."""
    device = Device()
    tile = device.zeros((128, 1))

    def body(_):
        device.issue("tensor_scalar", device.empty((128, 1)), tile, nl.multiply, -1.0)
        device.issue("rng", device.empty((128, 600), "uint32"))

    parallel(device, STATES, body)
    form = compiled(device.core.program, device.core.machine, "compiled")
    scalars = form.fate[form.program.columns().call == form.program.columns().call[0]]
    assert (scalars == REPEATED).sum() == STATES - 1 == (form.fate == REPEATED).sum()


def test_an_operator_with_another_number_is_another_computation():
    device = Device()
    tile = device.zeros((128, 8))
    for number in (2.0, 3.0, 2.0):
        device.issue("tensor_scalar", device.empty((128, 8)), tile, nl.multiply, number)
    form = compiled(device.core.program, device.core.machine, "compiled")
    assert (form.fate == REPEATED).tolist()[-3:] == [False, False, True]


@pytest.mark.parametrize(
    ("nest", "expected"),
    [
        (states_inside, [0, 1, 1, 0, 1, 1]),
        (states_outside, [0, 0, 0, 0, 0, 0]),
        (unrolled, [0, 0, 1, 1, 1, 1]),
        (twice, [0, 1, 0, 1]),
        (without_loops, [0, 0, 1]),
    ],
)
def test_work_that_is_equal_in_all_iterations_is_moved_out_of_a_loop(nest, expected):
    assert repeated(nest) == expected
