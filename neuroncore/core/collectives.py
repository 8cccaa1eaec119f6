"""Collectives: every core contributes its tensors, and the last core to arrive executes the
collective for all.

All sources are read before any destination is written. Tensors in shared HBM belong to a rank: both
cores of a logical core take part in the collective, but the data is moved only once. Tensors in
SBUF or in private HBM belong to a core: each core exchanges them with the cores that have the same
number in the other ranks (`clause.operand.participation`).

In this module, rank r of a group is the rank at position r of the group. The "rank number" is the
number of a rank in the launch. Codes are the elements of a tensor as memory stores them, in the
tensor's format. A channel arranges the ranks of a group as a ring (`replica_groups.ring`)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from neuroncore.base import buffers
from neuroncore.base.errors import BufferKindError, KernelError, OutOfBoundsError
from neuroncore.base.units import dimensions, plural
from neuroncore.clause.alu import Operator
from neuroncore.clause.operand import participation
from neuroncore.clause.refusal import require
from neuroncore.core.core import Core, Point
from neuroncore.core.replica_groups import Groups, chip_ranks, own_group, participants, ring
from neuroncore.memory.storage import Born
from neuroncore.memory.tile import Array, Tile
from neuroncore.numerics import codec

EXACT = 1 << 24  # float32 represents all integers up to this number


@dataclass(frozen=True, eq=False)
class RankPart:
    """The part of one core in a collective.

    `ranks`: the ranks that take part
    `alike`: the arguments, by name, that must be equal on all ranks
    `site`: the place of the call in the user's code"""

    core: Core
    srcs: Sequence[Tile]
    dsts: Sequence[Tile]
    ranks: Sequence[int]
    alike: dict[str, Any]
    metadata: Tile | None
    site: Born

    @property
    def tiles(self) -> list[Tile]:
        """All tensors of the part."""
        return [*self.srcs, *self.dsts, *([] if self.metadata is None else [self.metadata])]

    @property
    def counts(self) -> Array:
        """The metadata tensor, shape [rows, ranks]: counts and positions (`Lengths`)."""
        assert self.metadata is not None
        codes = self.metadata.codes()
        return codes.reshape(codes.shape[-2:])


Parts = list[RankPart]  # one for each rank of a group, in the group's order


def part(
    core: Core,
    srcs: Sequence[Tile],
    dsts: Sequence[Tile],
    metadata: Tile | None = None,
    ranks: Sequence[int] | None = None,
    **alike: Any,
) -> RankPart:
    """Return a core's part in a collective of `ranks`, by default its replica group. Raises the
    errors of `own_group`."""
    members = own_group(core, alike["replica_group"]) if ranks is None else ranks
    forms = ", ".join(f"{tile.dtype} {tile.region.value}" for tile in srcs)
    if metadata is None:
        forms = ", ".join(map(_form, srcs))
    return RankPart(
        core, srcs, dsts, members, {**alike, "srcs": forms}, metadata, core.birthplace()
    )


def _form(tile: Tile) -> str:
    return f"{dimensions(tile.shape)} {tile.dtype} in {tile.region.value}"


def together(name: str, mine: RankPart, carry_out: Callable[[Parts], None]) -> None:
    """Wait until all cores of the collective `name` have arrived.

    The last core then calls `carry_out` with one part from each rank. If the cores of a rank
    exchange different data, it calls `carry_out` once for each core number. Raises KernelError if
    ranks disagree about an argument, and the error of `_check_memories`."""
    _check_memories(mine)
    core, how = mine.core, participation(mine.tiles)
    members = participants(core.world, core.number, mine.ranks, how.waits)

    def all_there(values: dict[int, RankPart]) -> None:
        everyone = [values[number] for number in members]
        _check_alike(name, everyone)
        step = core.world.cores if how.waits else 1
        if how.once:
            _report_other_tensors(everyone, step)
        for first in range(1 if how.once else step):
            for part in (parts := everyone[first::step]):
                for tile in part.srcs:
                    part.core.check_written("srcs", tile, site=part.site)
            carry_out(parts)

    if core.peers is None or len(members) == 1:
        all_there({core.number: mine})
    else:
        core.peers.meet(core.number, Point(name, frozenset(members)), mine, all_there)


