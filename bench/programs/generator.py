"""The generator: a program for each seed."""

from __future__ import annotations

from dataclasses import replace

from bench.programs import (
    calls,
    choices,
    cores,
    elementwise,
    folds,
    functions,
    loops,
    masks,
    nests,
    older,
    options,
    parts,
    products,
    repeats,
    transfers,
    translated,
    turns,
)
from bench.programs.draws import Draws
from bench.programs.maker import Maker
from bench.programs.program import Program
from bench.programs.translated import OlderMaker

FAMILIES = (
    elementwise,
    folds,
    choices,
    products,
    transfers,
    repeats,
    loops,
    turns,
    functions,
    parts,
)
OF_OLDER = (*older.STEPS, *calls.STEPS, *masks.STEPS, *translated.STEPS)
STEPS = [*(step for family in FAMILIES for step in family.STEPS), *cores.PLACES]
NESTS = 0.33  # share of older programs with nested loops, which take several times as long
GRIDS = 0.25  # share of older programs that are launched on a grid
FEW, ALL = 3, 20  # the largest numbers of results
LOOPS_LAST = 0.02  # share of programs that end with a loop
ALL_RETURNED = 0.2  # share of programs that return everything that they have computed


def generate(seed: int) -> Program:
    """Return the program of a seed."""
    if Draws(seed).is_older:
        return _older(OlderMaker(seed))
    maker = Maker(seed)
    draw = maker.random.random()
    if draw < 0.11 and maker.target != "trn1":
        maker.cores = 2
        return _made(maker, cores.TWO_CORES, 2)
    if draw < 0.19:
        special = _ranks(maker)
        return _made(maker, special, 1 if maker.ranks > 4 else maker.between(1, 3))
    return _made(maker, (), 0)


def _older(maker: Maker) -> Program:
    """Return a program of the older API."""
    tiles = older.Tiles(maker)
    if maker.chance(GRIDS):
        maker.programs = maker.between(2, 3)
        maker.say("g = nl.program_id(0)", makes="g")
    if maker.chance(NESTS):
        maker.choose(nests.STEPS)(tiles)
        return _ended(maker)
    for step in maker.random.choices(*zip(*OF_OLDER), k=maker.between(2, 6)):
        step(tiles)
    for one in tiles.made[-3:]:
        older.stored(tiles, one)
    maker.returned()
    return _ended(maker)


def _ranks(maker: Maker) -> tuple:
    """Choose several ranks for the program, and return the steps that these ranks can do
    together."""
    if maker.target != "trn1" and maker.chance(0.4):
        maker.cores, maker.ranks = 2, 4
        if maker.target == "trn3" and maker.chance(0.75):
            maker.ranks = 8
            return cores.MANY_RANKS
        return cores.RANKS_OF_TWO
    maker.ranks = maker.choose((2, 2, 4))
    return cores.RANKS_OF_ONE


def _made(maker: Maker, special: tuple, count: int) -> Program:
    """Return a program of usual steps, with `count` of the `special` steps among them."""
    if maker.cores > 1:
        maker.say("core = nl.program_id(0)", makes="core")
    # programs on several cores take long
    most = 1 if maker.ranks > 4 else 2 if maker.ranks > 2 else 4
    usual = maker.between(1, most) if special else maker.between(2, 7)
    steps = maker.random.choices(*zip(*STEPS), k=usual)
    if special:
        steps += maker.random.choices(*zip(*special), k=count)
        maker.random.shuffle(steps)
    for step in steps:
        step(maker)
    maker.returned(ALL if maker.chance(ALL_RETURNED) else FEW)
    if maker.chance(LOOPS_LAST):
        turns.at_the_end(maker)
    return _ended(maker)


def _ended(maker: Maker) -> Program:
    """Return the program that the maker has made, with launch options that affect its
    instructions."""
    made = maker.program()
    found = {**options.drawn(maker, made.kernel_source()), **maker.options}
    return replace(made, launch=replace(made.launch, options=found))
