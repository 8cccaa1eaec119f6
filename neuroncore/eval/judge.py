"""The judge. It decides whether a candidate's records satisfy the specification. A candidate never
runs in the judge's process. The path of a program is the sequence of instructions that it
executes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from neuroncore import machine
from neuroncore.base.errors import KernelError, NeuronError, UsageError
from neuroncore.base.findings import Finding
from neuroncore.base.units import plural
from neuroncore.checks.recorded import recorded, spilled
from neuroncore.eval import comparison, metrics, paths
from neuroncore.eval.examination import examined, unpacked
from neuroncore.eval.refusals import Refused
from neuroncore.eval.spec import Shape, Spec
from neuroncore.record.program import Record
from neuroncore.replay.cursor import Replay
from neuroncore.replay.execution import OtherPath
from neuroncore.report.estimate import estimate
from neuroncore.report.pairs import work
from neuroncore.time.schedule import Timeline, schedule_cores

Array = npt.NDArray[Any]
# Codes of findings: a candidate is refused if its record has one of them.
REFUSED = frozenset(
    ("OUTPUT_NOT_WRITTEN", "UNINIT_READ", "CAPACITY", "RACE", "LOOP_CARRIED_READ", "NOT_ONEZERO")
)


@dataclass(frozen=True)
class Hidden:
    """The data of one hidden seed of a shape: the family of its inputs (`eval.families`), the
    arguments of the kernel, and the expected results."""

    family: str
    arguments: tuple[Any, ...]
    expected: tuple[Array, ...]

    @property
    def arrays(self) -> list[Array]:
        return [value for value in self.arguments if isinstance(value, np.ndarray)]


@dataclass(frozen=True)
class Case:
    """One shape of a specification: the public arguments, which candidates see, and the hidden
    data."""

    shape: Shape
    public: tuple[Any, ...]
    hidden: tuple[Hidden, ...]


def cases(spec: Spec) -> list[Case]:
    """Return a case for each shape of a specification. Raise UsageError if the reference fails,
    returns something other than arrays, or returns NaN or infinity."""
    return [_case(spec, shape) for shape in spec.all_shapes]


def _case(spec: Spec, shape: Shape) -> Case:
    hidden = tuple(
        _hidden(spec, shape, *seed_and_family) for seed_and_family in spec.hidden_seeds(shape)
    )
    return Case(shape, spec.kernel_arguments(spec.arguments(0, shape)), hidden)


def _hidden(spec: Spec, shape: Shape, seed: int, family: str) -> Hidden:
    arguments = spec.arguments(seed, shape, family)
    copies = [value.copy() if isinstance(value, np.ndarray) else value for value in arguments]
    where = f"the reference of {spec.name or 'the Spec'} for shape {shape!r}, family {family}"
    try:
        results = spec.expected(copies)
    except Exception as error:
        raise UsageError(f"{where}, fails: {type(error).__name__}: {error}") from error
    expected = comparison.several(results)
    for result in expected:
        if not isinstance(result, np.ndarray):
            raise UsageError(f"{where}, returns {type(result).__name__}, not an array")
        if not np.isfinite(result.astype(np.float64)).all():
            raise UsageError(f"{where}, gives NaN or infinity")
    return Hidden(family, spec.kernel_arguments(arguments), expected)


def judged(
    contents: Sequence[bytes], spec: Spec, cases_of_records: Sequence[Case], *, why: bool = False
) -> dict[str, Any]:
    """Return the entries of a verdict.

    `contents`: a packed record for each of `cases_of_records`
    `why`: if True, the first shape also has the bottleneck and the what-ifs (`eval.metrics`)

    The entry `passed` states whether the candidate passed, `error` is the error or None, and
    `shapes` has the figures of each shape."""
    shapes: list[dict[str, Any]] = []
    try:
        if len(contents) != len(cases_of_records):
            raise Refused(
                "BAD_ANSWER",
                f"the candidate has {plural(len(contents), 'record')} for "
                + plural(len(cases_of_records), "shape"),
            )
        for content, case in zip(contents, cases_of_records, strict=True):
            shapes.append(_of_shape(content, spec, case, why=why and case is cases_of_records[0]))
    except Refused as refusal:
        return {"passed": False, "error": refusal.to_dict(), "shapes": shapes}
    except RecursionError:
        nested = Refused("RECORD_REFUSED", "the record is nested too deep")
        return {"passed": False, "error": nested.to_dict(), "shapes": shapes}
    return {"passed": True, "error": None, "shapes": shapes}


def one_seed(
    contents: Sequence[bytes], spec: Spec, case: Case, number: int, *, why: bool = False
) -> dict[str, Any]:
    """Replay a record on the inputs of hidden seed `number` of a case. Return the entries of a
    verdict (`judged`), and the `path` if the candidate passed (`eval.paths`).

    If these inputs lead to another path than the record, `passed` is False. The other entry is then
    `decisions`: the values that determine the path, up to the first that differs from the
        record."""
    case_of_seed = Case(case.shape, case.public, (case.hidden[number],))
    try:
        entries = judged(contents, spec, [case_of_seed], why=why)
    except OtherPath as other:
        return {"passed": False, "decisions": list(other.decisions)}
    return entries | path(contents, spec, case) if entries["passed"] else entries


def path(contents: Sequence[bytes], spec: Spec, case: Case) -> dict[str, Any]:
    """Return {"path": PATH} with the path of the record of one case (`paths.taken`), or {} if the
    record is refused."""
    try:
        (content,) = contents
        return {"path": paths.taken(unpacked(content, spec, len(case.hidden[0].arrays)))}
    except (Refused, ValueError):
        return {}


def _of_shape(content: bytes, spec: Spec, case: Case, *, why: bool) -> dict[str, Any]:
    record = unpacked(content, spec, len(case.hidden[0].arrays))
    constants = examined(record, spec)
    seeds = [_of_seed(record, spec, hidden_data) for hidden_data in case.hidden]
    target = machine.load(spec.target)
    timelines = schedule_cores(record.programs, target, world=record.world)
    slowest = max(timelines, key=lambda timeline: timeline.total_ns)
    findings = allowed(record, timelines)
    times = estimate(slowest)
    hidden = case.hidden[0]
    floor = hbm_ns(slowest, hidden.expected)  # not every kernel has to read all inputs
    if slowest.total_ns < floor:
        message = (
            f"the estimate is {slowest.total_ns:.0f} ns, but writing the results alone takes "
            f"{floor:.0f} ns"
        )
        raise Refused("BELOW_ROOFLINE", message)
    shape_figures = {
        "shape": repr(case.shape),
        "latency_us": times.seconds * 1e6,
        "low_us": None if times.low is None else times.low * 1e6,
        "high_us": None if times.high is None else times.high * 1e6,
        "roofline_us": hbm_ns(slowest, (*hidden.arrays, *hidden.expected)) / 1e3,
        "instructions": sum(map(len, record.programs)),
        "constant_bytes": constants,
        "findings": sorted({finding.code for finding in findings}),
        "busy_ns": dict(work(slowest).busy),
        "seeds": seeds,
        "summary": metrics.summary(slowest),
    }
    return shape_figures | metrics.why(slowest) if why else shape_figures


def _of_seed(record: Record, spec: Spec, hidden: Hidden) -> dict[str, Any]:
    """Replay a record on hidden inputs. Return the family of the inputs and the errors of the
    results (`comparison.errors`)."""
    try:
        replay = Replay(record, hidden.arrays, snapshots=0)
        results = replay.results()
    except KernelError as error:
        place = error.place
        raise Refused(error.code, error.statement, place.line if place else None) from None
    except OtherPath:
        raise  # `one_seed` handles it
    except NeuronError as error:
        raise Refused("RECORD_REFUSED", str(error)) from None
    refuse([finding for core in replay.cores for finding in core.findings])
    return {"family": hidden.family, **comparison.errors(results, spec, hidden.expected)}


def allowed(record: Record, timelines: Sequence[Timeline]) -> list[Finding]:
    """Return the findings of a record. Raise Refused for the first finding whose code is in
    REFUSED. But tiles that exceed the memory (CAPACITY) are accepted if the compiler spills
    them."""
    findings = recorded(record, timelines)
    spills = all(map(spilled, timelines))
    refuse([finding for finding in findings if not (spills and finding.code == "CAPACITY")])
    return findings


def refuse(findings: Sequence[Finding]) -> None:
    """Raise Refused for the first finding whose code is in REFUSED."""
    for finding in findings:
        if finding.code in REFUSED:
            raise Refused(
                finding.code, finding.message, finding.place.line if finding.place else None
            )


def hbm_ns(timeline: Timeline, arrays: Sequence[Array]) -> float:
    """Return how many nanoseconds one HBM stack takes to transfer all bytes of `arrays` once."""
    return sum(array.nbytes for array in arrays) / timeline.machine.hbm.stack_gigabytes_per_s
