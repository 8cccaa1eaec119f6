"""nki.collectives: functions for the instructions that exchange data between ranks, or that return
the number of a rank.

Two functions return a register; the other functions return None. `srcs` are the tensors that a rank
sends, and `dsts` the tensors that receive data. The device's compiler refuses two kinds of tensors
in HBM (nki-library's comments): arguments and results of the kernel, and tensors in shared HBM
without a name. neuroncore raises an error for the first kind, and reports the second kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from neuroncore.base.enums import MemoryRegion
from neuroncore.base.errors import ShapeError, SignatureError
from neuroncore.base.units import either
from neuroncore.core.core import current
from neuroncore.frontend import issue, outcome
from neuroncore.frontend.issue import VirtualRegister
from neuroncore.frontend.nki.language.control import NKIObject
from neuroncore.memory.tile import Tile

Tensors = Sequence[Tile]
Channels = Sequence[Tensors]
Pairs = Sequence[Sequence[int]]

__all__ = [
    "ReplicaGroup", "all_gather", "all_gather_v", "all_reduce", "all_to_all", "all_to_all_v",
    "collective_permute", "collective_permute_implicit",
    "collective_permute_implicit_current_processing_rank_id", "collective_permute_implicit_reduce",
    "rank_id", "reduce_scatter",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


class ReplicaGroup(NKIObject):
    """Groups of ranks, as a list of lists of rank numbers. The ranks of a group exchange data with
    each other."""

    def __init__(self, groups: Sequence[Sequence[int]]) -> None:
        self.groups = groups

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReplicaGroup) and self.groups == other.groups

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ReplicaGroup(groups={self.groups!r})"


def all_reduce(
    srcs: Tensors, dsts: Tensors, replica_group: ReplicaGroup, op: Any,
    priority: int | None = None, name: str | None = None,
) -> None:  # fmt: skip
    """Combine the srcs of all ranks of a group by `op`, element by element. Each rank's dsts get
    the result. `op` is nl.add, nl.minimum or nl.maximum."""
    _issue("all_reduce", (srcs, dsts), _groups(replica_group), op, priority)


def all_gather(
    srcs: Tensors, dsts: Tensors, replica_group: ReplicaGroup, collective_dim: int,
    priority: int | None = None, name: str | None = None,
) -> None:  # fmt: skip
    """Concatenate the srcs of all ranks of a group along `collective_dim`. Each rank's dsts get the
    result."""
    _check_dim(srcs, collective_dim, (0, 1))
    _issue("all_gather", (srcs, dsts), _groups(replica_group), collective_dim, priority)


def reduce_scatter(
    srcs: Tensors, dsts: Tensors, replica_group: ReplicaGroup, collective_dim: int, op: Any,
    priority: int | None = None, name: str | None = None,
) -> None:  # fmt: skip
    """Combine the srcs of all ranks of a group by `op`, element by element. Split the result along
    `collective_dim` into one piece for each rank. Each rank's dsts get only the piece of this
    rank."""
    _check_dim(srcs, collective_dim, (0,))
    others = _groups(replica_group), collective_dim, op, priority
    _issue("reduce_scatter", (srcs, dsts), *others)


def all_to_all(
    srcs: Tensors, dsts: Tensors, replica_group: ReplicaGroup, collective_dim: int,
    priority: int | None = None, name: str | None = None,
) -> None:  # fmt: skip
    """Split each src into one piece for each rank of a group, and send each piece to its rank.
    Piece k of a dst comes from the rank at position k of the group, counted from 0."""
    _issue("all_to_all", (srcs, dsts), _groups(replica_group), collective_dim, priority)


def all_gather_v(
    srcs: Tensors, dsts: Tensors, replica_group: ReplicaGroup, metadata_tensor: Tile,
    recv_counts_known: bool = False, has_rdispls: bool = False, priority: int | None = None,
    name: str | None = None,
) -> None:  # fmt: skip
    """Send the same elements from each rank to all ranks of its group. The number of elements may
    differ between ranks: `metadata_tensor` (uint32) contains the numbers."""
    others = metadata_tensor, recv_counts_known, has_rdispls, priority
    _issue("all_gather_v", (srcs, dsts), _groups(replica_group), *others)


def all_to_all_v(
    srcs: Tensors, dsts: Tensors, replica_group: ReplicaGroup, metadata_tensor: Tile,
    recv_counts_known: bool = False, has_rdispls: bool = False, priority: int | None = None,
    name: str | None = None,
) -> None:  # fmt: skip
    """Send different elements from each rank to each rank of its group. The number of elements may
    differ between ranks: `metadata_tensor` (uint32) contains the numbers."""
    others = metadata_tensor, recv_counts_known, has_rdispls, priority
    _issue("all_to_all_v", (srcs, dsts), _groups(replica_group), *others)


def collective_permute(
    srcs: Tensors, dsts: Tensors, source_target_pairs: Pairs, priority: int | None = None,
    name: str | None = None,
) -> None:  # fmt: skip
    """Copy data between pairs (source rank, target rank): the source rank's src to the target
    rank's dst."""
    _issue("collective_permute", (srcs, dsts), source_target_pairs, priority)


def collective_permute_implicit(
    srcs_by_channel: Channels, dsts_by_channel: Channels, replica_group: ReplicaGroup,
    channel_ids: Sequence[int] = (0,), priority: int | None = None, name: str | None = None,
) -> None:  # fmt: skip
    """For each channel, copy the src of each rank to the dst of the next rank. Each channel
    arranges the ranks of a group as a ring."""
    tensors = _flat("srcs_by_channel", srcs_by_channel), _flat("dsts_by_channel", dsts_by_channel)
    _check_channels(channel_ids)
    others = _groups(replica_group), channel_ids, priority
    _issue("collective_permute_implicit", tensors, *others)


