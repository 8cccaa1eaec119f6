"""Findings in the format that editors and code scanning read: SARIF 2.1.0, an OASIS standard."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from neuroncore.base.findings import Finding, rules

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {"error": "error", "warning": "warning", "note": "note", "advice": "note"}


def log(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return a log of one run (section 3.13): each code once, each finding with its place."""
    codes = sorted({one.code for one in findings})
    driver = {"name": "neuroncore", "rules": [_descriptor(code) for code in codes]}
    results = [_result(one, codes.index(one.code)) for one in findings]
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
        ],
    }


def _descriptor(code: str) -> dict[str, Any]:
    """Return the descriptor of a code (3.49) from its row; errors have a page of `neuroncore
    explain`."""
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
