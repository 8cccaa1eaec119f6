"""Issue random calls of every instruction on every machine. Each call must be legal, or be refused
with a sentence.

    python bench/fuzz.py [COUNT] [SEED]

Each call is made from a legal call of the tests (tests/calls.py). Most calls are then changed: they
get other data, another view or another argument, or an argument is added or removed. A refused call
must raise an error of neuroncore that can be printed as JSON, and must not change its tiles, the
core or the record. The script prints how many calls of each instruction were legal and how many
were refused. It prints every fault with an expression that repeats the call. The exit code is 1 if
there is a fault, or if less than a third of the calls are legal.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import neuroncore

neuroncore.activate()
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import nki.isa as nisa
import nki.language as nl
from accepted import accepted
from calls import ONE_CORE, Case
from device import TARGETS, Device

from neuroncore.base.errors import KernelError, NeuronError, NotEmulated
from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.core.core import nothing
from neuroncore.core.replica_groups import chip_ranks, instance
from neuroncore.core.system import Parcel
from neuroncore.frontend.issue import function
from neuroncore.machine.world import World
from neuroncore.memory.register import VirtualRegister
from neuroncore.memory.tile import Tile

CALLS = 100  # changed calls per instruction, format and machine in a round
SLOW_SECONDS = 5.0
# shares of calls: unchanged, only other data; in the rest, arguments change
AS_IT_IS, OTHER_DATA = 0.2, 0.5
NUMBERS = (
    *(None, True, False, -1, 0, 1, 2, 7, 128, 1 << 31, -(1 << 31), 1 << 70),
    *(0.5, -0.0, 1e39, float("nan"), float("inf"), np.float32(2), np.int64(3)),
)
OBJECTS = (
    *("", "vector", b"x", [], (), {}, [0], [[1, 4]], [[0, 1], [2, 3]], (0, 1), [None], object, 1j),
    *(nl.float32, "bfloat16", nl.add, nl.exp, nl.sbuf, nisa.engine.vector, nisa.engine.gpsimd),
    *(nisa.reduce_cmd.idle, nisa.dge_mode.hwdge, nisa.oob_mode.skip, np.zeros(3)),
)


class Made(NamedTuple):
    """A call of an instruction: its name, its positional arguments, and its arguments by name."""

    name: str
    positional: tuple[Any, ...]
    named: dict[str, Any]

    def tiles(self) -> Iterator[Tile]:
        """Yield the tiles among the arguments, also those in lists."""
        for value in (*self.positional, *self.named.values()):
            for one in value if isinstance(value, list | tuple) else [value]:
                if isinstance(one, Tile):
                    yield one

    def __str__(self) -> str:
        given = [*map(repr, self.positional), *(f"{n}={v!r}" for n, v in self.named.items())]
        return f"{self.name}({', '.join(given)})"


class Fault(Exception):
    """A call had an effect that no call may have."""


@dataclass
class Tally:
    """The numbers of legal and refused calls of each instruction, and the texts of the faults."""

    legal: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    @property
    def calls(self) -> int:
        return self.legal.total() + self.refused.total() + len(self.faults)


# --- legal calls ----------------------------------------------------------------------------------


class Alike:
    """A substitute for the other cores with which the tested core meets. They provide the same data
    as the tested core, and the tested core receives the tile that it sends."""

    def meet(
        self, number: int, point: Any, value: Any, then: Callable[..., None] = nothing
    ) -> dict[int, Any]:
        sent = replace(value, to=number) if isinstance(value, Parcel) else value
        values = dict.fromkeys(point.cores, sent)
        then(values)
        return values


class Recording(Device):
    """A device that also keeps the calls that it issues."""

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self.made: list[Made] = []

    def among(self, ranks: int, cores: int) -> None:
        """Make the core the first of a world with this number of ranks, and this number of cores
        per rank."""
        self.core.peers, self.core.world = Alike(), World(ranks, cores)

    def issue(self, name: str, *args: Any, **kwargs: Any) -> None:
        self.made.append(Made(name, args, kwargs))
        super().issue(name, *args, **kwargs)


Seed = Callable[[Recording, str], None]


def alone(name: str) -> Seed:
    """Return a function that issues legal calls of an instruction that needs no other core."""

    def issue(device: Recording, form: str) -> None:
        for turn in range(3):
            Case(device, name, form, turn=turn).issue()

    return issue


def filled(device: Recording, form: str, shape: tuple[int, ...], buffer: str = "hbm") -> Any:
    return Case(device, "dma_copy", form).tile(shape, buffer=buffer)


def barrier(device: Recording, form: str) -> None:
    device.among(1, 2)
    device.issue("core_barrier", filled(device, form, (33, 15)), (0, 1))


def exchange(device: Recording, form: str) -> None:
    device.among(1, 2)
    src = filled(device, form, (33, 15), "sbuf")
    device.issue("sendrecv", src, device.empty(src.shape, form), 1, 1, 0)


def mesh(device: Recording, form: str) -> None:
    group = range(chip_ranks(device.core))
    device.among(len(group), 1)
    shape = (2 * len(group), 3)
    src = filled(device, form, shape)
    device.issue("all_to_all", [src], [device.empty(shape, form, "hbm")], [[*group]], 0)


def gather_of_lengths(device: Recording, form: str) -> None:
    device.among(1, 2)
    _of_lengths(device, form, "all_gather_v", range(chip_ranks(device.core)))


def exchange_of_lengths(device: Recording, form: str) -> None:
    device.among(1, 2)
    each, where = chip_ranks(device.core), instance(device.core)
    per_server = each * where.chips_per_server
    switched = where.topology.kind == "switched"
    group = range(2 * each) if switched else range(0, 2 * per_server, per_server)
    _of_lengths(device, form, "all_to_all_v", group)


def _of_lengths(device: Recording, form: str, name: str, group: range) -> None:
    """Issue calls of a collective with variable lengths, which send two elements to each rank of a
    group, from the beginning of src. The call is issued eight times, because changes of its
    metadata are mostly illegal."""
    device.among(group[-1] + 1, 2)
    src = filled(device, form, (12,))
    dst = device.empty((5 * len(group),), form, "hbm")
    rows = np.zeros((3, len(group)), np.uint32)
    rows[0] = 2
    for known in (False, True) * 4:
        device.issue(name, [src], [dst], [[*group]], device.tile(rows, buffer="hbm"), known)


SEEDS: dict[str, Seed] = {
    **{name: alone(name) for name in ONE_CORE},
    "core_barrier": barrier,
    "sendrecv": exchange,
    "all_to_all": mesh,
    "all_gather_v": gather_of_lengths,
    "all_to_all_v": exchange_of_lengths,
}


def seeds(target: str) -> list[tuple[str, str]]:
    """Return pairs for the instructions that a machine has: the name of an instruction, and a
    format that one of its operands may have."""
    found = [(name, form) for name in SEEDS for form in _forms(name, target)]
    assert {name for name, _ in found} <= {*INSTRUCTIONS}
    return found


def _forms(name: str, target: str) -> list[str]:
    has_tiles = any(p.operand for p in INSTRUCTIONS[name].operands)
    return [str(form) for form in accepted(name, target)] if has_tiles else ["float32"]


# --- changes --------------------------------------------------------------------------------------


def changed(made: Made, pool: list[Tile], rng: np.random.Generator) -> Made:
    """Return the call unchanged, with other data, or with one or two other arguments."""
    draw = rng.random()
    if draw < AS_IT_IS:
        return made
    if draw < OTHER_DATA:
        return _other_data(made, rng)
    for _ in range(rng.choice([1, 1, 1, 2])):
        made = _other_arguments(made, pool, rng)
    return made


def _other_data(made: Made, rng: np.random.Generator) -> Made:
    """Return the call after random bits were written to some of its tiles. Tiles at explicit
    addresses are left out."""
    for tile in made.tiles():
        data = tile.storage.data
        if tile.storage.image is None and rng.random() < 0.5:
            data[: len(data)] = rng.integers(0, 256, len(data), np.uint8)
    return made


def _other_arguments(made: Made, pool: list[Tile], rng: np.random.Generator) -> Made:
    positional, named = list(made.positional), dict(made.named)
    places = [*range(len(positional)), *named]
    if not places or rng.random() < 0.08:
        # an argument that is given by position can't be given by name too
        free = [p.name for p in INSTRUCTIONS[made.name].parameters[len(positional) :]]
        named[str(rng.choice([*free, "bogus"]))] = _value(pool, rng)
        return Made(made.name, tuple(positional), named)
    place = places[rng.integers(len(places))]
    if rng.random() < 0.05:
        if isinstance(place, int):
            del positional[place:]
        else:
            del named[place]
        return Made(made.name, tuple(positional), named)
    into: Any = positional if isinstance(place, int) else named
    into[place] = _instead(into[place], pool, rng)
    return Made(made.name, tuple(positional), named)


def _instead(value: Any, pool: list[Tile], rng: np.random.Generator) -> Any:
    """Return another value for an argument, similar to `value` or not."""
    near = rng.random() < 0.6
    if isinstance(value, Tile) and near:
        return _view(value, rng)
    if isinstance(value, bool | None) and near:
        return bool(rng.integers(2))
    if isinstance(value, float) and near:
        return float(rng.normal())
    if isinstance(value, int) and near:
        return value + int(rng.integers(-2, 3))
    if isinstance(value, list | tuple) and value and near:
        items = list(value)
        at = rng.integers(len(items))
        items[at] = _instead(items[at], pool, rng)
        return items if rng.random() < 0.7 else tuple(items)
    if isinstance(value, Enum) and near:
        members = list(type(value))
        return members[rng.integers(len(members))]
    return _value(pool, rng)


def _value(pool: list[Tile], rng: np.random.Generator) -> Any:
    """Return a random argument: a tile, a number, a register or another object."""
    draw = rng.random()
    if draw < 0.4:
        tile = pool[rng.integers(len(pool))]
        return tile if rng.random() < 0.5 else _view(tile, rng)
    if draw < 0.7:
        return NUMBERS[rng.integers(len(NUMBERS))]
    if draw < 0.8:
        return VirtualRegister(None if rng.random() < 0.2 else int(rng.integers(-2, 9)))
    return OBJECTS[rng.integers(len(OBJECTS))]


def _view(tile: Any, rng: np.random.Generator) -> Any:
    """Return a part of a tile, or the tile in another shape or format. Return the tile itself if it
    has no such view."""
    if not tile.size:
        return tile
    size = [int(rng.integers(1, n + 1)) for n in tile.shape]
    step = int(rng.integers(1, 3))
    views = (
        lambda: tile[tuple(slice(0, n) for n in size)],
        lambda: tile[int(rng.integers(tile.shape[0])) :],
        lambda: tile[..., ::step],
        lambda: tile.reshape((tile.shape[0], tile.size // tile.shape[0])),
        lambda: tile.view(FORMS[rng.integers(len(FORMS))]),
        lambda: tile.ap([[1, n] for n in size]),
    )
    try:
        return views[rng.integers(len(views))]()
    except KernelError:
        return tile


FORMS = ("float32", "bfloat16", "float16", "int32", "uint32", "int16", "uint16", "uint8", "int8")


def pool(device: Recording) -> list[Tile]:
    """Return tiles that can replace other tiles: in each memory, some of them small, empty or
    uninitialized."""
    shapes = ((33, 5, 3), (33, 1), (1, 1), (128, 8), (16, 0))
    buffers = ("sbuf", "psum", "hbm")
    made = [device.zeros(shape, "float32", buffer) for shape in shapes for buffer in buffers]
    made += [device.zeros((33, 15), form) for form in FORMS]
    return [*made, *(device.empty(s, "float32", b) for s in ((33, 15), (1, 1)) for b in buffers)]


# --- state that a refusal must not change ---------------------------------------------------------


def state(device: Recording, made: Made) -> tuple[Any, ...]:
    """Return all state that a refused call must not change: tiles, registers, and data of the core.
    The Calls that the core has cached are left out, because a call may be refused only because of
    its values."""
    core, program = device.core, device.core.program
    assert program is not None
    digest = hashlib.blake2b()
    for tile in made.tiles():
        storage = tile.storage
        digest.update(storage.data.tobytes())
        if storage.gaps is not None:
            digest.update(np.repeat(storage.gaps.mask, storage.gaps.granule).tobytes())
    for numbers in (*core.accumulators.values(), *core.generators.values()):
        digest.update(numbers.tobytes())
    registers = [one for one in (*made.positional, *made.named.values())]
    held = [(r._value, r.load) for r in registers if isinstance(r, VirtualRegister)]
    counts = len(program), len(core.findings), len(program.data.registers)
    return digest.digest(), counts, repr(held)


def attempt(device: Recording, made: Made) -> bool:
    """Issue a call, and return whether it was legal. Raises Fault."""
    before, began = state(device, made), time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about keywords that old releases ignored
            device.call(function(made.name), *made.positional, **made.named)
        legal = True
    except (KernelError, NotEmulated) as refusal:
        _tellable(refusal)
        legal = False
    except Exception as error:
        raise Fault(f"{type(error).__name__}: {error}") from error
    if time.process_time() - began > SLOW_SECONDS:
        raise Fault("it takes long")
    if not legal and state(device, made) != before:
        raise Fault("it is refused, but changed the state")
    return legal


def _tellable(refusal: NeuronError) -> None:
    """Raise Fault for an error that has no code or no sentence."""
    if isinstance(refusal, KernelError):
        fields = json.loads(json.dumps(refusal.to_dict()))
        if not (fields["code"] and fields["statement"]):
            raise Fault(f"{type(refusal).__name__} says nothing")
    if not str(refusal):
        raise Fault(f"{type(refusal).__name__} says nothing")


# --- rounds ---------------------------------------------------------------------------------------


def round_of(name: str, form: str, target: str, seed: int, count: int, tally: Tally) -> None:
    """Issue `count` calls, each made by a change of a legal call of one instruction on one machine,
    and count the outcomes in `tally`."""
    rng = np.random.default_rng([seed, *name.encode(), *form.encode(), *target.encode()])
    device = Recording(target)
    SEEDS[name](device, form)
    seeds, others = [made for made in device.made if made.name == name], pool(device)
    for number in range(count):
        made = changed(seeds[rng.integers(len(seeds))], others, rng)
        try:
            among = tally.legal if attempt(device, made) else tally.refused
            among[name] += 1
        except Fault as fault:
            where = f"round_of({name!r}, {form!r}, {target!r}, {seed}, {number + 1}, Tally())"
            tally.faults.append(f"{made}: {fault}\n    {where}")


def fuzz(count: int, seed: int = 0, calls: int = CALLS) -> Tally:
    """Issue `count` calls, in rounds for each instruction, format and machine, and return the
    Tally. A round has at most `calls` calls."""
    tally, turn = Tally(), 0
    everything = [(*one, target) for target in TARGETS for one in seeds(target)]
    order = np.random.default_rng(seed).permutation(len(everything))
    with np.errstate(all="ignore"):
        while tally.calls < count:
            name, form, target = everything[order[turn % len(order)]]
            left = min(calls, count - tally.calls)
            round_of(name, form, target, seed + turn // len(order), left, tally)
            turn += 1
    return tally


def main(count: int = 100_000, seed: int = 0) -> int:
    tally = fuzz(count, seed)
    for name in sorted({*tally.legal, *tally.refused}):
        print(f"{name:28}{tally.legal[name]:9} legal{tally.refused[name]:9} refused")
    for fault in tally.faults:
        print(fault)
    share = tally.legal.total() / tally.calls
    print(f"{tally.calls} calls, {share:.0%} of them legal, {len(tally.faults)} faults")
    return int(bool(tally.faults) or share < 1 / 3)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
