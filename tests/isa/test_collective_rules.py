"""Refusals of collectives, and ranks that are missing or issue another collective."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from collective_worlds import ALL, X4, in_hbm, ran, refused, same, through_hbm, through_sbuf
from every import for_all
from nki.collectives import ReplicaGroup

import neuroncore
from neuroncore.base.errors import (
    BufferKindError,
    DeadlockError,
    DtypeError,
    KernelError,
    OperatorError,
    ShapeError,
    SignatureError,
    TargetError,
)


@pytest.mark.parametrize(
    ("groups", "why"),
    [
        ([[0, 1], [1, 2, 3]], "each rank must occur at most once"),
        ([[0, 1, 2, 3], []], "no list may be empty"),
        ([[0, 1, 2, 4]], "replica_group has rank 4"),
        ([[0, 1, 2]], "replica_group does not have rank 3, which calls the collective"),
    ],
)
def test_invalid_groups_are_refused(groups, why):
    refused(SignatureError, why, through_hbm, X4, (4, 2), ncc.all_reduce, groups, op=nl.add)


def test_other_invalid_arguments_of_collectives_are_refused():
    reduce = (ncc.all_reduce, ALL)
    refused(
        ShapeError,
        "as many elements as its tensor of srcs",
        through_hbm,
        X4,
        (4, 3),
        *reduce,
        op=nl.add,
    )
    refused(OperatorError, "not an operator", through_hbm, X4, (4, 2), *reduce, op=nl.multiply)
    refused(TargetError, "priorities", through_hbm, X4, (4, 2), *reduce, op=nl.add, priority=1)
    ran(through_hbm, X4, (4, 2), *reduce, op=nl.add, priority=1, target="trn3")
    refused(
        SignatureError, "priority can't be 4", through_hbm, X4, (4, 2), *reduce, op=nl.add,
        priority=4, target="trn3",
    )  # fmt: skip
    gather = (ncc.all_gather, ALL)
    refused(
        ShapeError, "collective_dim can't be 1", through_hbm, X4, (4, 8), *gather, collective_dim=1
    )
    refused(
        ShapeError,
        "the size of its tensor of srcs times",
        through_sbuf,
        X4,
        (4, 8),
        *gather,
        collective_dim=0,
    )
    refused(
        SignatureError, "have equal lengths", through_hbm, X4, (8, 2), ncc.all_gather,
        [[0, 1], [2, 3, 4]], collective_dim=0,
    )  # fmt: skip
    scatter = {"collective_dim": 1, "op": nl.add}
    refused(ShapeError, "be 1", through_hbm, X4, (4, 2), ncc.reduce_scatter, ALL, **scatter)
    refused(
        BufferKindError, "must be in hbm", through_sbuf, X4, (4, 2), ncc.all_to_all, ALL,
        collective_dim=0,
    )  # fmt: skip
    refused(
        BufferKindError, "must be in hbm", through_sbuf, X4, (4, 2), ncc.collective_permute,
        [[0, 1], [1, 0]],
    )  # fmt: skip
    refused(
        SignatureError, "the source, or the target, of two pairs", through_hbm, X4, (4, 2),
        ncc.collective_permute, [[0, 1], [2, 1]],
    )  # fmt: skip


def test_four_ranks_of_trn1_are_neighbors():
    arrays = [np.ones((4, 2), np.float32)] * 8
    apart, near = ([[0, 2, 4, 6], [1, 3, 5, 7]], [[0, 1, 2, 3], [4, 5, 6, 7]])
    given = {"op": nl.add, "target": "trn1"}
    ran(through_hbm, arrays, (4, 2), ncc.all_reduce, near, **given)
    refused(
        SignatureError,
        "are not adjacent",
        through_hbm,
        arrays,
        (4, 2),
        ncc.all_reduce,
        apart,
        **given,
    )


@for_all(
    ("srcs", "dsts", "kind", "why"),
    [
        ("s", "h", BufferKindError, "all tensors must be in hbm, or all in sbuf"),
        ("ss", "ss", BufferKindError, "all of them must be in hbm"),
        ("h", "hh", SignatureError, "equally many tensors"),
        ("", "", SignatureError, "equally many tensors"),
        ("h", "b", DtypeError, "the format of its tensor of srcs"),
        ("x", "h", BufferKindError, "an argument of the kernel"),
        ("h", "x", BufferKindError, "an argument of the kernel"),
        ("3", "3", ShapeError, "one free axis"),
        ("p", "p", BufferKindError, "must be in hbm or sbuf, not in psum"),
    ],
)
def test_invalid_tensors_of_collectives_are_refused(srcs, dsts, kind, why):
    @nki.jit
    def some(x, group):
        made = {
            "s": nl.ndarray((4, 2), x.dtype, buffer=nl.sbuf),
            "h": in_hbm((4, 2), x.dtype, "h"),
            "b": in_hbm((4, 2), nl.bfloat16, "b"),
            "3": nl.ndarray((4, 2, 1), x.dtype, buffer=nl.sbuf),
            "p": nl.ndarray((4, 2), nl.float32, buffer=nl.psum),
            "x": x,
        }
        ncc.all_reduce([made[n] for n in srcs], [made[n] for n in dsts], group, nl.add)

    with pytest.raises(kind, match=why):
        neuroncore.run(some, per_rank=[(x, ReplicaGroup([[0, 1]])) for x in X4[:2]])


@pytest.mark.parametrize("returned", ["src", "dst", "out"])
def test_results_of_collectives_must_be_tensors_of_the_kernel(returned):
    @nki.jit
    def some(x, group):
        made = {n: in_hbm(x.shape, x.dtype, n) for n in ("src", "dst", "out")}
        nisa.dma_copy(dst=made["src"], src=x)
        ncc.all_reduce([made["src"]], [made["dst"]], group, nl.add)
        nisa.dma_copy(dst=made["out"], src=made["dst"])
        return made[returned]

    per_rank = [(x, ReplicaGroup([[0, 1]])) for x in X4[:2]]
    if returned == "out":
        assert not neuroncore.run(some, per_rank=per_rank).findings
        return
    with pytest.raises(BufferKindError, match="a result of the kernel") as told:
        neuroncore.run(some, per_rank=per_rank)
    assert "ncc.all_reduce" in told.value.place.text


@pytest.mark.parametrize(
    ("buffer", "name", "codes"),
    [
        (nl.shared_hbm, "", {"NO_NAME"}),
        (nl.shared_hbm, "t", set()),
        (nl.private_hbm, "", set()),
        (nl.sbuf, "", set()),
    ],
)
def test_a_tensor_in_shared_hbm_has_a_name(buffer, name, codes):
    @nki.jit
    def some(x, group):
        src, dst = (nl.ndarray(x.shape, x.dtype, buffer=buffer, name=name and name + n)
                    for n in "sd")  # fmt: skip
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=src, src=x)
        ncc.all_reduce([src], [dst], group, nl.add)
        nisa.dma_copy(dst=out, src=dst)
        return out

    run = neuroncore.run(some, per_rank=[(x, ReplicaGroup([[0, 1]])) for x in X4[:2]])
    assert {found.code for found in run.findings} == codes


@pytest.mark.parametrize(
    ("channels", "why"),
    [
        ([1], "channel_ids must be 0, 1, 2"),
        ([0, 2], "channel_ids must be 0, 1, 2"),
        ([0, 1, 2], r"(?s)has 2 channels.*channels 0 to 1\n"),
    ],
)
def test_invalid_channels_are_refused(channels, why):
    @nki.jit
    def some(x, group):
        srcs, dsts = ([[in_hbm((4, 2), x.dtype, f"{n}{c}")] for c in channels] for n in "sd")
        for (src,) in srcs:
            nisa.dma_copy(dst=src, src=x)
        ncc.collective_permute_implicit(srcs, dsts, group, channel_ids=channels)

    with pytest.raises(SignatureError, match=why):
        neuroncore.run(some, per_rank=[(x, ReplicaGroup([[0, 1]])) for x in X4[:2]])


def meets(x, rank, calls, group):
    src, dst = in_hbm(x.shape, x.dtype, "src"), in_hbm((len(group.groups[0]) * 4, 2), x.dtype, "d")
    small = in_hbm(x.shape, x.dtype, "small")
    nisa.dma_copy(dst=src, src=x)
    call = calls(rank)
    if call == "reduce":
        ncc.all_reduce([src], [small], group, nl.add)
    elif call == "largest":
        ncc.all_reduce([src], [small], group, nl.maximum)
    elif call == "gather":
        ncc.all_gather([src], [dst], group, 0)


@pytest.mark.parametrize(
    ("calls", "kind", "why"),
    [
        (
            lambda rank: "" if rank == 63 else "reduce", DeadlockError,
            r"ranks 0 to 62 wait for rank 63 at all_reduce \(.*test_collective_rules.py:\d+\), but "
            "rank 63 has ended",
        ),
        (
            lambda rank: "gather" if rank == 5 else "reduce", DeadlockError,
            r"ranks 0 to 4, 6 to 63 wait for rank 5 at all_reduce \(.*\), but rank 5 waits at "
            r"all_gather \(.*:\d+\); rank 5 waits for ranks 0 to 4, 6 to 63 at all_gather",
        ),
        (
            lambda rank: "largest" if rank == 7 else "reduce", KernelError,
            "all_reduce: rank 7 and rank 0 have different values of op",
        ),
    ],
)  # fmt: skip
def test_a_rank_that_issues_another_collective_is_refused(calls, kind, why):
    group = ReplicaGroup([[*range(64)]])
    per_rank = [(X4[0], rank, calls, group) for rank in range(64)]
    with pytest.raises(kind, match=why):
        neuroncore.run(meets, per_rank=per_rank)


def test_different_groups_on_ranks_are_refused():
    def groups(rank):
        return ReplicaGroup([[0, 1], [2, 3]] if rank == 0 else [[0, 1, 2, 3]])

    per_rank = [(x, rank, lambda _: "reduce", groups(rank)) for rank, x in enumerate(X4)]
    with pytest.raises(
        DeadlockError,
        match=r"rank 0 waits for rank 1 at all_reduce .* waits? at all_reduce of ranks 0 to 3",
    ):
        neuroncore.run(meets, per_rank=per_rank)
    per_rank = [
        (x, rank, lambda _: "reduce", ReplicaGroup([[0, 1, 2, 3] if rank else [1, 0, 2, 3]]))
        for rank, x in enumerate(X4)
    ]
    with pytest.raises(KernelError, match="different values of replica_group"):
        neuroncore.run(meets, per_rank=per_rank)


def test_a_rank_is_in_sixteen_groups_at_most():
    @nki.jit
    def many(x, rank, count):
        src, dst = (in_hbm(x.shape, x.dtype, n) for n in ("src", "dst"))
        nisa.dma_copy(dst=src, src=x)
        for k in range(count):
            ranks = [r for r in range(32) if r < k + 2]
            if rank in ranks:
                ncc.all_reduce([src], [dst], ReplicaGroup([ranks]), nl.add)

    per_rank = [(X4[0], rank, 16) for rank in range(32)]
    neuroncore.run(many, per_rank=per_rank)
    with pytest.raises(SignatureError, match="in more than 16 replica groups"):
        neuroncore.run(many, per_rank=[(x, rank, 17) for x, rank, _ in per_rank])


def test_on_one_rank_a_collective_is_a_copy():
    x = np.ones((4, 2), np.float32)
    result = through_hbm(x, (4, 2), ncc.all_reduce, ReplicaGroup([[0]]), {"op": nl.add})
    assert same(result, x)
    with pytest.raises(SignatureError, match="the kernel runs on 1 rank"):
        through_hbm(x, (4, 2), ncc.all_reduce, ReplicaGroup([[0, 1]]), {"op": nl.add})
