"""Operands, rules and costs of three kinds of instructions: for sequencers, for cores that
synchronize, and collectives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any

from neuroncore.base.enums import MemoryRegion, dma_engine
from neuroncore.base.errors import (
    BufferKindError,
    DtypeError,
    FreeSizeError,
    ShapeError,
    SignatureError,
)
from neuroncore.clause import cost
from neuroncore.clause.alu import Operator
from neuroncore.clause.immediate import Immediate
from neuroncore.clause.instruction import Call
from neuroncore.clause.operand import HBM, SBUF, Op, Operand, reads, writes
from neuroncore.clause.refusal import Rule, fault, rule
from neuroncore.clause.rules import holds, needs, one_of, same_dtype
from neuroncore.core import replica_groups
from neuroncore.core.system import CORES
from neuroncore.machine import Machine, collective_time
from neuroncore.machine import instance as instances
from neuroncore.machine.world import World
from neuroncore.memory.tile import Tile

OneIn = Annotated[Tile, reads("", SBUF, *HBM, starts=False)]
OneOut = Annotated[Tile, writes("", SBUF, *HBM, starts=False)]

BYTES: dict[str, Any] = {"starts": False, "free_dims": None, "moved": True}
Sent = Annotated[Tile, reads("", SBUF, **BYTES)]
Received = Annotated[Tile, writes("", SBUF, **BYTES)]
# The data is declared as written, though the barrier writes nothing: so every later access to the
# data waits for the barrier, and the barrier waits for every earlier access.
Shared = Annotated[Tile, writes("", MemoryRegion.shared_hbm, SBUF, partial=True, **BYTES)]
Cores = Annotated[tuple[int, ...], Immediate(int, depth=1, single=True, keyed=True)]
Rank = Annotated[int, Immediate(int, keyed=True)]


def one_cycle(call: Call, machine: Machine) -> cost.Cost:
    """Return the cost of one cycle, plus the engine's fixed costs."""
    return cost.stream(call, machine, 1)


def memory_access(call: Call, machine: Machine) -> cost.Cost:
    """The time of an access to memory, for which the sequencer waits. A store is assumed to take as
    long as a load."""
    return cost.Cost(machine.fixed.register_load_ns, 0.0)


def cores_of_rank(call: Call, world: World, number: int) -> range:
    """Return the cores of the rank that core `number` belongs to."""
    return world.cores_of(world.rank(number))


def most_by_gpsimd(call: Call) -> int:
    return call.machine.limits.gpsimd_dma_elements


both_cores = holds(
    "cores", f"cores must be {CORES}, or 0 for one core",
    lambda call: call["cores"] in (CORES, CORES[:1]), expected=str(CORES),
    because="a barrier synchronizes the two cores of a logical core",
)  # fmt: skip


EXCHANGE = (
    same_dtype("src", "dst"),
    holds(
        "src",
        "with dma_engine.gpsimd_dma, src must not have more elements per partition than the limit "
        "gpsimd_dma_elements",
        lambda call: call.view("src").free_size <= most_by_gpsimd(call)
        or call["dma_engine"] is dma_engine.dma,
        FreeSizeError, lambda call: f"at most {most_by_gpsimd(call):,} elements per partition",
        because="the GpSimd engine's own DMA has small buffers",
        hint="use dma_engine=nisa.dma_engine.dma",
    ),
    one_of("send_to_rank", CORES),
    one_of("recv_from_rank", CORES),
)  # fmt: skip


