"""Copies out of PSUM in programs of the older API's compiler: it omits copies whose readers may
read PSUM, and merges copies of transposes that share a bank."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import Device
from every import for_all

from neuroncore.report.summary import counted
from neuroncore.time.compiled import ISSUED
from neuroncore.time.policy import POLICIES
from neuroncore.time.queues import QUEUES
from neuroncore.time.schedule import schedule

VECTOR = nisa.engine.vector
SHAPE = (128, 200)
ROW = 4 * SHAPE[1]  # bytes in a partition


def in_order(device, order="compiled"):
    return schedule(device.core.program, device.core.machine, order)


# --- read in PSUM ---------------------------------------------------------------------------------


def reduced(device, product, copy):
    device.issue("tensor_reduce", device.empty((128, 1)), nl.maximum, copy, 1)


def added(device, product, copy):
    device.issue("tensor_tensor", device.empty(SHAPE), copy, device.zeros(SHAPE), nl.add)


def scaled(device, product, copy):
    """Twice as fast within SBUF as from PSUM."""
    device.issue("tensor_scalar", device.empty(SHAPE), copy, nl.multiply, 2.0, engine=VECTOR)


def doubled(device, product, copy):
    device.issue("tensor_tensor", device.empty(SHAPE), copy, copy, nl.add)


def stored(device, product, copy):
    device.issue("dma_copy", device.empty(SHAPE, buffer="hbm"), copy)


def multiplied(device, product, copy):
    psum = device.empty((128, SHAPE[1]), buffer="psum")
    device.issue("nc_matmul", psum, device.zeros((128, 128)), copy)


def part_reduced(device, product, copy):
    device.issue("tensor_reduce", device.empty((128, 1)), nl.maximum, copy[:, :100], 1)


def overwritten_and_reduced(device, product, copy):
    device.issue("memset", product[:, :1], 0.0, engine=VECTOR)
    reduced(device, product, copy)


def reduced_before_and_after_a_part_is_overwritten(device, product, copy):
    reduced(device, product, copy)
    device.issue("memset", copy[:, :1], 0.0, engine=VECTOR)
    reduced(device, product, copy)


def copied(*uses, kept="float32", machine="trn2", begin=0, **named):
    """A product, a copy of it into the columns of a tile from `begin` on, and a use of the copy."""
    device = Device(machine)
    product = device.empty(SHAPE, buffer="psum")
    copy = device.empty((128, begin + SHAPE[1]), kept)[:, begin:]
    device.issue("nc_matmul", product, device.zeros((128, 128)), device.zeros(SHAPE))
    device.issue("tensor_copy", copy, product, **named)
    for use in uses:
        use(device, product, copy)
    return device


@for_all("uses", [(reduced,), (added,), (reduced, added)])
@for_all("order", POLICIES)
def test_the_older_compiler_omits_a_copy_whose_readers_may_read_psum(order, uses):
    timeline = in_order(copied(*uses), order)
    left_out = order == "compiled"
    assert (timeline.compiled.fate == ISSUED).tolist() == [
        True,
        not left_out,
        *(True for _ in uses),
    ]
    if left_out:
        sync = timeline.machine.fixed.semaphore_ns
        assert timeline.begin[2] == pytest.approx(timeline.end[0] + sync)


@for_all(
    "uses, how",
    [
        ((), {}),
        ((stored,), {}),
        ((multiplied,), {}),
        ((doubled,), {}),
        ((scaled,), {}),
        ((part_reduced,), {}),
        ((overwritten_and_reduced,), {}),
        ((reduced_before_and_after_a_part_is_overwritten,), {}),
        ((reduced, stored), {}),
        ((reduced,), {"kept": "bfloat16"}),
        ((reduced,), {"engine": VECTOR}),
        ((reduced,), {"machine": "trn1"}),
        ((reduced,), {"begin": SHAPE[1]}),
    ],
)
def test_other_copies_out_of_psum_are_kept(uses, how):
    timeline = in_order(copied(*uses, **how))
    assert timeline.busy[1] > 0 and (timeline.compiled.fate == ISSUED).all()


def test_a_product_waits_until_the_one_before_was_read_in_psum():
    device = Device()
    product = device.empty(SHAPE, buffer="psum")
    weights, moving = device.zeros((128, 128)), device.zeros(SHAPE)
    for _ in range(2):
        copy = device.empty(SHAPE)
        device.issue("nc_matmul", product, weights, moving, accumulate=False)
        device.issue("tensor_copy", copy, product)
        reduced(device, product, copy)
    timeline = in_order(device)
    assert (timeline.busy[[1, 4]] == 0).all()
    assert timeline.begin[3] >= timeline.end[2]


def test_bytes_are_counted_in_the_memory_of_the_read():
    """Bytes of a reduction are counted; bytes of a tensor_tensor are in no counter."""
    device = copied(reduced, added)
    before, after = (counted(in_order(device, order)).bytes for order in ("in-order", "compiled"))
    assert before["psum_read_bytes"] == before["sbuf_write_bytes"] - 4 == ROW
    assert after["psum_read_bytes"] == before["psum_read_bytes"]  # by the reduction now
    assert after["sbuf_write_bytes"] == before["sbuf_write_bytes"] - ROW
    assert after["sbuf_read_bytes"] == before["sbuf_read_bytes"] - ROW


def test_columns_of_scalars_that_are_read_in_psum_are_in_no_counter():
    device = Device()
    product, column = device.empty((128, 1), buffer="psum"), device.empty((128, 1))
    device.issue("nc_matmul", product, device.zeros((128, 128)), device.zeros((128, 1)))
    device.issue("tensor_copy", column, product)
    device.issue("tensor_scalar", device.empty(SHAPE), device.zeros(SHAPE), nl.add, column)
    timeline = in_order(device)
    assert not (timeline.compiled.fate == ISSUED)[1]
    assert counted(timeline).bytes["sbuf_read_bytes"] == ROW + 2 * 4 * (128 + 1)
    assert counted(timeline).bytes["psum_read_bytes"] == 0


# --- merged copies --------------------------------------------------------------------------------


def transposed(count, width=128, step=128, between=None, dtype="float32", **named):
    """Transposes, each with a copy into the columns after those of the previous one."""
    device = Device()
    out, data = device.empty((128, max(step, width) * count)), device.zeros((width, 128), dtype)
    for i in range(count):
        product = device.empty((128, width), dtype, buffer="psum")
        device.issue("nc_transpose", product, data)
        if between is not None:
            between(device)
        device.issue("tensor_copy", out[:, i * step : i * step + width], product, **named)
    return device


def copies(timeline):
    calls = timeline.program.calls
    return np.array([calls[c].name == "tensor_copy" for c in timeline.columns.call])


@pytest.mark.parametrize(("width", "together"), [(128, 4), (64, 8), (100, 5)])
def test_copies_of_transposes_that_share_a_bank_are_set_up_once(width, together):
    timeline = in_order(transposed(12, width, width))
    own = copies(timeline)
    heads = timeline.compiled.heads[own]
    first = np.flatnonzero(own)[np.arange(12) // together * together]
    assert heads.tolist() == np.where(first == np.flatnonzero(own), -1, first).tolist()
    assert (timeline.queue[own] == timeline.queue[first]).all()
    for name in ("vector", "scalar"):
        unit = timeline.machine.engines[name]
        set_up = unit.overhead_cycles / unit.clock_ghz
        taken = timeline.queue[own] == QUEUES.index(name.capitalize())
        busy = np.unique(timeline.busy[own][taken].round(6))
        assert busy == pytest.approx([busy[0], busy[0] + set_up])


@pytest.mark.parametrize(
    "how",
    [
        {"step": 130},  # not next to each other
        {"width": 100, "step": 128},
        {"engine": VECTOR},
        {"between": lambda device: device.issue("memset", device.empty((1, 1)), 0.0)},
    ],
)
def test_other_copies_are_set_up_one_by_one(how):
    assert (in_order(transposed(8, **how)).compiled.heads == -1).all()


@pytest.mark.parametrize(("count", "merged"), [(4, 3), (8, 0)])
def test_16_bit_copies_are_merged_if_a_bank_has_at_most_512_of_their_columns(count, merged):
    """A bank has space for eight of them, which are 1,024 columns."""
    timeline = in_order(transposed(count, dtype="bfloat16"))
    assert (timeline.compiled.heads[copies(timeline)] >= 0).sum() == merged


@pytest.mark.parametrize("order", ["in-order", "scheduled"])
def test_the_current_compiler_merges_nothing(order):
    assert (in_order(transposed(8), order).compiled.heads == -1).all()


# --- engines that the compiler selects ------------------------------------------------------------


@pytest.mark.parametrize("name", ["trn1", "trn2"])
@pytest.mark.parametrize(("op", "queue"), [(nl.multiply, "Scalar"), (nl.subtract, "Vector")])
def test_scalar_gets_copies_that_its_pipeline_can_do(name, op, queue):
    """Vector is busy with a reciprocal."""
    device = Device(name)
    device.issue("reciprocal", device.empty(SHAPE), device.zeros(SHAPE))
    device.issue("tensor_scalar", device.empty(SHAPE), device.zeros(SHAPE), op, 2.0)
    assert QUEUES[in_order(device).queue[1]] == queue
    assert QUEUES[in_order(device, "in-order").queue[1]] == "Vector"
