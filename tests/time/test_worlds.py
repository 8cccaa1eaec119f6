"""The cause of the time of several ranks: each planted cause is named."""

from pathlib import Path

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki.collectives import ReplicaGroup

from neuroncore import run
from neuroncore.report.collectives import slowest_core

RANKS = 4
LINES = Path(__file__).read_text().splitlines()
(AT,) = (n for n, line in enumerate(LINES, 1) if line.strip().startswith("nisa.tensor_scalar"))
HERE = f"test_worlds.py:{AT}"
GROUP = ReplicaGroup([[0, 1, 2, 3]])
SMALL, LARGE = np.ones((128, 512), np.float32), np.ones((128, 16384), np.float32)


@nki.jit
def world(x, work, rounds, same_tile):
    """Each of some rounds has work on a tile, then its sum over ranks."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, x)
    for i in range(rounds):
        src, dst = (
            nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name=f"{n}{i}") for n in "sd"
        )
        for _ in range(work[i % len(work)]):
            if same_tile:
                nisa.dma_copy(tile, x)
            nisa.tensor_scalar(tile, tile, nl.add, 1.0, engine=nisa.engine.vector)
        nisa.dma_copy(src, tile)
        ncc.all_reduce([src], [dst], GROUP, nl.add)
        nisa.dma_copy(tile, dst)
    nisa.dma_copy(out, tile)
    return out


@nki.jit
def straight(x):
    src, dst = (nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name=n) for n in "sd")
    nisa.dma_copy(src, x)
    ncc.all_reduce([src], [dst], GROUP, nl.add)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, dst)
    return out


def asked(x, work, rounds=1, same_tile=False):
    """Ask for the cause; `work` gives the iterations of a rank in each round."""
    given = [(x, work(rank), rounds, same_tile) for rank in range(RANKS)]
    return run(world, per_rank=given, target="trn2").why()


@pytest.mark.parametrize(
    ("given", "bound", "words", "helps"),
    [
        ((SMALL, lambda rank: [300 if rank == 2 else 2]), "rank 2", HERE, "rank 2"),
        ((SMALL, lambda rank: [0], 6), "collective latency", "6 all_reduces", "collectives"),
        ((SMALL, lambda rank: [100 * (i == rank) for i in range(4)], 4), "imbalance", HERE,
         HERE),
        ((SMALL, lambda rank: [150]), "serial chain", "Vector", "collectives"),
        ((SMALL, lambda rank: [24], 1, True), "serial chain", "`tile` (SBUF)", "collectives"),
    ],
    ids=["late", "many", "unequal", "compute", "space"],
)  # fmt: skip
def test_a_planted_cause_is_named(given, bound, words, helps):
    found = asked(*given)
    answers = found.answers
    assert answers.bound.what == bound and words in answers.sentence
    assert answers.world[0].what == helps
    shares = sum(line.ns for line in found.lines)
    assert shares == pytest.approx(1e9 * found.estimate.seconds)  # one path through all ranks


def test_links_are_named():
    answers = run(straight, per_rank=[(LARGE,)] * RANKS, target="trn2").why().answers
    assert answers.bound.what == "collective bandwidth" and "move fewer bytes" in answers.sentence
    assert [one.what for one in answers.world[:2]] == ["collectives", "links"]


def test_run_and_why_name_the_same_rank():
    late = run(world, per_rank=[(SMALL, [200 * (r == 1)], 1, False) for r in range(RANKS)])
    core = slowest_core(late.timelines, late.collectives)
    assert late.why().number == core == 1 and "rank 1" in late.why().answers.sentence