ANY: dict[str, Any] = {"starts": False, "free_dims": None, "many": True}
JOINED: dict[str, Any] = {"regions": (*HBM, SBUF), **ANY}
MOVED: dict[str, Any] = {"moved": True, **JOINED}
IN_HBM: dict[str, Any] = {"moved": True, "regions": HBM, **ANY}
# Sources are read when all ranks have arrived, so unwritten elements are found only then.
Srcs = Annotated[list[Tile], Operand(reads=True, partial=True, **MOVED)]
Dsts = Annotated[list[Tile], Operand(writes=True, **MOVED)]
Addends = Annotated[list[Tile], Operand(reads=True, partial=True, **JOINED)]
Sums = Annotated[list[Tile], Operand(writes=True, **JOINED)]
HbmSrcs = Annotated[list[Tile], Operand(reads=True, partial=True, **IN_HBM)]
HbmDsts = Annotated[list[Tile], Operand(writes=True, **IN_HBM)]
SomeDsts = Annotated[list[Tile], Operand(writes=True, partial=True, **IN_HBM)]
Metadata = Annotated[
    Tile, Operand(reads=True, writes=True, partial=True, regions=(*HBM, SBUF), starts=False)
]
Groups = Annotated[tuple[tuple[int, ...], ...], Immediate(int, 0, depth=2, keyed=True)]
Pairs = Groups
Channels = Annotated[tuple[int, ...], Immediate(int, 0, depth=1, keyed=True)]
Dim = Annotated[int, Immediate(int, keyed=True)]
Joins = Annotated[Operator, Op(names=("add", "minimum", "maximum"))]
Priority = Annotated[int | None, Immediate(int, optional=True, keyed=True)]


def _grouped(call: Call) -> tuple[tuple[int, ...], ...]:
    """Return the replica groups. For pairs of source and target, return one group with all their
    ranks."""
    named = call.arguments.get("replica_group")
    return named or (tuple({rank for pair in call["source_target_pairs"] for rank in pair}),)


def ranks_of(call: Call, world: World, number: int) -> list[int]:
    """Return the cores that take part in a collective of core `number`. These are cores of the
    ranks of its group (`replica_groups.participants`)."""
    rank = world.rank(number)
    group = next((ranks for ranks in _grouped(call) if rank in ranks), (rank,))
    return replica_groups.participants(world, number, sorted(group), call.participation.waits)


def taking(pattern: str) -> Callable[[Call, Machine], cost.Cost]:
    """Return the cost function of a collective with this pattern of communication. The cost is the
    time on the largest instance with this machine. The DMA rings are busy while a rank reads and
    writes its data."""

    def time(call: Call, machine: Machine) -> cost.Cost:
        largest = instances.of_machine(machine.name)
        lnc = largest.chip.logical_core_sizes[0]
        groups = call.arguments.get("replica_group") or call["source_target_pairs"]
        most = largest.ranks(lnc)
        ranks = tuple(rank for rank in groups[0] if rank < most)
        srcs, dsts = call["srcs"], call["dsts"]
        size = sum(view.nbytes for view in (srcs if pattern == "scatter" else dsts))
        taken = collective_time.known_time(largest.name, lnc, pattern, size, ranks or (0,))
        pairs = zip(dsts, srcs, strict=True)
        moved = max((cost.move(*pair, machine) for pair in pairs), key=lambda move: move.busy_ns)
        collective = cost.Collective(pattern, size, _grouped(call))
        return replace(moved, latency_ns=max(moved.latency_ns, taken.ns), collective=collective)

    time.__doc__ = f"A {pattern} among the ranks of the group."
    return time


def every(test: Callable[[Any, Any], Any]) -> Callable[[Call], bool]:
    """Return a test of a call: whether `test` is true for each pair of a src and its dst."""
    return lambda call: all(
        test(src, dst) for src, dst in zip(call["srcs"], call["dsts"], strict=False)
    )


def _views(call: Call) -> list[Any]:
    return [*call["srcs"], *call["dsts"]]


def _numbered(call: Call) -> list[int]:
    return [rank for ranks in call["replica_group"] for rank in ranks]


