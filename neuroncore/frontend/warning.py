"""Warnings about findings of launches: each code once per process and line of the user's kernel."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from neuroncore.base import source
from neuroncore.base.findings import Finding


class WarnedLine(NamedTuple):
    """The key of a finding that is reported once."""

    code: str
    file: str
    number: int


_told: set[WarnedLine] = set()


class NeuronWarning(UserWarning):
    """A finding of a run that has no other report.

    Python's warning filters apply. With the default filter, or "once", it is shown once per process
    for each code and line of the kernel: Python would forget it in between, and show it again for
    tiles of another size.
    """


def by_line(findings: Iterable[Finding]) -> dict[WarnedLine, list[Finding]]:
    """Group findings by code and line of a kernel, in their original order. A finding without a
    line is grouped by its message."""
    groups: dict[WarnedLine, list[Finding]] = {}
    for finding in findings:
        place = finding.place
        spot = (place.file, place.line) if place else (finding.message, 0)
        groups.setdefault(WarnedLine(finding.code, *spot), []).append(finding)
    return groups


def likely_wrong(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Return the findings without notes and advice, which a correct kernel may have."""
    return (one for one in findings if one.severity in ("error", "warning"))


def counted(findings: list[Finding]) -> str:
    """Return the text of the first of several findings, with their number."""
    more = f" (and {len(findings) - 1} more of this line)" if len(findings) > 1 else ""
    return f"{findings[0]}{more}"


def warn(findings: Iterable[Finding]) -> None:
    """Warn of likely errors that were not shown yet, at the user's line that launched the kernel.
    Notes and advice are left out."""
    for line, same in by_line(likely_wrong(findings)).items():
        text = counted(same)
        if line not in _told or _is_told_each_time(text):
            _told.add(line)
            warnings.warn(text, NeuronWarning, stacklevel=source.user_level())


def _is_told_each_time(text: str) -> bool:
    """Return whether the first filter that matches a warning, from any module, shows all or
    raises."""
    for action, message, category, module, _ in warnings.filters:
        about = message is None or message.match(text)
        if about and module is None and issubclass(NeuronWarning, category):
            return action in ("always", "all", "error")
    return False
