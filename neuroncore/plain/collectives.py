"""Collectives. `parts` lists the instruction of each core, in the order of the group."""

from collections.abc import Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from neuroncore.plain.arithmetic import apply
from neuroncore.plain.formats import Array, decode

Parts = Sequence[Any]


def all_reduce(parts: Parts) -> None:
    """dsts[k] = op over srcs[k] of all ranks of the group"""
    for k, codes in enumerate(reductions(parts)):
        for i in parts:
            i.dsts[k].put(codes)


def all_gather(parts: Parts) -> None:
    """dsts[k] = srcs[k] of all ranks, concatenated along collective_dim"""
    for k, codes in enumerate(sources(parts)):
        for i in parts:
            i.dsts[k].put(np.concatenate(codes, i.collective_dim))


def reduce_scatter(parts: Parts) -> None:
    """dsts[k] = this rank's part of op over srcs[k] of all ranks; equal parts along
    collective_dim"""
    for k, codes in enumerate(reductions(parts)):
        whole = codes.reshape(parts[0].srcs[k].shape)
        pieces = np.split(whole, len(parts), parts[0].collective_dim)
        for i, piece in zip(parts, pieces, strict=True):
            i.dsts[k].put(piece)


def all_to_all(parts: Parts) -> None:
    """part n of dsts[k] = this rank's part of rank n's srcs[k]"""
    for k, codes in enumerate(sources(parts)):
        pieces = [array.reshape(len(parts), -1) for array in codes]
        for n, i in enumerate(parts):
            i.dsts[k].put(np.stack([array[n] for array in pieces]))


def all_gather_v(parts: Parts) -> None:
    """part n of dsts[0] = the elements of rank n's srcs[0] that its metadata selects"""
    deliver(parts, to_all=True)


def all_to_all_v(parts: Parts) -> None:
    """part n of dsts[0] = the elements that rank n's metadata sends to this rank"""
    deliver(parts, to_all=False)


def collective_permute(parts: Parts) -> None:
    """dsts[0] = srcs[0] of this rank's source in the pairs; unchanged without a source"""
    (sent,), ranks = sources(parts), [i.core.rank for i in parts]
    for source, target in parts[0].source_target_pairs:
        if target in ranks:
            parts[ranks.index(target)].dsts[0].put(sent[ranks.index(source)])


def collective_permute_implicit(parts: Parts) -> None:
    """dsts[k] = srcs[k] of the rank's predecessor in the ring of channel k"""
    pass_on(parts, sources(parts))


def collective_permute_implicit_reduce(parts: Parts) -> None:
    """dsts[k] = op(srcs[k], others[k]), computed by the rank's predecessor in the ring of channel
    k"""
    sent = []
    for i in parts:
        op, pairs = i.core.operator(i.op), zip(i.srcs, i.others, strict=True)
        sent.append([a.round(a.held, apply(op, a.values(), b.values())) for a, b in pairs])
    pass_on(parts, list(zip(*sent, strict=True)))


def sources(parts: Parts) -> list[list[Array]]:
    """Return, for each k, the codes of srcs[k] of all ranks."""
    return [[src.codes() for src in srcs] for srcs in zip(*(i.srcs for i in parts), strict=True)]


def pass_on(parts: Parts, sent: Sequence[Sequence[Array]]) -> None:
    """Send sent[k][n] from the group's n-th rank to dsts[k] of the next rank in the ring of channel
    k."""
    ranks = [i.core.rank for i in parts]
    for k, channel in enumerate(parts[0].channel_ids):
        around = parts[0].core.ring(ranks, channel)
        for place, rank in enumerate(around):
            parts[ranks.index(rank)].dsts[k].put(sent[k][ranks.index(around[place - 1])])


def reductions(parts: Parts) -> list[Array]:
    """Return the codes of the reduction of each srcs[k]. The first rank rounds for all ranks."""
    return [reduced(parts[0], srcs) for srcs in zip(*(i.srcs for i in parts), strict=True)]


def reduced(i: Any, srcs: Sequence[Any]) -> Array:
    """Return the codes of the reduction of `srcs`, one for each rank. `Options.collective_rounding`
    selects one of three ways. chain combines the ranks in order and rounds once. ring cuts the data
    into as many parts as ranks; part p begins with rank p + 1 and is rounded after each rank. mesh
    combines the ranks of each chip and rounds, then combines the chips and rounds."""
    form, count, way = srcs[0].held, len(srcs), i.core.options.collective_rounding
    x, encode = [src.values().reshape(-1) for src in srcs], i.core.round
    join = partial(apply, i.core.operator(i.op))

    def rounded(values: Array) -> Array:
        return decode(form, encode(form, values))

    if count == 1:
        return srcs[0].codes()
    if way == "mesh":
        x = [rounded(reduce(join, x[at : at + i.core.chip])) for at in range(0, count, i.core.chip)]
    if way != "ring":
        return encode(form, reduce(join, x))
    pieces = [np.array_split(numbers, count) for numbers in x]
    around = [[pieces[(p + 1 + hop) % count][p] for hop in range(count)] for p in range(count)]
    done = [reduce(lambda a, b: rounded(join(a, b)), terms) for terms in around]
    return encode(form, np.concatenate(done))


def deliver(parts: Parts, to_all: bool) -> None:
    """Copy elements from each rank to each rank. Column n of a rank's metadata is about rank n: row
    0 is the number of elements to send to rank n, and row 1 is their position in src. If
    `has_rdispls` is True, row 3 contains the position in dst of the elements from rank n. Otherwise
    dst has equal parts. Unless `recv_counts_known` is True, the number of elements that arrived
    from each rank is written to row 2. If `to_all` is True, column 0 is about all ranks."""
    (sent,), count = sources(parts), len(parts)
    rows = [i.metadata_tensor.codes().reshape(-1, count).astype(np.int64) for i in parts]
    for target, i in enumerate(parts):
        counts, slot = [], i.dsts[0].positions.size // count
        for source, codes in enumerate(sent):
            length, begin = rows[source][:2, 0 if to_all else target]
            place = rows[target][3, source] if i.has_rdispls else source * slot
            where = np.unravel_index(np.arange(place, place + length), i.dsts[0].shape)
            i.dsts[0].part(where).put(codes.reshape(-1)[begin : begin + length])
            counts.append(length)
        if not i.recv_counts_known:
            where = np.unravel_index(np.arange(2 * count, 3 * count), i.metadata_tensor.shape)
            i.metadata_tensor.part(where).put(np.array(counts))
