"""Dependencies between instructions that access the same bytes, and how often a schedule reads
them."""

import numpy as np
from device import Device

from neuroncore import machine
from neuroncore.time.loops import timeline as native
from neuroncore.time.loops.dependencies import READERS, Accesses, dependencies
from neuroncore.time.prepare import members_waits
from neuroncore.time.schedule import schedule


def flow(queues, reads):
    """Return the dependencies of instructions on queues, each of which reads or overwrites the
    box."""
    count = len(queues)
    accesses = Accesses(
        start=np.arange(count + 1),
        operands=np.zeros(count, np.int64),
        reads=np.array(reads, np.int32),
        near=np.zeros(1, np.int32),
        near_start=np.array([0, 1]),
    )
    queue = np.array(queues, np.int32)
    return dependencies(queue, 2, accesses, np.full(count, -1, np.int32), defines=False)


def needs(found, i):
    return found.needs[found.first[i] : found.first[i + 1]].tolist()


def test_an_overwrite_waits_for_the_last_readers_and_the_last_of_each_queue():
    readers = READERS + 8
    found = flow([1] * readers + [0], [1] * readers + [0])
    assert needs(found, readers) == [*range(readers - 1, 7, -1)]
    assert found.overwriting.tolist() == [readers]
    assert found.previous.tolist() == [[-1, readers - 1]]


def test_readers_before_the_last_writer_are_not_waited_for():
    found = flow([0, 1, 0], [1, 0, 0])
    assert needs(found, 1) == [0] and needs(found, 2) == [1]


def test_an_instruction_that_does_the_work_of_others_waits_for_their_inputs():
    heads = np.array([-1, -1, -1, -1, 3, 3, -1])  # 3 does the work of 4 and 5
    each = [[], [], [], [0], [1, 3], [2, 1, 4], [5]]
    first = np.cumsum([0, *map(len, each)])
    waiting, awaited = members_waits(heads, first, np.concatenate(each).astype(int))
    pairs = sorted(zip(waiting.tolist(), awaited.tolist(), strict=True))
    assert pairs == [(3, 1), (3, 1), (3, 2), (4, 3), (5, 3)]


def test_an_instruction_with_many_dependencies_reads_each_a_few_times(monkeypatch):
    count, asked, ready = 200, [], native._ready

    def counted(i, begin, work, core, end):
        time, cause = ready(i, begin, work, core, end)
        asked.append((cause if time < 0 else work.first[i + 1]) - begin)
        return time, cause

    device = Device()
    whole, host = device.zeros((128, count)), device.zeros((128, count), buffer="hbm")
    for column in range(count):
        device.issue("memset", whole[:, column : column + 1], 0.0)
    device.issue("dma_copy", host, whole)
    monkeypatch.setattr(native, "_ready", counted)
    monkeypatch.setattr(native._run, "over", lambda turns: native._run._on_views)
    schedule(device.core.program, machine.load("trn2"), "in-order")
    assert count <= sum(asked) < 10 * count
