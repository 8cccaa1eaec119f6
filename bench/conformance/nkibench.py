"""Run NKIBench's baseline kernels and samples, from AccelOpt, at full size, and compare them with
numpy.

    python bench/conformance/nkibench.py CHECKOUT [-k SUBSTR] [--json]
    python bench/conformance/nkibench.py CHECKOUT --target trn1 --seeds 0 21 42 63 84
    python bench/conformance/nkibench.py CHECKOUT --small

A case is a kernel that NKIBench/summary.json lists with its reference, or a kernel in samples/nki,
on one target. It passes if the benchmark's own rule accepts it (nkibench_case.py). `--workers`
cases run at a time, each on its share of the processors. `--small` uses copies of the kernels and
references with small sizes, as nkibench_small.toml describes; a case then takes seconds, not
minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from nkibench_small import shrunk
from outcome import Outcome, Task, judged, options, run, together, told

HERE = Path(__file__).parent
TARGETS = ("trn1", "trn2")
MAMBA = "mamba_M7168_C256_S16_numpy_1.py"
ROPE = "rope_single_freq_apply_B1_H64_N4096_D128_numpy_1.py"
SAMPLES = {  # the checkout's references and tolerances for its samples
    **dict.fromkeys(("mamba_v1", "mamba_v2", "mamba_v3", "mamba_optimized"), (MAMBA, 3e-5)),
    "rope_optimized": (ROPE, 2e-5),
}
TOLERANCE = 2e-5  # the benchmark's tolerance for baselines


@dataclass(frozen=True)
class Problem:
    name: str
    kernel: Path
    reference: Path
    tolerance: float


def problems(checkout: Path) -> Iterator[Problem]:
    """Yield the baselines in the order of the summary, and then the samples."""
    bench = checkout / "NKIBench"
    for operator, listed in json.loads((bench / "summary.json").read_text()).items():
        for shape in listed["cases"].values():
            for made in shape["impls"]:
                kernel, reference = bench / made["kernel"], bench / made["task"]
                yield Problem(operator, kernel, reference, TOLERANCE)
    for name, (reference, tolerance) in SAMPLES.items():
        kernel = checkout / "samples/nki" / f"{name}.py"
        yield Problem(f"samples/{name}", kernel, bench / "reference" / reference, tolerance)


def small(problem: Problem, folder: Path) -> Problem:
    """Return the problem at small sizes, with its kernel and reference in files of a folder."""
    sources = problem.kernel.read_text(), problem.reference.read_text()
    kernel, reference = folder / "kernel.py", folder / "reference.py"
    for file, source in zip((kernel, reference), shrunk(problem.name, *sources), strict=True):
        file.write_text(source)
    return replace(problem, kernel=kernel, reference=reference)


def case(problem: Problem, target: str, given: argparse.Namespace) -> Outcome:
    name = f"{problem.name} {target}"
    if not problem.kernel.is_file():
        return Outcome(name, "skipped", "not in the checkout")
    with tempfile.TemporaryDirectory() as scratch:
        chosen = small(problem, Path(scratch)) if given.small else problem
        return _held(name, chosen, target, given)


def _held(name: str, problem: Problem, target: str, given: argparse.Namespace) -> Outcome:
    threads = str(max(1, (os.cpu_count() or 1) // given.workers))
    command = [sys.executable, str(HERE / "nkibench_case.py")]
    command += ["--replay"] * given.replay
    command += [str(problem.kernel.resolve()), str(problem.reference.resolve())]
    finished = run(
        [*command, str(problem.tolerance), *map(str, given.seeds)],
        seconds=given.timeout,
        gigabytes=given.memory,
        env={
            "NEURON_PLATFORM_TARGET_OVERRIDE": target,
            **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), threads),
        },
    )
    return judged(name, finished, finished.stdout.splitlines())


def tasks(given: argparse.Namespace) -> Iterator[Task]:
    for target in given.target:
        for problem in problems(given.checkout):
            if given.k in (name := f"{problem.name} {target}"):
                yield Task(name, partial(case, problem, target, given))


def outcomes(given: argparse.Namespace) -> Iterator[Outcome]:
    return together(tasks(given), given.workers)


def main() -> int:
    parser = options(__doc__, "checkout")
    parser.add_argument("--target", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0], metavar="SEED")
    parser.add_argument("--small", action="store_true", help="at small sizes")
    parser.add_argument(
        "--replay", action="store_true", help="compare every launch with its replay"
    )
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    return told("nkibench", outcomes(given), given.json)


if __name__ == "__main__":
    raise SystemExit(main())
