"""Collectives whose lengths are known at run time: each rank has rows of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from neuroncore.base.errors import OutOfBoundsError
from neuroncore.clause.instruction import require
from neuroncore.core.collectives import Parts, RankPart, sources
from neuroncore.memory.tile import Array


class Lengths(NamedTuple):
    """The meaning of the rows of metadata: counts and places of the data that is sent; counts of
    the data that arrived, written unless they are `known`; and its places, read if it is
    `displaced`; otherwise each sender has its own slot. With `to_all` a rank sends the same to
    everyone."""

    to_all: bool
    known: bool
    displaced: bool

    def deliver(self, parts: Parts) -> None:
        """Write what each rank sends to each other, as its metadata says, in elements. Raises
        OutOfBoundsError, before anything is written, for what has no room."""
        sent = [codes[0].reshape(-1) for codes in sources(parts)]
        rows = [part.counts.astype(np.int64) for part in parts]
        each = range(len(parts))
        spans = {(s, t): _span(parts, rows, (s, t), self) for s in each for t in each}
        for (source, target), (begin, count, place) in spans.items():
            codes, dst = sent[source][begin : begin + count], parts[target].dsts[0]
            dst.codes().flat[place : place + count] = codes
            written = np.zeros(dst.size, np.bool_)
            written[place : place + count] = True
            dst.mark_written(written.reshape(dst.shape))
        if not self.known:
            for target in each:
                _tell_counts(parts[target], [spans[source, target][1] for source in each])


def _tell_counts(part: RankPart, counts: Sequence[int]) -> None:
    """Write the row of what has come."""
    metadata = part.metadata
    assert metadata is not None
    metadata.codes().flat[2 * len(counts) : 3 * len(counts)] = counts
    chosen = np.zeros(metadata.size, np.bool_)
    chosen[2 * len(counts) : 3 * len(counts)] = True
    metadata.mark_written(chosen.reshape(metadata.shape))


def _span(
    parts: Parts, rows: Sequence[Array], pair: tuple[int, int], how: Lengths
) -> tuple[int, int, int]:
    """Where in its src a rank has what goes to another, how much it is, and where that puts it.
    Raises OutOfBoundsError for what isn't in the tensor or in its slot."""
    source, target = pair
    column = 0 if how.to_all else target
    count, begin = (int(rows[source][row, column]) for row in (0, 1))
    there, room = parts[source].srcs[0].size, parts[target].dsts[0].size
    slot = room // len(parts)
    place = int(rows[target][3, source]) if how.displaced else source * slot
    most = max(room - place, 0) if how.displaced else slot
    who, whom = (parts[one].core.rank for one in pair)
    for ok, said, limit in (
        (begin + count <= there, "sends elements beyond its src", there),
        (count <= most, f"sends more than rank {whom} has room for", most),
    ):
        require(
            ok,
            f"rank {who} {said}",
            OutOfBoundsError,
            argument="metadata_tensor",
            expected=f"at most {limit} elements",
            got=f"{count} elements from {begin} on",
            because="sizes are checked at run time",
        )
    return begin, count, place