def _report_other_tensors(everyone: Parts, cores: int) -> None:
    """Report cores whose tensors in shared HBM are not those of core 0 of their rank. `everyone`
    lists `cores` parts for each rank."""
    for position, part in enumerate(everyone):
        first = everyone[position - position % cores]
        pairs = zip(part.tiles, first.tiles, strict=True)
        if any(_place(tile) != _place(tile_of_first) for tile, tile_of_first in pairs):
            number = position % cores
            part.core.report(
                "CORES_DIFFER",
                f"core {number} has other tensors in shared_hbm than core 0 of its rank: the data "
                f"of core {number} is not exchanged",
                site=part.site,
            )


def _place(tile: Tile) -> tuple[object, ...]:
    return id(tile.storage), tile.offset, tile.shape, tile.strides


def _check_memories(part: RankPart) -> None:
    """Raise BufferKindError if srcs, or dsts, are in both private and shared HBM. This is allowed
    for ranks of one core (nki.collectives of SDK 2.33)."""
    for argument, tiles in (("srcs", part.srcs), ("dsts", part.dsts)):
        require(
            part.core.world.cores == 1 or len({tile.region for tile in tiles}) == 1,
            f"{argument} has tensors in private_hbm and in shared_hbm",
            BufferKindError,
            argument=argument,
            expected=f"all tensors of {argument} in private_hbm, or all in shared_hbm",
            because="private_hbm belongs to a core, but shared_hbm belongs to a rank",
        )


def _check_alike(name: str, parts: Parts) -> None:
    first = parts[0]
    for part in parts[1:]:
        for argument, value in first.alike.items():
            if part.alike.get(argument) != value:
                world = part.core.world
                here, there = (world.named(member.core.number) for member in (part, first))
                raise KernelError(
                    f"{name}: {here} and {there} have different values of {argument}",
                    argument=argument,
                    expected=f"{value}, as on {there}",
                    got=str(part.alike.get(argument)),
                    because="a collective is one operation of all ranks in a group",
                )


# --- moving ---------------------------------------------------------------------------------------


def put(tile: Tile, codes: Array, start: int | None = None) -> None:
    """Write codes to a tile, and increase the version of its storage.

    `codes`: in the tile's format, in the order of its elements
    `start`: write from this element on, and mark these elements as written; by default, `codes`
        fill the tile

    The tile may be on another core that is still waiting. Its instruction increases the version
    only when it continues; until then, the increase here makes data invalid that was cached for the
    old version."""
    if start is None:
        tile.codes()[...] = codes.reshape(tile.shape)
    else:
        part = slice(start, start + codes.size)
        tile.codes().flat[part] = codes
        written = np.zeros(tile.size, np.bool_)
        written[part] = True
        tile.mark_written(written.reshape(tile.shape))
    tile.storage.version += 1


def sources(parts: Parts) -> list[list[Array]]:
    """Return copies of the codes of all sources, by rank and src."""
    return [[np.array(tile.codes(), order="C") for tile in part.srcs] for part in parts]


def gather(parts: Parts, axis: int) -> None:
    """Concatenate the i-th src of all ranks along `axis`, and write the result to the i-th dst of
    every rank."""
    for at, codes in enumerate(zip(*sources(parts), strict=True)):
        whole = np.concatenate(codes, axis)
        for part in parts:
            put(part.dsts[at], whole)


def reduce(parts: Parts, op: Operator) -> None:
    """Reduce the i-th src of all ranks, and write the result to the i-th dst of every rank."""
    for at, codes in enumerate(_reductions(parts, op)):
        for part in parts:
            put(part.dsts[at], codes)


def scatter(parts: Parts, op: Operator, axis: int) -> None:
    """Reduce the i-th src of all ranks, and split the result along `axis` into one piece for each
    rank. Write each piece to the i-th dst of its rank."""
    for at, codes in enumerate(_reductions(parts, op)):
        whole = codes.reshape(parts[0].srcs[at].shape)
        for part, piece in zip(parts, np.split(whole, len(parts), axis), strict=True):
            put(part.dsts[at], piece)


def _reductions(parts: Parts, op: Operator) -> list[Array]:
    first, tiles = parts[0].core, zip(*(part.srcs for part in parts), strict=True)
    # the first rank's core computes the reduction, and all ranks get the same bits
    if first.rounding is not None:
        first.rounding.resume(first.program_id)
    results = []
    for of_ranks in tiles:
        way, chip = first.options.collective_rounding, chip_ranks(first)
        codes = reduced(way, of_ranks, op, chip)
        _check_exact(parts[0], of_ranks, op, codes)
        results.append(codes)
    return results