pairs_of_tensors = holds(
    "dsts", "srcs and dsts must have equally many tensors, at least one",
    lambda call: 0 < len(call["srcs"]) == len(call["dsts"]), SignatureError,
)  # fmt: skip
one_memory = holds(
    "dsts", "all tensors must be in hbm, or all in sbuf",
    lambda call: len({view.on_chip for view in _views(call)}) == 1, BufferKindError,
    because="a collective cannot mix memories", hint="first copy the tensors with nisa.dma_copy",
)  # fmt: skip
several_in_hbm = holds(
    "srcs", "if srcs has several tensors, all of them must be in hbm",
    lambda call: len(call["srcs"]) == 1 or not all(view.on_chip for view in call["srcs"]),
    BufferKindError,
    because="a call can combine several tensors only if they are in hbm",
)  # fmt: skip
one_tensor = holds(
    "srcs", "srcs must have only one tensor", lambda call: len(call["srcs"]) == 1, SignatureError,
    because="this collective can't combine several tensors in one call",
)  # fmt: skip
one_format = holds(
    "dsts", "each tensor of dsts must have the format of its tensor of srcs",
    every(lambda src, dst: src.dtype is dst.dtype), DtypeError,
    because="a collective converts nothing",
)  # fmt: skip
equal_sizes = holds(
    "dsts", "each tensor of dsts must have as many elements as its tensor of srcs",
    every(lambda src, dst: src.size == dst.size), ShapeError,
)  # fmt: skip
two_dimensional = holds(
    "srcs", "a tile in sbuf must have two axes: the partition axis and one free axis",
    lambda call: all(len(view.shape) == 2 for view in _views(call) if view.on_chip), ShapeError,
    because="collectives of tiles in SBUF support only one free axis",
)  # fmt: skip
disjoint = holds(
    "replica_group",
    "in replica_group, each rank must occur at most once, and no list may be empty",
    lambda call: call["replica_group"] and all(call["replica_group"])
    and len(set(_numbered(call))) == len(_numbered(call)), SignatureError,
    because="groups must not overlap",
)  # fmt: skip
equal_groups = holds(
    "replica_group", "the lists of replica_group must have equal lengths",
    lambda call: len({len(ranks) for ranks in call["replica_group"]}) == 1, SignatureError,
    because="a kernel is compiled once, so its tensors have the same shape on all ranks",
)  # fmt: skip
channelled = holds(
    "channel_ids", "channel_ids must have a different channel for each tensor of srcs",
    lambda call: len(set(call["channel_ids"])) == len(call["channel_ids"]) == len(call["srcs"]),
    SignatureError,
)  # fmt: skip
prioritised = needs(
    "collective_priority",
    "priorities of collectives",
    "priority",
    lambda call: call["priority"] is not None,
)
priorities = one_of("priority", (None, 0, 1, 2, 3), SignatureError)
first_dim = one_of("collective_dim", (0,))
an_axis = holds(
    "collective_dim", "collective_dim must be an axis of the tensors",
    lambda call: all(0 <= call["collective_dim"] < len(view.shape) for view in _views(call)),
)  # fmt: skip


def _ranks(call: Call) -> int:
    """Return the number of ranks in a group. Return 1 if replica_group has no group: a separate
    rule reports this, and the rules that use this number are still checked."""
    return len(next(iter(call["replica_group"]), ())) or 1


def _is_times(call: Call, whole: Any, part: Any) -> bool:
    """Return whether `whole` has the size of the parts of all ranks, concatenated along
    collective_dim. `part` is the part of one rank."""
    axis, count = call["collective_dim"], _ranks(call)
    if not 0 <= axis < len(part.shape):
        return True  # the rule `an_axis` reports this
    if not whole.on_chip and axis == 0:  # concatenated along axis 0, whatever the other axes are
        return bool(whole.size == count * part.size and whole.shape[0] % count == 0)
    wanted = list(part.shape)
    wanted[axis] *= count
    return bool(whole.shape == tuple(wanted))


