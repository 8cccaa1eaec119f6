"""How to run: one frozen value, each field with its default and its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Options:
    matmul: Literal["chain", "blas"] = "chain"
    """`chain` adds products from PE row 0 to the last with fused multiply-adds: the same bits on
    every machine. `blas` asks numpy's BLAS instead, whose last bits depend on processor, thread
    count and tile shape."""

    mx_scale: Literal["ocp_x2", "ocp"] = "ocp_x2"
    """How `quantize_mx` chooses the scale of a group. `ocp_x2` is 2^(floor(log2 amax) - emax + 1),
    as documented since NKI 0.5.0: twice the example of the OCP specification, so that the largest
    numbers are rounded and not cut off. `ocp` is that example, 2^(floor(log2 amax) - emax): older
    releases had it, and the vendor's published reference results still have."""

    record: bool = True
    """Keep the Program that the schedule, the checks and the reports read."""

    record_limit: int = 4_000_000
    """Instructions after which the record ends, at about 200 bytes each less than 1 GB. The kernel
    runs on. A finding (RECORD_LIMIT) says so, and every estimate, report and saved profile says
    that it covers only the beginning."""

    uninitialised: Literal["report", "raise"] = "report"
    """A read of memory nothing has written yields poison; `raise` stops there instead."""
