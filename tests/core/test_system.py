"""Two cores as one: shared and separate memory, synchronization, and failures of it."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from device import Device, launched
from every import for_all

from neuroncore.base.errors import (
    BufferKindError,
    DeadlockError,
    DtypeError,
    FreeSizeError,
    KernelError,
    ShapeError,
    SignatureError,
    TargetError,
)
from neuroncore.core import system
from neuroncore.frontend.launch import NeuronWarning, launch
from neuroncore.frontend.nki.tensor import NkiTensor

X = np.arange(64 * 3, dtype=np.float32).reshape(64, 3)


@pytest.fixture(autouse=True)
def on_trn2(monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")


def half(x, rank):
    rows = x.shape[0] // 2
    return x[rank * rows : (rank + 1) * rows]


@nki.jit
def swapped(x, sends=(1, 0), receives=(1, 0), unit=nisa.dma_engine.dma):
    """Return the halves of x after the cores have exchanged them."""
    rank = nl.program_id(0)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    mine = nl.load(half(x, rank))
    other = nl.ndarray(mine.shape, mine.dtype)
    nisa.sendrecv(mine, other, sends[rank], receives[rank], pipe_id=0, dma_engine=unit)
    nl.store(half(out, rank), other)
    return out


# --- what is shared -------------------------------------------------------------------------------


def test_cores_exchange_tiles():
    np.testing.assert_array_equal(swapped[2](X), np.concatenate([X[32:], X[:32]]))


@for_all("dtype", ["bfloat16", "float16", "int32", "uint8", "float8_e4m3", "float8_e5m2", "int16"])
def test_every_format_is_exchanged_bit_by_bit(dtype):
    x = np.arange(64 * 3).reshape(64, 3).astype(getattr(nl, dtype).numpy)
    got = swapped[2](x)
    assert got.tobytes() == np.concatenate([x[32:], x[:32]]).tobytes()


def test_the_engine_argument_of_releases_before_0_3_is_ignored():
    @nki.jit
    def sent(x):
        rank = nl.program_id(0)
        tile = nl.load(half(x, rank))
        other = nl.ndarray(tile.shape, x.dtype, buffer=nl.sbuf)
        nisa.sendrecv(tile, other, 1 - rank, 1 - rank, 0, use_gpsimd_dma=True)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(half(out, rank), other)
        return out

    with pytest.warns(UserWarning, match="sendrecv ignores use_gpsimd_dma="):
        np.testing.assert_array_equal(sent[2](X), np.concatenate([X[32:], X[:32]]))
    with pytest.raises(SignatureError, match="memset has no parameter 'use_gpsimd_dma'"):
        Device().issue("memset", Device().empty((4, 6)), 1.0, use_gpsimd_dma=True)


def test_a_core_may_send_to_itself():
    np.testing.assert_array_equal(swapped[2](X, (0, 1), (0, 1)), X)


@nki.jit
def crossed(x):
    """Each core writes its half to HBM, and reads the other half after the barrier."""
    rank = nl.program_id(0)
    middle, out = (nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm) for _ in range(2))
    nl.store(half(middle, rank), nl.load(half(x, rank)))
    nisa.core_barrier(middle, [0, 1])
    nl.store(half(out, rank), nl.load(half(middle, 1 - rank)))
    return out


def test_after_a_barrier_a_core_reads_what_the_other_wrote():
    np.testing.assert_array_equal(crossed[2](X), np.concatenate([X[32:], X[:32]]))


@nki.jit
def counted(x, region):
    """Both cores wait at a barrier on memory that only one of them can access."""
    rank = nl.program_id(0)
    own = nl.ndarray((1, 1), nl.int32, buffer=region)
    out = nl.ndarray((2, 1), nl.int32, buffer=nl.shared_hbm)
    nisa.memset(own, rank + 1)
    nisa.core_barrier(own, (0, 1))
    nl.store(out[rank : rank + 1], own)
    return out


def test_a_barrier_on_memory_that_is_not_shared_is_a_finding():
    with pytest.warns(NeuronWarning, match=r"NOT_SHARED\] core_barrier: data .* is in SBUF"):
        np.testing.assert_array_equal(counted[2](X, nl.sbuf), [[1], [2]])


def test_a_barrier_on_psum_is_refused():
    with pytest.raises(BufferKindError, match="data must be in hbm or sbuf"):
        counted[2](X, nl.psum)


def test_without_a_barrier_the_race_is_found():
    @nki.jit
    def early(x):
        rank = nl.program_id(0)
        middle, out = (nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm) for _ in range(2))
        nl.store(half(middle, rank), nl.load(half(x, rank)))
        nl.store(half(out, rank), nl.load(half(middle, 1 - rank)))
        return out

    with pytest.warns(NeuronWarning, match="UNINIT_READ"):
        early[2](X)


@nki.jit
def halved(x, twice=False):
    """Each core writes half of a result that is not shared."""
    rank = nl.program_id(0)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
    nl.store(half(out, rank), nl.load(half(x, rank)))
    if twice:
        nl.store(half(out, 1 - rank), nl.full(half(x, 0).shape, -1.0, x.dtype))
    return out


def test_a_result_is_one_tensor_for_both_cores():
    np.testing.assert_array_equal(halved[2](X), X)


def test_halves_of_the_same_result_are_combined():
    @nki.jit
    def named(x):
        rank = nl.program_id(0)
        one, two = (nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm) for _ in range(2))
        for scale, out in ((1.0, one), (-1.0, two)):
            nl.store(half(out, rank), nl.multiply(nl.load(half(x, rank)), scale))
        return {"one": one, "two": [two]} if rank else {"two": [two], "one": one}

    got = named[2](X)
    np.testing.assert_array_equal(got["one"], X)
    np.testing.assert_array_equal(got["two"][0], -X)


def test_faults_in_combined_results_are_found():
    @nki.jit
    def rounded(x, buffer):
        rank = nl.program_id(0)
        out = nl.ndarray(x.shape, x.dtype, buffer=buffer)
        nl.store(half(out, rank), nl.exp(nl.load(half(x, rank))))
        return out

    x = (X / 64).astype(np.float32)
    own, shared = (
        launched(rounded[2], x, buffer, precision=True).precision.results[0]
        for buffer in (nl.private_hbm, nl.shared_hbm)
    )
    assert own.rel_l2 == pytest.approx(shared.rel_l2) and 0 < own.rel_l2 < 1e-6
    np.testing.assert_array_equal(own.exact, shared.exact)


@pytest.mark.parametrize("rows", [(0, 0), (0, 2)])
def test_a_barrier_needs_a_tensor_with_elements(rows):
    @nki.jit
    def meets(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.core_barrier(out[0 : rows[nl.program_id(0)]], (0, 1))
        return out

    with pytest.raises(ShapeError, match="has no elements"):
        meets[2](X)


def test_an_element_that_both_cores_wrote_is_returned_from_the_first():
    want = np.where(np.arange(len(X))[:, None] < 32, X, -1)
    np.testing.assert_array_equal(halved[2](X, True), want)


def test_elements_that_no_core_wrote_are_reported():
    @nki.jit
    def quarters(x):
        rank = nl.program_id(0)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
        nl.store(half(out, rank)[0:5], nl.load(half(x, rank)[0:5]))
        return out

    with pytest.warns(NeuronWarning, match="OUTPUT_NOT_WRITTEN"):
        got = quarters[2](X)
    for rank in range(2):
        np.testing.assert_array_equal(half(got, rank)[0:5], half(X, rank)[0:5])
        assert np.isnan(half(got, rank)[5:]).all()


def test_each_core_has_private_hbm():
    @nki.jit
    def kept_apart(x):
        rank = nl.program_id(0)
        own = nl.ndarray((1, 1), nl.float32, buffer=nl.private_hbm, name="own")
        out = nl.ndarray((2, 1), nl.float32, buffer=nl.shared_hbm)
        nl.store(own, nl.full((1, 1), rank + 1.0, nl.float32))
        nisa.core_barrier(out, (0, 1))
        nl.store(out[rank : rank + 1], nl.load(own))
        return out

    np.testing.assert_array_equal(kept_apart[2](X), [[1], [2]])


def test_arrays_that_both_cores_write_are_updated_in_place():
    @nki.jit
    def increment(x):
        rank = nl.program_id(0)
        nl.store(half(x, rank), nl.add(nl.load(half(x, rank)), rank + 1.0))
        return x

    x = np.zeros((4, 2), np.float32)
    assert increment[2](x) is x
    np.testing.assert_array_equal(x, [[1, 1], [1, 1], [2, 2], [2, 2]])


def test_programs_have_their_position_in_the_grid():
    seen = []

    @nki.jit
    def places(x):
        seen.append((nl.program_id(0), nl.num_programs(0), nl.num_programs(), nl.program_ndim()))
        return x

    places[2](X)
    assert seen == [(0, 2, 2, 1), (1, 2, 2, 1)]


def test_each_core_leaves_a_record():
    run = launch(crossed.function, (X,), tensor=NkiTensor, grid=(2,))
    assert [len(core.program) for core in run.cores] == [5, 5]
    assert run.core is run.cores[0]


# --- order ----------------------------------------------------------------------------------------


def test_programs_alternate_at_synchronization_points():
    order = []

    @nki.jit
    def turns(x):
        rank = nl.program_id(0)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        for step in range(3):
            order.append((rank, step))
            nisa.core_barrier(out, (0, 1))
        nl.store(half(out, rank), nl.load(half(x, rank)))
        return out

    for _ in range(3):
        order.clear()
        turns[2](X)
        assert order == [(0, 0), (1, 0), (1, 1), (0, 1), (0, 2), (1, 2)]


def test_pipes_do_not_block_each_other():
    @nki.jit
    def two_pipes(x):
        rank = nl.program_id(0)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        mine = nl.load(half(x, rank))
        first, second = (nl.ndarray(mine.shape, mine.dtype) for _ in range(2))
        nisa.sendrecv(mine, first, 1 - rank, 1 - rank, pipe_id=3)
        nisa.sendrecv(first, second, 1 - rank, 1 - rank, pipe_id=4)
        nl.store(half(out, rank), second)
        return out

    np.testing.assert_array_equal(two_pipes[2](X), X)


# --- failures -------------------------------------------------------------------------------------


def test_a_core_that_waits_for_one_that_has_ended_is_a_deadlock():
    @nki.jit
    def alone(x):
        if nl.program_id(0) == 0:
            nisa.core_barrier(x, (0, 1))
        return x

    with pytest.raises(DeadlockError, match="core 0 waits for core 1 at core_barrier") as caught:
        alone[2](X)
    assert "core 1 has ended" in str(caught.value)
    assert caught.value.place.text.strip() == "nisa.core_barrier(x, (0, 1))"


def test_cores_that_wait_at_different_points_are_a_deadlock():
    @nki.jit
    def apart(x):
        rank = nl.program_id(0)
        mine = nl.load(half(x, rank))
        other = nl.ndarray(mine.shape, mine.dtype)
        nisa.sendrecv(mine, other, 1 - rank, 1 - rank, pipe_id=rank)
        return x

    with pytest.raises(DeadlockError) as caught:
        apart[2](X)
    assert "core 1 waits at sendrecv(pipe_id=1)" in str(caught.value)
    assert "core 0 waits at sendrecv(pipe_id=0)" in str(caught.value)


@pytest.mark.parametrize("rank", [0, 1])
def test_an_error_on_one_core_stops_both(rank):
    @nki.jit
    def broken(x):
        if nl.program_id(0) == rank:
            raise ZeroDivisionError("mine")
        nisa.core_barrier(x, (0, 1))
        return x

    for _ in range(3):
        with pytest.raises(ZeroDivisionError, match="mine"):
            broken[2](X)
    np.testing.assert_array_equal(crossed[2](X), np.concatenate([X[32:], X[:32]]))


def test_cores_must_agree_on_what_they_share():
    @nki.jit
    def differs(x):
        return nl.ndarray((4, 2 + nl.program_id(0)), x.dtype, buffer=nl.shared_hbm, name="sum")

    with pytest.raises(ShapeError, match="cores allocate tensor 'sum'"):
        differs[2](X)


def test_an_exchange_needs_both_sides():
    with pytest.raises(KernelError, match="but core 1 sends to core 1"):
        swapped[2](X, (1, 1), (1, 1))


@pytest.mark.parametrize("ranks", [(2, 0), (1, -1)])
def test_only_two_ranks_exist(ranks):
    with pytest.raises(ShapeError, match=r"(send_to|recv_from)_rank can't be (2|-1)"):
        swapped[2](X, *((rank, rank) for rank in ranks))


@pytest.mark.parametrize("name", ["send_to_rank", "recv_from_rank", "pipe_id", "cores"])
@for_all("junk", ["abc", object(), None, 1.5, {}, [[1]]])
def test_ranks_are_integers(name, junk):
    device = Device()
    tile = device.zeros((3, 5))
    if name == "cores":
        if junk != {}:
            words = ["cores must be a list of integers"]
            device.refuses(SignatureError, "core_barrier", tile, junk, words=words)
        return
    numbers = {"send_to_rank": 0, "recv_from_rank": 0, "pipe_id": 0, name: junk}
    words = [f"{name} must be an integer"]
    device.refuses(SignatureError, "sendrecv", tile, device.zeros((3, 5)), words=words, **numbers)


def test_ranks_may_be_numpy_integers():
    one, none = np.int64(1), np.int8(0)
    np.testing.assert_array_equal(swapped[2](X, (one, none), (one, none)), swapped[2](X))


@pytest.mark.parametrize("shape,dtype", [((16, 6), nl.float32), ((32, 3), nl.int32)])
def test_sent_and_expected_shapes_must_agree(shape, dtype):
    @nki.jit
    def unequal(x):
        rank = nl.program_id(0)
        mine = nl.load(half(x, 0)) if rank else nl.full(shape, 1, dtype)
        other = nl.ndarray(mine.shape, mine.dtype)
        nisa.sendrecv(mine, other, 1 - rank, 1 - rank, pipe_id=0)
        return x

    with pytest.raises(ShapeError, match="sends"):
        unequal[2](X)


def test_an_exchange_converts_nothing():
    @nki.jit
    def converting(x):
        mine = nl.load(half(x, 0))
        nisa.sendrecv(mine, nl.ndarray(mine.shape, nl.bfloat16), 1, 1, pipe_id=0)
        return x

    with pytest.raises(DtypeError, match="dst"):
        converting[2](X)


def test_the_dma_of_gpsimd_moves_at_most_256_elements():
    x = np.arange(2 * 257, dtype=np.float32).reshape(2, 257)
    gpsimd = nisa.dma_engine.gpsimd_dma
    np.testing.assert_array_equal(swapped[2](x[:, :256], unit=gpsimd), x[::-1, :256])
    with pytest.raises(FreeSizeError, match="1 x 257 float32"):
        swapped[2](x, unit=gpsimd)


def test_one_core_alone_has_no_peers():
    with pytest.raises(TargetError, match="core_barrier needs two cores that can synchronize"):
        crossed(X)


def test_the_first_generation_has_no_logical_cores(monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn1")
    with pytest.raises(TargetError, match="trn1 does not have the instruction core_barrier"):
        crossed[2](X)


def test_programs_on_more_than_two_cores_cannot_synchronize():
    with pytest.raises(TargetError, match="core_barrier needs two cores that can") as refused:
        crossed[4](X)
    assert refused.value.place.file == __file__


def test_a_barrier_is_for_both_cores():
    @nki.jit
    def odd(x):
        nisa.core_barrier(x, (0, 2))
        return x

    with pytest.raises(ShapeError, match="cores must be"):
        odd[2](X)


@nki.jit
def waiting(x, cores, unit=nisa.engine.gpsimd):
    """Core 0 copies x, and other cores wait for it."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    if nl.program_id(0) == 0:
        nisa.dma_copy(out, x)
    nisa.core_barrier(out, cores, engine=unit)
    return out


