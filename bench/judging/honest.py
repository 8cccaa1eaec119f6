"""Judge kernels of honest authors. None may be refused, and none of their results may be called
wrong.

    python bench/judging/honest.py [--accelopt CHECKOUT] [--autocomp CHECKOUT] [-k SUBSTR]

The kernels are those of this project, on the inputs of their chapters and puzzles. With a clone of
AccelOpt the script adds the baselines of NKIBench and its samples, at small sizes. With a clone of
autocomp it adds the candidates of its published searches, and its solutions. Each kernel is judged
on hidden inputs too. The script prints each kernel with its seconds, and the complaint if it does
not pass.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

import neuroncore

sys.path.append(str(Path(__file__).parents[1] / "conformance"))

import autocomp
import autocomp_candidates as searches
import nkibench as bench
import nkibench_small as sizes

from neuroncore.eval import Spec, answers, child, files, judge, load_spec
from neuroncore.eval.adapters import nkibench
from neuroncore.eval.judge import Case
from neuroncore.eval.refusals import Refused

FORMATS = ("float32", "bfloat16", "tfloat32", "float16", "float8_e4m3", "float8_e5m2")
CHAPTERS = {  # kernel -> the name of its reference, if that is not the usual one
    "ch01_add": {"add": ""},
    "ch02_softmax": {"softmax": ""},
    "ch03_rmsnorm": {"rmsnorm": ""},
    "ch04_layernorm": {"layernorm": ""},
    "ch05_matmul": {"naive": "", "hoisted": "", "blocked_free": "", "blocked": ""},
    "ch06_transpose": {"transpose": ""},
    "ch07_attention": {"attention": "", "causal_attention": "causal_reference"},
    "ch08_mlp": {"swiglu": ""},
    "ch09_digits": {"classify": ""},
    "ch10_rounding": {"running_sums": ""},
}
LONGEST = 240  # characters of a printed line
# A candidate that the test of its harness refuses too. It stores scores of up to 20 in bfloat16,
# and about 1,700 of its 524,288 results differ from numpy's by more than the test allows.
REFUSED = {"trn-tutorial-nki1/4_attention candidate 8": "WRONG_RESULT"}
COARSE = 2e-2  # allowed relative L2 error of products of bfloat16


class Honest(NamedTuple):
    """A kernel that has to pass, and its specification."""

    name: str
    spec: Spec
    source: str
    cases: Callable[[], list[Case]]


def honest(name: str, spec: Spec, source: str) -> Honest:
    return Honest(name, spec, source, partial(judge.cases, spec))


def of_chapters() -> Iterator[Honest]:
    folder = Path(importlib.import_module("neuroncore.kernels.puzzles").__path__[0])
    puzzles = {f"puzzles.{file.stem}": {"kernel": ""} for file in sorted(folder.glob("p*.py"))}
    for chapter, kernels in (CHAPTERS | puzzles).items():
        module = importlib.import_module(f"neuroncore.kernels.{chapter}")
        assert module.__file__ is not None
        source = Path(module.__file__).read_text()
        for name, reference in kernels.items():
            wanted = getattr(module, reference or "reference")
            yield honest(f"{chapter} {name}", of_chapter(module, name, wanted), source)


def of_chapter(module: ModuleType, name: str, reference: Any) -> Spec:
    def inputs(seed: int, _: Any) -> tuple[Any, ...]:
        return tuple(module.inputs(np.random.default_rng(seed)))

    return Spec(reference, inputs, [name], tol=COARSE, entry=(name,), narrow=FORMATS, secret=1)


def of_nkibench(checkout: Path) -> Iterator[Honest]:
    for problem in bench.problems(checkout):
        if problem.name not in sizes.SIZES or not problem.kernel.is_file():
            continue
        with tempfile.TemporaryDirectory() as scratch:
            small = bench.small(problem, Path(scratch))
            yield honest(problem.name, of_problem(checkout, small), small.kernel.read_text())


def of_problem(checkout: Path, small: bench.Problem) -> Spec:
    """Return the specification of a problem of NKIBench at small sizes. `small` has its
    reference."""
    usual = load_spec(f"nkibench:silu@{checkout}")
    task = files.module(small.reference)
    return replace(
        usual,
        name=small.name,
        shapes=[small.name],
        reference=task.forward,
        inputs=lambda seed, _: nkibench._inputs(task, seed),
        adapt=task.transform_to_nki_inputs,
        finish=task.transform_nki_outputs,
        tol=max(usual.tol, small.tolerance),
        secret=1,
        seeds=2,
    )


def of_searches(checkout: Path) -> Iterator[Honest]:
    for search, table in searches.SEARCHES.items():
        harness = table.removesuffix("_test")
        usual = hidden(load_spec(f"autocomp:{table}@{checkout}"))
        those = cache(partial(judge.cases, usual))
        trace = (checkout / "examples" / f"{search}_trace.py").read_text()
        best = (checkout / "examples" / f"{search}_opt.py").read_text()
        found = searches.candidates(trace)
        for number, text in enumerate(found):
            others = "\n".join((best, *(one for one in found if one != text)))
            for line in searches.DAMAGED.get((search, number), ()):
                text = searches.whole(text, line, others)
            spec = replace(usual, entry=(last(text),))
            yield Honest(f"{harness} candidate {number}", spec, text, those)


def of_solutions(checkout: Path) -> Iterator[Honest]:
    """Yield the published solutions of autocomp's harnesses."""
    for suite in autocomp.SUITES:
        for file in sorted((checkout / "sols" / suite).glob("*_ref.py")):
            name = f"{suite}/{file.stem.removesuffix('_ref')}"
            text = file.read_text()
            usual = hidden(load_spec(f"autocomp:{name}@{checkout}"))
            yield honest(f"{name} solution", replace(usual, entry=(last(text),)), text)


def hidden(usual: Spec) -> Spec:
    return replace(usual, secret=1, seeds=1)


def last(source: str) -> str:
    """Return the name of the last function of a source."""
    return [one.name for one in ast.parse(source).body if isinstance(one, ast.FunctionDef)][-1]


def kernels(accelopt: Path | None, clone: Path | None) -> Iterator[Honest]:
    yield from of_chapters()
    if accelopt:
        yield from of_nkibench(accelopt)
    if clone:
        yield from of_searches(clone)
        yield from of_solutions(clone)


def judged(one: Honest) -> str:
    """Judge a kernel in this process. Return a complaint if it does not pass, otherwise ""."""
    spec, those = one.spec, one.cases()
    task = child.Task.of(spec, [case.public for case in those])
    with neuroncore.activated():
        content = bytes(answers.ISOLATION.size) + child.answer(one.source, task, ())
    try:
        found = judge.judged(answers.records(content), spec, those)
    except Refused as refusal:
        return f"{refusal.code} {refusal.message} (line {refusal.line})"
    if found["error"]:
        return f"{found['error']['code']} {found['error']['message']}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--accelopt", type=Path)
    parser.add_argument("--autocomp", type=Path)
    parser.add_argument("-k", default="", metavar="SUBSTR")
    given = parser.parse_args()
    count = wrong = 0
    for one in kernels(given.accelopt, given.autocomp):
        if given.k not in one.name:
            continue
        begun = time.perf_counter()
        complaint = judged(one)
        count, wrong = count + 1, wrong + (complaint.partition(" ")[0] != REFUSED.get(one.name, ""))
        took = time.perf_counter() - begun
        print(f"{one.name}: {complaint or 'passed'} ({took:.0f} s)"[:LONGEST], flush=True)
    print(f"{count} kernels, {wrong} judged wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
