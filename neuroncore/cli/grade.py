"""neuroncore grade: judge the submissions in a folder, and write a table."""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path
from typing import Any

from neuroncore.base.errors import UsageError
from neuroncore.base.units import plural
from neuroncore.cli.evaluate import add_pool, add_spec, pool, spec
from neuroncore.eval.pool import evaluate

FIELDS = ("submission", "status", "code", "line", "message", "latency_us", "relative_l2")


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Judge the submissions of a course: each FILE.py in DIR, or each folder in DIR that has a "
        "file of the same name as --file. Writes a table with a row for each. Exit codes: 0 all "
        "were judged, 2 wrong usage."
    )
    add_spec(parser)
    parser.add_argument("--submissions", required=True, type=Path, metavar="DIR")
    parser.add_argument(
        "--file", metavar="NAME.py", help="the file in the folder of each submission"
    )
    parser.add_argument("--csv", type=Path, metavar="OUT", help="(default: standard output)")
    add_pool(parser)
    parser.set_defaults(command=command)


def command(arguments: argparse.Namespace) -> int:
    wanted = spec(arguments)
    if not arguments.submissions.is_dir():
        raise UsageError(f"{arguments.submissions} is not a folder")
    pattern = f"*/{arguments.file}" if arguments.file else "*.py"
    files = sorted(file for file in arguments.submissions.glob(pattern) if file.is_file())
    if not files:
        raise UsageError(f"{arguments.submissions} has no {pattern}")
    rows = sorted((row(one) for one in evaluate(wanted, files, pool(arguments))), key=str)
    if arguments.csv is None:
        _write(sys.stdout, rows)
    else:
        with arguments.csv.open("w", newline="", encoding="utf-8") as file:
            _write(file, rows)
    passed = sum(one["status"] == "passed" for one in rows)
    print(f"neuroncore: {plural(len(rows), 'submission')}, {passed} passed", file=sys.stderr)
    return 0


def row(verdict: dict[str, Any]) -> dict[str, Any]:
    """Return the row of the table for a verdict."""
    error = verdict["error"] or {}
    errors = [seed["relative_l2"] for shape in verdict["shapes"] for seed in shape["seeds"]]
    return {
        "submission": verdict["candidate"],
        "status": verdict["status"],
        "code": error.get("code", ""),
        "line": error.get("line") or "",
        "message": error.get("message", ""),
        "latency_us": verdict["latency_us"] or "",
        "relative_l2": max(errors, default=""),
    }


def _write(file: Any, rows: list[dict[str, Any]]) -> None:
    table: csv.DictWriter[str] = csv.DictWriter(file, FIELDS)
    table.writeheader()
    table.writerows(rows)
