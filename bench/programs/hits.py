"""Counts of hits in caches of the emulator, after a call of `watch`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from neuroncore.core import legality, sums
from neuroncore.core.packs import Packs

hits: Counter[str] = Counter()
# For each cache: the function that looks up an entry, and the functions that make an entry.
CACHES = {
    "a legal call of an earlier program": ((legality, "checked"), ((legality, "check"),)),
    "a packed operand": ((Packs, "get"), ((sums._Operand, "read"), (sums, "_picked_rows"))),
}


def watch() -> None:
    """Count in `hits`, for the rest of the process, how often each cache returns an entry that it
    already has."""
    for name, (asks, makers) in CACHES.items():
        made: Counter[str] = Counter()
        for maker in makers:
            setattr(*maker, _counting(getattr(*maker), made))
        setattr(*asks, _asking(getattr(*asks), name, made))


def _counting(function: Callable[..., Any], made: Counter[str]) -> Callable[..., Any]:
    def counting(*args: Any, **named: Any) -> Any:
        made["all"] += 1
        return function(*args, **named)

    return counting


def _asking(function: Callable[..., Any], name: str, made: Counter[str]) -> Callable[..., Any]:
    def asking(*args: Any, **named: Any) -> Any:
        before = made["all"]
        answer = function(*args, **named)
        hits[name] += made["all"] == before
        return answer

    return asking
