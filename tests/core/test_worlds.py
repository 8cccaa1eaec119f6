"""Kernels on several ranks: private memory of each rank, the Run of all ranks, and refusals."""

import threading

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import neuroncore
from neuroncore.base.errors import CapacityError, KernelError, UsageError
from neuroncore.base.options import Options
from neuroncore.machine.world import World, listed

X = np.arange(64 * 3, dtype=np.float32).reshape(64, 3)


@nki.jit
def added(x, number):
    """Return x + number, and set x to the same."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nisa.tensor_scalar(tile, tile, nl.add, number)
    nl.store(out, tile)
    nl.store(x, tile)
    return out


@nki.jit
def crossed(x):
    """Each core of a rank writes its half of x, and reads the other half after the barrier."""
    core, rows = nl.program_id(0), x.shape[0] // 2
    middle, out = (nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm) for _ in range(2))
    mine, other = (slice(c * rows, (c + 1) * rows) for c in (core, 1 - core))
    nl.store(middle[mine], nl.load(x[mine]))
    nisa.core_barrier(middle, (0, 1))
    nl.store(out[mine], nl.load(middle[other]))
    return out


@nki.jit
def exchanged(x):
    """Each core writes half of a source, and reads half of the sum over two ranks."""
    half = x.shape[0] // 2
    mine = slice(nl.program_id(0) * half, (nl.program_id(0) + 1) * half)
    source, total, out = (
        nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name=name) for name in "sto"
    )
    nl.store(source[mine], nl.load(x[mine]))
    ncc.all_reduce([source], [total], ncc.ReplicaGroup([[0, 1]]), nl.add)
    nl.store(out[mine], nl.load(total[mine]))
    return out


def test_each_rank_runs_on_its_own_arguments():
    arrays = [X * rank for rank in range(4)]
    run = neuroncore.run(added, per_rank=[(x, float(rank)) for rank, x in enumerate(arrays)])
    for rank, (result, x) in enumerate(zip(run.results, arrays, strict=True)):
        np.testing.assert_array_equal(result, X * rank + rank)
        np.testing.assert_array_equal(x, result)  # visible to the caller, like with one rank


@pytest.mark.parametrize("rows", [64, 1 << 14])  # copied at once, and by pages
def test_an_array_that_is_passed_to_several_ranks_is_copied_for_each(rows):
    x = np.arange(rows * 4, dtype=np.float32).reshape(-1, 128)
    before = x.copy()
    run = neuroncore.run(added, per_rank=[{"x": x[:128], "number": 1.0}, (x[:128], 2.0)])
    for rank, result in enumerate(run.results):
        np.testing.assert_array_equal(result, before[:128] + rank + 1)
    np.testing.assert_array_equal(x, before)


def test_parts_that_are_passed_to_one_rank_only_are_not_copied():
    x = np.zeros((64, 3), np.float32)
    neuroncore.run(added, per_rank=[(x[:32], 1.0), (x[32:], 2.0)])
    assert (x[:32] == 1).all() and (x[32:] == 2).all()


def test_only_cores_of_the_same_rank_synchronize_and_share_hbm():
    run = neuroncore.run(crossed, per_rank=[(X,), (X + 1,)], lnc=2)
    for rank, result in enumerate(run.results):
        np.testing.assert_array_equal(result, np.concatenate([X[32:], X[:32]]) + rank)
    assert run.world == World(2, 2) and len(run.record.programs) == len(run.timelines) == 4
    assert [len(rank.timelines) for rank in run.ranks] == [2, 2]
    assert neuroncore.run(crossed[2], per_rank=[(X,), (X,)]).world.cores == 2


def test_a_barrier_moves_no_bytes():
    """The bytes of its data were counted as written to HBM."""
    run = neuroncore.run(crossed[2], X)
    half = X.nbytes // 2
    for core in run.summaries:
        assert (core["hbm_read_bytes"], core["hbm_write_bytes"]) == (2 * half, 2 * half)


def test_a_collective_of_both_cores_of_a_rank_moves_its_bytes_once():
    """Each core loads and stores a half three times, and the bytes were counted on both cores."""
    run = neuroncore.run(exchanged, per_rank=[(X,), (X + 1,)], lnc=2)
    for rank in run.ranks:
        for verb in ("read", "write"):
            assert sum(core[f"hbm_{verb}_bytes"] for core in rank.summaries) == 3 * X.nbytes


def test_each_rank_has_a_separate_run():
    run = neuroncore.run(added, per_rank=[(X + 0, 1.0), (X + 0, 2.0)])
    assert [rank.results[0, 0] for rank in run.ranks] == [1, 2]
    assert run.summary in [rank.summary for rank in run.ranks]
    assert run.ranks[0].ranks == (run.ranks[0],)
    assert run.compare(lambda x, number: x + number)
    assert run.compare(lambda x, number, rank: x + rank + 1)
    with pytest.raises(UsageError, match="the record can only be timed"):
        run.ranks[0].replay()
    with pytest.raises(UsageError, match="rank 1 can't be saved alone"):
        run.ranks[1].save("one.run")


def test_the_run_of_a_rank_uses_what_is_known_about_all_ranks():
    """Its record does not show that a collective synchronizes two cores: their accesses to HBM were
    reported as races, and `why` raised IndexError."""
    run = neuroncore.run(exchanged, per_rank=[(X,), (X + 1,)], lnc=2)
    assert run.findings == [] and [rank.findings for rank in run.ranks] == [[], []]
    assert str(run.ranks[1].why()) == str(run.why())
    assert run.ranks[1].estimate.seconds > 0 and len(run.ranks[1].collectives) == 1


def test_the_reference_of_one_rank_receives_its_number():
    run = neuroncore.run(added, per_rank=[(X + 0, 1.0), (X + 0, 2.0)])
    assert all(one.compare(lambda x, number, rank: x + rank + 1) for one in run.ranks)
    total = neuroncore.run(added, X + 0, 1.0)
    assert total.compare(lambda x, number, rank: x + rank + 1)


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_results_and_replays_do_not_depend_on_the_order_of_ranks(turns, tmp_path):
    given = [(X * rank,) for rank in range(4)]
    run = neuroncore.run(crossed, per_rank=given, lnc=2, options=Options(turns=turns))
    run.save(tmp_path / "world.run")
    loaded = neuroncore.load(tmp_path / "world.run")
    assert loaded.world == run.world and len(loaded.ranks) == 4
    for results in (run.results, run.replay(), loaded.results, loaded.replay()):
        for rank, result in enumerate(results):
            want = np.concatenate([X[32:], X[:32]]) * rank
            assert result.tobytes() == want.astype(np.float32).tobytes()


def test_a_world_is_replayed_on_inputs_of_each_rank():
    run = neuroncore.run(crossed, per_rank=[(X,), (X + 1,)], lnc=2)
    wanted = neuroncore.run(crossed, per_rank=[(X + 5,), (X + 7,)], lnc=2).results
    one, other = X + 5, X + 7
    for inputs in (((one,), (other,)), ({"x": one}, [other]), (one, other)):
        for result, want in zip(run.replay(*inputs), wanted, strict=True):
            assert result.tobytes() == want.tobytes()
    for inputs, why in (
        (((one,),), "the inputs are for 1 rank, but the record has 2 ranks"),
        (((one,), (one, other)), "got 2 inputs, but rank 1 has the inputs x"),
        (({"y": one}, (other,)), "the input x is missing; rank 0 has x"),
        (((one,), {"x": other, "y": other}), "y is not an input of rank 1, which has x"),
    ):
        with pytest.raises(UsageError, match=why):
            run.replay(*inputs)


def test_records_and_findings_do_not_depend_on_the_order_of_ranks():
    """One core of a rank has an additional tile, before and after the two cores synchronize; a half
    that nobody writes is summed."""

    @nki.jit
    def uneven(x, group):
        core, half = nl.program_id(0), x.shape[0] // 2
        mine = slice(core * half, (core + 1) * half)
        src, dst, out = (
            nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name=name)
            for name in ("src", "dst", "out")
        )
        nisa.core_barrier(src, (0, 1))
        if core:
            nl.store(src[mine], nl.load(x[mine]))
        ncc.all_reduce([src], [dst], group, nl.add)
        nl.store(out[mine], nl.load(dst[mine]))
        return out

    def seen(turns):
        given = [(X * rank, ncc.ReplicaGroup([[0, 1, 2, 3]])) for rank in range(4)]
        run = neuroncore.run(uneven, per_rank=given, lnc=2, options=Options(turns=turns))
        records = [
            (program.windows().storage.tolist(), program.columns().call.tolist())
            for program in run.record.programs
        ]
        return records, [str(found) for found in run.findings]

    first = seen(0)
    assert first[1] and all(seen(turns) == first for turns in (1, 2, 3, 4))


def test_an_error_of_one_rank_is_the_error_of_all():
    @nki.jit
    def some(x):
        nisa.tensor_copy(nl.ndarray((64, 3), x.dtype), nl.ndarray((64, 4), x.dtype))

    with pytest.raises(KernelError) as told:
        neuroncore.run(some, per_rank=[(X,)] * 64)
    assert told.value.__notes__ == ["on rank 0 of 64 ranks"]


def test_a_failure_of_user_code_names_its_rank():
    @nki.jit
    def some(x, rank):
        if rank == 3:
            raise ValueError("mine")
        return x

    with pytest.raises(ValueError, match="mine") as told:
        neuroncore.run(some, per_rank=[(X, rank) for rank in range(4)])
    assert told.value.__notes__ == ["on rank 3 of 4 ranks"]


def test_each_rank_has_the_full_size_of_its_hbm():
    @nki.jit
    def large(x):
        nl.ndarray((1 << 20, 15 << 10), nl.uint8, buffer=nl.shared_hbm)  # 15 of 24 GiB
        return x

    assert len(neuroncore.run(large, per_rank=[(X,), (X,)]).results) == 2

    @nki.jit
    def larger(x):
        nl.ndarray((1 << 20, 25 << 10), nl.uint8, buffer=nl.shared_hbm)
        return x

    with pytest.raises(CapacityError):
        neuroncore.run(larger, per_rank=[(X,), (X,)])


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"per_rank": []}, "at least one rank, not on 0"),
        ({"per_rank": [(X,)] * 99999}, "99,999 ranks of 1 core are too many: .* most 4,096 cores"),
        ({"per_rank": [(X,)] * 2049, "lnc": 2}, "2,049 ranks of 2 cores are too many"),
        ({"per_rank": [(X,)] * 2, "lnc": 3}, "at most 2 cores, not 3"),
        ({"per_rank": [(X,)] * 2, "lnc": 2, "target": "trn1"}, "at most 1 core, not 2"),
        ({"per_rank": [X]}, "a tuple, or a dict by name, not ndarray"),
        ({"per_rank": [(X,)], "x": X}, "with per_rank, no other"),
    ],
)
def test_numbers_of_ranks_that_no_instance_has_are_refused(given, why):
    with pytest.raises(UsageError, match=why):
        neuroncore.run(crossed, **given)
    with pytest.raises(UsageError, match="the kernel's grid is"):
        neuroncore.run(crossed[2], per_rank=[(X,)] * 2, lnc=1)


@pytest.mark.parametrize(
    ("ranks", "options"),
    [
        (3, {}),
        (6, {"instance": "inf2.24xlarge"}),  # it has 12
        (144, {"instance": "trn3-gen2-ultraserver"}),  # one rank per chip would be 144
    ],
)
def test_worlds_of_other_sizes_run_with_a_warning(ranks, options):
    @nki.jit
    def copied(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=x)
        return out

    run = neuroncore.run(copied, per_rank=[(X,)] * ranks, **options)
    assert len(run.results) == ranks
    (told,) = [one for one in run.findings if one.code == "WORLD_SIZE"]
    assert f"the launch has {ranks} ranks" in told.message and told.severity == "warning"


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_threads_that_the_system_cannot_start_are_wrong_usage(monkeypatch, turns):
    """The threads that were started end, too."""
    start, before = threading.Thread.start, threading.active_count()

    def limited(thread):
        if threading.active_count() > before + 2:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    with pytest.raises(UsageError, match=r"started only \d of 8 threads"):
        neuroncore.run(crossed, per_rank=[(X,)] * 8, options=Options(turns=turns))
    assert threading.active_count() <= before + 1


def test_names_of_cores_of_several_ranks():
    world = World(8, 2)
    assert world.all_named(range(4)) == "ranks 0, 1" and world.named(5) == "rank 2 (core 1)"
    assert world.all_named([6, 7]) == "rank 3" and world.all_named([6]) == "rank 3 (core 0)"
    assert World(1, 2).all_named([0, 1]) == "core 0, core 1"
    assert listed([0, 1, 2, 5, 7, 8]) == "0 to 2, 5, 7, 8"
