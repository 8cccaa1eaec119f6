"""neuronxcc.nki.nccl: collectives over ranks, as AWS's contributed kernels use them.

The module is undocumented. Each function has the parameters that those kernels pass (nki-samples
contributed/neuron-team-kernels)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from neuroncore.base.errors import SignatureError
from neuroncore.base.units import plural
from neuroncore.frontend.neuronxcc.nki.keywords import token
from neuroncore.frontend.neuronxcc.nki.nccl import collectives as collectives
from neuroncore.frontend.neuronxcc.nki.nccl.collectives import Groups, Pairs, issued

__all__ = ["all_gather", "all_reduce", "collective_permute", "collectives", "reduce_scatter"]


def all_reduce(
    *, op: Any, srcs: Sequence[Any], dsts: Sequence[Any], replica_groups: Groups, dtype: Any = None
) -> None:
    """Combine the srcs of all ranks of the group by `op`, element by element. Each rank's dsts get
    the result."""
    issued("all_reduce", srcs, dsts, replica_group=replica_groups, op=token(op))


def all_gather(
    *, srcs: Sequence[Any], dsts: Sequence[Any], replica_groups: Groups, all_gather_dim: int,
    op: Any = None, dtype: Any = None,
) -> None:  # fmt: skip
    """Concatenate the srcs of all ranks of the group along the axis all_gather_dim. Each rank's
    dsts get the result. `op` has no effect."""
    _check_dim("all_gather_dim", all_gather_dim, srcs)
    issued("all_gather", srcs, dsts, replica_group=replica_groups, collective_dim=all_gather_dim)


def reduce_scatter(
    *, op: Any, srcs: Sequence[Any], dsts: Sequence[Any], replica_groups: Groups,
    reduce_scatter_dim: int, dtype: Any = None,
) -> None:  # fmt: skip
    """Combine the srcs of all ranks of the group by `op`, element by element. Split the result
    along the axis reduce_scatter_dim into one equal part for each rank. Each rank's dsts get only
    the part of this rank."""
    _check_dim("reduce_scatter_dim", reduce_scatter_dim, srcs)
    arguments = {"replica_group": replica_groups, "collective_dim": reduce_scatter_dim}
    issued("reduce_scatter", srcs, dsts, op=token(op), **arguments)


def collective_permute(*, dst: Any, src: Any, source_target_pairs: Pairs) -> None:
    """Copy data between pairs (source rank, target rank): the source rank's src to the target
    rank's dst."""
    issued("collective_permute", [src], [dst], source_target_pairs=source_target_pairs)


def _check_dim(name: str, dim: int, srcs: Sequence[Any]) -> None:
    """Raise SignatureError for a dimension that the tensors don't have."""
    axes = min((len(src.shape) for src in srcs), default=dim + 1)
    if not 0 <= dim < axes:
        raise SignatureError(
            f"{name} is {dim}, but the tensors have {plural(axes, 'axis', 'axes')}",
            argument=name,
            expected=f"use an axis from 0 to {axes - 1}",
            got=str(dim),
        )


def __dir__() -> list[str]:
    return __all__
