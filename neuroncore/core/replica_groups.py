"""Ranks that take part in a collective (replica groups, pairs and channels), and their rules."""

from __future__ import annotations

import random
from collections.abc import Sequence

from neuroncore.base.errors import SignatureError
from neuroncore.base.units import plural
from neuroncore.clause.refusal import require
from neuroncore.core.core import Core
from neuroncore.machine.instance import Instance, of_machine
from neuroncore.machine.instance import find as find_instance
from neuroncore.machine.runtime import world_limits
from neuroncore.machine.world import MOST_CORES, World, listed

Groups = tuple[tuple[int, ...], ...]


def participants(world: World, number: int, ranks: Sequence[int], waits: bool) -> list[int]:
    """Return the numbers of the cores that take part in a collective of `ranks`. If the cores of a
    rank wait for each other (`waits`), they are all cores of the ranks. Otherwise they are the
    cores with the same position in their rank as core `number`."""
    if not waits:
        return [world.cores_of(rank)[world.core(number)] for rank in ranks]
    return [number for rank in ranks for number in world.cores_of(rank)]


def instance(core: Core) -> Instance:
    """Return the instance of the launch, by default the largest with this machine's chips."""
    name = core.world.instance
    return find_instance(name) if name else of_machine(core.machine.name)


def chip_ranks(core: Core) -> int:
    """Return the number of ranks on a chip."""
    return instance(core).chip.logical_cores(core.world.cores)


def own_group(core: Core, groups: Groups) -> tuple[int, ...]:
    """Return the group of the core's rank, and report groups of different sizes.

    Raises SignatureError if no group contains the rank, if a rank does not exist, or if the rank is
    in too many groups."""
    last = core.world.ranks - 1
    beyond = [rank for ranks in groups for rank in ranks if not 0 <= rank <= last]
    own_groups = [ranks for ranks in groups if core.rank in ranks]
    if beyond or not own_groups:
        problem = f"has rank {beyond[0]}, which is not in the launch" if beyond else ""
        problem = problem or f"does not have rank {core.rank}, which calls the collective"
        raise SignatureError(
            f"replica_group {problem}",
            argument="replica_group",
            expected=f"use ranks 0 to {last}, each in one list",
            got=str([list(ranks) for ranks in groups]),
            because=f"the kernel runs on {plural(core.world.ranks, 'rank')}",
            hint=_with_ranks(core, beyond)
            if beyond
            else f"add rank {core.rank} to one of the lists, or let only the ranks of the group "
            "call the collective",
        )
    sizes = [len(ranks) for ranks in groups]
    if len({*sizes}) > 1:
        core.report(
            "UNEQUAL_GROUPS", f"the replica groups have different numbers of ranks: {listed(sizes)}"
        )
    _join(core, own_groups[0])
    return own_groups[0]