def _check_exact(part: RankPart, tiles: Sequence[Tile], op: Operator, codes: Array) -> None:
    """Report sums of 32-bit integers that float32 has rounded.

    The compiler of graphs refuses such additions (NCC_EVRF061). Nothing is published about NKI."""
    if not tiles[0].dtype.is_integer or op.name != "add" or tiles[0].dtype.itemsize < 4:
        return
    exact = np.sum([tile.codes().astype(np.int64).reshape(-1) for tile in tiles], axis=0)
    wrong = int((exact != codes).sum())
    if wrong:
        part.core.report(
            "INTEGER_SUM",
            f"{wrong} of {plural(codes.size, 'sum')} of {tiles[0].dtype} over ranks "
            f"{'is' if wrong == 1 else 'are'} not exact: values are added in float32, which "
            f"represents all integers only up to {EXACT}",
            site=part.site,
        )


def exchange(parts: Parts) -> None:
    """Exchange pieces between ranks: piece k of rank r's dst = piece r of rank k's src."""
    count = len(parts)
    for at, codes in enumerate(zip(*sources(parts), strict=True)):
        pieces = [array.reshape(count, -1) for array in codes]
        for to, part in enumerate(parts):
            put(part.dsts[at], np.stack([array[to] for array in pieces]))


def permute(parts: Parts, pairs: Groups) -> None:
    """Copy the src of each source to the dst of its target. `pairs` lists (source, target). Other
    dsts stay unchanged."""
    by_rank = {part.core.rank: part for part in parts}
    codes = {rank: np.array(part.srcs[0].codes(), order="C") for rank, part in by_rank.items()}
    for source, target in pairs:
        put(by_rank[target].dsts[0], codes[source])
        by_rank[target].dsts[0].mark_written()


# --- rings ----------------------------------------------------------------------------------------


def pass_on(parts: Parts, channels: Sequence[int], sent: Sequence[Sequence[Array]]) -> None:
    """Send codes from each rank to the next rank in the ring of each channel.

    `sent`: sent[r][c] are the codes that rank r sends on `channels[c]`"""
    core, ranks = parts[0].core, [part.core.rank for part in parts]
    for at, channel in enumerate(channels):
        around = ring(core, ranks, channel)
        for place, rank in enumerate(around):
            before = ranks.index(around[place - 1])
            put(parts[ranks.index(rank)].dsts[at], sent[before][at])


def joined(parts: Parts, op: Operator) -> list[list[Array]]:
    """Return the codes of op(a, b) for each rank. `a` is a source in the first half of the rank's
    sources, and `b` is the corresponding source in the second half."""
    return [_halves(part, op) for part in parts]


def _halves(part: RankPart, op: Operator) -> list[Array]:
    half, codes = len(part.srcs) // 2, []
    if part.core.rounding is not None:
        part.core.rounding.resume(part.core.program_id)
    for tile, other in zip(part.srcs[:half], part.srcs[half:], strict=True):
        a, b = (np.ascontiguousarray(operand.values()).reshape(1, -1) for operand in (tile, other))
        out = np.empty_like(a)
        op.apply(a, b, out)
        codes.append(tile.rounded(out))
    return codes


Join = Callable[[Array, Array], Array]
# rounds values to the format of the tensor, and returns them as float32
Rounded = Callable[[Array], Array]


def reduced(way: str, tiles: Sequence[Tile], op: Operator, chip: int) -> Array:
    """Return the reduction of `tiles`, one per rank, as a flat array of codes.

    `way`: a value of `Options.collective_rounding`: the order of sums, and where they are rounded
    `chip`: the number of consecutive ranks on a chip

    Nothing about `way` is published. Numbers are added in float32, as the DMA engines do (inferred
    from aws-neuron-sdk neuron-runtime/explore/intranode-collective-comm.rst)."""
    first = tiles[0]
    if len(tiles) == 1:
        return np.array(first.codes(), order="C").reshape(-1)
    values = [np.ascontiguousarray(tile.values()).reshape(-1) for tile in tiles]

    def join(a: Array, b: Array) -> Array:
        out = buffers.array(a.shape, a.dtype)
        op.apply(a.reshape(1, -1), b.reshape(1, -1), out.reshape(1, -1))
        return out

    def rounded(wide: Array) -> Array:
        codes = first.rounded(wide)
        is_wide = codes.dtype == wide.dtype
        return codes if is_wide else codec.decode(first.held, codes)

    if way == "ring":
        return first.rounded(ring_order(values, join, rounded))
    if way == "mesh":
        return first.rounded(mesh_order(values, join, rounded, chip))
    return first.rounded(chain_order(values, join))


