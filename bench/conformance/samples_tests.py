"""Run the unmodified tests of nki-samples for its kernels of the older API.

    python bench/conformance/samples_tests.py CHECKOUT [--suite unit|paged] [-k SUBSTR] [--json]

Each pytest case is run in a separate process. The suite `unit` has the cases of `test/unit` that
their authors marked for simulation. The suite `paged` has the tests of the paged attention, which
later commits lack. Torch must be installed; neuroncore's stand-in replaces torch_xla.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from outcome import Outcome, judged, options, run, told

from neuroncore.frontend import alias

ALIAS = alias.PATH
# test_double_row_matmul reads the type of the instance from a file that other computers lack. It
# then calls `warnings.warn` without having imported `warnings`, so the name is made a builtin.
PYTEST = """
import builtins, sys, warnings, pytest
builtins.warnings = warnings
raise SystemExit(pytest.main(sys.argv[1:]))
"""


@dataclass(frozen=True)
class Suite:
    """The folder in which pytest runs, the tests in it, and options of pytest."""

    home: str
    tests: str
    options: tuple[str, ...] = ()


SUITES = {
    "unit": Suite(".", "test/unit", ("--simulation-only",)),
    "paged": Suite("contributed/neuron-team-kernels/flash_paged_attn_varlen", "test_kernel.py"),
}


def command(suite: Suite, *more: str) -> list[str]:
    return [sys.executable, "-c", PYTEST, "-q", "-p", "no:cacheprovider", *suite.options, *more]


def environment(checkout: Path) -> dict[str, str]:
    places = (ALIAS, checkout.resolve() / "src")
    return {"PYTHONPATH": os.pathsep.join(map(str, places)), "PYTHONDONTWRITEBYTECODE": "1"}


def listed(checkout: Path, suite: Suite) -> list[str]:
    """Return the names of the cases. If the tests can't be collected, end the runner with pytest's
    output."""
    collecting = command(suite, "--collect-only", suite.tests)
    finished = run(collecting, env=environment(checkout), cwd=checkout / suite.home)
    if finished.code != 0:
        raise SystemExit(finished.stdout + finished.stderr)
    return [line for line in finished.stdout.splitlines() if "::" in line and ": " not in line]


def outcomes(given: argparse.Namespace) -> Iterator[Outcome]:
    suite = SUITES[given.suite]
    for name in listed(given.checkout, suite):
        if given.k in name:
            yield case(given.checkout, suite, name, given.timeout, given.memory)


def case(checkout: Path, suite: Suite, name: str, seconds: float, gigabytes: float) -> Outcome:
    finished = run(
        command(suite, "--tb=native", "--show-capture=no", "-rN", name),
        seconds=seconds,
        gigabytes=gigabytes,
        env=environment(checkout),
        cwd=checkout / suite.home,
    )
    # pytest prints errors to stdout, and Python prints them to stderr
    return judged(name, replace(finished, stderr=finished.stdout))


def main() -> int:
    parser = options(__doc__, "checkout")
    parser.add_argument("--suite", choices=SUITES, default="unit")
    parser.set_defaults(memory=20.0)  # GiB: the tests' references of attention need much memory
    given = parser.parse_args()
    return told("samples_tests", outcomes(given), given.json)


if __name__ == "__main__":
    raise SystemExit(main())
