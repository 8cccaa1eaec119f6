"""Checks of a file of kernels: its source and its run.

Findings can also be written in the format that editors and code scanning read: SARIF 2.1.0, an
OASIS standard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuroncore.base.errors import UsageError
from neuroncore.base.findings import SEVERITIES, Finding, rules
from neuroncore.base.units import plural
from neuroncore.checks import execution
from neuroncore.lint.static import read
from neuroncore.record import is_record

SCHEMA = "neuroncore.check/1"


@dataclass(frozen=True)
class Checked:
    """The findings of a check, and its extent.

    `files` are the sources that were read, `runs` the saved runs, and `launches` the number of
    launches that ran, None if nothing was executed. `unfinished` is a sentence that says why the
    run ended early. `orders` has, for each launch, the outcome of running it in other orders that
    the device may choose. `verified` has a sentence for each launch whose record was compared with
    the plain reading. `ours` is True if a fault of neuroncore ended the run.
    """

    findings: Sequence[Finding]
    files: Sequence[str]
    api: str
    launches: int | None = None
    unfinished: str | None = None
    orders: Sequence[str] = ()
    verified: Sequence[str] = ()
    runs: Sequence[str] = ()
    ours: bool = False

    def count(self, severity: str) -> int:
        """Return how many findings have a severity."""
        return sum(one.severity == severity for one in self.findings)

    @property
    def extent(self) -> str:
        """A line that describes the extent of the check."""
        read = [f"{_counted(len(self.files), 'file')} read, API {self.api}"] if self.files else []
        kept = [f"{_counted(len(self.runs), 'saved run')} read"] if self.runs else []
        done = "nothing was run"
        if self.launches is not None:
            done = f"{_counted(self.launches, 'launch')} run"
        more = [
            *dict.fromkeys((*self.orders, *self.verified)),
            *([self.unfinished] if self.unfinished else []),
        ]
        return "; ".join([*read, *kept, done, *more])

    def to_dict(self) -> dict[str, Any]:
        """Return the findings and the extent as fields, for JSON."""
        return {
            "schema": SCHEMA,
            "api": self.api,
            "files": [*self.files, *self.runs],
            "launches": self.launches,
            "unfinished": self.unfinished,
            "orders": list(self.orders),
            "verified": list(self.verified),
            "findings": [one.to_dict() for one in self.findings],
        }

    @property
    def counts(self) -> str:
        """A line with the number of findings of each severity."""
        parts = [_counted(self.count(name), name) for name in SEVERITIES if self.count(name)]
        return ", ".join(parts) or "no findings"

    def __str__(self) -> str:
        return "\n".join([*map(str, self.findings), self.counts])


MANY = {"launch": "launches", "advice": "advice"}


def _counted(number: int, noun: str) -> str:
    return plural(number, noun, MANY.get(noun, ""))


def check(
    file: str | Path,
    kernel: str | None = None,
    *,
    api: str | None = None,
    target: str | None = None,
    static: bool = False,
    words: Sequence[str] | None = None,
    orders: int = 0,
    verify: bool = False,
    limits: execution.ExecutionLimits | None = None,
) -> Checked:
    """Check a file and all that it calls, and run it if it can be run. If the file is a saved run,
    check its record.

    The file runs if it launches kernels, or if `kernel` has arguments: `words`, as
    `neuroncore run` takes them, or a function `inputs` in the file. It runs in a separate process
    with `limits` of time and memory, and its record is checked as well; with `static` nothing is
    executed. The record of each launch is replayed in up to `orders` other orders that the device
    may take. `api` is a release, "0.1" to "0.6", by default the release that fits the file's
    imports and forms; `target` is a machine.

    Raises UsageError for a file that can't be read and for an unknown kernel, release or
    machine.
    """
    more = [*(["--orders", str(orders)] if orders else []), *(["--verify"] if verify else [])]
    if is_record(Path(file)):
        if static:
            raise UsageError(f"{file} is a saved run: --static reads sources")
        return _of_a_run(Path(file), target, more, limits or execution.ExecutionLimits())
    seen = read(Path(file), kernel, api)
    if static or not (words or seen.runs):
        return Checked(_ordered(seen.findings), seen.files, seen.api)
    more = [*(words or ()), *more]
    ran = execution.run(Path(file), kernel, target, more, limits or execution.ExecutionLimits())
    findings = _ordered([*seen.findings, *ran.findings])
    return Checked(
        *(findings, seen.files, seen.api, ran.launches, ran.unfinished, ran.orders),
        verified=ran.verified,
        ours=ran.ours,
    )


def _of_a_run(
    file: Path, target: str | None, words: Sequence[str], limits: execution.ExecutionLimits
) -> Checked:
    """Return the check of a saved run's record."""
    ran = execution.run(file, None, target, words, limits)
    return Checked(
        findings=_ordered(ran.findings),
        files=(),
        api="",
        unfinished=ran.unfinished,
        orders=ran.orders,
        verified=ran.verified,
        runs=(str(file),),
        ours=ran.ours,
    )


