"""Instructions that a queue may begin before earlier ones."""

import numpy as np

from neuroncore.time.loops.timeline import timeline
from neuroncore.time.loops.work import CoreCosts, Queues, Times, Work

QUEUES = 3


def begun(queue, needs, busy, fresh, limits):
    """Return when instructions begin, each of which waits for those in a list. Arrays have the
    formats of a schedule, for which the loop is already compiled."""
    queue, count = np.array(queue, np.int32), len(queue)
    first = np.cumsum([0, *map(len, needs)]).astype(np.int32)
    work = Work(
        queue=queue,
        first=first,
        needs=np.array([one for each in needs for one in each], np.int32),
        previous=np.full((count, QUEUES), -1, np.int32),
        partner=np.full(count, -1, np.int32),
        busy=np.array(busy, float),
        kind=np.arange(count, dtype=np.int32),
        early=np.zeros(count),
        latency=np.zeros(count),
        lane=np.full((count, 2), -1, np.int32),
        lane_ns=np.zeros(count),
        rows=np.zeros(count),
        fills_half=np.zeros(count, bool),
        fresh=np.array(fresh),
        shares=np.zeros(count, bool),
    )
    order = np.argsort(queue, kind="stable").astype(np.int32)
    start = np.searchsorted(queue[order], np.arange(QUEUES + 1)).astype(np.int32)
    core = CoreCosts(0, 1, 2, *[0.0] * (len(CoreCosts._fields) - 3))
    times = Times(*np.full((3, count), -1.0), np.full(count, -1, np.int32))
    timeline(work, Queues(order, start, np.array([[*limits, 0]] * QUEUES)), core, times)
    return times.begin.tolist()


def test_instructions_that_read_nothing_do_not_count_in_the_window():
    """The window has space for one instruction that reads: the second one waits until the first has
    begun, even if one that reads nothing began before both."""
    queue, needs = [0, 1, 1, 1], [[], [], [0], []]
    fresh = [False, True, False, False]
    assert begun(queue, needs, [100, 1, 1, 1], fresh, [1, 3]) == [0, 0, 100, 101]
    assert begun(queue, needs, [100, 1, 1, 1], fresh, [2, 3]) == [0, 0, 100, 1]
