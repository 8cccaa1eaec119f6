"""Sorting of candidates by their estimates, with the certainty of the order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from neuroncore.report.pairs import UNCERTAIN, PairWork, faster


def rank(verdicts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each candidate that passed, the fastest first. `faster` is the probability
    that the candidate is faster than the next one, or None for the last. Candidates with the same
    `place` have no certain order: each has a probability below 80 % of being faster than the next
    one of this place."""
    passed = sorted(
        (verdict for verdict in verdicts if verdict["passed"]),
        key=lambda verdict: float(verdict["latency_us"]),
    )
    rows: list[dict[str, Any]] = []
    place = 1
    for n, verdict in enumerate(passed):
        if rows and rows[-1]["faster"] >= UNCERTAIN:
            place = n + 1
        following = passed[n + 1] if n + 1 < len(passed) else None
        probability = None if following is None else faster(_work(following), _work(verdict))
        rows.append(
            {
                "place": place,
                "candidate": verdict["candidate"],
                "latency_us": verdict["latency_us"],
                "faster": probability,
            }
        )
    return rows


def _work(verdict: Mapping[str, Any]) -> PairWork:
    first = verdict["shapes"][0]
    return PairWork(first["latency_us"] * 1e3, first["busy_ns"])
