"""Instructions that the older API's compiler omits because their result already exists."""

import nki.isa as nisa
import nki.language as nl
from device import Device
from every import for_all

from neuroncore.time.policy import POLICIES
from neuroncore.time.schedule import schedule

VECTOR = nisa.engine.vector
ORDERS = tuple(POLICIES)


def in_order(device, order):
    return schedule(device.core.program, device.core.machine, order)


def load_twice(between, rewritten=False, overwritten=False, dtype="float32"):
    """Load the same data into two tiles, with this many instructions in between."""
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


@for_all("order", ORDERS)
@for_all(
    "between, how, repeats",
    [
        (0, {}, True),
        (500, {}, True),
        (0, {"rewritten": True}, False),
        (0, {"overwritten": True}, False),
        (0, {"dtype": "bfloat16"}, False),
    ],
)
def test_the_older_compiler_executes_a_repeated_load_once(order, between, how, repeats):
    timeline = in_order(load_twice(between, **how), order)
    once = repeats and order == "compiled"
    assert bool(timeline.transfer_ns[-1] == 0) is once
    assert bool(timeline.engines_used[-1] == 0) is once
    if once:
        assert timeline.end[-1] == timeline.end[0]


def test_a_copy_whose_source_has_no_other_reader_is_kept():
    """The published kernels in which it was omitted are from one source."""
    device = Device()
    a, x = device.zeros((128, 512)), device.empty((128, 512))
    device.issue("tensor_tensor", x, a, a, nl.add, engine=VECTOR)
    device.issue("tensor_copy", device.empty(x.shape, "bfloat16"), x)
    assert (in_order(device, "compiled").busy > 0).all()


def test_products_are_copied():
    device = Device()
    product = device.empty((128, 512), buffer="psum")
    device.issue("nc_matmul", product, device.zeros((128, 128)), device.zeros((128, 512)))
    device.issue("tensor_copy", device.empty((128, 512)), product)
    assert in_order(device, "compiled").busy[-1] > 0