def together(checks: Sequence[Checked]) -> Checked:
    """Combine several checks."""
    launches = [one.launches for one in checks if one.launches is not None]
    unfinished = [one.unfinished for one in checks if one.unfinished]
    return Checked(
        _ordered([finding for one in checks for finding in one.findings]),
        [*dict.fromkeys(file for one in checks for file in one.files)],
        ", ".join(dict.fromkeys(one.api for one in checks if one.api)),
        sum(launches) if launches else None,
        "; ".join(unfinished) or None,
        [order for one in checks for order in one.orders],
        runs=[*dict.fromkeys(run for one in checks for run in one.runs)],
        verified=[text for one in checks for text in one.verified],
        ours=any(one.ours for one in checks),
    )


def _ordered(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings sorted by file and line. A code is listed once per line. Findings without
    a line are last."""
    first: dict[Any, Finding] = {}
    for one in findings:
        spot = (one.place.file, one.place.line) if one.place else (one.message, 0)
        first.setdefault((one.code, *spot), one)
    return sorted(first.values(), key=lambda one: (one.place is None, *_spot(one)))


def _spot(one: Finding) -> tuple[Any, ...]:
    place = one.place
    return (place.file, place.line, place.column) if place else ("", 0, 0)


SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {"error": "error", "warning": "warning", "note": "note", "advice": "note"}


def sarif_log(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return a log of one run (section 3.13): each code once, each finding with its place."""
    codes = sorted({one.code for one in findings})
    driver = {"name": "neuroncore", "rules": [_descriptor(code) for code in codes]}
    results = [_result(one, codes.index(one.code)) for one in findings]
    return {
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
        ],
    }


def _descriptor(code: str) -> dict[str, Any]:
    """Return SARIF's descriptor of a code (section 3.49). A finding's code has a row in `rules()`;
    an error's code has none, so its descriptor refers to `neuroncore explain`."""
    rule = rules().get(code)
    if rule is None:
        return {"id": code, "help": {"text": f"neuroncore explain {code}"}}
    return {
        "id": code,
        "shortDescription": {"text": rule.sentence},
        "fullDescription": {"text": f"{rule.because}. Source: {rule.source}"},
        "help": {"text": rule.hint},
        "defaultConfiguration": {"level": LEVELS[rule.severity]},
    }


def _result(one: Finding, index: int) -> dict[str, Any]:
    """Return the result of a finding (3.27); a severity that SARIF lacks is a property."""
    sentences = [one.message, *([f"Hint: {one.hint}"] if one.hint else [])]
    result: dict[str, Any] = {
        "ruleId": one.code,
        "ruleIndex": index,
        "level": LEVELS[one.severity or "warning"],
        "message": {"text": ". ".join(sentences)},
        "properties": {"severity": one.severity},
    }
    place = one.place
    if place is not None:
        region = {
            "startLine": place.line,
            "startColumn": place.column + 1,
            "endLine": place.end_line,
            "endColumn": place.end_column + 1,
        }
        where = {"artifactLocation": {"uri": _uri(place.file)}, "region": region}
        result["locations"] = [{"physicalLocation": where}]
    return result


def _uri(file: str) -> str:
    """Return a URI relative to the working folder if the file is in it, for code scanning
    (3.4.3)."""
    path = Path(file).resolve()
    inside = path.is_relative_to(Path.cwd())
    return path.relative_to(Path.cwd()).as_posix() if inside else path.as_uri()
