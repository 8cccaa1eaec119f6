"""Checks the source of a file of kernels, and its run.

Findings can also be written in SARIF 2.1.0, an OASIS standard. Editors and code scanning read this
format.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
    """The findings of a check, and the files and launches that it covered.

    `files`: the sources that were read
    `runs`: the saved runs that were read
    `api`: the release whose rules apply
    `launches`: how many launches ran; None if nothing was executed
    `unfinished`: a sentence with the reason if the run ended early
    `orders`: a sentence for each launch that was replayed in other orders
    `verified`: a sentence for each launch whose record was compared with the plain reading, a
        second implementation in numpy (`neuroncore.plain`)
    `raised`: whether the Python code of a kernel raised an exception
    `ours`: whether a fault of neuroncore ended the run"""

    findings: Sequence[Finding]
    files: Sequence[str]
    api: str
    launches: int | None = None
    unfinished: str | None = None
    orders: Sequence[str] = ()
    verified: Sequence[str] = ()
    runs: Sequence[str] = ()
    raised: bool = False
    ours: bool = False
    advice: str = ""  # if nothing was run: how to run the file

    def count(self, severity: str) -> int:
        """Return the number of findings with this severity."""
        return sum(finding.severity == severity for finding in self.findings)

    @property
    def extent(self) -> str:
        """A line that states what the check covered: files, saved runs and launches, and the
        sentences in `orders`, `verified` and `unfinished`."""
        extent_of_sources = (
            [f"{_counted(len(self.files), 'file')} read, API {self.api}"] if self.files else []
        )
        extent_of_runs = [f"{_counted(len(self.runs), 'saved run')} read"] if self.runs else []
        launched = f"nothing was run{self.advice}"
        if self.launches is not None:
            launched = f"{_counted(self.launches, 'launch')} run"
        rest = [
            *dict.fromkeys((*self.orders, *self.verified)),
            *([self.unfinished] if self.unfinished else []),
        ]
        return "; ".join([*extent_of_sources, *extent_of_runs, launched, *rest])

    def to_dict(self) -> dict[str, Any]:
        """Return the check as a dict, for JSON."""
        return {
            "schema": SCHEMA,
            "api": self.api,
            "files": [*self.files, *self.runs],
            "launches": self.launches,
            "unfinished": self.unfinished,
            "orders": list(self.orders),
            "verified": list(self.verified),
            "findings": [finding.to_dict() for finding in self.findings],
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
    """Check a file and all functions that its kernels call. Then run the file if possible, and
    check the record of the run. If the file is a saved run, check its record instead.

    * `kernel`: the kernel to run if the file has a function `inputs`. Without `kernel`, the file
      runs if it has an `if __name__ == "__main__"`.
    * `words`: arguments for `neuroncore run`. With `words`, the file or kernel runs even if it has
      no function `inputs` and no such `if`.
    * `static`: if True, nothing is executed
    * `orders`: each launch is replayed in up to this many other orders of instructions that the
      device may choose
    * `verify`: if True, each result is compared with the plain reading, a second implementation in
      numpy (`neuroncore.plain`)
    * `api`: a release from "0.1" to "0.6"; the default is the release whose names and parameters
      fit the file best
    * `target`: a machine
    * `limits`: the limits of time and memory of the separate process that runs the file

    Raises UsageError for a file that can't be read, for an unknown kernel, release or machine, and
    for a saved run if `static` is True."""
    options = [*(["--orders", str(orders)] if orders else []), *(["--verify"] if verify else [])]
    if is_record(Path(file)):
        if static:
            raise UsageError(f"{file} is a saved run, and --static checks only source files")
        return _of_a_run(Path(file), target, options, limits or execution.ExecutionLimits())
    sources = read(Path(file), kernel, api)
    if static or not (words or sources.runs):
        advice = f": name a kernel, {file}::KERNEL" if sources.has_inputs and not static else ""
        return Checked(_ordered(sources.findings), sources.files, sources.api, advice=advice)
    options = [*(words or ()), *options]
    file_run = execution.run(
        Path(file), kernel, target, options, limits or execution.ExecutionLimits()
    )
    return replace(
        _checked(file_run, sources.findings),
        files=sources.files,
        api=sources.api,
        launches=file_run.launches,
    )


def _of_a_run(
    file: Path, target: str | None, words: Sequence[str], limits: execution.ExecutionLimits
) -> Checked:
    """Return the check of a saved run's record."""
    file_run = execution.run(file, None, target, words, limits)
    return replace(_checked(file_run), runs=(str(file),))