def chain_order(values: Sequence[Array], join: Join) -> Array:
    """Reduce the arrays in the order of the ranks with `join(a, b)`, without rounding to the format
    of the tiles."""
    return functools.reduce(join, values)


def ring_order(values: Sequence[Array], join: Join, rounded: Rounded) -> Array:
    """Split the array of each of n ranks into n pieces. Reduce the pieces with the same number.

    The partial sum for piece p travels around the ring, from rank p + 1 to rank p. Every rank on
    the way adds its own piece p, and rounds the sum because it writes the sum to memory."""
    count = len(values)
    pieces = [np.array_split(array, count) for array in values]
    done = []
    for p in range(count):
        around = [pieces[(p + 1 + hop) % count][p] for hop in range(count)]
        done.append(functools.reduce(lambda a, b: rounded(join(a, b)), around))
    return np.concatenate(done)


def mesh_order(values: Sequence[Array], join: Join, rounded: Rounded, chip: int) -> Array:
    """Reduce the arrays on each chip, and round each result once. Then reduce these results without
    further rounding. `chip` is the number of ranks on a chip."""
    chips = [values[at : at + chip] for at in range(0, len(values), chip)]
    return chain_order([rounded(chain_order(arrays, join)) for arrays in chips], join)


class Lengths(NamedTuple):
    """The meaning of the rows of the metadata tensor. Counts and positions are numbers of elements.

    * Rows 0 and 1: column t describes the data that this rank sends to rank t. Row 0 contains the
      count, row 1 the position in src. If `to_all` is true, column 0 applies to all ranks.
    * Row 2: the count of the data from rank s is written to column s. If the counts are `known`,
      nothing is written to this row.
    * Row 3: if `displaced` is true, column s contains the position in dst of the data from rank s.
      Otherwise this row is not read, and dst has a slot of equal size for each sender."""

    to_all: bool
    known: bool
    displaced: bool

    def deliver(self, parts: Parts) -> None:
        """Copy data from each rank to every rank, as the metadata tensors require. Raises
        OutOfBoundsError before the first copy if data does not fit."""
        sent = [codes[0].reshape(-1) for codes in sources(parts)]
        rows = [part.counts.astype(np.int64) for part in parts]
        each = range(len(parts))
        spans = {(s, t): _span(parts, rows, (s, t), self) for s in each for t in each}
        for (source, target), (begin, count, place) in spans.items():
            put(parts[target].dsts[0], sent[source][begin : begin + count], place)
        if not self.known:
            for target in each:
                metadata = parts[target].metadata
                assert metadata is not None
                counts = np.array([spans[source, target][1] for source in each])
                put(metadata, counts, 2 * len(counts))  # row 2


def _span(
    parts: Parts, rows: Sequence[Array], pair: tuple[int, int], lengths: Lengths
) -> tuple[int, int, int]:
    """Return (start in the sender's src, count, start in the receiver's dst), in elements.

    `pair` is (sender, receiver). `rows` lists the metadata tensors of the ranks. Raises
    OutOfBoundsError if data is outside of the src, the dst, or the sender's slot in the dst."""
    source, target = pair
    column = 0 if lengths.to_all else target
    count, begin = (int(rows[source][row, column]) for row in (0, 1))
    there, room = parts[source].srcs[0].size, parts[target].dsts[0].size
    slot = room // len(parts)
    place = int(rows[target][3, source]) if lengths.displaced else source * slot
    most = max(room - place, 0) if lengths.displaced else slot
    who, whom = (parts[rank].core.rank for rank in pair)
    for ok, problem, limit in (
        (begin + count <= there, "sends elements beyond the end of its src", there),
        (count <= most, f"sends more elements than dst of rank {whom} has room for", most),
    ):
        require(
            ok,
            f"rank {who} {problem}",
            OutOfBoundsError,
            argument="metadata_tensor",
            expected=f"at most {plural(limit, 'element')}",
            got=f"{plural(count, 'element')}, the first at position {begin}",
            because="the device reads counts and positions from metadata_tensor at run time",
        )
    return begin, count, place
