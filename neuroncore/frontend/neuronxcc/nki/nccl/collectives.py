"""neuronxcc.nki.nccl.collectives: a function that permutes data around rings of ranks, and a
function that returns the rank whose data arrives in a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from neuroncore.frontend import issue
from neuroncore.frontend.neuronxcc.nki.results import flush, tile
from neuroncore.memory.register import VirtualRegister

Groups = Sequence[Sequence[int]]
Pairs = Sequence[Sequence[int]]

__all__ = ["collective_permute_implicit"]


def collective_permute_implicit(
    *, dst: Any, src: Any, replica_groups: Groups, channel_id: int = 0, num_channels: int = 1,
    mask: Any = True,
) -> None:  # fmt: skip
    """Copy the src of the preceding rank to dst. The ranks are arranged in the ring of the channel
    `channel_id`. If `mask` is False the call does nothing."""
    if not mask:
        return
    arguments = {"replica_group": replica_groups, "channel_ids": [channel_id]}
    issued("collective_permute_implicit", [src], [dst], **arguments)


def cc_div(numerator: int, denominator: int, replica_groups: Groups) -> int:
    """Return the rank whose data has arrived, as a position in the replica group.

    `numerator` is the number of channels times the step, plus the channel. `denominator` is the
    number of channels. Both meanings are inferred from collective_matmul.py of AWS's contributed
    kernels, which imports this function from _private.private_api."""
    step, channel = divmod(numerator, denominator)
    register = VirtualRegister()
    set_rank = issue.function("collective_permute_implicit_current_processing_rank_id")
    set_rank(register, step, replica_groups, channel)
    return next(ranks for ranks in replica_groups if register.value in ranks).index(register.value)


def issued(name: str, srcs: Sequence[Any], dsts: Sequence[Any], **others: Any) -> None:
    """Issue the collective `name` on tensors of the older API. `others` are the other arguments.
    First issue the delayed instruction, whose result is not assigned yet (`results`), because it
    may compute an input of the collective."""
    flush()
    sources, results = [tile(src, "srcs") for src in srcs], [tile(dst, "dsts") for dst in dsts]
    issue.function(name)(srcs=sources, dsts=results, **others)


def __dir__() -> list[str]:
    return __all__
