"""Collectives: instructions in which ranks exchange data (nki.collectives)."""

from __future__ import annotations

from typing import Any

from neuroncore.base.enums import engine
from neuroncore.clause.immediate import InRegisterOrNumber, OutRegister
from neuroncore.clause.instruction import Traits, instruction
from neuroncore.core import collectives as do
from neuroncore.core import replica_groups as groups
from neuroncore.core.core import Core
from neuroncore.memory.register import VirtualRegister, loaded

from .words import collectives as words

MOVES = Traits(exchanges=True, moves_bits=True)
JOINS = Traits(exchanges=True)
KNOWN = Traits(computes=False)
LENGTHS_OF_RUN_TIME: Any = {
    "rules": words.WITH_LENGTHS, "feature": "logical_core", "meets": words.ranks_of,
    "module": "nki.collectives", "traits": MOVES,
}  # fmt: skip


@instruction(
    engine.dma,
    example="replica_group=((0, 1),)",
    cost=words.taking("reduce"),
    rules=[*words.GROUPED, words.equal_sizes],
    meets=words.ranks_of,
    module="nki.collectives",
    traits=JOINS,
)
def all_reduce(
    srcs: words.Addends, dsts: words.Sums, replica_group: words.Groups, op: words.Joins,
    priority: words.Priority = None, *, core: Core,
) -> None:  # fmt: skip
    """dsts[i] = srcs[i] of all ranks of the group, reduced by op"""
    mine = do.part(core, srcs, dsts, op=op, replica_group=replica_group)
    do.together("all_reduce", mine, lambda parts: do.reduce(parts, op))


@instruction(
    engine.dma,
    example="replica_group=((0, 1),); collective_dim=0; dsts=256 512",
    cost=words.taking("gather"),
    rules=[*words.EVEN, words.an_axis, words.times_src],
    meets=words.ranks_of,
    module="nki.collectives",
    traits=MOVES,
)
def all_gather(
    srcs: words.Srcs, dsts: words.Dsts, replica_group: words.Groups, collective_dim: words.Dim,
    priority: words.Priority = None, *, core: Core,
) -> None:  # fmt: skip
    """dsts[i] = srcs[i] of all ranks of the group, concatenated along collective_dim"""
    mine = do.part(core, srcs, dsts, replica_group=replica_group, collective_dim=collective_dim)
    do.together("all_gather", mine, lambda parts: do.gather(parts, collective_dim))


@instruction(
    engine.dma,
    example="replica_group=((0, 1),); collective_dim=0; srcs=256 512",
    cost=words.taking("scatter"),
    rules=[*words.EVEN, words.an_axis, words.times_dst],
    meets=words.ranks_of,
    module="nki.collectives",
    traits=JOINS,
)
def reduce_scatter(
    srcs: words.Addends, dsts: words.Sums, replica_group: words.Groups, collective_dim: words.Dim,
    op: words.Joins, priority: words.Priority = None, *, core: Core,
) -> None:  # fmt: skip
    """dsts[i] = this rank's piece, along collective_dim, of srcs[i] of all ranks, reduced by op"""
    mine = do.part(core, srcs, dsts, op=op, replica_group=replica_group)
    do.together("reduce_scatter", mine, lambda parts: do.scatter(parts, op, collective_dim))


@instruction(
    engine.dma,
    example="replica_group=((0, 1),); collective_dim=0",
    cost=words.taking("exchange"),
    rules=[*words.EVEN_OF_HBM, words.first_dim, words.equal_sizes, words.in_pieces],
    meets=words.ranks_of,
    module="nki.collectives",
    traits=MOVES,
)
def all_to_all(
    srcs: words.HbmSrcs, dsts: words.HbmDsts, replica_group: words.Groups,
    collective_dim: words.Dim, priority: words.Priority = None, *, core: Core,
) -> None:  # fmt: skip
    """piece k of dsts[i] = the piece for this rank, from rank k's srcs[i]"""
    mine = do.part(core, srcs, dsts, replica_group=replica_group)
    groups.check_whole_chips(core, mine.ranks, "all_to_all")
    do.together("all_to_all", mine, do.exchange)


@instruction(
    engine.dma,
    example="replica_group=((0, 1, 2, 3),); srcs=alone; dsts=alone; metadata_tensor=hbm uint32 3 4",
    cost=words.taking("gather"),
    **LENGTHS_OF_RUN_TIME,
)
def all_gather_v(
    srcs: words.HbmSrcs, dsts: words.SomeDsts, replica_group: words.Groups,
    metadata_tensor: words.Metadata, recv_counts_known: bool = False, has_rdispls: bool = False,
    priority: words.Priority = None, *, core: Core,
) -> None:  # fmt: skip
    """slot k of dsts[0] = the elements of rank k's srcs[0] that rank k's metadata selects"""
    how = do.Lengths(to_all=True, known=recv_counts_known, displaced=has_rdispls)
    mine = do.part(core, srcs, dsts, metadata_tensor, replica_group=replica_group)
    groups.check_one_chip(core, mine.ranks, how.displaced)
    do.together("all_gather_v", mine, how.deliver)


