"""The outcome of a launch, for the top of its page: right, wrong, or stopped by an error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from neuroncore.base.source import Place
from neuroncore.base.structs import dataclass
from neuroncore.report.compare import Agreement


@dataclass(frozen=True)
class Outcome:
    """The outcome in words; for `failed` the message of the error, and its line if there is one in
    the user's code."""

    kind: Literal["right", "wrong", "failed"]
    text: str
    place: Place | None = None


def compared(found: Agreement) -> Outcome:
    """Return the outcome of a comparison with a reference: each result that differs, with its
    largest difference."""
    if found:
        limits = ", ".join(f"{allowed:.3g}" for allowed in found.tolerances)
        return Outcome(
            "right", f"the results agree with the reference, relative L2 at most {limits}"
        )
    return Outcome("wrong", "\n".join(_differing(found)))


def _differing(found: Agreement) -> Iterator[str]:
    for number, (one, allowed) in enumerate(zip(found.comparisons, found.tolerances, strict=True)):
        if not one.rel_l2 <= allowed:
            at = ", ".join(map(str, one.worst))
            yield (
                f"result {number} differs, worst element at ({at}): got {one.got:.9g}, "
                f"want {one.want:.9g}, relative L2 {one.rel_l2:.3g} (at most {allowed:.3g})"
            )
