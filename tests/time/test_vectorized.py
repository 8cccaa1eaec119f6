"""The older API's compiler merges all iterations of a parallel loop into one instruction."""

import nki.language as nl
import numpy as np
import pytest
from device import Device, parallel

from neuroncore.time.compiled import compiled
from neuroncore.time.path import DATA, SPACE, steps
from neuroncore.time.policy import POLICIES
from neuroncore.time.schedule import schedule
from neuroncore.time.vectorized import FLAG


def names(program):
    return [program.calls[c].name for c in program.columns().call]


def folded(device, count, width, zeros=False, out=None):
    """Products of a window of a row with weights, and their sums, which are one number per
    iteration."""
    row, weights = device.zeros((128, width + count)), device.zeros((128, width))
    out = device.empty((128, count)) if out is None else out

    def body(k):
        product = device.empty((128, width))
        device.issue("tensor_tensor", product, row[:, k : k + width], weights, nl.multiply)
        if zeros and not k:
            device.issue("memset", out, 0.0)
        device.issue("tensor_reduce", out[:, k : k + 1], nl.add, product, 1)

    parallel(device, count, body)
    return device


def form_of(device, order="compiled"):
    return compiled(device.core.program, device.core.machine, order)


@pytest.mark.parametrize(
    ("count", "width", "merged"), [(64, 3, True), (4, 128, True), (171, 3, False)]
)
def test_all_iterations_are_merged_or_none(count, width, merged):
    """A bank has 512 float32 numbers: 64 times 3 are fewer, and 171 times 3 are more."""
    device = folded(Device(), count, width)
    form = form_of(device)
    if not merged:
        assert form.program is device.core.program
        assert (form.heads == -1).all()
        return
    expected = ["tensor_tensor"] * count + ["tensor_reduce"] * count
    assert names(form.program) == expected
    heads = np.repeat([0, count], count)
    heads[[0, count]] = -1
    assert form.heads.tolist() == heads.tolist()


def test_one_instruction_takes_the_time_of_its_elements():
    """It takes 64 or 63 times 3 cycles of 0.96 GHz, after a set-up of 60 cycles."""
    timeline = schedule(folded(Device(), 64, 3).core.program, Device().core.machine, "compiled")
    own = timeline.busy.reshape(2, 64)
    assert own[:, 0] == pytest.approx(64 / 0.96)
    assert own[:, 1:] == pytest.approx(3 / 0.96)


def test_a_tile_of_zeros_is_filled_before_the_loop():
    form = form_of(folded(Device(), 16, 3, zeros=True))
    expected = ["memset", *["tensor_tensor"] * 16, *["tensor_reduce"] * 16]
    assert names(form.program) == expected


def test_each_execution_of_a_loop_is_checked():
    """Both executions are of the same line. In the second one, all iterations write one column."""
    device = Device()
    tile, out = device.zeros((128, 8)), device.empty((128, 8))
    for step in (1, 0):

        def body(k, step=step):
            source = tile[:, k : k + 1]
            device.issue("tensor_tensor", out[:, k * step : k * step + 1], source, source, nl.add)

        parallel(device, 8, body)
    assert form_of(device).heads.tolist() == [-1, *[0] * 7, *[-1] * 8]


def softmax(device, count, banks=1):
    """Maxima of tiles, then one number for each, then their exponentials: a loop of attention."""
    tiles = device.zeros((128, 128), "bfloat16")

    def body(_):
        scores = [device.empty((128, 512), buffer="psum") for _ in range(banks)]
        partial, most = device.empty((128, banks)), device.empty((128, 1))
        moving = device.moving
        for bank, score in enumerate(scores):
            device.issue("nc_matmul", score, tiles, moving)
            device.issue("tensor_reduce", partial[:, bank : bank + 1], nl.maximum, score, 1)
        device.issue("tensor_reduce", most, nl.maximum, partial, 1)
        for score in scores:
            device.issue("activation", device.empty((128, 512)), nl.exp, score, bias=most)

    device.moving = device.zeros((128, 512), "bfloat16")
    parallel(device, count, body)
    return device


def lengths(form):
    """Return how many instructions each head has."""
    heads = form.heads[form.heads >= 0]
    return np.unique(heads, return_counts=True)[1] + 1


@pytest.mark.parametrize(("count", "banks", "groups"), [(8, 2, [4, 4]), (4, 2, [4]), (8, 1, [8])])
def test_as_many_tiles_are_in_use_as_psum_has_banks(count, banks, groups):
    """They are written before the small instruction and read after it."""
    assert lengths(form_of(softmax(Device(), count, banks))).tolist() == groups


def test_all_instructions_of_a_loop_are_before_or_after_the_small_instruction():
    timeline = schedule(softmax(Device(), 4).core.program, Device().core.machine, "compiled")
    calls, column = timeline.program.calls, timeline.columns.call
    is_exp = np.array([calls[c].name == "activation" for c in column])
    is_large = np.array([calls[c].name == "tensor_reduce" for c in column])
    is_large &= timeline.busy > 400
    assert is_exp.sum() == is_large.sum() == 4
    assert timeline.begin[is_exp].min() > timeline.end[is_large].max()


def test_every_instruction_reads_from_the_same_writer_as_before():
    """Writers are identified by line, call and number k, at any position."""
    device = softmax(Device(), 8, 2)

    def read(form):
        columns = form.program.columns()
        key = [
            (int(c), *columns.operands[s:e])
            for c, s, e in zip(columns.call, columns.start[:-1], columns.start[1:], strict=True)
        ]
        found = {}
        for i, own in enumerate(key):
            uses = form.flow.reaching[columns.start[i] : columns.start[i + 1]]
            found[own] = [key[w] if w >= 0 else None for w in uses]
        return found

    program, machine = device.core.program, device.core.machine
    moved = read(compiled(program, machine, "compiled"))
    program.data.iterations.clear()
    assert read(compiled(program, machine, "compiled")) == moved


