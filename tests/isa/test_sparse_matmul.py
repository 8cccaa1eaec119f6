"""nc_matmul_sparse: products of compressed weights with the elements that their tags select, only
if an option permits it."""

import itertools

import numpy as np
from device import Device
from every import for_all
from hypothesis import given, settings
from hypothesis import strategies as st

from neuroncore import machine
from neuroncore.base.errors import OutOfBoundsError, UnknownNameError
from neuroncore.numerics import packed
from neuroncore.time.schedule import schedule

NAME = "nc_matmul_sparse"


def tiles(device, pattern=(4, 16), groups=2, columns=8, n=5, places="partition", form="bfloat16"):
    """Return dst, stationary, moving and tags, and the weights and numbers in them: integers whose
    products and sums are exact."""
    kept, among = pattern
    rng = np.random.default_rng([*pattern, groups, columns, n])
    weights = np.zeros((groups, among, columns), np.float32)
    for group, column in np.ndindex(groups, columns):
        rows = rng.choice(among, kept, replace=False)
        weights[group, rows, column] = rng.integers(-4, 5, kept)
    weights = weights.reshape(-1, columns)
    numbers = rng.integers(-4, 5, (groups * among, n)).astype(np.float32)
    values, tags = packed.compress(weights, pattern)
    moving = packed.arranged(numbers, pattern, places)
    dst = device.empty((columns, n), "float32", "psum")
    made = [device.tile(values, form), device.tile(moving, form), device.tile(tags)]
    return [dst, *made], weights, numbers


@for_all("pattern, places", itertools.product(packed.PATTERNS, packed.PLACES))
@settings(max_examples=6)
@given(groups=st.integers(1, 6), words=st.integers(1, 5), n=st.integers(1, 20))
def test_the_product_equals_that_with_dense_weights(pattern, places, groups, words, n):
    device = Device("trn2", experimental=True)
    made, weights, numbers = tiles(device, pattern, groups, 4 * words, n, places)
    device.issue(NAME, *made, pattern=pattern, places=places)
    assert np.array_equal(made[0].numpy(), weights.T @ numbers)


@for_all(
    ("target", "form"),
    [
        *itertools.product(["trn2", "trn3"], ["bfloat16", "float16", "tfloat32"]),
        ("trn2", "float8_e4m3"),
        ("trn2", "float8_e5m2"),
    ],
)
def test_sums_of_sparse_products_continue(target, form):
    device = Device(target, experimental=True)
    made, weights, numbers = tiles(device, (1, 4), form=form)
    device.issue(NAME, *made, pattern=(1, 4))
    device.issue(NAME, *made, pattern=(1, 4), accumulate=True)
    assert np.array_equal(made[0].numpy(), 2 * weights.T @ numbers)
    assert not device.findings


def test_sparse_products_are_refused_without_the_option():
    device = Device("trn2")
    made, *_ = tiles(device)
    error = device.refuses(UnknownNameError, NAME, *made, words=["released API"])
    assert "Options(experimental=True)" in str(error)
    assert made[0].unwritten().all()


def test_a_tag_names_an_element_of_its_group():
    device = Device("trn2", experimental=True)
    made, *_ = tiles(device, (1, 4))
    wrong = device.tile(np.full((2, 2), 0x0400, np.uint16))
    device.refuses(OutOfBoundsError, NAME, *made[:3], wrong, pattern=(1, 4), words=["a tag is 4"])


def test_a_sparse_product_takes_the_time_of_a_dense_product_with_a_quarter_of_the_rows():
    trn2 = machine.load("trn2")
    device = Device("trn2", experimental=True)
    dst = device.empty((128, 512), "float32", "psum")
    weights, dense = (device.tile(np.zeros((128, n), np.float32), "bfloat16") for n in (128, 512))
    moving = device.tile(np.zeros((128, 4, 512), np.float32), "bfloat16")
    tags = device.tile(np.zeros((128, 32), np.uint16))
    for _ in range(2):
        device.issue("nc_matmul", dst, weights, dense, accumulate=False)
        device.issue(NAME, dst, weights, moving, tags, accumulate=False)
    busy = schedule(device.core.program, trn2).busy[-4:]
    assert busy[0] == busy[1] and busy[2] == busy[3]
