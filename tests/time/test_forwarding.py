"""Copies within SBUF that the older API's compiler omits, because their readers may read the
source."""

import nki.isa as nisa
import nki.language as nl
import pytest
from device import Device
from every import for_all

from neuroncore.time.compiled import FORWARDED, ISSUED, compiled
from neuroncore.time.queues import QUEUES
from neuroncore.time.schedule import schedule

SHAPE = (128, 256)


def loaded(device, shape=SHAPE, dtype="float32"):
    tile = device.empty(shape, dtype)
    device.issue("dma_copy", tile, device.empty(shape, dtype, buffer="hbm"))
    return tile


def read(device, tile):
    device.issue("tensor_reduce", device.empty((128, 1)), nl.maximum, tile, 1)


def copied(device, source, dst=None, **named):
    dst = device.empty(source.shape) if dst is None else dst
    device.issue("tensor_copy", dst, source, **named)
    return dst


def omitted(device, order="compiled"):
    """Return the positions of omitted copies."""
    form = compiled(device.core.program, device.core.machine, order)
    assert set(form.fate.tolist()) <= {ISSUED, FORWARDED}
    return [i for i, fate in enumerate(form.fate.tolist()) if fate == FORWARDED]


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_readers_of_a_copy_read_its_source(target):
    device = Device(target)
    read(device, copied(device, loaded(device)))
    assert omitted(device) == [1] and omitted(device, "scheduled") == []
    timeline = schedule(device.core.program, device.core.machine, "compiled")
    assert timeline.busy[1] == 0
    assert timeline.begin[2] >= timeline.end[0]


def test_a_copy_of_a_copy_and_a_part_of_a_tile_are_omitted_too():
    device = Device()
    tile, kept = loaded(device), device.empty(SHAPE)
    copied(device, tile[:, :128], kept[:, 128:])
    read(device, copied(device, kept[:, 128:]))
    assert omitted(device) == [1, 2]


@pytest.mark.parametrize("parts", [(0, 64, 256), (64, 0, 256), (0, 256)])
def test_a_copy_that_was_overwritten_part_by_part_has_no_more_readers(parts):
    device = Device()
    copy = copied(device, loaded(device))
    read(device, copy)
    for begin in parts[:-1]:
        end = min(edge for edge in parts if edge > begin)
        device.issue("memset", copy[:, begin:end], 0.0)
    read(device, copy)
    assert omitted(device) == [1]


def gathered(device):
    """Copy every second element of a row."""
    read(device, copied(device, loaded(device)[:, ::2]))


def converted(device):
    read(device, copied(device, loaded(device), device.empty(SHAPE, "bfloat16")))


def named(device):
    read(device, copied(device, loaded(device), engine=nisa.engine.vector))


def unread(device):
    copied(device, loaded(device))


def read_in_part(device):
    read(device, copied(device, loaded(device))[:, :128])


def joined(device):
    """The copy is a part of the data that its reader reads."""
    whole = device.empty(SHAPE)
    copied(device, loaded(device, (128, 128)), whole[:, :128])
    copied(device, loaded(device, (128, 128)), whole[:, 128:])
    read(device, whole)


def joined_after_a_reader(device):
    """The second reader also reads bytes that a later instruction wrote."""
    whole = device.empty(SHAPE)
    read(device, copied(device, loaded(device, (128, 128)), whole[:, :128]))
    device.issue("memset", whole[:, 128:], 0.0)
    read(device, whole)


def overwritten_in_part(device, part=slice(0, 128), reader=slice(0, 256)):
    copy = copied(device, loaded(device))
    read(device, copy)
    device.issue("memset", copy[:, part], 0.0)
    read(device, copy[:, reader])


def read_next_to_an_overwritten_part(device):
    overwritten_in_part(device, slice(0, 128), slice(100, 256))


def overwritten_in_the_middle(device):
    overwritten_in_part(device, slice(64, 128), slice(0, 65))


def overwritten_in_some_partitions(device):
    copy = copied(device, loaded(device))
    read(device, copy)
    device.issue("memset", copy[:64], 0.0)
    read(device, copy)


def overwritten_at_an_index(device):
    """A write to a half that only an index knows leaves some bytes of the copy."""
    copy = copied(device, loaded(device))
    read(device, copy)
    index = loaded(device, (1, 1), "int32")
    half = copy.ap([[256, 128], [1, 128]], scalar_offset=index, indirect_dim=1)
    device.issue("tensor_copy", half, loaded(device, (128, 128)), engine=nisa.engine.vector)
    read(device, copy)


def made_by_two(device):
    tile = loaded(device)
    device.issue("dma_copy", tile[:, :1], device.empty((128, 1), buffer="hbm"))
    read(device, copied(device, tile))


def overwritten(device):
    tile = loaded(device)
    copy = copied(device, tile)
    device.issue("memset", tile, 0.0)
    read(device, copy)


def moved(device):
    tile = loaded(device, (64, 256))
    copied(device, tile, device.empty(SHAPE)[64:])


@for_all(
    "kernel",
    [
        *(gathered, converted, named, unread, read_in_part, joined, joined_after_a_reader),
        *(overwritten_in_part, read_next_to_an_overwritten_part, overwritten_in_the_middle),
        *(overwritten_in_some_partitions, overwritten_at_an_index, made_by_two, overwritten, moved),
    ],
)
def test_other_copies_are_kept(kernel):
    device = Device()
    kernel(device)
    assert omitted(device) == []


def engines(copies):
    """Return the engines of copies that are kept, with or without others."""
    device = Device()
    for _ in range(4):
        tile = loaded(device)
        read(device, copied(device, tile) if copies else tile)
        gathered(device)
    form = compiled(device.core.program, device.core.machine, "compiled")
    names = [form.program.calls[c].name for c in form.program.columns().call]
    return [
        QUEUES[q]
        for name, q, fate in zip(names, form.queue, form.fate, strict=True)
        if name == "tensor_copy" and fate == ISSUED
    ]


def test_an_omitted_copy_is_no_work_for_an_engine():
    assert engines(copies=True) == engines(copies=False)
