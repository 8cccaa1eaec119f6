"""Sorts candidates by their estimated times, and states how certain the order is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from neuroncore.report.pairs import UNCERTAIN, PairWork, faster


def rank(verdicts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a dict for each candidate that passed, the fastest first.

    `faster`: the probability that the candidate is faster than the next candidate; None for the
        last
    `place`: the place in the ranking. Candidates whose order is uncertain have the same place: each
        is faster than the next candidate in this place with a probability below 80 %."""
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