@instruction(
    engine.dma,
    example="replica_group=((0, 64),); srcs=alone; dsts=alone; metadata_tensor=hbm uint32 3 2",
    cost=words.taking("exchange"),
    **LENGTHS_OF_RUN_TIME,
)
def all_to_all_v(
    srcs: words.HbmSrcs, dsts: words.SomeDsts, replica_group: words.Groups,
    metadata_tensor: words.Metadata, recv_counts_known: bool = False, has_rdispls: bool = False,
    priority: words.Priority = None, *, core: Core,
) -> None:  # fmt: skip
    """slot k of dsts[0] = the elements of rank k's srcs[0] that rank k's metadata sends here"""
    how = do.Lengths(to_all=False, known=recv_counts_known, displaced=has_rdispls)
    mine = do.part(core, srcs, dsts, metadata_tensor, replica_group=replica_group)
    groups.check_reach(core, mine.ranks, how.displaced)
    do.together("all_to_all_v", mine, how.deliver)


@instruction(
    engine.dma,
    example="source_target_pairs=((0, 1), (1, 0)); srcs=alone; dsts=alone",
    cost=words.taking("shift"),
    rules=[*words.OF_HBM, words.one_tensor, words.equal_sizes, words.once_each],
    meets=words.ranks_of,
    module="nki.collectives",
    traits=MOVES,
)
def collective_permute(
    srcs: words.HbmSrcs, dsts: words.SomeDsts, source_target_pairs: words.Pairs,
    priority: words.Priority = None, *, core: Core,
) -> None:  # fmt: skip
    """dsts[0] = srcs[0] of this rank's source in the pairs; unchanged if it has no source"""
    group = groups.ends(core, source_target_pairs)
    mine = do.part(core, srcs, dsts, source_target_pairs=source_target_pairs, ranks=group)
    if core.rank in group:
        permuted = do.permute
        do.together("collective_permute", mine, lambda parts: permuted(parts, source_target_pairs))


@instruction(
    engine.dma,
    example="replica_group=((0, 1),); channel_ids=(0, 1)",
    cost=words.taking("shift"),
    rules=words.RINGED,
    meets=words.ranks_of,
    module="nki.collectives",
    traits=MOVES,
)
def collective_permute_implicit(
    srcs: words.Srcs, dsts: words.Dsts, replica_group: words.Groups, channel_ids: words.Channels,
    priority: words.Priority = None, *, core: Core,
) -> None:  # fmt: skip
    """dsts[i] = srcs[i] of this rank's predecessor in the ring of channel i"""
    mine = do.part(core, srcs, dsts, replica_group=replica_group, channel_ids=channel_ids)
    groups.check_channels(core, mine.ranks, channel_ids)
    name = "collective_permute_implicit"
    do.together(name, mine, lambda parts: do.pass_on(parts, channel_ids, do.sources(parts)))


@instruction(
    engine.dma,
    example="replica_group=((0, 1),); channel_ids=(0, 1)",
    cost=words.taking("shift"),
    rules=[*words.RINGED, words.equal_others],
    meets=words.ranks_of,
    module="nki.collectives",
    traits=JOINS,
)
def collective_permute_implicit_reduce(
    srcs: words.Addends, others: words.Addends, dsts: words.Sums, replica_group: words.Groups,
    op: words.Joins, channel_ids: words.Channels, priority: words.Priority = None, *, core: Core,
) -> None:  # fmt: skip
    """dsts[i] = op(srcs[i], others[i]), both of this rank's predecessor in the ring of channel i"""
    mine = do.part(core, [*srcs, *others], dsts, replica_group=replica_group, op=op)
    groups.check_channels(core, mine.ranks, channel_ids)
    name = "collective_permute_implicit_reduce"
    do.together(name, mine, lambda parts: do.pass_on(parts, channel_ids, do.joined(parts, op)))


@instruction(engine.sync, named=False, cost=words.one_cycle, module="nki.collectives", traits=KNOWN)
def rank_id(dst: OutRegister, *, core: Core) -> None:
    """dst = the number of this rank"""
    dst.set(core.rank, None if core.program is None else loaded(core.program))


@instruction(
    engine.sync,
    named=False,
    example="replica_group=((0, 1),)",
    cost=words.one_cycle,
    rules=[words.disjoint],
    module="nki.collectives",
    traits=KNOWN,
)
def collective_permute_implicit_current_processing_rank_id(
    dst: OutRegister, iteration_id: InRegisterOrNumber, replica_group: words.Groups,
    channel_id: words.Dim = 0, *, core: Core,
) -> None:  # fmt: skip
    """dst = the rank whose data arrives here after iteration_id steps on the channel's ring"""
    steps = iteration_id.value if isinstance(iteration_id, VirtualRegister) else iteration_id
    around = groups.ring(core, groups.own_group(core, replica_group), channel_id)
    origin = around[(around.index(core.rank) - steps) % len(around)]
    dst.set(origin, None if core.program is None else loaded(core.program))
