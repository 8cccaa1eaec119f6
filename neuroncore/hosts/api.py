"""The interface for Python programs, which run a kernel on arrays and inspect the run."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn

import numpy.typing as npt

from neuroncore.base.errors import UsageError
from neuroncore.base.findings import Finding
from neuroncore.base.lazy import Lazy, modules
from neuroncore.base.options import Options
from neuroncore.base.progress import progress
from neuroncore.base.units import plural
from neuroncore.checks.recorded import recorded
from neuroncore.frontend import outcome as outcomes
from neuroncore.frontend.arguments import (
    Arguments,
    arrays_in,
    by_rank,
    copied,
    of_a_rank,
    referred,
)
from neuroncore.frontend.nki.kernel import jit
from neuroncore.frontend.outcome import Launch
from neuroncore.frontend.settings import current_settings, environment_options, last_launch, notify
from neuroncore.machine import Machine
from neuroncore.machine.world import ALONE, World, check_size
from neuroncore.numerics.libraries import as_numpy
from neuroncore.record import saved
from neuroncore.record.inputs import Outcome, is_number, mapped
from neuroncore.record.program import Record
from neuroncore.report import arrays as tables
from neuroncore.report import clock, collectives, compare, why
from neuroncore.report import difference as differing
from neuroncore.report.estimate import Estimate, estimate
from neuroncore.report.summary import bound_by, summary
from neuroncore.time.schedule import Timeline, schedule_cores

if TYPE_CHECKING:
    from neuroncore.checks import orders as reordering
    from neuroncore.checks.orders import Orders
    from neuroncore.core.precision.findings import Precision
    from neuroncore.frontend import originals, verifying
    from neuroncore.hosts import rank as of_one_rank
    from neuroncore.replay import cursor as replaying
    from neuroncore.replay.cursor import Replay
    from neuroncore.replay.verification import Verdict
    from neuroncore.report import heat_maps
    from neuroncore.report.collectives import CollectiveOperation
    from neuroncore.report.compare import Agreement
    from neuroncore.report.difference import Difference, Side
    from neuroncore.report.heat_maps import TileContents
    from neuroncore.report.why import Why
    from neuroncore.view import card as cards
    from neuroncore.view import document as documents
    from neuroncore.view import page as viewing
    from neuroncore.view import server as serving
else:
    heat_maps = Lazy("neuroncore.report.heat_maps")
    of_one_rank = Lazy("neuroncore.hosts.rank")
    reordering = Lazy("neuroncore.checks.orders")
    replaying = Lazy("neuroncore.replay.cursor")
    originals = Lazy("neuroncore.frontend.originals")
    verifying = Lazy("neuroncore.frontend.verifying")
    pages = modules("neuroncore.view", "card document page server")
    cards, documents, viewing, serving = pages.values()

Array = npt.NDArray[Any]


class FinishedLaunch(NamedTuple):
    """The data of a finished launch, from memory or from a file. `programs` lists, for each core,
    the programs of the launch grid that the core ran. `findings` are the findings of the launch
    itself, without the findings of its record."""

    kernel: str
    machine: Machine
    programs: Sequence[Sequence[int]]
    results: Any
    findings: list[Finding]
    record: Record | None
    precision: Precision | None = None
    world: World = ALONE


class Run:
    """A finished launch of a kernel: its results, and reports about the launch.

    Figures, lines, tiles and instructions describe the recorded program; their times are estimates.
    They are computed when they are first used. Without a record (`Options.record`), they raise
    UsageError. A Run that was loaded from a file lacks only the float64 results. `finished`
    contains the data of the launch.

    The Run of a launch on several ranks contains the results, the cores and the times of all ranks,
    rank by rank. `ranks` is a list with a Run for each rank. Only the Run of all ranks can be
    replayed and saved."""

    def __init__(
        self,
        finished: FinishedLaunch,
        used: Arguments,
        before: originals.Before | None,
    ) -> None:
        """`used` are the arguments after the launch. `before` are the arguments before the launch,
        or None if they are unknown. For several ranks, each positional argument has the arguments
        of a rank."""
        self.finished, self._used, self._before = finished, used, before
        self._number = 0  # the number of the rank, if this is the Run of one rank

    def __reduce__(self) -> NoReturn:
        raise UsageError("a Run can't be pickled or copied; run.save(FILE) saves it")

    @property
    def _original(self) -> Arguments | None:
        """The arguments before the launch (`Originals.arguments`), or None if they are unknown."""
        before = self._before
        return before if before is None or isinstance(before, tuple) else before.arguments()

    @property
    def kernel(self) -> str:
        """The name of the kernel."""
        return self.finished.kernel

    @property
    def machine(self) -> Machine:
        """The machine of the launch."""
        return self.finished.machine

    @property
    def programs(self) -> Sequence[Sequence[int]]:
        """The numbers of the launch grid's programs that each core ran, as a list per core."""
        return self.finished.programs

    @property
    def world(self) -> World:
        """The number of ranks, and the number of cores per rank."""
        return self.finished.world

    @cached_property
    def ranks(self) -> Sequence[Run]:
        """A Run for each rank. The findings of each of these Runs are the findings of all ranks."""
        if self.world.ranks == 1:
            return (self,)
        return tuple(of_one_rank.RankRun(self, rank) for rank in range(self.world.ranks))

    @property
    def results(self) -> Any:
        """The kernel's results, as arrays of the library from which the arguments come. The results
        of a loaded Run are numpy arrays. For several ranks, this is a list with the results of each
        rank."""
        return self.finished.results

    @cached_property
    def findings(self) -> list[Finding]:
        """All findings: first those of the launch, in order, and then those of its record."""
        record = self.finished.record
        of_record = [] if record is None else recorded(record, self.timelines)
        return [*self.finished.findings, *of_record]

    @property
    def precision(self) -> Precision | None:
        """The rounding errors by line; None unless `Options.precision` is set."""
        return self.finished.precision

    @property
    def record(self) -> Record:
        """The record of the launch: the instructions that it issued, as a program for each core.
        Raises UsageError if there is no record."""
        if self.finished.record is None:
            raise UsageError(f"{self.kernel} ran without a record: Options(record=False)")
        return self.finished.record

    def save(self, path: str | Path) -> None:
        """Write the record, the inputs, the results and the findings to a file, for `load`. Raises
        UsageError if the file can't be written."""
        done = self.finished
        findings = [(finding.code, finding.message, finding.place) for finding in done.findings]
        results = mapped(done.results, as_numpy, lambda v: hasattr(v, "dtype") and not is_number(v))
        outcome = Outcome(results, findings, done.programs, self._changed())
        saved.save(replace(self.record, outcome=outcome), Path(path))

    def _changed(self) -> dict[int, Array]:
        """Return the new contents of the array arguments that the kernel changed, by their
        positions among the array arguments."""
        return originals.changed(self._used, before) if (before := self._original) else {}

    def replay(self, *inputs: Any) -> Any:
        """Execute the record again without the kernel's Python code, on the original inputs or on
        other inputs. Return the results as numpy arrays. If the kernel has no results, return the
        arrays that it changes.

        `inputs` are all array arguments of the launch, in order or as a dict by name. For several
        ranks, `inputs` contains a list or a dict for each rank. Raises the errors of
        `neuroncore.replay.cursor.Replay`."""
        return self.steps(*inputs, snapshots=0).results()

    def verify(self) -> Verdict:
        """Execute the record again, and compare each instruction with the plain reading, a second
        implementation in numpy (`neuroncore.plain`). Also compare the results of the replay with
        the results of the run. Raises the errors of `replay`."""
        return verifying.verdict_of(self.record, self.results)

    def steps(self, *inputs: Any, **options: Any) -> Replay:
        """Return a replay, at the position before the first instruction. `inputs` is explained at
        `replay`. `options` are keyword arguments of `Replay`."""
        arrays = inputs[0] if len(inputs) == 1 and isinstance(inputs[0], Mapping) else inputs
        return replaying.Replay(self.record, arrays or None, **options)

    def tile(self, step: int, name: str, core: int = 0, *, after: bool = False) -> TileContents:
        """Return the contents of an operand before an instruction, or after it if `after` is True
        (see `Replay.tile`). The result is an array, which a notebook shows as a heat map."""
        held = self._stepping.tile(step, name, core, after=after)
        title = f"{name} of instruction {step} of core {core}, {'after' if after else 'before'} it"
        return heat_maps.TileContents(title, held.elements, held.unwritten)

    @cached_property
    def _stepping(self) -> Replay:
        """The replay for `tile`. It is cached so that the next call continues from its position."""
        return self.steps()

    @cached_property
    def timelines(self) -> list[Timeline]:
        """The schedule of each core."""
        programs = self.record.programs
        with progress(lambda: f"scheduling {sum(map(len, programs)):,} instructions"):
            return schedule_cores(programs, self.machine, world=self.world)

    @cached_property
    def collectives(self) -> list[CollectiveOperation]:
        """The collectives, and the ranks that waited for other ranks. The Run of one rank has only
        the collectives in which this rank takes part."""
        return collectives.operations(self.timelines)

    @property
    def estimate(self) -> Estimate:
        """The estimated time of the slowest core on the device."""
        return estimate(self.timelines[self._slowest])

    @property
    def summary(self) -> dict[str, Any]:
        """The figures of the slowest core, by the names that AWS's profiler uses."""
        return self.summaries[self._slowest]

    @cached_property
    def summaries(self) -> list[dict[str, Any]]:
        """The figures of each core, by the names that AWS's profiler uses."""
        return [{**summary(t), **clock.fields(t), **bound_by(t)} for t in self.timelines]

    def why(self, top: int = 5) -> Why:
        """Return the bottleneck, the lines on the critical path, and suggested edits. For each
        edit, the answer states the fraction of the time that it would save. `top` is the number of
        printed rows of each kind."""
        core = collectives.slowest_core(self.timelines, self.collectives)
        with progress(lambda: "scheduling what-ifs"):
            return why.why(self.kernel, self.timelines[core], top, world=self.timelines)

    def diff(self, other: Run, answers: bool = True) -> Difference:
        """Compare this run with a newer run. The result states which run is faster, how certain
        this is, both bottlenecks, and the figures, lines and results that differ. If `answers` is
        False, the bottlenecks are hidden."""
        return differing.difference(self._side, other._side, answers)

    @property
    def _side(self) -> Side:
        outputs = arrays_in(self.results) or list(self._changed().values())
        return differing.Side(self.kernel, self.timelines[self._slowest], self.summary, outputs)

    @property
    def _slowest(self) -> int:
        return max(range(len(self.timelines)), key=lambda core: self.timelines[core].total_ns)

    @cached_property
    def instructions(self) -> Array:
        """An array with one row per instruction (`report.arrays.instructions`)."""
        return tables.instructions(self.timelines)

    @cached_property
    def lines(self) -> Array:
        """An array with one row per source line (`report.arrays.lines`)."""
        return tables.lines(self.timelines)

    @cached_property
    def tiles(self) -> Array:
        """An array with one row per tensor that an instruction accesses (`report.arrays.tiles`)."""
        return tables.tiles(self.timelines)

    def shown(
        self,
        values: range | Literal["some"] | None = "some",
        answers: bool = True,
        window: documents.PageWindow | range | None = None,
    ) -> documents.Shown:
        """Return the data of the launch for a page. The arguments are explained at `view`."""
        if isinstance(window, range):
            window = documents.PageWindow(window.start, window.stop)
        return viewing.Shown(
            self.kernel,
            self.timelines,
            self.findings,
            steps=None if values is None else self.steps,
            wanted=values if isinstance(values, range) else None,
            precision=self.precision,
            answers=answers,
            window=window,
            world=self.world,
            collectives=self.collectives if self.world.ranks > 1 else (),
        )

    def view(
        self,
        values: range | Literal["some"] | None = "some",
        answers: bool = True,
        window: documents.PageWindow | range | None = None,
        at: str = "",
    ) -> viewing.Page:
        """Return a page of the run for a browser. A notebook displays the page, and
        `save("k.html")` writes one file that needs no network.

        To get the values of tiles, the record is executed again. If `values` is a range, the page
        shows all elements for the instructions in the range, and thumbnails for other instructions.
        If `values` is "some", the page contains as many values as fit. If `values` is None, the
        page contains no values. If `answers` is False, the page hides the bottleneck and the
        advice. `window` selects instructions; the default is the first million. `at` is the part
        that the page shows first, such as "step=60&pane=memory"."""
        with progress(lambda: "writing the page"):
            shown = self.shown(values, answers, window)
            return viewing.page([shown], viewing.Opening(at=at))

    def serve(self, answers: bool = True, port: int = 0) -> serving.Server:
        """Serve the page on a port of this computer (0 for a free port) until the server is closed.
        The page shows the values of every step, which are computed when the browser requests
        them."""
        return serving.Server([self.shown(answers=answers)], port)

    def compare(self, reference: Any, tolerance: float | None = None) -> Agreement:
        """Compare the results with a reference. The reference has the expected arrays in order, or
        is a function, which is called with the kernel's original arguments.

        If the kernel returns nothing, its results are the arguments that it changed. `tolerance` is
        the allowed relative L2 error; the default depends on the format of each result. Raises
        Incomparable for a different number of arrays, different shapes, or data that isn't
        numeric."""
        if (original := self._original) is None:
            raise UsageError("the original arguments of this launch were not kept")
        arguments = copy.deepcopy(original)  # because a reference may write to its arguments
        rank = None if self.world.ranks > 1 else self._number
        expected = referred(reference, arguments, rank) if callable(reference) else reference
        got, wanted, verb = arrays_in(self.results), arrays_in(expected), "returns"
        if not got:
            verb, got = "changes", list(self._changed().values())
            if not got:
                raise compare.Incomparable(
                    "the kernel returns nothing and changes none of its arguments"
                )
            if not wanted:
                got, wanted = arrays_in(self._used), arrays_in(arguments)
        if len(got) != len(wanted):
            counts = f"{plural(len(got), 'array')}, but the reference has {len(wanted)}"
            raise compare.Incomparable(f"the kernel {verb} {counts}")
        return compare.agreement(got, wanted, tolerance)

    def orders(self, count: int = 10) -> Orders:
        """Execute the record again on the original arguments, in up to `count` other legal orders,
        and compare the bits of the results. Raises the errors of `checks.orders.compare_orders`."""
        return reordering.compare_orders(self.record, count)

    def _repr_html_(self) -> str | None:
        """Return HTML for a notebook, or None without a record. Then the notebook shows the
        `repr`."""
        if self.finished.record is None:
            return None
        return cards.card(self.kernel, self.timelines, self.findings)

    def __repr__(self) -> str:
        count = plural(len(self.findings), "finding") if self.findings else "no findings"
        return f"<Run of {self.kernel} on {self.machine.name}, {count}>"


