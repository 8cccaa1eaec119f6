"""Run kernels that many repositories published: by their own scripts and test suites, and by our
drivers.

    python bench/conformance/everyone.py CHECKOUTS [--only drivers|scripts|suites] [-k SUBSTR]
    python bench/conformance/everyone.py CHECKOUTS --clone

CHECKOUTS is a folder with clones named OWNER+NAME. everyone.toml lists their repositories and
commits; `--clone` prints the commands that make the missing clones. A case is a script, a test of a
suite, or a kernel that a driver launches. If a clone is at another commit, its cases run too, and a
message names the commit. Some kernels have a known fault, which everyone.toml or a driver
describes. Such a case must fail because of this fault, and counts as `theirs`.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from drivers import DRIVERS
from drivers.driver import DIFFERS, Checkout, Driver, Fault
from outcome import (
    VERDICTS,
    WITH_ZEROS,
    Finished,
    Outcome,
    Task,
    judged,
    options,
    run,
    together,
    told,
)

from neuroncore.frontend import alias

HERE = Path(__file__).parent
ALIAS = alias.PATH
LISTED = tomllib.loads((HERE / "everyone.toml").read_text())
LIBRARY = "aws-neuron/nki-library"
DISAGREES = re.compile(r"\bFAIL(?:ED)?\b|✗|❌|\bdiffer\b|MISMATCH")
DISAGREEMENT = "Disagreement"  # the exception of everyone_case.py
SUITE_SECONDS = 20  # a whole suite may take this many times as long as a case


@dataclass(frozen=True)
class Script:
    """A script of a repository. `run` is a file, or "-m" and a module, followed by the arguments.
    `bare` has the patterns for `--bare` of bystanders.py. A script that `reports` shows its verdict
    by its exit code; words in its output that look like failures are then ignored."""

    repository: str
    run: list[str]
    target: str = "trn2"
    bare: list[str] = field(default_factory=list)
    reports: bool = False
    fault: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.repository} {' '.join(self.run)}"


@dataclass(frozen=True)
class Suite:
    """A test suite of a repository. `pytest` has the arguments of pytest, which runs in the
    clone."""

    repository: str
    pytest: list[str]
    env: dict[str, str]
    target: str = "trn2"


class Runs:
    """Runs the cases of a folder of clones."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.checkouts: Path = given.checkouts.resolve()
        self.wanted: str = given.k
        self.seconds: float = given.timeout
        self.gigabytes: float = given.memory

    def home(self, repository: str) -> Path:
        return self.checkouts / repository.replace("/", "+")

    def run(self, command: Iterable[str], repository: str, target: str, **limits: Any) -> Any:
        """Run a command of Python for a case in its clone, and return the Finished process."""
        env = {
            "PYTHONPATH": os.pathsep.join(map(str, (ALIAS, HERE / "shims"))),
            "PYTHONDONTWRITEBYTECODE": "1",
            "NEURON_PLATFORM_TARGET_OVERRIDE": target,
            "NEURONCORE_NKILIB": str(self.home(LIBRARY)),
            **limits.pop("env", {}),
        }
        home = self.home(repository)
        limits = {"seconds": self.seconds, "gigabytes": self.gigabytes, **limits}
        return run([sys.executable, *command], env=env, **{"cwd": home, **limits})

    def driven(self) -> Iterator[Task]:
        for driver in DRIVERS:
            checkout = Checkout(self.home(driver.repository))
            for variant in driver.variants(checkout):
                name = f"{driver.repository} {driver.name} {variant}".rstrip()
                if self.wanted in name:
                    yield Task(name, partial(self.driven_by, driver, name, checkout, variant))

    def first_of_each(self) -> Iterator[Task]:
        """Yield the task for the first variant of each driver whose repository is cloned."""
        for driver in DRIVERS:
            checkout = Checkout(self.home(driver.repository))
            if checkout.root.is_dir() and (variants := driver.variants(checkout)):
                variant = variants[0]
                name = f"{driver.repository} {driver.name} {variant}".rstrip()
                if self.wanted in name:
                    yield Task(name, partial(self.driven_by, driver, name, checkout, variant))

    def driven_by(self, driver: Driver, name: str, checkout: Checkout, variant: str) -> Outcome:
        if not checkout.root.is_dir():
            return Outcome(name, "skipped", "not cloned")
        command = [str(HERE / "everyone_case.py"), str(checkout.root), driver.name, variant]
        finished = self.run(filter(None, command), driver.repository, driver.target)
        outcome = judged(name, finished, finished.stdout.splitlines())
        return faulty(outcome, driver.faults.get(variant))

    def scripts(self) -> Iterator[Task]:
        for script in (Script(**listed) for listed in LISTED["script"]):
            if self.wanted in script.name:
                yield Task(script.name, partial(self.script, script))

    def script(self, script: Script) -> Outcome:
        home = self.home(script.repository)
        if not home.is_dir():
            return Outcome(script.name, "skipped", "not cloned")
        bare = [word for package in script.bare for word in ("--bare", package)]
        file, *arguments = script.run
        place = home if file == "-m" else home.joinpath(file).parent
        what = file if file == "-m" else str(home / file)
        command = [str(HERE / "bystanders.py"), *bare, what, *arguments]
        finished = self.run(command, script.repository, script.target, cwd=place)
        outcome = judged(script.name, finished)
        found = None if script.reports else DISAGREES.search(finished.stdout)
        if outcome.verdict == "passed" and found:
            outcome = replace(outcome, verdict="failed", cause=f"it says {found[0]!r}")
        return faulty(outcome, Fault(**script.fault) if script.fault else None)

    def suites(self) -> Iterator[Outcome]:
        for suite in (Suite(**listed) for listed in LISTED["suite"]):
            if self.wanted in suite.repository:
                yield from self.suite(suite)

    def suite(self, suite: Suite) -> Iterator[Outcome]:
        """Run a suite in one process, and yield the outcomes of its tests. All tests share the
        modules that they import."""
        if not self.home(suite.repository).is_dir():
            yield Outcome(suite.repository, "skipped", "not cloned")
            return
        with tempfile.TemporaryDirectory() as scratch:
            report = Path(scratch, "report.xml")
            command = [str(HERE / "bystanders.py"), "-m", "pytest", "-q", f"--junitxml={report}"]
            finished = self.run(
                [*command, "-p", "no:cacheprovider", "--tb=native", *suite.pytest],
                suite.repository,
                suite.target,
                env=suite.env,
                seconds=SUITE_SECONDS * self.seconds,
            )
            if finished.code is None or not report.is_file():
                yield judged(suite.repository, finished)
                return
            for test in ElementTree.parse(report).iter("testcase"):
                yield tested(suite.repository, test)


