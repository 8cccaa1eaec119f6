"""nki.collectives: the names, so that kernels which use them on many ranks import on one.

Every function is refused when it is called: several ranks are not emulated yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from neuroncore.errors import NotEmulated
from neuroncore.frontend.nki.objects import NKIObject

FUNCTIONS = (
    *("all_gather", "all_gather_v", "all_reduce", "all_to_all", "all_to_all_v"),
    *("collective_permute", "collective_permute_implicit", "collective_permute_implicit_reduce"),
    *("collective_permute_implicit_current_processing_rank_id", "rank_id", "reduce_scatter"),
)


class ReplicaGroup(NKIObject):
    """Which ranks exchange data with each other: a list of lists of rank numbers."""

    def __init__(self, groups: list[list[int]]) -> None:
        self.groups = groups


def __getattr__(name: str) -> Callable[..., Any]:
    if name not in FUNCTIONS:
        raise AttributeError(f"nki.collectives has no {name!r}")

    def refused(*_: Any, **__: Any) -> Any:
        raise NotEmulated(f"nki.collectives.{name}: several ranks are not emulated yet")

    refused.__name__ = name
    return refused


def __dir__() -> list[str]:
    return ["ReplicaGroup", *FUNCTIONS]
