"""Collectives of ranks with two cores: the data that each core exchanges, for tensors in shared
HBM, in private HBM, in SBUF, and in two of these memories."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from collective_worlds import agreed, given
from every import for_all
from nki.collectives import ReplicaGroup

import neuroncore
from neuroncore.base.errors import BufferKindError
from neuroncore.base.options import Options

ZEROS = Options(uninitialized="zeros")
GROUPS = ((0, 2), (3, 1))
PAIRS = ((0, 1), (1, 2), (2, 3), (3, 0))
CALLS = {
    "all_reduce": {"op": nl.add},
    "all_gather": {"collective_dim": 0},
    "reduce_scatter": {"collective_dim": 0, "op": nl.add},
    "all_to_all": {"collective_dim": 0},
    "collective_permute": {},
    "collective_permute_implicit": {},
    "collective_permute_implicit_reduce": {"op": nl.maximum},
}
SHARED, PRIVATE, CHIP = nl.shared_hbm, nl.private_hbm, nl.sbuf
MEMORIES = {
    "shared": (SHARED, SHARED),
    "private": (PRIVATE, PRIVATE),
    "sbuf": (CHIP, CHIP),
    "private to shared": (PRIVATE, SHARED),
    "shared to private": (SHARED, PRIVATE),
}
IN_SBUF = ("all_reduce", "all_gather", "reduce_scatter", "collective_permute_implicit",
           "collective_permute_implicit_reduce")  # fmt: skip


@nki.jit
def exchanged(x, name, sent, received, rows):
    """The dst of each core, for src = x[core]. A shared src has x[core] in its part for the core,
    and a shared dst is returned in full for each core."""
    core, cores, width = nl.program_id(0), x.shape[0], x.shape[2]
    src = nl.ndarray((x.shape[1], width), x.dtype, buffer=sent, name="src")
    dst = nl.ndarray((rows, width), x.dtype, buffer=received, name="dst")
    half = x.shape[1] // cores
    if sent is SHARED:
        mine = slice(core * half, (core + 1) * half)
        nisa.dma_copy(dst=src[mine, :], src=x[core, mine, :])
    else:
        nisa.dma_copy(dst=src, src=x[core])
    more, group = CALLS[name], ReplicaGroup(GROUPS)
    call = getattr(ncc, name)
    if name == "collective_permute":
        call([src], [dst], PAIRS)
    elif name == "collective_permute_implicit":
        call([[src]], [[dst]], group)
    elif name == "collective_permute_implicit_reduce":
        call([[src]], [[src]], [[dst]], group, **more)
    else:
        call([src], [dst], group, **more)
    out = nl.ndarray((cores, rows, width), x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out[core], src=dst)
    return out


def wanted(name, srcs):
    """The dst of each rank for one src of each rank."""
    dsts = [np.empty(0)] * 4
    for group in GROUPS:
        parts = [srcs[rank] for rank in group]
        for at, rank in enumerate(group):
            dsts[rank] = {
                "all_reduce": lambda p=parts: sum(p[1:], p[0]),
                "all_gather": lambda p=parts: np.concatenate(p),
                "reduce_scatter": lambda p=parts, k=at: np.split(sum(p[1:], p[0]), len(p))[k],
                "all_to_all": lambda p=parts, k=at: np.concatenate(
                    [np.split(part, len(p))[k] for part in p]
                ),
                "collective_permute": lambda r=rank: srcs[r - 1],
            }.get(name, lambda p=parts, k=at: p[k - 1])()
    return dsts


def of_cores(arrays, sent, cores):
    """The src of each core and rank: [cores][ranks]."""
    if sent is not SHARED:
        return [[x[core] for x in arrays] for core in range(cores)]
    halves = np.arange(arrays[0].shape[1]) // (arrays[0].shape[1] // cores)
    whole = [x[halves, np.arange(x.shape[1])] for x in arrays]
    return [whole] * cores


@pytest.mark.parametrize("memories", MEMORIES.values(), ids=MEMORIES)
@for_all("name", [*CALLS])
@for_all("lnc", [1, 2])
def test_each_core_exchanges_its_own_data(name, memories, lnc):
    sent, received = memories
    if sent is CHIP and name not in IN_SBUF:
        return
    arrays = given(4, (lnc, 8, 6))
    want = [wanted(name, srcs) for srcs in of_cores(arrays, sent, lnc)]
    per_rank = [(x, name, sent, received, len(want[0][0])) for x in arrays]
    run = agreed(neuroncore.run(exchanged, per_rank=per_rank, lnc=lnc))
    for rank, got in enumerate(run.results):
        for core in range(lnc):
            # both cores write a shared dst: the last one is kept, and this is reported
            kept = lnc - 1 if received is SHARED else core
            assert np.array_equal(got[core], want[kept][rank]), (rank, core)
    twice = lnc == 2 and (sent, received) == (PRIVATE, SHARED)
    assert ("RACE" in {found.code for found in run.findings}) == twice


@for_all("lnc", [1, 2])
def test_the_sources_of_a_call_are_all_private_or_all_shared(lnc):
    """One core is the only one of its rank, so both memories are the same for it."""

    @nki.jit
    def two_memories(x):
        srcs = [nl.ndarray(x.shape, x.dtype, buffer=b, name=f"src {b}") for b in (SHARED, PRIVATE)]
        dsts = [nl.ndarray(x.shape, x.dtype, buffer=PRIVATE, name=f"dst {k}") for k in (0, 1)]
        for src in srcs:
            nisa.dma_copy(dst=src, src=x)
        ncc.all_reduce(srcs, dsts, ReplicaGroup([[0, 1]]), nl.add)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=dsts[1])
        return out

    arrays = given(2, (3, 4))
    if lnc == 2:
        with pytest.raises(BufferKindError, match="srcs has tensors in private_hbm and in shared"):
            neuroncore.run(two_memories, per_rank=[(x,) for x in arrays], lnc=lnc)
        return
    run = agreed(neuroncore.run(two_memories, per_rank=[(x,) for x in arrays], lnc=lnc))
    assert np.array_equal(run.results[0], arrays[0] + arrays[1])


# --- counts known at run time ---------------------------------------------------------------------


@nki.jit
def gathered(x, metadata, sent, received, told):
    """The dst and the metadata of each core, for src = x[core] and metadata = metadata[core]."""
    core, width = nl.program_id(0), x.shape[1]
    count = metadata.shape[-1]
    src = nl.ndarray((width,), x.dtype, buffer=sent, name="src")
    dst = nl.ndarray((4 * width,), x.dtype, buffer=received, name="dst")
    shape = (1, 3, count) if told is CHIP else (3, count)
    rows = nl.ndarray(shape, nl.uint32, buffer=told, name="rows")
    if core == 0 or sent is PRIVATE:
        nisa.dma_copy(dst=src, src=x[core])
    if core == 0 or told is not SHARED:
        nisa.dma_copy(dst=rows, src=metadata[core].reshape(shape))
    ncc.all_gather_v([src], [dst], ReplicaGroup([[0, 1, 2, 3]]), rows)
    out = nl.ndarray((2, 4 * width), x.dtype, buffer=nl.shared_hbm)
    counts = nl.ndarray((2, 3, count), nl.uint32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out[core], src=dst)
    nisa.dma_copy(dst=counts[core].reshape(shape), src=rows)
    return out, counts


@for_all("memory", [SHARED, PRIVATE])
@for_all("told", [SHARED, PRIVATE, CHIP])
def test_counts_of_each_core(memory, told):
    """Each core sends the elements that its own metadata selects, and receives its own counts."""
    arrays = given(4, (2, 4))
    rows = [np.zeros((2, 3, 4), np.uint32) for _ in range(4)]
    for rank, own in enumerate(rows):
        own[:, 0, 0] = 4
        if told is not SHARED and memory is PRIVATE:
            own[1, 0, 0], own[1, 1, 0] = 1 + rank % 2, rank
    for own in rows:
        own[1, 1, 0] = min(own[1, 1, 0], 4 - own[1, 0, 0])
    per_rank = [(x, r, memory, memory, told) for x, r in zip(arrays, rows, strict=True)]
    run = neuroncore.run(gathered, per_rank=per_rank, lnc=2, options=ZEROS)
    assert run.verify().difference is None
    for got, counts in run.results:
        for core in range(2):
            given_by = 0 if told is SHARED else core
            source = 0 if memory is SHARED else core
            want = np.zeros((4, 4), np.float32)
            for rank in range(4):
                count, begin = rows[rank][given_by, :2, 0]
                want[rank, :count] = arrays[rank][source, begin : begin + count]
                assert counts[core, 2, rank] == count
            assert np.array_equal(got[core], want.reshape(-1))


# --- figures and findings -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("memories", "copies", "moves"),
    [("shared", 0.5, (1, 0)), ("private", 1, (1, 1)), ("sbuf", 0, (0, 0)),
     ("private to shared", 1, (1, 1)), ("shared to private", 0.5, (1, 1))],
)  # fmt: skip
def test_the_bytes_of_a_collective_count_for_each_core_that_moves_data(memories, copies, moves):
    arrays = given(2, (2, 8, 6))
    per_rank = [(x, "collective_permute_implicit", *MEMORIES[memories], 8) for x in arrays]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "GROUPS", ((0, 1),))
        run = neuroncore.run(exchanged, per_rank=per_rank, lnc=2)
    size = 8 * 6 * 4
    for core, each in enumerate(run.summaries):
        on_chip = memories == "sbuf"
        assert each["hbm_write_bytes"] == size * (1 + copies + moves[core % 2])
        assert each["hbm_read_bytes"] == size * (
            on_chip + (not on_chip) * (1 + copies) + moves[core % 2]
        )


@for_all("memories", ["shared", "private", "shared to private"])
def test_a_race_of_the_cores_is_reported_only_for_tensors_that_they_share(memories):
    """Both cores write the whole source before the collective, and change it afterwards."""

    @nki.jit
    def changed(x, sent, received):
        core = nl.program_id(0)
        src = nl.ndarray(x.shape, x.dtype, buffer=sent, name="src")
        dst = nl.ndarray(x.shape, x.dtype, buffer=received, name="dst")
        if core == 0 or sent is PRIVATE:
            nisa.dma_copy(dst=src, src=x)
        ncc.all_reduce([src], [dst], ReplicaGroup([[0, 1]]), nl.add)
        if core == 1:
            nisa.dma_copy(dst=dst, src=x)
        out = nl.ndarray((2, *x.shape), x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out[core], src=dst)
        return out

    run = neuroncore.run(
        changed, per_rank=[(x, *MEMORIES[memories]) for x in given(2, (4, 4))], lnc=2
    )
    raced = [found for found in run.findings if found.code == "RACE"]
    assert bool(raced) == (memories == "shared")


@nki.jit
def rounded_sums(x, sent, received):
    """The dst of each core, for src = x[core], which is rounded to bfloat16. Each core writes its
    part of a shared src."""
    core, size = nl.program_id(0), x.shape[2]
    tile = nl.ndarray(x.shape[1:], nl.float32)
    rounded = nl.ndarray(x.shape[1:], nl.bfloat16)
    nisa.dma_copy(dst=tile, src=x[core])
    nisa.tensor_copy(dst=rounded, src=tile)
    src = nl.ndarray(x.shape[1:], nl.bfloat16, buffer=sent, name="src")
    dst = nl.ndarray(x.shape[1:], nl.bfloat16, buffer=received, name="dst")
    mine = slice(core * size // 2, (core + 1) * size // 2) if sent is SHARED else slice(0, size)
    nisa.dma_copy(dst=src[:, mine], src=rounded[:, mine])
    ncc.all_reduce([src], [dst], ReplicaGroup(GROUPS), nl.add)
    out = nl.ndarray(x.shape, nl.bfloat16, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out[core], src=dst)
    return out


@for_all("memories", [*MEMORIES])
def test_the_float64_evaluation_exchanges_the_data_of_each_core(memories):
    sent, received = MEMORIES[memories]
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((2, 5, 8)).astype(np.float32) for _ in range(4)]
    if sent is SHARED:  # both cores have the same data in the end
        arrays = [np.stack([np.concatenate([x[0, :, :4], x[1, :, 4:]], 1)] * 2) for x in arrays]
    per_rank = [(x, sent, received) for x in arrays]
    run = neuroncore.run(rounded_sums, per_rank=per_rank, lnc=2, options=Options(precision=True))
    errors = []
    for rank, got in enumerate(run.results):
        group = next(ranks for ranks in GROUPS if rank in ranks)
        want = sum(arrays[other].astype(np.float64) for other in group)
        if received is SHARED:
            want = want[[1, 1]]
        errors.append(np.linalg.norm(got.astype(np.float64) - want) / np.linalg.norm(want))
    found = [result.rel_l2 for result in run.precision.results]
    assert found == pytest.approx(errors, rel=1e-9)
