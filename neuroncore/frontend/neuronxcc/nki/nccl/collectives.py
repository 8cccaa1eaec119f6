"""neuronxcc.nki.nccl.collectives: permutes around rings of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from neuroncore.frontend import issue
from neuroncore.frontend.neuronxcc.nki.results import flush, tile

Groups = Sequence[Sequence[int]]
Pairs = Sequence[Sequence[int]]

__all__ = ["collective_permute_implicit"]


def collective_permute_implicit(
    *, dst: Any, src: Any, replica_groups: Groups, channel_id: int = 0, num_channels: int = 1
) -> None:
    """dst = src of the rank's predecessor in a channel's ring. Each call is of one channel."""
    given = {"replica_group": replica_groups, "channel_ids": [channel_id]}
    issued("collective_permute_implicit", [src], [dst], **given)


def issued(name: str, srcs: Sequence[Any], dsts: Sequence[Any], **given: Any) -> None:
    """Issue a collective on tensors of the older API; what it reads has been computed before."""
    flush()
    sources, results = [tile(src, "srcs") for src in srcs], [tile(dst, "dsts") for dst in dsts]
    issue.function(name)(srcs=sources, dsts=results, **given)


def __dir__() -> list[str]:
    return __all__
