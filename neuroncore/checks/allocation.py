"""Tensors that the kernel places in a memory where the system places others."""

from __future__ import annotations

from collections.abc import Iterator

from neuroncore.base.findings import Finding
from neuroncore.checks.uses import Uses

TOLD = 4  # lines, at most


def findings(uses: Uses) -> Iterator[Finding]:
    """Return a finding for each of the first lines that let the system place a tensor, in a memory
    where the kernel has placed others."""
    kinds = uses.program.kinds
    placed = {kind.region for kind in kinds if kind.placed}
    free = (k for k in kinds if not k.placed and k.region in placed and k.line >= 0)
    lines = dict.fromkeys((kind.line, kind.region) for kind in free)
    for line, region in list(lines)[:TOLD]:
        yield Finding(
            "MIXED_ALLOCATION",
            f"a tensor in {region.value} without an address, where others have explicit addresses"
            "kernel gives them",
            uses.program.place(line),
        )
