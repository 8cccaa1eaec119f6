"""The schedule of ranks: a collective begins when the last rank arrives, and takes the same time
for all."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import Device

import neuroncore
from neuroncore.machine import instance as instances
from neuroncore.machine.collective_time import collective_time
from neuroncore.machine.world import World
from neuroncore.report.collectives import as_text, operations
from neuroncore.report.perfetto import events
from neuroncore.time.schedule import schedule, schedule_cores

X = np.ones((128, 64), np.float32)
BYTES = X.nbytes


@nki.jit
def summed(x, before, groups, rounds=1, beside=0):
    """Each rank copies a tile `before` times, then reduces it, `rounds` times, and copies another
    tile `beside` times at the same time."""
    source, result, out = (
        nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name=name) for name in "abc"
    )
    tile, other = nl.load(x), nl.load(x)
    for _ in range(before):
        nisa.tensor_copy(tile, tile, engine=nisa.engine.vector)
    nl.store(source, tile)
    for _ in range(rounds):
        group = ncc.ReplicaGroup(groups)
        ncc.all_reduce([source], [result], replica_group=group, op=nl.add)
    for _ in range(beside):
        nisa.tensor_copy(other, other, engine=nisa.engine.scalar)
    nl.store(out, nl.load(result))
    return out


def ran(before, groups=None, **more):
    groups = groups or [list(range(len(before)))]
    given = [{"x": X, "before": n, "groups": groups, **more} for n in before]
    return neuroncore.run(summed, per_rank=given)


def reduction(timeline):
    """Return the first collective of a core."""
    calls = timeline.program.calls
    return next(i for i, c in enumerate(timeline.columns.call) if calls[c].name == "all_reduce")


def test_a_collective_ends_for_all_ranks_its_time_after_the_last_one_arrives():
    run = ran([0, 10, 40, 3])
    lines = run.timelines
    done = [line.done[reduction(line)] for line in lines]
    end = {line.end[reduction(line)] for line in lines}
    taken = collective_time(instances.find("trn2.3xlarge"), 1, "reduce", BYTES, range(4))
    assert len(set(done)) > 1
    assert end == {max(done) + run.machine.fixed.semaphore_ns + taken.ns}


def test_ranks_of_other_groups_are_not_waited_for():
    lines = ran([0, 0, 200, 0], [[0, 1], [2, 3]]).timelines
    ends = [line.end[reduction(line)] for line in lines]
    assert ends[0] == ends[1] < ends[2] == ends[3]


def test_engines_work_during_a_collective():
    alone, beside = (ran([0, 0], beside=n).timelines[0] for n in (0, 20))
    assert beside.busy.sum() > alone.busy.sum() + 1000
    assert beside.total_ns < alone.total_ns + 100


@nki.jit
def two_sums(x, y, group):
    """Two collectives on separate tensors."""
    out = []
    for number, given in enumerate((x, y)):
        names = (f"source{number}", f"result{number}")
        source, result = (
            nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name=name) for name in names
        )
        nisa.dma_copy(dst=source, src=given)
        ncc.all_reduce([source], [result], replica_group=group, op=nl.add)
        out.append(result)
    copies = [nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm) for _ in out]
    for copy, result in zip(copies, out):
        nisa.dma_copy(dst=copy, src=result)
    return copies


def test_collectives_without_common_data_run_one_after_the_other():
    group = ncc.ReplicaGroup([[0, 1]])
    for line in neuroncore.run(two_sums, per_rank=[(X, X, group)] * 2).timelines:
        calls = line.program.calls
        first, second = (
            i for i, c in enumerate(line.columns.call) if calls[c].name == "all_reduce"
        )
        assert line.begin[second] >= line.end[first]


def test_collectives_of_a_rank_run_one_after_the_other():
    (operation, *rest) = operations(ran([0, 0], rounds=3).timelines)
    assert len(rest) == 2
    for later in rest:
        assert min(later.arrived_ns) >= operation.end_ns
        assert later.end_ns >= operation.end_ns + later.time.ns
        operation = later


@pytest.mark.parametrize("name", [None, "trn2.48xlarge", "u-trn2x64"])
def test_the_time_of_a_collective_comes_from_the_instance(name):
    pairs = [[0, 8], [1, 9], [2, 10], [3, 11], [4, 12], [5, 13], [6, 14], [7, 15]]
    run = ran([0] * 16, pairs)
    world = World(16, 1, name)
    lines = schedule_cores(run.record.programs, run.machine, world=world)
    (operation, *_) = operations(lines)
    found = instances.find(name or "trn2.48xlarge")
    assert operation.time == collective_time(found, 1, "reduce", BYTES, operation.ranks)


def test_waits_between_ranks_are_reported():
    run = ran([0, 100, 0, 0])
    (operation,) = operations(run.timelines)
    assert operation.ranks == (0, 1, 2, 3) and operation.last == 1
    assert operation.waited_ns[1] == 0 < operation.waited_ns[0] == operation.waited_ns[2]
    first, line = as_text(run.timelines, run.collectives)
    assert "rank 1 is the slowest: other ranks waited" in first
    assert "all_reduce of 4 ranks (0 to 3): 32 KiB by mesh in" in line
    assert "scaled, not measured" in line and "rank 1 arrives last and others wait up to" in line


def test_equal_ranks_do_not_wait():
    run = ran([5, 5])
    first, line = as_text(run.timelines, run.collectives)
    assert first.endswith("rank 0 is the slowest") and "waited" not in line


def test_a_single_rank_reports_no_waits():
    assert operations(ran([3]).timelines) == []


def test_a_trace_has_a_process_for_each_rank_and_a_row_for_collectives():
    run = ran([0, 30])
    found = list(events(run.timelines))
    named = [e["args"]["name"] for e in found if e["name"] == "process_name"]
    assert [name.partition(":")[0] for name in named] == ["rank 0", "rank 1"]
    for pid, line in enumerate(run.timelines):
        (tid,) = (
            e["tid"]
            for e in found
            if e["name"] == "thread_name" and e["pid"] == pid and e["args"]["name"] == "CC-core"
        )
        (slice_,) = (e for e in found if (e["ph"], e["pid"], e.get("tid")) == ("X", pid, tid))
        joined = reduction(line)
        assert slice_["name"] == "all_reduce" and "srcs" not in slice_["args"]
        assert slice_["args"]["srcs[0], dsts[0]"] == "128 x 64 float32 in shared_hbm"
        assert slice_["ts"] * 1e3 == pytest.approx(line.begin[joined], abs=1)
        assert slice_["dur"] * 1e3 == pytest.approx(line.end[joined] - line.begin[joined], abs=1)


def test_a_trace_without_collectives_has_no_row_for_them():
    core = Device()
    core.issue("tensor_copy", core.empty((128, 8)), core.tile(X[:, :8]))
    found = list(events([schedule(core.core.program, core.core.machine)]))
    assert "CC-core" not in {e.get("args", {}).get("name") for e in found}


def test_a_run_has_its_collectives():
    run = ran([0, 40, 0, 0], [[0, 1], [2, 3]], rounds=2)
    first, second = ([one.ranks for one in run.ranks[rank].collectives] for rank in (0, 3))
    assert first == [(0, 1)] * 2 and second == [(2, 3)] * 2 and len(run.collectives) == 4
    fields = run.ranks[0].collectives[0].to_dict()
    assert fields["last_rank"] == 1 and fields["waited"][0] > 0 == fields["waited"][1]
    assert fields["bus_bandwidth"] == fields["algorithm_bandwidth"]  # 2 (n - 1) / n with 2 ranks
    assert not neuroncore.run(summed, X, 0, [[0]]).collectives


def test_more_ranks_than_an_instance_has_are_not_estimated():
    """32 ranks are a trn1.32xlarge; 64 would communicate over EFA."""
    given = [{"x": X, "before": 0, "groups": [[*range(64)]]}] * 64
    run = neuroncore.run(summed, per_rank=given, target="trn1")
    (one,) = run.collectives
    assert one.time is None and "EFA" in one.to_dict()["basis"]
    assert "its time is unknown" in [*as_text(run.timelines, run.collectives)][1]
