"""The output of neuroncore run: lines as launches finish, or one JSON object at the end.

With --harness the output includes the time that a measuring tool would report."""

from __future__ import annotations

import argparse
import platform
import sys
import webbrowser
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from os.path import abspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from neuroncore.base.errors import writing
from neuroncore.base.findings import Finding, without_advice
from neuroncore.base.lazy import Lazy, modules, version
from neuroncore.base.options import HarnessName
from neuroncore.base.progress import progress
from neuroncore.base.units import plural
from neuroncore.cli import session, terminal
from neuroncore.frontend.outcome import WarnedLine, by_line, counted, likely_wrong
from neuroncore.frontend.settings import target_machine
from neuroncore.hosts.api import Run
from neuroncore.record import is_record
from neuroncore.report import collectives, listing, perfetto, precision
from neuroncore.report.estimate import estimate
from neuroncore.report.summary import as_text, compared
from neuroncore.time.policy import POLICIES, effects
from neuroncore.time.schedule import Timeline

if TYPE_CHECKING:
    from neuroncore.machine import harness
    from neuroncore.machine.harness import HarnessTime
    from neuroncore.report.compare import Agreement
    from neuroncore.view import document as documents
    from neuroncore.view import page as viewing
    from neuroncore.view.document import Shown
else:
    harness = Lazy("neuroncore.machine.harness")
    documents, viewing = modules("neuroncore.view", "document page").values()


def add_harness(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--harness",
        choices=(*get_args(HarnessName), "none"),
        default="none",
        help="also report the time that the chosen tool would measure: the estimate plus the "
        "overhead of the tool (default: none)",
    )


def measured(arguments: argparse.Namespace, run: Run) -> HarnessTime | None:
    """Return the time that the tool named by --harness would report for the slowest core.

    Return None if no tool was named, or if the command does not have this option."""
    name = getattr(arguments, "harness", "none")
    if name == "none":
        return None
    slowest = max((timeline.total_ns for timeline in run.timelines), default=0.0)
    return harness.harness_time(name, run.machine.name, slowest)


def fields(time: HarnessTime | None) -> dict[str, Any]:
    """Return the JSON fields for the time that a measuring tool would report; {} for None."""
    return {} if time is None else {"harness": time.to_dict()}


SCHEMA = "neuroncore.run/2"
PACKAGES = ("numpy", "numba", "ml_dtypes")
OPERATIONS = 8  # collectives that are listed, one per line


class LaunchPart(NamedTuple):
    """A part of a launch's results: its lines as text, its fields in JSON, and its findings."""

    lines: Sequence[str]
    fields: dict[str, Any]
    findings: Sequence[Finding] = ()


