"""Findings of launches as a process tells them: each code once for a line of the user's kernel."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from neuroncore.base import source
from neuroncore.base.findings import Finding


class Line(NamedTuple):
    """What is told once."""

    code: str
    file: str
    number: int


_told: set[Line] = set()


class NeuronWarning(UserWarning):
    """A finding of a run that nobody else reports.

    Python's filters decide what becomes of it. Where they say nothing of it, or once, it is told
    once in a process for each code and line of the kernel: Python would forget it in between, and
    tell it again for tiles of another size.
    """


def by_line(findings: Iterable[Finding]) -> dict[Line, list[Finding]]:
    """Findings of the same code and line of a kernel together, in the order in which they came.
    What is of no line is told in its own words."""
    found: dict[Line, list[Finding]] = {}
    for finding in findings:
        place = finding.place
        spot = (place.file, place.line) if place else (finding.message, 0)
        found.setdefault(Line(finding.code, *spot), []).append(finding)
    return found


def likely_wrong(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Findings but notes and advice, which a correct kernel may have."""
    return (one for one in findings if one.severity in ("error", "warning"))


def counted(findings: list[Finding]) -> str:
    """The first of several findings, with how many there are."""
    more = f" (and {len(findings) - 1} more of this line)" if len(findings) > 1 else ""
    return f"{findings[0]}{more}"


def warn(findings: Iterable[Finding]) -> None:
    """Tell what has not been told, at the line of the user's that launched the kernel: what is
    likely wrong, not notes and advice."""
    for line, same in by_line(likely_wrong(findings)).items():
        text = counted(same)
        if line not in _told or _is_told_each_time(text):
            _told.add(line)
            warnings.warn(text, NeuronWarning, stacklevel=source.user_level())


def _is_told_each_time(text: str) -> bool:
    """Whether the first filter for a warning, wherever it comes from, wants all or raises them."""
    for action, message, category, module, _ in warnings.filters:
        about = message is None or message.match(text)
        if about and module is None and issubclass(NeuronWarning, category):
            return action in ("always", "all", "error")
    return False