@pytest.mark.parametrize("cores", [0, (0,), [0]], ids=str)
def test_the_barrier_of_one_core_does_not_wait(cores):
    np.testing.assert_array_equal(waiting(X, cores), X)
    with pytest.raises(TargetError, match="core_barrier is for one core, but the rank has two"):
        waiting[2](X, cores)


@pytest.mark.parametrize("cores", [None, 1.5, "0"], ids=str)
def test_an_error_shows_the_cores_as_they_were_passed(cores):
    with pytest.raises(SignatureError) as caught:
        waiting(X, cores)
    assert caught.value.got == f"{type(cores).__name__} {cores!r}"


def test_sync_executes_a_barrier_of_the_dma_engine():
    np.testing.assert_array_equal(waiting[2](X, (0, 1), nisa.engine.dma), X)
    words = X, (0, 1), nisa.engine.dma
    run = launch(waiting.function, words, tensor=NkiTensor, grid=(2,))
    for core in run.cores:
        (barrier,) = (call for call in core.program.calls if call.name == "core_barrier")
        assert barrier.engine is nisa.engine.sync


def test_a_deadlock_of_many_cores_is_reported_in_short_lines():
    few, many = system._listed(["a", "b"]), system._listed([f"rank {n} waits" for n in range(64)])
    assert few == "a; b"
    assert many.count("\n") == 9 and many.endswith("\n  and 56 more")
    assert max(map(len, many.splitlines())) < 80