class Document:
    """Collects and prints the results of all launches of a command."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.timelines: list[Timeline] = []
        self.shown: list[Shown] = []  # for the requested page
        self.launches: list[dict[str, Any]] = []  # for --json
        self.failure: dict[str, Any] | None = None
        self.differs = False
        self.reported: set[WarnedLine] = set()
        # launches for which only one line was printed
        self.briefly: list[tuple[Run, Agreement | None]] = []
        self.last: Run | None = None
        self.source: Sequence[Finding] = ()
        self.unprinted: Sequence[Finding] = ()  # findings about the source
        self.refused = False  # whether --strict refused the run

    def read(self, findings: Sequence[Finding]) -> None:
        """Store the findings about the source, which `say_source` prints later. With --strict,
        print the findings of severity "error" now, and refuse the run."""
        self.source = self.unprinted = findings
        for finding in findings:
            if finding.severity == "error" and self.arguments.strict:
                print(finding, file=sys.stderr)
                self._refuse(finding)

    def _refuse(self, finding: Finding) -> None:
        self.refused = True
        self.failure = self.failure or {**finding.to_dict(), "statement": str(finding)}

    def say(self, line: str) -> None:
        if not self.arguments.json:
            terminal.write(line)

    def header(self) -> None:
        chosen = target_machine(self.arguments.target)
        packages = "  ".join(f"{name} {version(name)}" for name in PACKAGES)
        self.say(
            f"neuroncore {version('neuroncore')}  target {chosen.name} ({chosen.generation})  "
            f"seed {self.arguments.seed}  python {platform.python_version()}  {packages}"
        )

    def say_source(self) -> None:
        """Print the errors and warnings about the source once, all of them as warnings.

        They are printed before the results of the first launch, or after the error that ended the
        command. Findings at the line of that error are left out."""
        failed = self.failure or {}
        spot = abspath(failed.get("file") or ""), failed.get("line")
        for line, same in by_line(likely_wrong(self.unprinted)).items():
            self.reported.add(line)
            if (abspath(line.file), line.number) != spot:
                self.say(counted([replace(finding, severity="warning") for finding in same]))
        self.unprinted = ()

    def add(self, run: Run, agreement: Agreement | None) -> None:
        """Print or store the results of a finished launch."""
        self.say_source()
        asked, brief = self.arguments, self._is_brief
        self.timelines += run.timelines
        self.last = run
        self.differs |= agreement is not None and not agreement
        if asked.html or asked.serve:
            outcome = None if agreement is None else documents.compared(agreement)
            shown = run.shown(asked.values, asked.answers, asked.window)
            self.shown.append(replace(shown, outcome=outcome))
        parts = [*self._parts(run)]
        findings = [*run.findings] if asked.answers else without_advice(run.findings)
        findings = [*findings, *(finding for part in parts for finding in part.findings)]
        self.say(_in_a_line(run, agreement) if brief else f"{run.kernel} on {run.machine.name}")
        if brief:
            self.briefly.append((run, agreement))
        for line in (
            *(() if brief else _in_full(run, agreement, asked.answers)),
            *(line for part in parts for line in part.lines),
            *self._findings(findings),
        ):
            self.say(f"  {line}")
        if asked.json:
            document = _launch(run, agreement, findings, asked.answers)
            for part in parts:
                document |= part.fields
            self.launches.append(document)
        for finding in run.findings:
            if finding.severity == "error" and asked.strict:
                self._refuse(finding)

    def _parts(self, run: Run) -> Iterator[LaunchPart]:
        """Yield the parts of a launch's results that options add; not every command has all of
        these options."""
        asked = self.arguments
        if time := measured(asked, run):
            yield LaunchPart([f"harness    {time}"], fields(time))
        if asked.compiled:
            listed = [*_listed(run.timelines)]
            yield LaunchPart(listed, {"compiled": listed})
        if run.precision:
            yield LaunchPart([*precision.text(run.precision)], {})
        if count := getattr(asked, "orders", 0):
            orders = run.orders(count)
            found = [orders.finding] if orders.finding else []
            yield LaunchPart([f"orders     {orders}"], {"orders": str(orders)}, found)
        if getattr(asked, "verify", False):
            verdict = run.verify()
            if verdict.difference is not None:
                statement = f"{run.kernel}: the emulator {verdict}"
                self.failure = self.failure or {"statement": statement, "ours": True}
            yield LaunchPart([f"verify     {verdict}"], {"verify": verdict.to_dict()})

    @property
    def opening(self) -> documents.Opening:
        """Return how the requested page opens."""
        asked = self.arguments
        return documents.Opening(asked.line, asked.file.partition("::")[0], asked.watched)

    @property
    def _is_brief(self) -> bool:
        """Return whether each launch gets one line: for a script, unless --verbose is given.

        A script may launch many kernels."""
        asked = self.arguments
        return asked.is_script(asked) and not asked.verbose and not is_record(Path(asked.file))

    def _findings(self, findings: Sequence[Finding]) -> Iterator[str]:
        """Yield a line for each new finding of a launch.

        A finding is not new if an earlier launch had the same finding at the same source line. Such
        findings are only counted: a last line states their number by code."""
        again: Counter[str] = Counter()
        for line, same in by_line(findings).items():
            if line in self.reported:
                again[line.code] += len(same)
            else:
                self.reported.add(line)
                yield counted(same)
        if again:
            counts = ", ".join(f"{code} ({n})" for code, n in again.items())
            yield f"repeated   {counts}: shown for an earlier launch"

    def _say_details(self) -> None:
        """Print the details of the launch if a script launched only one kernel. For several
        launches, print the option that shows their details."""
        if len(self.briefly) == 1:
            ((run, agreement),) = self.briefly
            for line in _in_full(run, agreement, self.arguments.answers):
                self.say(f"  {line}")
        elif self.briefly:
            self.say(f"{len(self.briefly)} launches; -v prints the details of each")

    def close(self) -> int:
        """Write the requested files, and return the exit code."""
        self._say_details()
        if self.arguments.trace and self.timelines:
            file = self.arguments.trace
            flows: perfetto.Flows = "all" if self.arguments.trace_flows else "path"
            with writing(f"--trace {file}"), progress(lambda: f"writing {file}"):
                perfetto.write(self.timelines, file, flows)
            self.say(f"trace      {file} (open it at ui.perfetto.dev)")
        if self.arguments.save and self.last is not None:
            self.last.save(self.arguments.save)
            self.say(f"saved      {self.arguments.save}")
        if self.arguments.html and self.shown:
            asked = self.arguments
            with writing(f"--html {asked.html}"), progress(lambda: f"writing {asked.html}"):
                viewing.page(self.shown, self.opening).save(asked.html)
            address = asked.html.resolve().as_uri()
            self.say(f"page       {asked.html} (open it in a browser: {address})")
            if asked.open:
                webbrowser.open(address)
        if self.last is None and self.failure is None:
            self.failure = {"statement": "no kernel was launched"}
            print("neuroncore: no kernel was launched", file=sys.stderr)
        code = session.exit_code(self.failure) or int(self.differs)
        if self.arguments.json:
            terminal.write_json(self._fields(code > 0))
        return code

    def _fields(self, failed: bool) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "passed": not failed,
            "target": target_machine(self.arguments.target).name,
            "seed": self.arguments.seed,
            "versions": {n: version(n) for n in ("neuroncore", *PACKAGES)},
            "findings": [finding.to_dict() for finding in self.source],
            "launches": self.launches,
            "error": self.failure,
        }


def _listed(timelines: Sequence[Timeline]) -> Iterator[str]:
    """Yield the listing of the compiled program of each core."""
    for number, timeline in enumerate(timelines):
        yield f"compiled   {POLICIES[timeline.order].description}" + (
            f", core {number}" if number else ""
        )
        yield from (f"  {line}" for line in listing.listing(timeline.compiled))


def _in_a_line(run: Run, agreement: Agreement | None) -> str:
    """Return one line about a launch: the kernel, the machine, and the time of the slowest core.

    If there is a reference, the line also says whether the results agree with it."""
    line = f"{run.kernel} on {run.machine.name}"
    if run.world.ranks > 1:
        line += f", {run.world.ranks} ranks"
    slowest = max(run.timelines, key=lambda timeline: timeline.total_ns, default=None)
    if slowest is not None:
        line += f"   {estimate(slowest).time}"
    return line if agreement is None else f"{line}   {_verdict(agreement)}"


def _in_full(run: Run, agreement: Agreement | None, answers: bool) -> Iterator[str]:
    if agreement is not None:
        yield from _compared(agreement)
    yield from _timed(run, answers)


def _verdict(agreement: Agreement) -> str:
    return "agrees" if agreement else "DIFFERS"


def _compared(agreement: Agreement) -> Iterator[str]:
    yield from compared(agreement.comparisons)
    limits = ", ".join(f"{t:.3g}" for t in agreement.tolerances)
    option = "" if agreement else "; --tol changes this limit"
    yield f"{_verdict(agreement)}   (a relative L2 error of {limits} is allowed{option})"


def _timed(run: Run, answers: bool) -> Iterator[str]:
    """Yield the estimate of each core. For several ranks, add the waiting times and the slowest
    core."""
    world, timelines = run.world, run.timelines
    if world.ranks == 1:
        yield from _estimated(timelines, run.programs, answers)
        return
    cores = plural(world.cores, "core")
    first, *others = collectives.as_text(timelines, run.collectives, OPERATIONS)
    yield f"{world.ranks} ranks of {cores}: {first}"
    yield from (f"  {line}" for line in others)
    rank, _ = collectives.slowest(timelines, run.collectives)
    number = max(world.cores_of(rank), key=lambda core: timelines[core].total_ns)
    yield world.named(number)
    yield from as_text(timelines[number], answers)


def _estimated(
    timelines: list[Timeline], programs: Sequence[Sequence[int]], answers: bool
) -> Iterator[str]:
    total = sum(map(len, programs))
    for number, (timeline, programs_here) in enumerate(zip(timelines, programs, strict=False)):
        if len(programs_here) > 1:
            yield f"core {number}, {len(programs_here)} of {total} programs, one after another"
        elif total > 1:
            yield f"core {number}"
        yield from as_text(timeline, answers)


def _launch(
    run: Run, agreement: Agreement | None, findings: Sequence[Finding], answers: bool
) -> dict[str, Any]:
    hidden = () if answers else ("bound_by",)

    def shown(figures: dict[str, Any]) -> dict[str, Any]:
        return {name: figure for name, figure in figures.items() if name not in hidden}

    return {
        "kernel": run.kernel,
        "target": run.machine.name,
        "results": [c.to_dict() for c in agreement.comparisons] if agreement is not None else [],
        "agrees": None if agreement is None else bool(agreement),
        "programs": [list(core) for core in run.programs],
        "estimate": shown(run.summary),
        "cores": [*map(shown, run.summaries)],
        "findings": [finding.to_dict() for finding in findings],
        "flags": effects(run.timelines[0].program.flags) if run.timelines else [],
        **(_together(run) if run.world.ranks > 1 else {}),
        **({"precision": precision.document(run.precision)} if run.precision else {}),
    }


def _together(run: Run) -> dict[str, Any]:
    """Return the collectives of a run, and the rank for which other ranks waited longest."""
    rank, waited = collectives.slowest(run.timelines, run.collectives)
    return {
        "collectives": [operation.to_dict() for operation in run.collectives],
        "slowest_rank": rank,
        "waited_for_it": waited / 1e9,
    }
