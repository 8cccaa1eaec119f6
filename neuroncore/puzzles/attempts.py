"""An attempt at a puzzle: a run of a kernel on each of the puzzle's shapes, until it fails for one
of them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuroncore.base.errors import KernelError, NeuronError
from neuroncore.frontend import misuse
from neuroncore.frontend.arguments import arrays_in
from neuroncore.hosts.api import Run, run
from neuroncore.puzzles.puzzle import Puzzle
from neuroncore.report.compare import Agreement, Incomparable

CLOSE = 1e-3  # two wrong results count as equal up to this relative difference
NUMBER = re.compile(r"\d[\d,]*")
SEVERE = ("error", "warning")  # findings that explain a wrong result


@dataclass(frozen=True, eq=False)
class Attempt:
    """The result of an attempt: the first failure, or the run on the first shape if no shape fails.

    `error`: the exception of the kernel, or None
    `differences`: the comparison of a wrong result with the reference, or None
    `run`: the run; None if the kernel raised an exception"""

    shape: Sequence[int]
    run: Run | None = None
    error: Exception | None = None
    differences: Agreement | None = None

    @property
    def right(self) -> bool:
        """Return whether all results are right."""
        return self.error is None and self.differences is None

    @property
    def latency_us(self) -> float:
        """Return the estimate of `run` in microseconds, or NaN if there is no run."""
        return math.nan if self.run is None else self.run.estimate.seconds * 1e6


def attempt(puzzle: Puzzle, kernel: Callable[..., Any]) -> Attempt:
    """Run a kernel on the shapes of a puzzle, until it fails for one of them."""
    spec, first = puzzle.spec, None
    for shape in spec.all_shapes:
        seed, _ = spec.hidden_seeds(shape)[0]
        tried = _on(puzzle, kernel, shape, spec.arguments(seed, shape))
        if not tried.right:
            return tried
        first = first or tried
    assert first is not None  # a puzzle has at least one shape
    return first


def _on(
    puzzle: Puzzle, kernel: Callable[..., Any], shape: Sequence[int], arguments: tuple[Any, ...]
) -> Attempt:
    try:
        finished = run(kernel, *arguments, target=puzzle.spec.target)
        agreement = finished.compare(puzzle.spec.reference, puzzle.tol)
    except Incomparable as error:
        return Attempt(shape, error=error)
    except NeuronError as error:
        return Attempt(shape, error=error)
    except Exception as error:
        return Attempt(shape, error=misuse.explanation(error) or error)
    return Attempt(shape, finished, differences=None if agreement else agreement)


def first_wrong(agreement: Agreement) -> int:
    """Return the number of the first result that is wrong."""
    pairs = zip(agreement.comparisons, agreement.tolerances, strict=True)
    return next(n for n, (comparison, limit) in enumerate(pairs) if not comparison.rel_l2 <= limit)


def likeness(one: Attempt, other: Attempt) -> int:
    """Return how similar two attempts are: 0 if they differ; 1 if they are alike; 2 if they are
    alike, both have wrong results, and their runs have the same findings.

    * Attempts that raise an exception are alike if their messages are equal except for numbers.
    * Wrong results are alike if the first wrong results are equal except for rounding.
    * Correct kernels are alike if they have the same bottleneck."""
    if one.error is not None or other.error is not None:
        return int(type(one.error) is type(other.error) and _message(one) == _message(other))
    if one.right != other.right:
        return 0
    assert one.run is not None and other.run is not None
    if one.right:
        return int(one.run.summary["bound_by"] == other.run.summary["bound_by"])
    return _same(one, other) * (1 + (_codes(one.run) == _codes(other.run)))


def _message(one: Attempt) -> str:
    return NUMBER.sub("", _statement(one.error))


def _statement(error: Exception | None) -> str:
    return error.statement if isinstance(error, KernelError) else str(error)


def _codes(run: Run) -> set[str]:
    return {finding.code for finding in run.findings if finding.severity in SEVERE}


def _same(one: Attempt, other: Attempt) -> bool:
    """Return whether the first wrong results are equal, except for rounding."""
    a, b = _wrong(one), _wrong(other)
    return a.shape == b.shape and _close(a, b)


def _wrong(one: Attempt) -> Any:
    assert one.run is not None and one.differences is not None
    return list(arrays_in(one.run.results))[first_wrong(one.differences)]


def _close(a: Any, b: Any) -> bool:
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return bool(np.allclose(x, y, rtol=CLOSE, atol=CLOSE * _size(y), equal_nan=True))


def _size(values: Any) -> float:
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.mean()) if finite.size else 0.0