times_src = holds(
    "dsts",
    "along collective_dim, a tensor of dsts must have the size of its tensor of srcs times the "
    "number of ranks in a group",
    lambda call: every(lambda src, dst: _is_times(call, dst, src))(call),
    expected=lambda call: f"{_ranks(call)} times the size of {call['srcs'][0]}",
)  # fmt: skip
times_dst = holds(
    "srcs",
    "along collective_dim, a tensor of srcs must have the size of its tensor of dsts times the "
    "number of ranks in a group",
    lambda call: every(lambda src, dst: _is_times(call, src, dst))(call),
    expected=lambda call: f"{_ranks(call)} times the size of {call['dsts'][0]}",
)  # fmt: skip
in_pieces = holds(
    "srcs", "axis 0 of each tensor of srcs must be a multiple of the number of ranks in a group",
    lambda call: all(view.shape[0] % _ranks(call) == 0 for view in call["srcs"]),
    expected=lambda call: f"a multiple of {_ranks(call)} along axis 0",
    because="axis 0 is divided into equal pieces, one for each rank",
)  # fmt: skip
equal_others = holds(
    "others", "each tensor of others must have the shape and the format of its tensor of srcs",
    lambda call: [(v.shape, v.dtype) for v in call["srcs"]]
    == [(v.shape, v.dtype) for v in call["others"]],
)  # fmt: skip


@rule(
    SignatureError,
    "if each core is a rank, the cores of a group of 4 ranks must be adjacent",
    because="on trn1, a link connects only neighboring cores (runtime release notes)",
)
def adjacent_fours(call: Call, machine: Machine) -> Any:
    fours = [ranks for ranks in call["replica_group"] if len(ranks) == 4]
    apart = [r for r in fours if sorted(r) != list(range(min(r), min(r) + 4))]
    if machine.has("logical_core") or not apart:
        return None
    return fault("replica_group", "the cores of a group of 4 ranks are not adjacent", got=apart[0])


@rule(SignatureError, "each rank must be at most once a source, and at most once a target")
def once_each(call: Call, machine: Machine) -> Any:
    pairs: Sequence[Sequence[int]] = call["source_target_pairs"]
    ends = [list(end) for end in zip(*pairs, strict=True)] if all(map(_is_pair, pairs)) else []
    if ends and all(len(set(end)) == len(end) for end in ends):
        return None
    twice = "a rank is the source, or the target, of two pairs of source_target_pairs"
    none = "source_target_pairs must have one or more pairs of ranks"
    return fault("source_target_pairs", twice if ends else none, "(source, target), ...", pairs)


def _is_pair(ranks: Sequence[int]) -> bool:
    return len(ranks) == 2


@rule(
    ShapeError,
    "metadata_tensor must be uint32, with 3 rows (4 with has_rdispls) and a column for each rank",
)
def rows_of_numbers(call: Call, machine: Machine) -> Any:
    view, rows = call.view("metadata_tensor"), 4 if call["has_rdispls"] else 3
    wanted = (rows, _ranks(call))
    allowed = (wanted, (4, wanted[1]))  # a fourth row is allowed but not read
    shape = view.shape[1:] if view.region is SBUF and view.shape[0] == 1 else view.shape
    if view.dtype.name == "uint32" and shape in allowed:
        return None
    expected = f"uint32 {(1, *wanted) if view.region is MemoryRegion.sbuf else wanted}"
    return fault("metadata_tensor", f"metadata_tensor is {view.dtype} {shape}", expected)


OF_HBM: tuple[Rule, ...] = (pairs_of_tensors, one_format, prioritised, priorities)
TENSORS: tuple[Rule, ...] = (
    *(pairs_of_tensors, one_memory, several_in_hbm, one_format, two_dimensional),
    *(prioritised, priorities),
)
GROUPED = (*TENSORS, disjoint, adjacent_fours)
EVEN = (*GROUPED, equal_groups)
EVEN_OF_HBM = (*OF_HBM, disjoint, adjacent_fours, equal_groups)
RINGED = (
    *(pairs_of_tensors, one_memory, one_format, disjoint, adjacent_fours, channelled, equal_sizes),
    *(prioritised, priorities),
)
WITH_LENGTHS = (
    *(pairs_of_tensors, one_tensor, one_format, disjoint, equal_groups, rows_of_numbers),
    *(prioritised, priorities),
)