def attended(device, total, also=lambda k: None):
    """Exponentials of tiles, the sum of each, and products of the tiles that accumulate."""
    weights, sums = device.zeros((128, 128), "bfloat16"), device.zeros((128, 4))
    scores = device.zeros((128, 512), "bfloat16")

    def body(k):
        tile = device.empty((128, 128), "bfloat16")
        device.issue("activation", tile, nl.exp, scores[:, 128 * k : 128 * (k + 1)])
        device.issue("tensor_reduce", sums[:, k : k + 1], nl.add, tile, 1)
        device.issue("nc_matmul", total, weights, tile, accumulate=k > 0)
        also(k)

    parallel(device, 4, body)
    return device


def test_a_loop_that_accumulates_products_is_parallel():
    """According to the documentation of affine_range, a loop does not carry sums of products. The
    products keep their order."""
    device = Device()
    form = form_of(attended(device, device.empty((128, 128), buffer="psum")))
    expected = [name for name in ("activation", "tensor_reduce", "nc_matmul") for _ in range(4)]
    assert names(form.program)[-12:] == expected
    assert lengths(form).tolist() == [4, 4]
    products = np.array(names(form.program)) == "nc_matmul"
    assert np.diff(form.program.origin[products]).min() > 0


def test_a_loop_whose_iterations_read_a_sum_is_not_parallel():
    device = Device()
    total, partial = device.empty((128, 128), buffer="psum"), device.zeros((128, 512))

    def kept(k):
        device.issue("tensor_reduce", partial[:, k : k + 1], nl.add, total, 1)

    form = form_of(attended(device, total, kept))
    assert form.program is device.core.program
    assert (form.heads == -1).all()


def carried(device):
    """Each iteration adds to the sum of the one before it."""
    total = device.zeros((128, 1))
    parallel(
        device,
        8,
        lambda _: device.issue("tensor_tensor", total, total, device.ones, nl.add),
    )


def in_psum(device):
    """Tiles of PSUM are in different banks."""

    def body(_):
        tile = device.empty((128, 8), buffer="psum")
        device.issue("tensor_copy", tile[:, 0:1], device.ones)

    parallel(device, 8, body)


def of_several_lengths(device):
    def body(k):
        for _ in range(1 + k % 2):
            device.issue("tensor_copy", device.empty((128, 1)), device.ones)

    parallel(device, 8, body)


def with_the_flag(device):
    device.core.program.flags = (FLAG,)
    parallel(device, 8, lambda _: device.issue("tensor_copy", device.empty((128, 1)), device.ones))


@pytest.mark.parametrize("loop", [carried, in_psum, of_several_lengths, with_the_flag])
def test_other_loops_are_unchanged(loop):
    device = Device()
    device.ones = device.zeros((128, 1))
    loop(device)
    form = form_of(device)
    assert form.program is device.core.program
    assert (form.heads == -1).all()


@pytest.mark.parametrize("order", [order for order in POLICIES if order != "compiled"])
def test_the_current_compiler_keeps_loops(order):
    device = folded(Device(), 16, 3)
    form = form_of(device, order)
    assert form.program is device.core.program
    assert (form.heads == -1).all()


def test_the_launch_has_the_original_program():
    device = folded(Device(), 16, 3)
    timeline = schedule(device.core.program, device.core.machine, "compiled")
    assert timeline.launch == (device.core.program,)
    again = schedule(timeline.launch[0], device.core.machine, "compiled")
    assert again.begin == pytest.approx(timeline.begin)


def stores(count, width, target="trn2"):
    """Squares of tiles, each stored by its iteration."""
    device = Device(target)
    source = device.zeros((128, count * width), buffer="hbm")
    out = device.zeros((128, count * width), buffer="hbm")

    def body(k):
        tile, square = device.empty((128, width)), device.empty((128, width))
        own = slice(k * width, (k + 1) * width)
        device.issue("dma_copy", tile, source[:, own])
        device.issue("activation", square, nl.square, tile)
        device.issue("dma_copy", out[:, own], square)

    parallel(device, count, body)
    return device


@pytest.mark.parametrize(
    ("width", "target", "flags", "each"),
    [
        (512, "trn2", (), 2),  # transfers of 256 KiB
        (256, "trn2", (), 4),
        (1024, "trn2", (), 1),
        (512, "trn2", (FLAG,), 1),
        (512, "trn1", (), 1),
    ],
)
def test_transfers_of_neighboring_iterations_are_merged_up_to_512_kib(width, target, flags, each):
    device = stores(4, width, target)
    device.core.program.flags = flags
    timeline = schedule(device.core.program, device.core.machine, "compiled")
    moves = timeline.lane[:, 0] >= 0
    assert moves.sum() == 2 * 4 // each
    alone = schedule(device.core.program, device.core.machine, "scheduled")
    assert timeline.transfer_ns.sum() == pytest.approx(alone.transfer_ns.sum())


def test_a_merged_transfer_waits_for_data_of_each_iteration():
    """A small program does not wait for space, neither to load nor to store."""
    device = stores(4, 512)
    critical = steps(schedule(device.core.program, device.core.machine, "compiled"))
    assert DATA in critical.held
    assert SPACE not in critical.held
