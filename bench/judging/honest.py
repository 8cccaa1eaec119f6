"""Kernels of honest authors: is any of them refused, or is its result called wrong?

    python bench/judging/honest.py [--accelopt CHECKOUT] [--autocomp CHECKOUT] [-k SUBSTR]

It judges the kernels of this project on the inputs of their chapters; with a clone of AccelOpt the
baselines of NKIBench and its samples at small sizes, and with one of autocomp the candidates of its
published searches. Each has hidden inputs. It prints the kernels that do not pass.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

import neuroncore

sys.path.append(str(Path(__file__).parents[1] / "conformance"))

import autocomp_candidates as searches
import nkibench as bench
import nkibench_small as sizes

from neuroncore.eval import Spec, answers, child, files, judge, load_spec
from neuroncore.eval.adapters import nkibench
from neuroncore.eval.refusals import Refused

FORMATS = ("float32", "bfloat16", "tfloat32", "float16", "float8_e4m3", "float8_e5m2")
CHAPTERS = {  # kernels, and the names of their references if they have other ones
    "ch01_add": {"add": ""},
    "ch02_softmax": {"softmax": ""},
    "ch03_rmsnorm": {"rmsnorm": ""},
    "ch04_layernorm": {"layernorm": ""},
    "ch05_matmul": {"naive": "", "hoisted": "", "blocked_free": "", "blocked": ""},
    "ch06_transpose": {"transpose": ""},
    "ch07_attention": {"attention": "", "causal_attention": "causal_reference"},
    "ch08_mlp": {"swiglu": ""},
}
COARSE = 2e-2  # relative L2 of products of bfloat16


class Honest(NamedTuple):
    """A kernel that has to pass, and its specification."""

    name: str
    spec: Spec
    source: str


def of_chapters() -> Iterator[Honest]:
    for chapter, kernels in CHAPTERS.items():
        module = importlib.import_module(f"neuroncore.kernels.{chapter}")
        assert module.__file__ is not None
        source = Path(module.__file__).read_text()
        for name, reference in kernels.items():
            wanted = getattr(module, reference or "reference")
            yield Honest(f"{chapter} {name}", of_chapter(module, name, wanted), source)


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
            yield Honest(problem.name, of_problem(checkout, small), small.kernel.read_text())


def of_problem(checkout: Path, small: bench.Problem) -> Spec:
    """The specification of a problem, with the reference of the small one."""
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
        usual = load_spec(f"autocomp:{table}@{checkout}")
        trace = (checkout / "examples" / f"{search}_trace.py").read_text()
        best = (checkout / "examples" / f"{search}_opt.py").read_text()
        found = searches.candidates(trace)
        for number, text in enumerate(found):
            others = "\n".join((best, *(one for one in found if one != text)))
            for line in searches.DAMAGED.get((search, number), ()):
                text = searches.whole(text, line, others)
            functions = [one for one in ast.parse(text).body if isinstance(one, ast.FunctionDef)]
            spec = replace(usual, entry=(functions[-1].name,), secret=1, seeds=1)
            yield Honest(f"{harness} candidate {number}", spec, text)


def judged(one: Honest) -> str:
    """Judge a kernel in this process; return a complaint, or nothing."""
    spec = one.spec
    those = judge.cases(spec)
    public = [case.public for case in those]
    task = child.Task(tuple(spec.entry), spec.target, spec.options, public, spec.prelude)
    with neuroncore.activated():
        content = bytes(answers.HELD.size) + child.answer(one.source, task, ())
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
    groups = [of_chapters()]
    groups += [of_nkibench(given.accelopt)] if given.accelopt else []
    groups += [of_searches(given.autocomp)] if given.autocomp else []
    count = wrong = 0
    for one in (kernel for group in groups for kernel in group if given.k in kernel.name):
        count += 1
        if said := judged(one):
            wrong += 1
            print(f"{one.name}: {said:.200}", flush=True)
    print(f"{count} kernels, {wrong} did not pass")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