def _with_ranks(core: Core, beyond: Sequence[int]) -> str:
    """Return the hint for ranks that are not launched (`beyond`): use other ranks, or launch
    more."""
    last, least = core.world.ranks - 1, max(beyond) + 1
    allowed = filter(world_limits().allow, range(least, MOST_CORES // core.world.cores + 1))
    needed = next(allowed, None)
    present = f"use only ranks 0 to {last}, which the launch has" if last else "use only rank 0"
    if needed is None:
        return present
    more = f"neuroncore run --ranks {needed}, or per_rank= with the arguments of {needed} ranks"
    return f"{present}, or launch more ranks: {more}" if last else f"to run more ranks, use {more}"


def _join(core: Core, group: tuple[int, ...]) -> None:
    most = world_limits().replica_groups
    if len(core.groups | {group}) > most:
        raise SignatureError(
            f"rank {core.rank} is in more than {most} replica groups",
            argument="replica_group",
            got=f"{[list(ranks) for ranks in core.groups]} and {list(group)}",
            because=f"the runtime supports at most {most} groups per program",
        )
    core.groups.add(group)


def ring(core: Core, group: Sequence[int], channel: int) -> list[int]:
    """Return a group's ranks in the order of a channel's ring. The API does not specify the order.
    `Options.rings` is 0 for the order of the group, or the seed of a random order."""
    order = list(group)
    if core.options.rings:
        random.Random(f"{core.options.rings} {channel} {order}").shuffle(order)
    return order


def check_channels(core: Core, group: Sequence[int], channels: Sequence[int]) -> None:
    """Raise SignatureError for channels that a group doesn't have. Groups on all chips of their
    servers have more channels."""
    each, per_server = chip_ranks(core), instance(core).chips_per_server
    chips = {rank // each for rank in group}
    servers = {chip // per_server for chip in chips}
    limits = world_limits()
    whole = len(chips) == per_server * len(servers)
    most = limits.channels_of_servers if whole else limits.channels
    require(
        max(channels) < most,
        f"channel {max(channels)} does not exist: the group has {most} channels",
        SignatureError,
        argument="channel_ids",
        expected=f"channels 0 to {most - 1}",
        got=str(list(channels)),
        because=f"a group with all chips of a server has {limits.channels_of_servers} rings of "
        f"links, and any other group has {limits.channels}",
    )


def ends(core: Core, pairs: Groups) -> tuple[int, ...]:
    """Return the ranks in pairs (source, target), ascending. Report pairs that form no ring. Raises
    SignatureError for a rank that doesn't exist."""
    ranks = tuple(sorted({rank for pair in pairs for rank in pair}))
    last = core.world.ranks - 1
    require(
        ranks[-1] <= last,
        f"source_target_pairs has rank {ranks[-1]}, which is not in the launch",
        SignatureError,
        argument="source_target_pairs",
        expected=f"use ranks 0 to {last}",
        got=str([list(pair) for pair in pairs]),
        hint=_with_ranks(core, ranks[-1:]),
    )
    if not _is_ring(core, {source: target for source, target in pairs}):
        core.report(
            "NO_RING",
            "the pairs are not a ring of ranks on the same or neighboring chips: the runtime may "
            "refuse to load them",
        )
    return ranks


def _is_ring(core: Core, following: dict[int, int]) -> bool:
    """Return whether the pairs form one ring, in which neighbors are on the same or adjacent chips.
    `following` maps each source to its target."""
    first = next(iter(following))
    rank, seen = following[first], 1
    while rank != first and rank in following and seen < len(following):
        rank, seen = following[rank], seen + 1
    if rank != first or seen != len(following):
        return False
    where, each = instance(core), chip_ranks(core)
    chips = [(source // each, target // each) for source, target in following.items()]
    reach = where.chips
    return all(max(pair) < reach and where.topology.distance(*pair) <= 1 for pair in chips)


def check_one_chip(core: Core, group: Sequence[int], displaced: bool) -> None:
    """Raise SignatureError for groups that all_gather_v doesn't accept (nki.collectives): a group
    is all ranks of one chip, with two cores each.

    `displaced`: has_rdispls, which must be false"""
    each = instance(core).chip.cores // 2
    on_one = len({rank // each for rank in group}) == 1
    ok = core.world.cores == 2 and len(group) == each and on_one
    _check_group(core, group, ok, f"all {each} ranks of one chip, with 2 cores each")
    _check_slots(displaced)


def check_reach(core: Core, group: Sequence[int], displaced: bool) -> None:
    """Raise SignatureError for groups that all_to_all_v doesn't accept (nki.collectives).

    If switches connect the chips, a group must be all ranks of two or more chips. The ranks must be
    consecutive, with two cores each. Otherwise a group must be ranks at the same place in different
    servers, and has_rdispls (`displaced`) must be false."""
    where, each = instance(core), chip_ranks(core)
    if where.topology.kind == "switched":
        chips = {rank // each for rank in group}
        whole = len(group) == len(chips) * each and len(chips) > 1
        in_a_row = sorted(group) == list(range(min(group), max(group) + 1))
        ok = whole and in_a_row and core.world.cores == 2
        expected = "all ranks of several chips; the ranks must be consecutive, with 2 cores each"
    else:
        per_server = each * where.chips_per_server
        places = {rank % per_server for rank in group}
        servers = {rank // per_server for rank in group}
        ok = len(places) == 1 and len(servers) == len(group)
        expected = "ranks at the same place in different servers"
        _check_slots(displaced)
    _check_group(core, group, ok, expected)


def _check_group(core: Core, group: Sequence[int], ok: bool, expected: str) -> None:
    require(
        ok,
        f"for this collective, a replica group must consist of {expected}",
        SignatureError,
        argument="replica_group",
        expected=expected,
        got=f"ranks {listed(sorted(group))}, with {plural(core.world.cores, 'core')} each",
        because="the compiler does not support other groups yet",
    )


def _check_slots(displaced: bool) -> None:
    require(
        not displaced,
        "has_rdispls must be False for this collective and this group",
        SignatureError,
        argument="has_rdispls",
        expected="False",
        got="True",
        because="the compiler supports has_rdispls=True only for all_to_all_v, and only if "
        "switches connect the chips",
    )


def check_whole_chips(core: Core, group: Sequence[int], name: str) -> None:
    """Report a group that has only some ranks of a chip. The collective `name` needs whole chips,
    because it uses their mesh (nki-library's harness)."""
    each = chip_ranks(core)
    chips = {rank // each for rank in group}
    if len(group) != len(chips) * each:
        core.report(
            "PARTIAL_CHIP",
            f"{name} among ranks {listed(sorted(group))} uses only a part of a chip, which has "
            f"{each} ranks",
        )
