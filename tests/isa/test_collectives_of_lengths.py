"""Collectives with lengths that are known at run time, compared with numpy, and lengths that exceed
the space."""

import nki.collectives as ncc
import numpy as np
import pytest
from collective_worlds import ALL, given, lengths, same, with_lengths

import neuroncore
from neuroncore.base.errors import OutOfBoundsError, SignatureError


@pytest.mark.parametrize("known", [False, True])
def test_a_gather_of_lengths_known_at_run_time(known):
    arrays = [np.arange(10, dtype=np.float32) + 100 * rank for rank in range(4)]
    counts, begins = (3, 0, 5, 1), (2, 9, 5, 0)
    rows = [np.zeros((3, 4), np.uint32) + 9 for _ in range(4)]
    for rank in range(4):
        rows[rank][:2, 0] = counts[rank], begins[rank]
    run = lengths(ncc.all_gather_v, arrays, rows, 20, ALL, known)
    assert run.verify().difference is None
    got, told = run.results[0]
    assert got.tolist() == [2, 3, 4, *[0] * 7, *range(205, 210), 300, *[0] * 4]
    assert told[2].tolist() == ([9] * 4 if known else list(counts)) and same(told[:2], rows[0][:2])
    for both in zip(run.results, run.replay(), strict=True):
        assert all(map(same, *both))


def test_an_exchange_of_lengths_known_at_run_time():
    """trn2 only has this between servers, where ranks 0, 64 and so on would be many; on trn3, whole
    chips behind switches exchange."""
    arrays = [np.arange(64, dtype=np.float32) + 100 * rank for rank in range(8)]
    counts = np.random.default_rng(0).integers(0, 9, (8, 8))
    rows = [np.array([own, np.arange(8) * 8, [0] * 8], np.uint32) for own in counts]
    run = lengths(ncc.all_to_all_v, arrays, rows, 8 * 9, [[*range(8)]], target="trn3")
    assert run.verify().difference is None
    assert [told[2].tolist() for _, told in run.results] == counts.T.tolist()


def test_the_receiver_can_give_places():
    arrays = [np.arange(16, dtype=np.float32) + 100 * rank for rank in range(8)]
    rows = [np.zeros((4, 8), np.uint32) for _ in range(8)]
    for own in rows:
        own[0], own[1], own[3] = 2, np.arange(8) * 2, np.arange(8)[::-1] * 2
    run = lengths(ncc.all_to_all_v, arrays, rows, 16, [[*range(8)]], displaced=True, target="trn3")
    for rank, (got, _) in enumerate(run.results):
        want = np.concatenate([arrays[o][2 * rank : 2 * rank + 2] for o in reversed(range(8))])
        assert same(got, want)


@pytest.mark.parametrize(
    ("count", "begin", "why"),
    [(6, 0, "more elements than dst of rank 0"), (2, 9, "beyond the end of its src")],
)
def test_lengths_that_exceed_the_space_are_refused(count, begin, why):
    arrays = given(4, (10,))
    rows = [np.zeros((3, 4), np.uint32) for _ in range(4)]
    rows[2][:2, 0] = count, begin
    with pytest.raises(OutOfBoundsError, match=f"rank 2 sends .*{why}"):
        lengths(ncc.all_gather_v, arrays, rows, 20, ALL)


@pytest.mark.parametrize(
    ("call", "ranks", "group", "target", "displaced", "why"),
    [
        (ncc.all_gather_v, 4, [[0, 1], [2, 3]], None, False, "ranks of one chip"),
        (ncc.all_gather_v, 8, [[0, 1, 4, 5], [2, 3, 6, 7]], None, False, "ranks of one chip"),
        (ncc.all_gather_v, 4, ALL, None, True, "has_rdispls must be False"),
        (ncc.all_to_all_v, 4, ALL, None, True, "has_rdispls must be False"),
        (ncc.all_to_all_v, 4, ALL, None, False, "same place in different servers"),
        (ncc.all_to_all_v, 4, ALL, "trn3", False, "all ranks of several chips"),
        (
            ncc.all_to_all_v,
            8,
            [[0, 1, 2, 4], [3, 5, 6, 7]],
            "trn3",
            False,
            "ranks of several chips",
        ),
    ],
)
def test_invalid_groups_with_lengths_are_refused(call, ranks, group, target, displaced, why):
    arrays, n = [np.ones(16, np.float32)] * ranks, len(group[0])
    rows = [np.zeros((4 if displaced else 3, n), np.uint32)] * ranks
    with pytest.raises(SignatureError, match=why):
        lengths(call, arrays, rows, 16, group, displaced=displaced, target=target)


def test_the_group_that_a_gather_of_lengths_needs_has_the_ranks_of_two_cores():
    """A chip has eight ranks of one core each, but the collective needs four of two cores each."""
    x, rows = np.ones(16, np.float32), np.zeros((3, 4), np.uint32)
    arguments = x, rows, 16, ncc.all_gather_v, ncc.ReplicaGroup(ALL), False, False
    with pytest.raises(SignatureError) as caught:
        neuroncore.run(with_lengths, per_rank=[arguments] * 4, lnc=1)
    assert "all 4 ranks of one chip, with 2 cores each" in str(caught.value)
    assert "ranks 0 to 3, with 1 core each" in str(caught.value)