def run(
    kernel: Callable[..., Any],
    *args: Any,
    per_rank: Sequence[Sequence[Any] | Mapping[str, Any]] | None = None,
    lnc: int | None = None,
    instance: str | None = None,
    target: str | None = None,
    seed: int | None = None,
    options: Options | None = None,
    **kwargs: Any,
) -> Run:
    """Run a kernel on numpy, torch or jax arrays, and other arguments.

    `kernel` is a function with the decorator `nki.jit` of either API, with or without a launch
    grid, or a function without a decorator that uses today's API. `target` is the name of a
    machine. The defaults of `target` and `options` come from the settings or, if these have none,
    from the environment. `seed` has 32 bits. In the options it replaces `rng_seed`, the seed of the
    engines' random numbers, and `stochastic_seed`, the seed of stochastic rounding.

    The kernel changes the arguments to which it writes. The Run keeps copies of the original
    arguments, with one exception: numpy arrays of 1 MiB or more that the kernel only reads. If such
    an array has changed when the Run needs it, UsageError is raised. But the Run compares only 8
    bytes of each block of at least 2,048 bytes, so it may not notice a few changed elements.

    `per_rank` contains a tuple or a dict of arguments for each rank, and the kernel runs on this
    many ranks. Each rank has `lnc` cores, by default as many as the kernel's grid needs. If several
    ranks get the same array, each rank has its own copy, and the caller's array does not change.
    The results of a single rank are not in a list; `Run.ranks` has a Run for any number of ranks.
    `instance` is the instance of the ranks, such as trn2.48xlarge; the default is the largest
    instance of the target.

    Raises KernelError for errors that the device would report, and UsageError if nothing is
    launched."""
    if seed is not None:
        base = options or current_settings().options or environment_options()
        options = replace(base, stochastic_seed=seed, rng_seed=seed)
    launched: Any = jit(kernel) if isinstance(kernel, FunctionType) else kernel
    if per_rank is None:
        before = originals.Originals((args, kwargs), lazily=hasattr(launched, "on_ranks"))
        last = last_launch(launched, args, kwargs, target, options, before)
        before.launched()
        return of(last, arguments=((args, kwargs), before))
    if args or kwargs:
        raise UsageError("with per_rank, no other arguments can be passed to the kernel")
    ranks = [of_a_rank(arguments) for arguments in per_rank]
    check_size(len(ranks), lnc or 1)
    copies = [copied(arguments) for arguments in ranks]
    launches = launched.on_ranks(ranks, lnc, target=target, options=options, instance=instance)
    notify(*launches)
    return of_ranks(launches, [(rank.arguments, rank.named) for rank in launches], copies)


