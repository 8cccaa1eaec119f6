"""The checks of a program. It must run, agree with the plain reading, and read and write the bytes
that numpy's indexing determines. Its replay on other inputs must have the same bits and the same
record as a launch on these inputs. It is scheduled in several orders.

The second launch runs every iteration of every loop in Python; the first one may have derived
iterations from others. Some programs are replayed from a saved record. For some programs, it is
checked that schedules keep the order of instructions that use the same bytes. Parallel loops with
independent iterations must have the same results in other orders of their iterations.
"""

from __future__ import annotations

import linecache
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from copy import deepcopy
from typing import Any, get_args

import numpy as np

import neuroncore

neuroncore.activate()

from bench.programs import races, records
from bench.programs.draws import FLOATS
from bench.programs.hazards import Uses, asked, broken, decisions, pairs, unseen
from bench.programs.program import TURNS, Input, Launch, Program, Views, arrays
from bench.programs.rewritten import wrong_use
from bench.programs.views import Array
from bench.programs.walks import Shown
from bench.programs.watching import Failure, Watched
from neuroncore.base import buffers
from neuroncore.base.errors import EmulatorError, KernelError, NeuronError
from neuroncore.base.options import Options, Order
from neuroncore.checks.orders import compare_orders
from neuroncore.clause import alu, arithmetic, product
from neuroncore.core import later, legality, packs, undefined
from neuroncore.frontend import arguments, originals
from neuroncore.frontend.arguments import arrays_in
from neuroncore.frontend.neuronxcc.nki.kernel import Kernel as KernelOfOlder
from neuroncore.hosts.api import Run
from neuroncore.memory import access, geometry, tile
from neuroncore.numerics import codec, quick
from neuroncore.record import boxes, loops
from neuroncore.record import program as instructions
from neuroncore.record.program import Program as Instructions
from neuroncore.record.program import Record
from neuroncore.replay import batches, cursor, execution
from neuroncore.replay.cursor import Replay
from neuroncore.replay.verification import Mismatch
from neuroncore.time.schedule import Timeline, schedule_cores

ORDERS = [one for one in get_args(Order) if one]
REWRITTEN = "compiled"  # the order in which the compiler rewrites the program
SAVED, HELD = 7, 3  # one of 7 programs is replayed from a file, one of 3 has its hazards checked
LIMITED = 5  # one of 5 runs with small caches, and with loops for few elements
SHARED = 5  # one of 5 has all products deferred and divided among threads
# settings with which compiled code executes every instruction that it can execute
EVERY_ROW = {"LEAST": 1, "START": 0, "SHARED": 0, "_are_long": np.any}
IN_BATCHES = {**EVERY_ROW, "are_worth": lambda rows: True}
BACK = 4  # in one of 4, the replay goes back and then to the end again
SHARING = (later, {"WORTH": 1, "MOST": 3, "AHEAD": 1, "threads": lambda: 2})
LOOPS = [(arithmetic, {"WORTH": 1})]  # then a sum of two NaNs may have the bits of either one
SMALL = [
    *((packs, {"MOST": 1, "EARLY": 64, "ROOM": 1 << 12}), (undefined, {"READS": 1})),
    *((legality, {"KNOWN_MOST": 2}), (geometry, {"MOST": 2}), (boxes, {"MANY": 1})),
    *((buffers, {"SMALL": 1}), *LOOPS, (codec, {"LEAST": 1}), (loops, {"FEW": 0})),
    (alu, {"LARGE": 1}),
    *((execution, {"CHUNK": 1}), (originals, {"LARGE": 1}), (arguments, {"SMALL": 1})),
    *((access, {"LARGE": 1}), (tile, {"FEW": 0}), (instructions, {"PACKED": 8})),
    *((cursor, {"APART": 2}), (product, {"ONE_THREAD": 16}), (quick, {"MOST_OF_OTHERS": 1 << 40})),
]
"""Limits of caches, and of code for large arrays. No result depends on them."""


def check(program: Program) -> Run:
    """Run a program and make all checks of it. Raises Failure."""
    given = program.seed, program.inputs, program.launch
    more = program.by_line(), program.reorders, program.equal
    return examine(program.kernel(), *given, *more)