def collective_permute_implicit_reduce(
    srcs0_by_channel: Channels, srcs1_by_channel: Channels, dsts_by_channel: Channels,
    replica_group: ReplicaGroup, op: Any, channel_ids: Sequence[int] = (0,),
    priority: int | None = None, name: str | None = None,
) -> None:  # fmt: skip
    """For each channel, combine the two srcs of each rank by `op`, and write the result to the dst
    of the next rank. Each channel arranges the ranks of a group as a ring."""
    tensors = (
        _flat("srcs0_by_channel", srcs0_by_channel),
        _flat("srcs1_by_channel", srcs1_by_channel),
        _flat("dsts_by_channel", dsts_by_channel),
    )
    _check_channels(channel_ids)
    others = _groups(replica_group), op, channel_ids, priority
    _issue("collective_permute_implicit_reduce", tensors, *others)


def collective_permute_implicit_current_processing_rank_id(
    iteration_id: VirtualRegister | int, replica_group: ReplicaGroup, channel_id: int = 0,
    name: str | None = None, num_channels: int | None = None,
) -> VirtualRegister:  # fmt: skip
    """Return a register with the rank whose data has arrived after `iteration_id` steps around a
    channel's ring: the rank itself at step 0, the previous rank at step 1, and so on.
    `num_channels`, of NKI 0.2, is ignored."""
    register = VirtualRegister()
    function = issue.function("collective_permute_implicit_current_processing_rank_id")
    function(register, iteration_id, _groups(replica_group), channel_id)
    return register


def rank_id(name: str | None = None) -> VirtualRegister:
    """Return a register with the number of this rank among all ranks of the launch."""
    register = VirtualRegister()
    issue.function("rank_id")(register)
    return register


def _issue(name: str, tensors: Sequence[Tensors], *others: Any) -> None:
    """Issue the instruction `name`. `tensors` are one or two lists of srcs, and then the dsts.
    `others` are the other arguments, in the order of the definition in isa/."""
    *sources, dsts = tensors
    for srcs in sources:
        _check_tensors(srcs, "srcs")
    _check_tensors(dsts, "dsts")
    function: Callable[..., Any] = issue.function(name)
    function(*tensors, *others)


def _groups(replica_group: Any) -> Any:
    """Return the lists of ranks of a ReplicaGroup. Raises SignatureError for another object."""
    if not isinstance(replica_group, ReplicaGroup):
        raise SignatureError(
            "replica_group must be a ReplicaGroup",
            argument="replica_group",
            expected="nki.collectives.ReplicaGroup([[0, 1], ...])",
            got=f"{type(replica_group).__name__} {replica_group!r:.60}",
        )
    return replica_group.groups


def _flat(name: str, by_channel: Channels) -> list[Tile]:
    """Return the tensors of all channels. For each channel the API takes a list with one tensor."""
    lists = isinstance(by_channel, list | tuple)
    if not lists or any(not isinstance(one, list | tuple) or len(one) != 1 for one in by_channel):
        raise SignatureError(
            f"{name} must be a list that has, for each channel, a list with one tensor",
            argument=name,
            expected="[[tensor of channel 0], [tensor of channel 1], ...]",
            got=f"{by_channel!r:.80}",
            because="this collective can't combine several tensors in one call",
        )
    return [tensors[0] for tensors in by_channel]


def _check_dim(srcs: Any, dim: int, on_chip: Sequence[int]) -> None:
    """Raise ShapeError for a `collective_dim` that the API doesn't accept. Tiles in SBUF accept the
    dimensions `on_chip`; tensors in HBM accept only 0."""
    tiles = [src for src in srcs if isinstance(src, Tile)] if isinstance(srcs, list | tuple) else []
    legal = on_chip if tiles and all(tile.storage.on_chip for tile in tiles) else (0,)
    if dim not in legal:
        raise ShapeError(
            f"collective_dim can't be {dim}",
            argument="collective_dim",
            expected=either(legal),
            got=str(dim),
            because="NKI does not support other values yet",
        )


def _check_channels(channel_ids: Any) -> None:
    """Raise SignatureError unless the channels are 0, 1, 2 and so on."""
    if list(channel_ids) != list(range(len(channel_ids))):
        raise SignatureError(
            "channel_ids must be 0, 1, 2 and so on",
            argument="channel_ids",
            expected=str(list(range(len(channel_ids)))),
            got=str(list(channel_ids)),
        )


def _check_tensors(tensors: Any, argument: str) -> None:
    """Raise BufferKindError if a tensor in HBM is an argument of the kernel: collectives can't
    access arguments. Report a tensor in shared HBM without a name."""
    core = current()
    for tile in tensors if isinstance(tensors, list | tuple) else ():
        if not isinstance(tile, Tile) or tile.storage.on_chip:
            continue
        storage = tile.storage
        if storage.id in core.hbm.arguments:
            statement = f"a collective can't access {tile}, an argument of the kernel"
            raise outcome.exchanged(statement, argument, tile)
        core.hbm.exchanged.setdefault(storage.id, core.birthplace())
        if not storage.name and storage.region is MemoryRegion.shared_hbm:
            core.report("NO_NAME", f"the tensor {tile} in {argument} has no name")
