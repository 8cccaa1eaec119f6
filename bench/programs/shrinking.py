"""Reduces a failing program to few statements that still fail in the same way."""

from __future__ import annotations

from bench.programs.checks import Failure, check
from bench.programs.program import Program

LINES = 20  # lines of a printed file


def kind_of(program: Program) -> str | None:
    """Return the kind of a program's failure, or None if it does not fail."""
    try:
        check(program)
    except Failure as failure:
        return failure.kind
    except Exception:  # a statement needs a statement that was left out
        return None
    return None


def shrink(program: Program, kind: str) -> Program:
    """Leave out statements while the program still fails in the same way. At first, half of the
    statements are left out at a time, then fewer, and finally one at a time."""
    size = len(program.statements) // 2
    while size:
        smaller = _without(program, kind, size)
        if len(smaller.statements) == len(program.statements):
            size //= 2
        program = smaller
        size = min(size, len(program.statements) // 2)
    return _without(program, kind, 1)


def _without(program: Program, kind: str, size: int) -> Program:
    """Leave out every run of `size` statements that is not necessary for the failure."""
    end = len(program.statements)
    while end > 0:
        kept = [*program.statements[: max(0, end - size)], *program.statements[end:]]
        smaller = program.of(kept)
        if len(smaller.statements) < len(program.statements) and kind_of(smaller) == kind:
            program = smaller
        end = min(end - size, len(program.statements))
    return program