def of(*ranks: Launch, arguments: tuple[Arguments, originals.Before] | None = None) -> Run:
    """Return the Run of a launch on one or several ranks. For one rank, `arguments` can be the pair
    (arguments after the launch, arguments before the launch). By default, the Run contains the
    arrays that the launches kept."""
    pairs = [outcomes.arrays_of(launch) for launch in ranks] if arguments is None else [arguments]
    return of_ranks(ranks, [used for used, _ in pairs], [before for _, before in pairs])


def of_ranks(
    launches: Sequence[Launch], used: Sequence[Arguments], before: Sequence[originals.Before | None]
) -> Run:
    """Return the Run of a launch on all ranks of a world. `used` and `before` list the arguments of
    each rank after and before the launch."""
    first, several = launches[0], len(launches) > 1
    cores = [core for launch in launches for core in launch.cores]
    programs = [core.program for core in cores if core.program is not None]
    record = None
    if len(programs) == len(cores):
        each = zip(launches, used, before, strict=True)
        settings = [outcomes.setting(rank, *entry) for rank, entry in enumerate(each)]
        record = Record(programs, {"kernel": first.kernel}, outcomes.together(settings))
    finished = FinishedLaunch(
        kernel=first.kernel,
        machine=first.machine,
        programs=[share for launch in launches for share in launch.programs],
        results=[launch.outputs for launch in launches] if several else first.outputs,
        findings=list(dict.fromkeys(each for launch in launches for each in launch.findings)),
        record=record,
        precision=first.precision,
        world=first.core.world,
    )
    if not several:
        return Run(finished, used[0], before[0])
    known = [arguments for arguments in before if isinstance(arguments, tuple)]
    whole: Arguments | None = (tuple(known), {}) if len(known) == len(before) else None
    return Run(finished, (tuple(used), {}), whole)


def load(path: str | Path) -> Run:
    """Load a Run that `Run.save` saved. The loaded Run has no float64 results, and all its arrays
    are numpy arrays.

    Loading executes nothing from the file. Raises UsageError if the file can't be read, is not a
    saved run, or contains an instruction that is illegal on the run's machine."""
    record = saved.load(Path(path))
    setting, outcome = record.setting, record.outcome
    if setting is None or outcome is None:
        raise UsageError(f"{path} has only the programs of a run; Run.save writes a whole run")
    arrays = [*setting.arrays.values()]
    after = [outcome.changed.get(n, array) for n, array in enumerate(arrays)]
    before, used = (by_rank(setting, values) for values in (arrays, after))
    finished = FinishedLaunch(
        kernel=str(record.about.get("kernel", "kernel")),
        machine=setting.machine,
        programs=outcome.shares,
        results=outcome.results,
        findings=[Finding(*row) for row in outcome.findings],
        record=record,
        world=setting.world,
    )
    return Run(finished, used, before)
