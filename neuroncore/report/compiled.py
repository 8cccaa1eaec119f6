"""What the device's compiler makes of a kernel, beside its source lines."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from neuroncore.compiler import Compiled
from neuroncore.compiler.queues import QUEUES
from neuroncore.report.units import size


def listing(form: Compiled) -> Iterator[str]:
    """For each line and instruction, in the order of their first use: how many are issued and on
    which queues, and how many are left out and why; then what is spilled."""
    line, call = form.columns.line, form.columns.call
    pairs, first, of = np.unique(
        np.column_stack((line, call)), axis=0, return_index=True, return_inverse=True
    )
    names = [form.program.calls[c].name for c in pairs[:, 1].tolist()]
    kinds: dict[tuple[int, str], list[int]] = {}
    for k in np.argsort(first).tolist():
        kinds.setdefault((int(pairs[k, 0]), names[k]), []).append(k)
    for (number, name), own in kinds.items():
        members = np.flatnonzero(np.isin(of.reshape(-1), own))
        place = form.program.place(number).short
        yield f"{place:24} {name:22} {', '.join(_said(form, members))}"
    moved = form.traffic
    if moved.spill_save_bytes or moved.spill_reload_bytes or moved.reread_bytes:
        yield (
            f"spilled {size(moved.spill_save_bytes)}, reloaded {size(moved.spill_reload_bytes)}, "
            f"read again from where it came {size(moved.reread_bytes)}"
        )


def _said(form: Compiled, members: npt.NDArray[np.intp]) -> Iterator[str]:
    left = members[form.issued[members]]
    counts = np.bincount(form.queue[left], minlength=len(QUEUES)).tolist()
    yield from (f"{count:,} on {QUEUES[q]}" for q, count in enumerate(counts) if count)
    for why, found in (
        ("there already", form.same_as),
        ("written in place", form.maker),
        ("read in PSUM", form.bypass.source),
    ):
        if count := int((found[members] >= 0).sum()):
            yield f"{count:,} left out: {why}"
