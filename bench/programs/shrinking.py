"""A failing program with as few statements as still fail in the same way."""

from __future__ import annotations

from bench.programs.checks import Failure, check
from bench.programs.program import Program

LINES = 20  # of a file that is printed


def kind_of(program: Program) -> str | None:
    """How a program fails; None if it does not."""
    try:
        check(program)
    except Failure as failure:
        return failure.kind
    except Exception:  # a statement lacks what another made
        return None
    return None


def shrink(program: Program, kind: str) -> Program:
    """Leave out statements, from half of them down to each one, as long as what is left fails in
    the same way."""
    size = len(program.statements) // 2
    while size:
        smaller = _without(program, kind, size)
        if len(smaller.statements) == len(program.statements):
            size //= 2
        program = smaller
        size = min(size, len(program.statements) // 2)
    return _without(program, kind, 1)


def _without(program: Program, kind: str, size: int) -> Program:
    """Leave out every run of so many statements that the failure does not need."""
    end = len(program.statements)
    while end > 0:
        kept = [*program.statements[: max(0, end - size)], *program.statements[end:]]
        smaller = program.of(kept)
        if len(smaller.statements) < len(program.statements) and kind_of(smaller) == kind:
            program = smaller
        end = min(end - size, len(program.statements))
    return program