def tested(repository: str, test: ElementTree.Element) -> Outcome:
    """Return the outcome of a test from its element in pytest's XML report."""
    name = f"{repository} {test.get('classname')}::{test.get('name')}"
    seconds = float(test.get("time", 0))
    if (skipped := test.find("skipped")) is not None:
        return Outcome(name, "skipped", skipped.get("message", ""), seconds)
    failed = [found for kind in ("failure", "error") if (found := test.find(kind)) is not None]
    if not failed:
        return Outcome(name, "passed", "", seconds)
    return judged(name, Finished(1, "", failed[0].text or "", seconds))


def faulty(outcome: Outcome, fault: Fault | None) -> Outcome:
    """Return the outcome of a case whose kernel has the known fault `fault`: `theirs` if it fails
    in this way, otherwise `failed`. Without a fault, return the outcome unchanged."""
    if fault is None:
        return outcome
    cause = DISAGREEMENT if fault.code == DIFFERS else fault.code
    if outcome.cause.startswith(f"{cause}: "):
        return replace(outcome, verdict="theirs", cause=fault.reason)
    said = f"expected the error {cause}, got {outcome.cause or 'none'}"
    return replace(outcome, verdict="failed", cause=said)


def table(outcomes: Iterable[Outcome]) -> list[str]:
    """Return a Markdown table with the number of cases of each repository and verdict."""
    counts: dict[str, Counter[str]] = {}
    for outcome in outcomes:
        repository = outcome.name.partition(" ")[0]
        counts.setdefault(repository, Counter())[outcome.verdict] += 1
    columns = [verdict for verdict in VERDICTS if verdict != WITH_ZEROS]
    heading = ("repository", "commit", *columns)
    rows = [heading, ("---",) * len(heading)]
    for repository in sorted(counts, key=str.lower):
        commit, found = LISTED["commits"][repository][:7], counts[repository]
        rows.append((repository, commit, *(str(found[verdict]) for verdict in columns)))
    return [f"| {' | '.join(row)} |" for row in rows]


def clones(checkouts: Path) -> Iterator[str]:
    """Yield the commands that make the missing clones."""
    for repository, commit in LISTED["commits"].items():
        home = checkouts / repository.replace("/", "+")
        if not home.is_dir():
            yield f"git clone -q https://github.com/{repository} {home}"
            yield f"git -C {home} checkout -q {commit}"


def elsewhere(checkouts: Path) -> Iterator[str]:
    """Yield a message for each clone that is at another commit than everyone.toml lists."""
    for repository, commit in LISTED["commits"].items():
        home = checkouts / repository.replace("/", "+")
        if home.is_dir():
            asked = run(["git", "-C", str(home), "rev-parse", "HEAD"])
            if asked.stdout.strip() != commit:
                yield f"{repository} is at {asked.stdout[:7] or 'no commit'}, not at {commit[:7]}"


def main() -> int:
    parser = options(__doc__, "checkouts")
    parser.add_argument("--only", choices=("drivers", "scripts", "suites"))
    parser.add_argument(
        "--clone", action="store_true", help="print the commands that make the missing clones"
    )
    parser.set_defaults(timeout=120.0)
    given = parser.parse_args()
    if given.clone:
        print("\n".join(clones(given.checkouts)))
        return 0
    for said in elsewhere(given.checkouts):
        print(said, file=sys.stderr)
    runs, kept = Runs(given), []
    kinds = {
        "drivers": lambda: together(runs.driven()),
        "scripts": lambda: together(runs.scripts()),
        "suites": runs.suites,
    }

    def noted() -> Iterator[Outcome]:
        for kind in [given.only] if given.only else kinds:
            for outcome in kinds[kind]():
                kept.append(outcome)
                yield outcome

    code = told("everyone", noted(), given.json)
    if not given.json:
        print("\n".join(["", *table(kept)]))
    return code


if __name__ == "__main__":
    raise SystemExit(main())