def examine(
    kernel: Any,
    seed: int,
    inputs: Sequence[Input],
    launch: Launch,
    expected: Mapping[int, Sequence[Views]],
    reorders: bool = False,
    equal: Sequence[Sequence[int]] = (),
) -> Run:
    """Run a kernel and make all checks of it, as `check` does. `expected` has the operands by line
    (`Program.by_line`). If `reorders` is true, the iterations of parallel loops may be in any
    order. `equal` has groups of places of results that must be equal (`Program.equal`)."""
    own, others, again = (
        [arrays(inputs, seed, rank, first) for rank in range(launch.ranks)]
        for first in (True, False, False)
    )
    uses = None if seed % HELD else Uses()
    with _silent(), _limits(seed, SMALL, SHARING):
        run: Run = _step("run", lambda: _run(kernel, own, launch))
        _hold_equal(run.results, equal)
        shown = _step("verify", lambda: _verify(run, expected, uses))
        times = _step("schedule", lambda: _schedule(run, uses, seed))
        if reorders and launch.cores * launch.ranks == 1:
            _step("orders", lambda: _reordered(run))
        given = [tuple(one) for one in others] if launch.ranks > 1 else others[0]
        before = deepcopy(others)
        saves = seed % SAVED == 0
        record = _step("file", lambda: _from_file(run, times)) if saves else run.record
        replay = _step("replay", lambda: _replayed(record, given, seed % BACK == 2))
        if seed % BACK == 3:
            _step("walk", lambda: _walked(shown, record))
    with _silent(), _second(seed, isinstance(kernel, KernelOfOlder)):
        fresh: Run = _step("run", lambda: _run(kernel, again, launch))
    wrong = [*records.differences(run.record, fresh.record)]
    if wrong and not any(one.kind == TURNS for one in inputs):
        raise Failure("run: another record of a second launch", ", ".join(wrong))
    if replay is None:
        if not wrong:
            raise Failure("replay: refused", "a second launch takes the same path")
        _compare(others, before, "input that was given")
        return run
    # for a sum of two NaNs, numpy chooses one by addresses, and compiled code chooses differently
    any_nan = seed % BACK != 2
    _compare(replay.results(), fresh.results, "result", any_nan)
    _compare(_after(replay, before), again, "input, after the launch,", any_nan)
    _compare(others, before, "input that was given")
    return run


def _hold_equal(results: Any, equal: Sequence[Sequence[int]]) -> None:
    found = [*arrays_in(results)]
    for first, *others in equal:
        for other in others:
            if not np.array_equal(found[first], found[other], equal_nan=True):
                raise Failure("run: results that differ", f"results {first} and {other} differ")


def _after(replay: Replay, given: Sequence[Sequence[Any]]) -> list[Any]:
    """Return the contents of all inputs, rank by rank, after a replay on the arrays `given`. The
    replay itself does not change these arrays."""
    changed, inputs = replay.changed(), replay.setting.inputs
    flat = [array for own in given for array in own]
    return [changed.get(one.name, array) for one, array in zip(inputs, flat, strict=True)]


@contextmanager
def _silent() -> Iterator[None]:
    """A context manager that suppresses warnings and the output of kernels."""
    with warnings.catch_warnings(), redirect_stdout(None):
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _limits(seed: int, small: Sequence[Any], *others: Any) -> Iterator[None]:
    """A context manager that changes limits for programs of some seeds. With `small`, caches have
    room for little, and code for large arrays also handles small ones. With `others`, every product
    is deferred, and a few products at a time are divided among threads."""
    changes = [*others] * (seed % SHARED == 1) + [*small] * (seed % LIMITED == 2)
    with ExitStack() as stack:
        for module, given in changes:
            stack.enter_context(_changed(module, **given))
        yield


@contextmanager
def _changed(module: Any, **given: Any) -> Iterator[None]:
    """A context manager in which names of a module have other values."""
    before = {name: getattr(module, name) for name in given}
    vars(module).update(given)
    try:
        yield
    finally:
        vars(module).update(before)


def _run(kernel: Any, given: Sequence[Sequence[Any]], launch: Launch) -> Run:
    options = Options(**launch.options)
    if launch.ranks > 1:
        more = {"per_rank": given, "lnc": launch.cores}
        return neuroncore.run(kernel, target=launch.target, options=options, **more)
    grid = launch.cores * launch.programs
    gridded = kernel[grid] if grid > 1 else kernel
    return neuroncore.run(gridded, *given[0], target=launch.target, options=options)


