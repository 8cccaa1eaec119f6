"""neuronxcc.nki.nccl: collectives over ranks, as AWS's contributed kernels use them.

The module is undocumented. Each function has the parameters that those kernels pass (nki-samples
contributed/neuron-team-kernels).
"""

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
    """Combine the srcs of all ranks of the group by `op`, element by element, and write the result
    to dsts."""
    issued("all_reduce", srcs, dsts, replica_group=replica_groups, op=token(op))


def all_gather(
    *, srcs: Sequence[Any], dsts: Sequence[Any], replica_groups: Groups, all_gather_dim: int,
    op: Any = None, dtype: Any = None,
) -> None:  # fmt: skip
    """Concatenate the srcs of all ranks of the group along the axis all_gather_dim, and write the
    result to dsts. `op` has no effect."""
    _check_dim("all_gather_dim", all_gather_dim, srcs)
    issued("all_gather", srcs, dsts, replica_group=replica_groups, collective_dim=all_gather_dim)


def reduce_scatter(
    *, op: Any, srcs: Sequence[Any], dsts: Sequence[Any], replica_groups: Groups,
    reduce_scatter_dim: int, dtype: Any = None,
) -> None:  # fmt: skip
    """Combine the srcs of all ranks of the group by `op`, element by element. Cut the result into
    equal parts along the axis reduce_scatter_dim, one for each rank, and write this rank's part to
    dsts."""
    _check_dim("reduce_scatter_dim", reduce_scatter_dim, srcs)
    arguments = {"replica_group": replica_groups, "collective_dim": reduce_scatter_dim}
    issued("reduce_scatter", srcs, dsts, op=token(op), **arguments)


def collective_permute(*, dst: Any, src: Any, source_target_pairs: Pairs) -> None:
    """Copy to dst the src of the rank r for which source_target_pairs has the pair (r, this
    rank)."""
    issued("collective_permute", [src], [dst], source_target_pairs=source_target_pairs)


def _check_dim(name: str, dim: int, srcs: Sequence[Any]) -> None:
    """Raise SignatureError for a dimension that the tensors don't have."""
    axes = min((len(src.shape) for src in srcs), default=dim + 1)
    if not 0 <= dim < axes:
        raise SignatureError(
            f"{name} is {dim}, but the tensors have {plural(axes, 'axis', 'axes')}",
            argument=name,
            expected=f"0 to {axes - 1}",
            got=str(dim),
        )


def __dir__() -> list[str]:
    return __all__