def _checked(file_run: execution.FileRun, of_source: Sequence[Finding] = ()) -> Checked:
    """Return a check with the outcome of running a file and the findings of its source."""
    return Checked(
        findings=_ordered([*of_source, *file_run.findings]),
        files=(),
        api="",
        unfinished=file_run.unfinished,
        orders=file_run.orders,
        verified=file_run.verified,
        raised=file_run.raised,
        ours=file_run.ours,
    )


def together(checks: Sequence[Checked]) -> Checked:
    """Combine several checks into one with all their findings, files and launches."""
    launches = [check.launches for check in checks if check.launches is not None]
    unfinished = [check.unfinished for check in checks if check.unfinished]
    return Checked(
        _ordered([finding for check in checks for finding in check.findings]),
        [*dict.fromkeys(file for check in checks for file in check.files)],
        ", ".join(dict.fromkeys(check.api for check in checks if check.api)),
        sum(launches) if launches else None,
        "; ".join(unfinished) or None,
        [order for check in checks for order in check.orders],
        runs=[*dict.fromkeys(run for check in checks for run in check.runs)],
        verified=[text for check in checks for text in check.verified],
        raised=any(check.raised for check in checks),
        ours=any(check.ours for check in checks),
        advice=next((check.advice for check in checks if check.advice), ""),
    )


def _ordered(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings by file and line, only the first of each code and line. Findings without
    a line come last."""
    first: dict[Any, Finding] = {}
    for finding in findings:
        spot = (finding.place.file, finding.place.line) if finding.place else (finding.message, 0)
        first.setdefault((finding.code, *spot), finding)
    return sorted(first.values(), key=lambda finding: (finding.place is None, *_spot(finding)))


def _spot(finding: Finding) -> tuple[Any, ...]:
    place = finding.place
    return (place.file, place.line, place.column) if place else ("", 0, 0)


SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {"error": "error", "warning": "warning", "note": "note", "advice": "note"}


def sarif_log(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return a SARIF log (section 3.13 of the standard) as a dict. The log has one run. It lists
    each code once, and each finding with its place."""
    codes = sorted({finding.code for finding in findings})
    driver = {"name": "neuroncore", "rules": [_descriptor(code) for code in codes]}
    results = [_result(finding, codes.index(finding.code)) for finding in findings]
    return {
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
        ],
    }


def _descriptor(code: str) -> dict[str, Any]:
    """Return SARIF's descriptor of a code (section 3.49). The code of an error refers to
    `neuroncore explain`."""
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


def _result(finding: Finding, index: int) -> dict[str, Any]:
    """Return SARIF's result for a finding (section 3.27). The severity is also a property, because
    SARIF has no level "advice".

    `index`: the index of the finding's code in the list of descriptors"""
    sentences = [finding.message, *([f"Hint: {finding.hint}"] if finding.hint else [])]
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": LEVELS[finding.severity or "warning"],
        "message": {"text": ". ".join(sentences)},
        "properties": {"severity": finding.severity},
    }
    place = finding.place
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
    """Return the URI of a file (section 3.4.3), relative to the working folder if the file is
    there, as code scanning expects."""
    path = Path(file).resolve()
    is_inside = path.is_relative_to(Path.cwd())
    return path.relative_to(Path.cwd()).as_posix() if is_inside else path.as_uri()