def _step(what: str, do: Callable[[], Any]) -> Any:
    """Return the result of `do`. Its errors become Failures; `what` names the step in them."""
    try:
        return do()
    except Failure:
        raise
    except EmulatorError as error:
        raise Failure(f"{what}: EmulatorError", str(error)) from error
    except KernelError as error:
        raise Failure(f"{what}: refused {error.code}", str(error)) from error
    except NeuronError as error:
        raise Failure(f"{what}: {type(error).__name__}", str(error)) from error
    except Exception as error:
        where = error.__traceback__
        while where and where.tb_next:
            where = where.tb_next
        spot = f"{where.tb_frame.f_code.co_name}:{where.tb_lineno}" if where else ""
        raise Failure(f"{what}: {type(error).__name__} in {spot}", str(error)) from error


@contextmanager
def _second(seed: int, older: bool) -> Iterator[None]:
    """A context manager for the second launch. Loops have the same limits as in the first one. For
    a kernel of the older API a trace function is set, so that no iteration is derived from
    others."""
    before = sys.gettrace()
    if older and before is None:
        sys.settrace(lambda *_: None)
    try:
        with _limits(seed, LOOPS):
            yield
    finally:
        sys.settrace(before)


def _from_file(run: Run, times: Mapping[Order, Sequence[float]]) -> Record:
    """Return the record of a run after it was written to a file and read again. Raises Failure
    unless it equals the record of the run, and takes the same time in one of the orders
    (`times`)."""
    record, wrong = records.from_file(run.record)
    if wrong:
        raise Failure("file: another record", f"{', '.join(wrong)} of the record of a file")
    for order, wanted in [*times.items()][-1:]:
        found = [one.total_ns for one in _timelines(run, record, order)]
        if found != wanted:
            raise Failure("schedule: another time from a file", f"{order}: {wanted}, {found}")
    return record


def _timelines(run: Run, record: Record, order: Order) -> list[Timeline]:
    return schedule_cores(record.programs, run.machine, order, run.world)


def _replayed(record: Record, given: Sequence[Any], back: bool) -> Replay | None:
    """Return the replay of a record on other inputs, at its end; None if the kernel takes another
    path with these inputs. With `back`, the replay has gone back several times before, and has more
    snapshots than usual. Otherwise compiled code executes every row that it can."""
    with (
        _changed(cursor, APART=2 if back else cursor.APART),
        _changed(batches, **IN_BATCHES),
    ):
        replay = Replay(record, given or None, **({} if back else {"snapshots": 0}))
        try:
            replay.finish()
        except execution.OtherPath:
            return None
    for part in (2 / 3, 1 / 2, 0) if back else ():
        replay.to_step(int(part * replay.steps))
        replay.finish()
    return replay


def _walked(shown: Shown, record: Record) -> None:
    with _changed(cursor, APART=2):
        if wrong := shown.wrong(record):
            raise Failure("walk: another tile", wrong)


def _verify(run: Run, expected: Mapping[int, Sequence[Views]], uses: Uses | None) -> Shown:
    verification = Watched(run.record, expected, uses)
    verdict = verification.run()
    if verdict.difference is None and (results := arrays_in(run.results)):
        replayed = arrays_in(verification.replay.results())
        verdict = verification.with_results(verdict, results, replayed)
    found: Mismatch | None = verdict.difference
    if found is not None:
        raise Failure(f"verify: {found.instruction} {found.operand} differs", str(found))
    if verification.missing:
        line = min(verification.missing)
        raise Failure("verify: no instruction of a line", f"line {line} has no instruction")
    lines = linecache.getlines(verification.file)
    waits = {(first, later) for later, first in run.record.programs[-1].edges().tolist()}
    if lost := asked(lines, verification.rows) - waits:
        raise Failure("verify: depends_on", f"{min(lost)} do not wait for each other")
    if len(run.record.programs) > 1:
        if uses and (said := races.wrong(run.record.programs, run.world, uses, run.findings)):
            raise Failure("verify: RACE", said)
    else:
        # collecting all findings is slow
        findings = run.findings if uses else run.finished.findings
        reported = any("never written" in one.message for one in findings)
        if reported != (wanted := verification.origins.reported) and wanted is not None:
            raise Failure("verify: UNINIT_READ", f"is {'' if reported else 'not '}reported")
    return verification.shown


