"""What the older API's compiler leaves out: what is there already, and copies of what was made for
them alone."""

import nki.isa as nisa
import nki.language as nl
import pytest
from device import Device

from neuroncore.schedule import schedule
from neuroncore.schedule.order import POLICIES

VECTOR, SCALAR = nisa.engine.vector, nisa.engine.scalar
ORDERS = tuple(POLICIES)


def in_order(device, order):
    return schedule(device.core.program, device.core.machine, order)


def copy(device, dst, src, **named):
    device.issue("tensor_copy", dst, src, **named)


# --- what is there already ------------------------------------------------------------------------


def add_twice(between=None):
    """The same sum in two tiles."""
    device = Device()
    a, b, x, y = (device.zeros((128, 512)) for _ in range(4))
    device.issue("tensor_tensor", x, a, b, nl.add, engine=VECTOR)
    if between is not None:
        between(device, a)
    device.issue("tensor_tensor", y, a, b, nl.add, engine=VECTOR)
    return device


@pytest.mark.parametrize("order", ORDERS)
def test_the_same_sum_is_made_once_by_the_older_compiler(order):
    timeline = in_order(add_twice(), order)
    if order == "compiled":
        assert timeline.busy[1] == 0 and timeline.end[1] == timeline.end[0]
    else:
        assert timeline.busy[1] == timeline.busy[0]


def test_a_sum_of_other_data_is_made():
    timeline = in_order(add_twice(lambda device, a: device.issue("memset", a, 1.0)), "compiled")
    assert timeline.busy[-1] == timeline.busy[0]
    different = add_twice(lambda device, a: copy(device, device.empty(a.shape), a))
    assert in_order(different, "compiled").busy[-1] == 0


def test_a_sum_that_has_been_overwritten_is_made_again():
    device = Device()
    a, b, x, y = (device.zeros((128, 512)) for _ in range(4))
    device.issue("tensor_tensor", x, a, b, nl.add, engine=VECTOR)
    device.issue("memset", x[:1], 1.0)
    device.issue("tensor_tensor", y, a, b, nl.add, engine=VECTOR)
    assert in_order(device, "compiled").busy[-1] > 0


def load_twice(between, rewritten=False, overwritten=False, dtype="float32"):
    """The same data into two tiles, and so many instructions between."""
    device = Device()
    hbm, other = (device.zeros((128, 512), buffer="hbm") for _ in range(2))
    first = device.empty((128, 512))
    device.issue("dma_copy", first, hbm)
    if overwritten:
        device.issue("memset", first[:, 100:200], 0.0)
    for _ in range(between):
        device.issue("memset", device.empty((1, 1)), 0.0)
    if rewritten:
        device.issue("dma_copy", hbm, other)
    device.issue("dma_copy", device.empty((128, 512), dtype), hbm)
    return device


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("between", "how", "repeats"),
    [
        (0, {}, True),
        (127, {}, True),
        (128, {}, False),
        (0, {"rewritten": True}, False),
        (0, {"overwritten": True}, False),
        (0, {"dtype": "bfloat16"}, False),
    ],
)
def test_a_load_that_is_repeated_soon_is_made_once_by_the_older_compiler(
    order, between, how, repeats
):
    timeline = in_order(load_twice(between, **how), order)
    once = repeats and order == "compiled"
    assert bool(timeline.transfer_ns[-1] == 0) is once
    assert bool(timeline.engines_used[-1] == 0) is once
    if once:
        assert timeline.end[-1] == timeline.end[0]


# --- copies ---------------------------------------------------------------------------------------


def copied(between=None, then=None, made="float32", kept="bfloat16", part=slice(None), **named):
    """A sum, and a copy of it."""
    device = Device()
    a, x = device.zeros((128, 512)), device.empty((128, 512), made)
    y = device.zeros((128, 512), kept)
    device.issue("tensor_tensor", x, a, a, nl.add, engine=VECTOR)
    if between is not None:
        between(device, x, y)
    copy(device, y[:, part], x[:, part], **named)
    where = len(device.core.program) - 1
    if then is not None:
        then(device, x, y)
    return device, where


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("made", "kept"), [("float32", "bfloat16"), ("bfloat16", "bfloat16")])
def test_a_sum_made_for_a_copy_is_written_in_its_place_by_the_older_compiler(order, made, kept):
    device, where = copied(made=made, kept=kept)
    timeline = in_order(device, order)
    assert bool(timeline.busy[where] == 0) is (order == "compiled")
    if order == "compiled":
        assert timeline.end[where] == timeline.begin[where] >= timeline.end[0]


def use(device, x, y):
    copy(device, device.empty(x.shape, "float8_e5m2"), x, engine=SCALAR)


@pytest.mark.parametrize(
    "how",
    [
        {"then": use},  # the sum is wanted elsewhere
        {"between": use},
        {"between": lambda device, x, y: copy(device, device.empty(y.shape), y, engine=VECTOR)},
        {"between": lambda device, x, y: device.issue("memset", y[:, :1], 0.0)},
        {"between": lambda device, x, y: device.issue("memset", x[:, :1], 0.0)},
        {"between": lambda device, x, y: device.issue("dma_copy", x, device.zeros(x.shape))},
        {"made": "bfloat16", "kept": "float32"},  # bits are lost on the way
        {"part": slice(0, 256)},
        {"engine": VECTOR},
    ],
)
def test_other_copies_are_made(how):
    device, where = copied(**how)
    assert in_order(device, "compiled").busy[where] > 0


def test_products_are_copied():
    device = Device()
    product = device.empty((128, 512), buffer="psum")
    device.issue("nc_matmul", product, device.zeros((128, 128)), device.zeros((128, 512)))
    copy(device, device.empty((128, 512)), product)
    assert in_order(device, "compiled").busy[-1] > 0


def test_one_of_two_results_may_be_written_in_a_copy_s_place():
    device = Device()
    x, total = device.empty((128, 512)), device.empty((128, 1))
    data = device.zeros((128, 512))
    device.issue("activation_reduce", x, nl.exp, data, reduce_op=nl.add, reduce_res=total)
    device.issue("reciprocal", device.empty((128, 1)), total)
    copy(device, device.empty((128, 512), "bfloat16"), x)
    timeline = in_order(device, "compiled")
    assert timeline.busy[2] == 0 < timeline.busy[1]
