"""Sorting of candidates by their estimates, with the certainty of the order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from neuroncore.report.pairs import UNCERTAIN, PairWork, faster


def rank(verdicts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the candidates that passed, the fastest first. `faster` is the probability that a
    candidate is faster than the next one. Candidates with the same `place` have no certain order:
    each is faster than the next with a probability below 80 %."""
    passed = sorted(
        (one for one in verdicts if one["passed"]), key=lambda one: float(one["latency_us"])
    )
    found: list[dict[str, Any]] = []
    place = 1
    for n, one in enumerate(passed):
        if found and found[-1]["faster"] >= UNCERTAIN:
            place = n + 1
        following = passed[n + 1] if n + 1 < len(passed) else None
        sure = None if following is None else faster(_work(following), _work(one))
        found.append(
            {
                "place": place,
                "candidate": one["candidate"],
                "latency_us": one["latency_us"],
                "faster": sure,
            }
        )
    return found


def _work(verdict: Mapping[str, Any]) -> PairWork:
    first = verdict["shapes"][0]
    return PairWork(first["latency_us"] * 1e3, first["busy_ns"])