def _schedule(run: Run, uses: Uses | None, seed: int) -> dict[Order, list[float]]:
    """Schedule a run, in all orders if `uses` are given, otherwise in two. Return, for each order,
    the nanoseconds of each core. Raises Failure if a schedule does not keep the order of dependent
    instructions."""
    times = {}
    orders = ORDERS if uses else {ORDERS[n % len(ORDERS)]: None for n in (seed, seed // 2)}
    ordered = [
        np.concatenate([decisions(one), one.edges()[:, ::-1], _hazards(one, core, uses)])
        for core, one in enumerate(run.record.programs)
    ]
    for order in orders:
        timelines = _timelines(run, run.record, order)
        times[order] = [one.total_ns for one in timelines]
        for core, timeline in enumerate(timelines):
            if not np.isfinite(timeline.total_ns):
                raise Failure("schedule: no time", f"{order} takes {timeline.total_ns} ns")
            if order != REWRITTEN and len(wrong := broken(ordered[core], timeline)):
                said = f"{order}: {wrong[0]} of core {core} do not wait for each other"
                raise Failure("schedule: a hazard", said)
            if uses and len(timelines) == 1 and (said := wrong_use(timeline.compiled, uses)):
                raise Failure("schedule: left out", f"{order}: {said}")
    return times


def _reordered(run: Run) -> None:
    finding = compare_orders(run.record, 2).finding
    if finding is not None:
        raise Failure("orders: another result", finding.message)


def _hazards(program: Instructions, core: int, uses: Uses | None) -> Array:
    """Return the pairs of instructions of a core that use the same bytes. Raises Failure if the
    record does not have them."""
    shared = uses.shared(core) if uses else []
    for first, second in unseen(program, shared):
        said = f"{first} and {second} of core {core} share bytes, but not boxes"
        raise Failure("record: boxes", said)
    return pairs(shared)


def _compare(replayed: Any, fresh: Any, what: str, any_nan: bool = False) -> None:
    """Raise Failure if bits differ. With `any_nan`, all NaNs are equal. This is also true if a
    result has the bits of floats in another format."""
    for number, (one, other) in enumerate(zip(arrays_in(replayed), arrays_in(fresh), strict=True)):
        one, other = np.ascontiguousarray(one), np.ascontiguousarray(other)
        if one.tobytes() == other.tobytes():
            continue
        if any_nan and any(_only_nans(one, other, np.dtype(form)) for form in FLOATS):
            continue
        bits = f"u{one.itemsize}"
        apart = one.reshape(-1).view(bits) != other.reshape(-1).view(bits)
        said = f"{int(apart.sum())} of {one.size} elements of {what} {number} differ"
        raise Failure("replay: other bits than a launch", said)


def _only_nans(one: Array, other: Array, form: np.dtype[Any]) -> bool:
    """Return whether all elements that differ are NaN in both arrays, if their bytes are numbers of
    the format `form`."""
    if one.nbytes % form.itemsize:
        return False
    pair = [np.frombuffer(array.tobytes(), form) for array in (one, other)]
    bits = [array.view(f"u{form.itemsize}") for array in pair]
    with np.errstate(invalid="ignore"):  # Signaling NaNs may set the flag of invalid operations.
        nans = np.isnan(pair[0]) & np.isnan(pair[1])
    return bool(nans[bits[0] != bits[1]].all())


def main(
    kernel: Any, seed: int, inputs: Sequence[Sequence[Any]], target: str, **launch: Any
) -> None:
    """Check the kernel of a file, and print the result."""
    more = {}, launch.pop("reorders", False), launch.pop("equal", ())
    sizes = {name: launch.pop(name, 1) for name in ("cores", "ranks", "programs")}
    given = [Input(*one) for one in inputs]
    try:
        examine(kernel, seed, given, Launch(target, **sizes, options=launch), *more)
    except Failure as failure:
        sys.exit(f"FAILS {failure}")
    print("holds")
