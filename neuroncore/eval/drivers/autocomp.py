"""Evaluates candidates for autocomp, without a device. The class here has the methods of autocomp's
class EvalBackend."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from neuroncore.base.errors import UsageError
from neuroncore.eval.adapters import harness
from neuroncore.eval.pool import Pool, evaluate
from neuroncore.eval.spec import Spec
from neuroncore.eval.worker import Candidate

OLDER = re.compile(r"^\s*(import|from)\s+neuronxcc\b.*$", re.MULTILINE)


class EvalBackend:
    """Judges candidates for autocomp's problems.

    `folder`: a clone of autocomp; the default is the environment variable AUTOCOMP_ROOT
    `target`: a machine that replaces the machine of a problem's harness"""

    def __init__(
        self,
        folder: str | Path | None = None,
        pool: Pool | None = None,
        target: str | None = None,
    ) -> None:
        path = folder or os.environ.get("AUTOCOMP_ROOT")
        self.folder = Path(path) if path else None
        self.pool, self.target = pool or Pool(), target

    def evaluate_code(
        self, prob: Any, code_strs: list[str], simulator: str
    ) -> list[dict[str, Any]]:
        """Return a dict for each candidate. Raise UsageError if the problem's harness can't be
        read.

        Each dict has the entries `correct`, `latency`, `stdout` and `stderr`. The latency is in
        milliseconds, or None if the candidate fails. `simulator` has no effect."""
        spec = self._spec(prob)
        verdicts = evaluate(spec, _candidates(spec, code_strs), self.pool)
        results = {verdict["candidate"]: _result(verdict) for verdict in verdicts}
        return [results[str(number)] for number in range(len(code_strs))]

    def get_hw_feedback(self, prob: Any, code_strs: list[str]) -> list[list[str]]:
        """Return a list of sentences for each candidate: its bottleneck and the best what-ifs. The
        list is empty if the candidate fails."""
        spec, pool = self._spec(prob), replace(self.pool, why=True)
        verdicts = evaluate(spec, _candidates(spec, code_strs), pool)
        feedback = {verdict["candidate"]: _feedback(verdict) for verdict in verdicts}
        return [feedback[str(number)] for number in range(len(code_strs))]

    def get_backend_specific_rules(self) -> list[str]:
        """Return rules for candidates, as sentences for the prompts of autocomp."""
        return [
            "The program must not depend on the values of inputs: it is replayed on other inputs.",
            "All results must be computed by NKI instructions.",
        ]

    def _spec(self, prob: Any) -> Spec:
        file = getattr(prob, "test_file", None)
        if file:
            spec = harness.of_file(Path(file))
        elif self.folder and self.folder.is_dir():
            spec = harness.spec(f"{prob.prob_type}/{prob.prob_id}", self.folder)
        else:
            wrong = f", and {self.folder} is not a folder" if self.folder else ""
            raise UsageError(
                f"a clone of autocomp is needed{wrong}: pass its folder as "
                "EvalBackend(folder=...), or set the environment variable AUTOCOMP_ROOT"
            )
        return replace(spec, target=self.target or spec.target)


def _candidates(spec: Spec, sources: Sequence[str]) -> list[Candidate]:
    """Return a Candidate for each source, named by its number. Like autocomp, remove imports of the
    older API (`neuronxcc.nki`) from the sources if the problem uses today's API (`nki`)."""
    if spec.order == "scheduled":
        sources = [OLDER.sub("", source) for source in sources]
    return [Candidate(str(number), source) for number, source in enumerate(sources)]


def _result(verdict: dict[str, Any]) -> dict[str, Any]:
    error, latency = verdict["error"], verdict["latency_us"]
    return {
        "correct": verdict["passed"],
        "latency": None if latency is None else latency / 1e3,
        "stdout": "" if latency is None else f"Latency: {latency / 1e3:.3f} ms\n",
        "stderr": "" if error is None else _error_text(error),
    }


def _error_text(error: dict[str, Any]) -> str:
    line = f" (line {error['line']})" if error["line"] else ""
    hint = f"; {error['hint']}" if error["hint"] else ""
    return f"{error['code']}: {error['message']}{line}{hint}\n"


def _feedback(verdict: dict[str, Any]) -> list[str]:
    if not verdict["passed"]:
        return []
    first = verdict["shapes"][0]
    best = (f"{what_if['what']}: {what_if['saves']:.0%} faster" for what_if in first["what_ifs"])
    return [f"bound by {first['bound_by']}", *best]
