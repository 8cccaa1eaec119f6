"""The measures of isa/: its lines, those that only refuse, and the lines of clauses.

    python .ci/instruction_set.py

prints them with their limits, and fails where one is exceeded. A refusing function constructs an
error and issues, computes or costs nothing: it calls `fault`, `lacks`, `require` or an error's
class, and returns a fault, a rule or nothing. A clause runs from its first decorator to its last
line. A file begins with its clauses: no other function precedes the first.
"""

from __future__ import annotations

import ast
import re
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

ISA = Path(__file__).resolve().parents[1] / "isa"
MOST = {
    "lines": 3900,
    "lines that only refuse": 450,
    "median of a clause": 20,
    "longest clause": 35,
    "files that don't begin with their clauses": 0,
}
REFUSES = ("fault", "lacks", "require")
NOTHING_ELSE = {"Fault", "KernelError", "None", "Rule"}


def called(node: ast.AST) -> Iterator[str]:
    """The names of what is called inside."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call):
            yield getattr(call.func, "id", getattr(call.func, "attr", ""))


def is_clause(function: ast.FunctionDef) -> bool:
    return "instruction" in [name for d in function.decorator_list for name in called(d)]


def refuses(function: ast.FunctionDef) -> bool:
    """Return whether a function makes errors and returns nothing else."""
    makes = any(name in REFUSES or name.endswith("Error") for name in called(function))
    gives = re.findall(r"\w+", ast.unparse(function.returns) if function.returns else "None")
    return makes and set(gives) <= NOTHING_ELSE


def lines(function: ast.FunctionDef) -> int:
    first = min([function.lineno, *(d.lineno for d in function.decorator_list)])
    assert function.end_lineno is not None
    return function.end_lineno - first + 1


def measured() -> dict[str, float]:
    found: dict[str, list[int]] = {"clause": [], "refusing": []}
    total = before = 0
    for path in sorted(ISA.rglob("*.py")):
        text = path.read_text()
        total += len(text.splitlines())
        functions = [n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)]
        clauses = [is_clause(function) for function in functions]
        if any(clauses):
            before += not clauses[0]
        for function, clause in zip(functions, clauses, strict=True):
            if clause:
                found["clause"].append(lines(function))
            elif refuses(function):
                found["refusing"].append(lines(function))
    return {
        "lines": total,
        "lines that only refuse": sum(found["refusing"]),
        "median of a clause": statistics.median(found["clause"]),
        "longest clause": max(found["clause"]),
        "files that don't begin with their clauses": before,
    }


def main() -> int:
    found = measured()
    for name, value in found.items():
        print(f"isa/ {name}: {value:g} (at most {MOST[name]})")
    return int(any(value > MOST[name] for name, value in found.items()))


if __name__ == "__main__":
    sys.exit(main())
