"""The critical path of a measured run, and each statement's share of its time.

The path is the chain of causes that leads to the event that ends last (`causes`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from neuroncore.capture.measured import MeasuredCore

WAITS = "latency"  # from the end of an event to the begin of the next one


@dataclass(frozen=True)
class PathStep:
    """One event of the path: an instruction, or a transfer from its start to its last byte.

    `ns`: the time until the next event begins, or for the last event until its own end.
    `works_ns`: the part of `ns` in which the event works."""

    row: int
    what: str  # the engine, or the queue of a transfer
    opcode: str
    statement: int
    ns: float
    works_ns: float


@dataclass(frozen=True)
class PathPart:
    """A statement's share of the path.

    `count`: the number of executed instructions of the statement.
    `steps`: how many events of the path belong to the statement.
    `ns`: the time of these events on the path.
    `with_what`: the parts of `ns` by the engine or queue that worked; "latency" for the
        rest."""

    statement: int
    place: str
    text: str
    opcodes: Sequence[str]
    count: int
    steps: int
    ns: float
    with_what: Mapping[str, float]


def steps(core: MeasuredCore) -> list[PathStep]:
    """Return the events of the path in order. The time of the first event is counted from the begin
    of the kernel."""
    path, first = core.causes.path, core.window[0]
    begins = [float(core.event(event)["begin_ns"]) for event in path]
    if begins:
        begins[0] = min(begins[0], first)
    until = [*begins[1:], *[float(core.event(event)["end_ns"]) for event in path[-1:]]]
    return [
        _step(core, event, begin, end)
        for event, begin, end in zip(path, begins, until, strict=True)
    ]


def _step(core: MeasuredCore, event: int, begin: float, until: float) -> PathStep:
    works = min(float(core.event(event)["end_ns"]), until) - begin
    move = event - len(core.instructions)
    row = int(core.moves["trigger"][move]) if move >= 0 else event
    return PathStep(
        row=row,
        what=core.place_of_event(event),
        opcode=core.kind(row).opcode,
        statement=int(core.instructions["statement"][row]),
        ns=until - begin,
        works_ns=works,
    )


def parts(core: MeasuredCore, path: Sequence[PathStep]) -> list[PathPart]:
    """Return the shares of the path by statement, the longest first.

    If statements are unknown, return the shares by engine and opcode."""
    groups: dict[object, list[PathStep]] = {}
    for step in path:
        known = step.statement in core.statements
        groups.setdefault(step.statement if known else (step.what, step.opcode), []).append(step)
    statements = core.instructions["statement"][core.kernel]
    shares = [
        _part(core, group, int((statements == group[0].statement).sum()))
        for group in groups.values()
    ]
    return sorted(shares, key=lambda part: -part.ns)


def _part(core: MeasuredCore, each: Sequence[PathStep], count: int) -> PathPart:
    with_what: dict[str, float] = defaultdict(float)
    for step in each:
        with_what[step.what] += step.works_ns
        with_what[WAITS] += step.ns - step.works_ns
    statement = core.statements.get(each[0].statement)
    opcodes = sorted({step.opcode for step in each})
    return PathPart(
        statement=each[0].statement,
        place=place_of(core, each[0].row) or each[0].what,
        text=statement.text if statement is not None else "/".join(opcodes),
        opcodes=opcodes,
        count=count if statement is not None else len(each),
        steps=len(each),
        ns=sum(step.ns for step in each),
        with_what=with_what,
    )


def place_of(core: MeasuredCore, row: int) -> str:
    """Return the file and line of an instruction if the program has them.

    Otherwise return the compiler's number of its statement; "" if neither is known."""
    number = int(core.instructions["statement"][row])
    statement = core.statements.get(number)
    if statement is None:
        return ""
    return f"{statement.file}:{statement.line}" if statement.line else f"statement {number}"


def idle(core: MeasuredCore) -> Iterator[tuple[str, str, float]]:
    """Yield (engine, cause, ns): how long an engine waited for a cause in total, the longest first.

    The cause is the engine or the queue that made the condition true, "" if unknown."""
    totals: dict[tuple[str, str], float] = defaultdict(float)
    for row in core.kernel.tolist():
        ns = float(core.causes.waited_ns[row])
        if ns > 0:
            cause = int(core.causes.cause[row])
            waited_for = core.place_of_event(cause) if cause >= 0 else ""
            totals[core.engine(row), waited_for] += ns
    for (engine, waited_for), ns in sorted(totals.items(), key=lambda item: -item[1]):
        yield engine, waited_for, ns
