"""What the older API's compiler leaves out: what is there already, and copies of what was made for
them alone."""

import nki.isa as nisa
import nki.language as nl
import pytest
from device import Device

from neuroncore.compiler.policy import POLICIES
from neuroncore.schedule import schedule

VECTOR, SCALAR, GPSIMD = nisa.engine.vector, nisa.engine.scalar, nisa.engine.gpsimd
ORDERS = tuple(POLICIES)


def in_order(device, order):
    return schedule(device.core.program, device.core.machine, order)


def copy(device, dst, src, **named):
    device.issue("tensor_copy", dst, src, **named)


# --- what is there already ------------------------------------------------------------------------


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
        (500, {}, True),
        (0, {"rewritten": True}, False),
        (0, {"overwritten": True}, False),
        (0, {"dtype": "bfloat16"}, False),
    ],
)
def test_a_load_that_is_repeated_is_made_once_by_the_older_compiler(order, between, how, repeats):
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


def made_by(name, *arguments, shape=(128, 512), **named):
    """A tile that an instruction makes of others, (shape, dtype), and a copy of it."""

    def build(device):
        x = device.zeros(shape)
        tiles = (device.zeros(*a) if isinstance(a, tuple) else a for a in arguments)
        device.issue(name, x, *tiles)
        copy(device, device.empty(x.shape, **named), x)

    return build


SOURCE, SMALL, KEEP = ((128, 512),), ((32, 32),), [255] * 32


@pytest.mark.parametrize(
    "build",
    [
        made_by("tensor_copy_predicated", SOURCE, (*SOURCE, "uint8"), dtype="bfloat16"),
        made_by("nc_stream_shuffle", SOURCE, KEEP, dtype="bfloat16"),
        made_by("tensor_tensor", SOURCE, SOURCE, nl.add, GPSIMD, buffer="psum"),
        made_by(
            "nc_transpose", SMALL, VECTOR, shape=(32, 32), dtype="bfloat16"
        ),  # it keeps the format
    ],
)
def test_what_its_source_can_t_write_is_copied(build):
    device = Device()
    build(device)
    assert in_order(device, "compiled").busy[-1] > 0


def test_bits_read_as_another_format_are_copied():
    device = Device()
    x = device.empty((128, 512), "int32")
    device.issue("tensor_copy", x, device.zeros((128, 512)), engine=VECTOR)
    copy(device, device.empty((128, 512), "bfloat16"), x.view(nl.float32))
    assert in_order(device, "compiled").busy[-1] > 0


def test_what_is_partly_overwritten_and_then_read_was_there():
    def overwritten(device, x, y):
        device.issue("memset", x[:, :1], 0.0)
        use(device, x, y)

    device, where = copied(then=overwritten)
    assert in_order(device, "compiled").busy[where] > 0


def test_the_next_iteration_makes_it_again():
    device = Device()
    a, x = device.zeros((128, 512)), device.empty((128, 512))
    for _ in range(3):
        device.issue("tensor_tensor", x, a, a, nl.add, engine=VECTOR)
        copy(device, device.empty(x.shape, "bfloat16"), x)
        copy(device, a, device.zeros(a.shape), engine=SCALAR)  # another sum the next time
    busy = in_order(device, "compiled").busy.reshape(3, 3)
    assert (busy[:, 0] > 0).all() and (busy[:, 1] == 0).all()


def test_a_copy_that_is_written_in_place_costs_nothing():
    def summed_twice(copies):
        device = Device()
        a, x, y = (device.zeros((128, 512)) for _ in range(3))
        device.issue("tensor_tensor", x, a, a, nl.add, engine=VECTOR)
        if copies:
            copy(device, y, x)
        summand = y if copies else x
        device.issue("tensor_tensor", device.empty(a.shape), summand, a, nl.multiply, engine=VECTOR)
        return in_order(device, "compiled").total_ns

    assert summed_twice(True) == pytest.approx(summed_twice(False))


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
