"""neuroncore grade: judge the submissions in a folder, and write a table."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from neuroncore.base.errors import UsageError
from neuroncore.base.units import plural
from neuroncore.cli.evaluate import add_pool, add_spec, pool, spec, with_secret
from neuroncore.cli.usage import add_output
from neuroncore.eval.adapters import assigned
from neuroncore.eval.course import Assignment
from neuroncore.eval.loading import load_spec
from neuroncore.eval.pool import evaluate

FIELDS = ("submission", "status", "code", "line", "message", "latency_us", "relative_l2")
# CPU seconds per submission: images of a course are larger than those of most candidates
SECONDS = 120
Row = dict[str, Any]


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Judge the submissions of a course: each FILE.py in DIR or, with --file NAME.py, the file "
        "NAME.py in each folder of DIR. Writes a table with a row for each submission. If SPEC is "
        "an assignment (cs149:2024 or cs149:2025), the row has the points of each test. Exit "
        "codes: 0 all were judged, 2 wrong usage."
    )
    add_spec(parser)
    parser.add_argument(
        "--submissions",
        required=True,
        type=Path,
        metavar="DIR",
        help="the folder of the submissions",
    )
    parser.add_argument(
        "--file", metavar="NAME.py", help="the name of the file to judge in each folder of DIR"
    )
    add_output(
        parser,
        "--csv",
        metavar="OUT",
        help="write the table to this file (default: standard output)",
    )
    add_pool(parser)
    parser.set_defaults(command=command, seconds=SECONDS)


def command(arguments: argparse.Namespace) -> int:
    files = _submissions(arguments)
    assignment = assigned(arguments.spec)
    if assignment is None:
        judged = evaluate(spec(arguments), files, pool(arguments))
        fields, rows = list(FIELDS), [row(verdict) for verdict in judged]
        passed = sum(line["status"] == "passed" for line in rows)
        end = f"{passed} passed"
    else:
        fields, rows = _fields(assignment), _scored(assignment, files, arguments)
        end = f"{assignment.most:g} points at most"
    rows.sort(key=str)
    if arguments.csv is None:
        _write(sys.stdout, fields, rows)
    else:
        with arguments.csv.open("w", newline="", encoding="utf-8") as file:
            _write(file, fields, rows)
    print(f"neuroncore: {plural(len(rows), 'submission')}, {end}", file=sys.stderr)
    return 0


def _submissions(arguments: argparse.Namespace) -> list[Path]:
    if not arguments.submissions.is_dir():
        raise UsageError(f"{arguments.submissions} is not a folder")
    pattern = f"*/{arguments.file}" if arguments.file else "*.py"
    files = sorted(file for file in arguments.submissions.glob(pattern) if file.is_file())
    if not files:
        raise UsageError(f"{arguments.submissions} has no {pattern}")
    return files


def row(verdict: dict[str, Any]) -> Row:
    """Return the row of the table for a verdict."""
    error = verdict["error"] or {}
    errors = [seed["relative_l2"] for shape in verdict["shapes"] for seed in shape["seeds"]]
    if error:  # the results before the wrong one passed
        errors = [(error.get("errors") or {}).get("relative_l2") or ""]
    return {
        "submission": verdict["candidate"],
        "status": verdict["status"],
        "code": error.get("code", ""),
        "line": error.get("line") or "",
        "message": error.get("message", ""),
        "latency_us": verdict["latency_us"] or "",
        "relative_l2": max(errors, default=""),
    }


def _fields(assignment: Assignment) -> list[str]:
    """Return the columns of the table: points of each test, times of tests with limits, and
    errors."""
    times = (f"{part.name} us" for part in assignment.parts if part.limits)
    names = (part.name for part in assignment.parts)
    return ["submission", "points", *names, *times, "errors"]


def _scored(assignment: Assignment, files: list[Path], arguments: argparse.Namespace) -> list[Row]:
    """Judge all submissions with each test, and return the row of the table for each submission."""
    verdicts: dict[str, dict[str, dict[str, Any]]] = {str(file): {} for file in files}
    for part in assignment.parts:
        asked = with_secret(load_spec(part.spec), arguments)
        for verdict in evaluate(asked, files, pool(arguments)):
            verdicts[verdict["candidate"]][part.name] = verdict
    return [_score(name, assignment, by_test) for name, by_test in verdicts.items()]


def _score(name: str, assignment: Assignment, verdicts: dict[str, dict[str, Any]]) -> Row:
    points = assignment.points(verdicts)
    times = {
        f"{part.name} us": round(part.microseconds(verdicts[part.name]), 1)
        for part in assignment.parts
        if part.limits and verdicts[part.name]["passed"]
    }
    errors = (
        f"{test}: {_error(verdict)}" for test, verdict in verdicts.items() if verdict["error"]
    )
    total = sum(points.values())
    return {"submission": name, "points": total, **points, **times, "errors": "; ".join(errors)}


def _error(verdict: dict[str, Any]) -> str:
    error = verdict["error"]
    line = f" line {error['line']}" if error.get("line") else ""
    return f"{error['code']}{line} {error['message']}"


def _write(file: Any, fields: Sequence[str], rows: list[Row]) -> None:
    table: csv.DictWriter[str] = csv.DictWriter(file, fields)
    table.writeheader()
    table.writerows(rows)
