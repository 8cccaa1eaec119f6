"""Programs from seeds."""

from __future__ import annotations

from dataclasses import replace

from bench.programs import (
    choices,
    cores,
    elementwise,
    folds,
    masks,
    nests,
    older,
    products,
    repeats,
    transfers,
)
from bench.programs.maker import Maker
from bench.programs.program import Program

FAMILIES = (elementwise, folds, choices, products, transfers, repeats)
OF_OLDER = (*older.STEPS, *masks.STEPS)
STEPS = [*(step for family in FAMILIES for step in family.STEPS), *cores.PLACES]
OLDER = 0.25  # of all programs
NESTS = 0.3  # of those, which take as long as several of the others
GRIDS = 0.25  # of those, which several programs of a grid run
OPTIONS = (
    *({"stochastic": True}, {"fp32_matmul": "four_pass"}, {"collective_rounding": "ring"}),
    *({"nan_minmax": "number"}, {"fn_overflow": "saturate"}, {"subnormals": "flush"}),
    *({"uninitialized": "zeros"}, {"turns": 7}, {"rng": "hardware"}, {"tf32_read": "truncate"}),
    *({"stochastic": True, "stochastic_bits": 9, "stochastic_seed": 5}, {"rng_seed": 77}),
    *({"collective_rounding": "mesh"}, {"rings": 3}, {"mx_order": "chain"}, {"mx_scale": "ocp"}),
)


def generate(seed: int) -> Program:
    """The program of a seed."""
    maker = Maker(seed)
    if maker.chance(OLDER):
        return _older(maker)
    draw = maker.random.random()
    if draw < 0.09 and maker.target != "trn1":
        maker.cores = 2
        return _made(maker, cores.TWO_CORES, 2)
    if draw < 0.17:
        return _made(maker, _ranks(maker), maker.between(1, 3))
    return _made(maker, (), 0)


def _older(maker: Maker) -> Program:
    """A program of the older API."""
    tiles = older.Tiles(maker)
    if maker.chance(GRIDS):
        maker.programs = maker.between(2, 3)
        maker.say("g = nl.program_id(0)", makes="g")
    if maker.chance(NESTS):
        maker.choose(nests.STEPS)(tiles)
        return replace(maker.program(), dialect="older")
    for step in maker.random.choices(*zip(*OF_OLDER), k=maker.between(2, 6)):
        step(tiles)
    for one in tiles.made[-3:]:
        older.stored(tiles, one)
    return replace(maker.program(), dialect="older")


def _ranks(maker: Maker) -> tuple:
    """Let several ranks run it; what they may do together."""
    if maker.target != "trn1" and maker.chance(0.4):
        maker.cores, maker.ranks = 2, 4
        if maker.target == "trn3" and maker.chance(0.5):
            maker.ranks = 8
        return cores.RANKS_OF_TWO
    maker.ranks = maker.choose((2, 2, 4))
    return cores.RANKS_OF_ONE


def _made(maker: Maker, special: tuple, count: int) -> Program:
    """A program of usual steps, and of `special` ones among them."""
    if maker.chance(0.15):
        maker.options |= maker.choose(OPTIONS)
    if maker.cores > 1:
        maker.say("core = nl.program_id(0)", makes="core")
    usual = maker.between(1, 4) if special else maker.between(2, 7)
    steps = maker.random.choices(*zip(*STEPS), k=usual)
    if special:
        steps += maker.random.choices(*zip(*special), k=count)
        maker.random.shuffle(steps)
    for step in steps:
        step(maker)
    maker.returned()
    return maker.program()
