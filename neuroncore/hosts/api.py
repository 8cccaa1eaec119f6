"""What Python programs call: run a kernel on arrays, and ask how that went."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal

import numpy.typing as npt

from neuroncore.base.errors import UsageError
from neuroncore.base.findings import Finding
from neuroncore.base.lazy import Lazy
from neuroncore.base.options import Options
from neuroncore.base.structs import dataclass
from neuroncore.checks.recorded import recorded
from neuroncore.frontend import outcome as outcomes
from neuroncore.frontend.arguments import (
    Arguments,
    arrays_in,
    by_rank,
    copied,
    of_a_rank,
    with_rank,
)
from neuroncore.frontend.arrays import as_numpy
from neuroncore.frontend.nki.kernel import jit
from neuroncore.frontend.outcome import Launch
from neuroncore.frontend.settings import current_settings, environment_options, last_launch, tell
from neuroncore.machine import Machine
from neuroncore.machine.world import ALONE, World
from neuroncore.record import saved
from neuroncore.record.inputs import Outcome, mapped
from neuroncore.record.row_json import is_number
from neuroncore.record.saved import Record
from neuroncore.report.collectives import CollectiveOperation, operations
from neuroncore.report.compare import Agreement, Incomparable, agreement
from neuroncore.report.estimate import Estimate, estimate
from neuroncore.report.progress import progress
from neuroncore.report.summary import bound_by, summary
from neuroncore.report.why import Why, why
from neuroncore.time.schedule import Timeline, schedule_cores

if TYPE_CHECKING:
    from neuroncore.checks.orders import Orders
    from neuroncore.precision.findings import Precision
    from neuroncore.replay.cursor import Replay
    from neuroncore.replay.verification import Verdict
    from neuroncore.report.difference import Difference, Side
    from neuroncore.view.document import Shown
    from neuroncore.view.page import Page
    from neuroncore.view.server import Server
    from neuroncore.view.tiles import Tile
    from neuroncore.view.window import Window

reordering: Any = Lazy("neuroncore.checks.orders")
replaying: Any = Lazy("neuroncore.replay.cursor")
differing: Any = Lazy("neuroncore.report.difference")
tables: Any = Lazy("neuroncore.report.arrays")
tiles: Any = Lazy("neuroncore.view.tiles")
viewing: Any = Lazy("neuroncore.view.page")
verifying: Any = Lazy("neuroncore.frontend.verifying")
serving: Any = Lazy("neuroncore.view.server")
windows: Any = Lazy("neuroncore.view.window")
cards: Any = Lazy("neuroncore.view.card")
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Finished:
    """What is left of a launch, or was kept of it in a file; `findings` are those that were met."""

    kernel: str
    machine: Machine
    programs: Sequence[Sequence[int]]
    results: Any
    findings: list[Finding]
    record: Record | None
    precision: Precision | None = None
    world: World = ALONE


class Run:
    """A finished launch of a kernel: what it gave, and what there is to say of it.

    Figures, lines, tiles and instructions are those of the recorded program, and their times are
    estimates; all are made when they are first asked for. Without a record (`Options.record`) they
    raise UsageError. One that was loaded from a file has all of it but what float64 told.

    That of several ranks has the results, the cores and the times of all, rank by rank, and a Run
    for each in `ranks`, of which only the whole can be replayed and saved.
    """

    def __init__(
        self,
        finished: Finished,
        used: Arguments,
        given: Arguments | None,
        whole: Run | None = None,
    ) -> None:
        """`used` are the arguments as the kernel left them, `given` copies of them as they were,
        if there are any; of several ranks the arguments are those of each. `whole` is the Run of
        all ranks, of that of one."""
        self._finished, self._used, self._given = finished, used, given
        self._whole = whole

    @property
    def kernel(self) -> str:
        """The kernel's name."""
        return self._finished.kernel

    @property
    def machine(self) -> Machine:
        """What it ran on."""
        return self._finished.machine

    @property
    def programs(self) -> Sequence[Sequence[int]]:
        """The programs of the launch grid that each core ran, one after the other."""
        return self._finished.programs

    @property
    def world(self) -> World:
        """How many ranks it ran on, each of how many cores."""
        return self._finished.world

    @cached_property
    def ranks(self) -> Sequence[Run]:
        """A Run for each rank; their findings are those of all."""
        if self.world.ranks == 1:
            return (self,)
        return tuple(map(self._rank, range(self.world.ranks)))

    def _rank(self, rank: int) -> Run:
        done, own = self._finished, self.world.cores_of(rank)
        part = slice(own.start, own.stop)
        record = None
        if done.record is not None:
            record = Record(done.record.programs[part], {**done.record.about, "rank": rank})
        finished = replace(
            done,
            programs=done.programs[part],
            results=done.results[rank],
            record=record,
            world=World(1, self.world.cores, self.world.instance),
        )
        given = None if self._given is None else self._given[0][rank]
        return Run(finished, self._used[0][rank], given, self)

    @property
    def results(self) -> Any:
        """What the kernel returned, its tensors as arrays of the library that it got some of; of
        numpy if they were loaded. Of several ranks it is a list."""
        return self._finished.results

    @cached_property
    def findings(self) -> list[Finding]:
        """Warnings and remarks: in the order in which they were met, and then of the record."""
        record = self._finished.record
        told = [] if record is None else recorded(record, self.timelines)
        return [*self._finished.findings, *told]

    @property
    def precision(self) -> Precision | None:
        """Where the error comes from, with `Options.precision`."""
        return self._finished.precision

    @property
    def record(self) -> Record:
        """The instructions that were issued, one program for each core."""
        if self._finished.record is None:
            raise UsageError(f"{self.kernel} ran without a record: Options(record=False)")
        return self._finished.record

    def save(self, path: str | Path) -> None:
        """Write the record, the inputs, the results and the findings to a file, for `load`. Raises
        UsageError if it can't be written."""
        done = self._finished
        found = [(one.code, one.message, one.place) for one in done.findings]
        results = mapped(done.results, as_numpy, lambda v: hasattr(v, "dtype") and not is_number(v))
        outcome = Outcome(results, found, done.programs, self._changed())
        saved.save(replace(self.record, outcome=outcome), Path(path))

    def _changed(self) -> dict[int, Array]:
        """The arrays among the arguments that the kernel has changed, as it left them, by their
        places."""
        if self._given is None:
            return {}
        both = enumerate(zip(arrays_in(self._used), arrays_in(self._given), strict=True))
        return {n: used for n, (used, given) in both if used.tobytes() != given.tobytes()}

    def replay(self, *inputs: Any) -> Any:
        """What the kernel returns when its record is executed again, without the kernel's Python,
        on other inputs or on its own: arrays of numpy, of a kernel that returns none those that it
        changes.

        Inputs are all arrays that the kernel was launched with, in their order, or one dict of them
        by name; of several ranks one for each. Raises what `neuroncore.replay.cursor.Replay` does.
        """
        return self.steps(*inputs, snapshots=0).results()

    def verify(self) -> Verdict:
        """Compare the emulator with the plain reading of the record, instruction by instruction,
        and with the results of the run. Raises what `replay` does."""
        return verifying.verdict_of(self.record, self.results)  # type: ignore[no-any-return]

    def steps(self, *inputs: Any, **options: Any) -> Replay:
        """The same to go through instruction by instruction, which stands before the first."""
        given = inputs[0] if len(inputs) == 1 and isinstance(inputs[0], Mapping) else inputs
        made: Replay = replaying.Replay(self.record, given or None, **options)
        return made

    def tile(self, step: int, name: str, core: int = 0, *, after: bool = False) -> Tile:
        """What an operand of an instruction held before it, or `after` it, as `Replay.tile` finds
        it: an array, which a notebook shows as a heat map."""
        held = self._stepping.tile(step, name, core, after=after)
        when = "after" if after else "before"
        title = f"{name} of instruction {step} of core {core}, {when} it"
        return tiles.Tile(title, held.elements, held.unwritten)  # type: ignore[no-any-return]

    @cached_property
    def _stepping(self) -> Replay:
        """Kept, so that the next tile is near."""
        return self.steps()

    @cached_property
    def timelines(self) -> list[Timeline]:
        """When everything happened, core by core."""
        if self._whole is not None:
            own = self._whole.world.cores_of(self.record.about["rank"])
            return self._whole.timelines[own.start : own.stop]
        programs = self.record.programs
        with progress(lambda: f"scheduling {sum(map(len, programs)):,} instructions"):
            return schedule_cores(programs, self.machine, world=self.world)

    @cached_property
    def collectives(self) -> list[CollectiveOperation]:
        """What its ranks did together, and who waited for whom; of a rank's Run, with its part."""
        if self._whole is None:
            return operations(self.timelines)
        return [one for one in self._whole.collectives if self.record.about["rank"] in one.ranks]

    @property
    def estimate(self) -> Estimate:
        """How long it takes on the device: its slowest core."""
        return estimate(self.timelines[self._slowest])

    @property
    def summary(self) -> dict[str, Any]:
        """The figures of its slowest core by the names of the vendor's profiler."""
        return self.summaries[self._slowest]

    @cached_property
    def summaries(self) -> list[dict[str, Any]]:
        """The same of each core."""
        return [{**summary(timeline), **bound_by(timeline)} for timeline in self.timelines]

    def why(self, top: int = 5) -> Why:
        """What bounds it, which lines are on its critical path, and what would help: changes of
        each resource and of so many lines, scheduled again."""
        timeline = self.timelines[self._slowest]
        with progress(lambda: "scheduling what-ifs"):
            return why(self.kernel, timeline, top)

    def diff(self, other: Run, answers: bool = True) -> Difference:
        """This run beside a newer one: which is faster, how sure that is, what bounds them, and
        figures, lines and results that differ. Without `answers` it doesn't say what bounds
        them."""
        return differing.difference(self._side, other._side, answers)  # type: ignore[no-any-return]

    @property
    def _side(self) -> Side:
        made = arrays_in(self.results) or list(self._changed().values())
        side: Side = differing.Side(self.kernel, self.timelines[self._slowest], self.summary, made)
        return side

    @property
    def _slowest(self) -> int:
        return max(range(len(self.timelines)), key=lambda core: self.timelines[core].total_ns)

    @cached_property
    def instructions(self) -> Array:
        """A structured array, as `report.arrays.instructions` describes it."""
        return tables.instructions(self.timelines)  # type: ignore[no-any-return]

    @cached_property
    def lines(self) -> Array:
        """A structured array, as `report.arrays.lines` describes it."""
        return tables.lines(self.timelines)  # type: ignore[no-any-return]

    @cached_property
    def tiles(self) -> Array:
        """A structured array, as `report.arrays.tiles` describes it."""
        return tables.tiles(self.timelines)  # type: ignore[no-any-return]

    def shown(
        self,
        values: range | Literal["some"] | None = "some",
        answers: bool = True,
        window: Window | range | None = None,
    ) -> Shown:
        """What a page has of it, as `view` says."""
        if isinstance(window, range):
            window = windows.Window(window.start, window.stop)
        shown: Shown = viewing.Shown(
            self.kernel,
            self.timelines,
            self.findings,
            steps=None if values is None else self.steps,
            wanted=values if isinstance(values, range) else None,
            precision=self.precision,
            answers=answers,
            window=window,
            world=self.world,
        )
        return shown

    def view(
        self,
        values: range | Literal["some"] | None = "some",
        answers: bool = True,
        window: Window | range | None = None,
    ) -> Page:
        """A page that shows what happened, for a browser: in a notebook it shows itself, and
        `view().save("k.html")` writes it, one file that needs no network.

        The record is executed again for the values of tiles. The instructions in a range have all
        of their elements, others small pictures; of "some" there are as many as there is room for,
        and with None no values at all. Without `answers` it doesn't say what bounds the kernel and
        what would help. The page has the instructions of a `window`, by default all, or the first
        million.
        """
        shown = self.shown(values, answers, window)
        with progress(lambda: "writing the page"):
            return viewing.page([shown])  # type: ignore[no-any-return]

    def serve(self, answers: bool = True, port: int = 0) -> Server:
        """The same page on a port of this machine, 0 for one that is free, until it is closed. All
        steps have all of their values: each is replayed when it is asked for."""
        return serving.Server([self.shown(answers=answers)], port)  # type: ignore[no-any-return]

    def compare(self, reference: Any, tolerance: float | None = None) -> Agreement:
        """The results beside a reference: arrays in their order, or a function, which is called
        with the kernel's arguments as they were given.

        The results of a kernel that returns none are the arguments that it changed. `tolerance` is
        the relative L2 error that is allowed, by default that of each result's format. Raises
        Incomparable for another number of arrays, other shapes, and what is not of numbers.
        """
        given = self._given
        if given is None:
            raise UsageError("the arguments of this launch, as they were given, were not kept")
        left = copy.deepcopy(given)  # a reference may work in place
        made = self._referred(reference, left) if callable(reference) else reference
        got, wanted, verb = arrays_in(self.results), arrays_in(made), "returns"
        if not got:
            verb = "changes"
            got = list(self._changed().values())
            if not got:
                raise Incomparable("the kernel returns nothing and changes none of its arguments")
            if not wanted:
                got, wanted = arrays_in(self._used), arrays_in(left)
        if len(got) != len(wanted):
            counts = f"{len(got)} arrays, the reference {len(wanted)}"
            raise Incomparable(f"the kernel {verb} {counts}")
        return agreement(got, wanted, tolerance)

    def _referred(self, reference: Callable[..., Any], given: Arguments) -> Any:
        """What a reference makes of the arguments; of each rank's, if there are several."""
        if self.world.ranks == 1:
            return reference(*given[0], **given[1])
        each = [with_rank(reference, own, rank) for rank, own in enumerate(given[0])]
        return [reference(*args, **named) for args, named in each]

    def orders(self, count: int = 10) -> Orders:
        """Whether other orders that the device may take give the same bits: the record is executed
        again in up to `count` of them, on the arguments as they were given. Raises what
        `checks.orders.compare_orders` does."""
        return reordering.compare_orders(self.record, count)  # type: ignore[no-any-return]

    def _repr_html_(self) -> str | None:
        """What a notebook shows of it; None, for what `repr` says, if there is no record."""
        if self._finished.record is None:
            return None
        return cards.card(self.kernel, self.timelines, self.findings)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        said = f"{len(self.findings)} findings" if self.findings else "no findings"
        return f"<Run of {self.kernel} on {self.machine.name}, {said}>"


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
    """Run a kernel on arrays of numpy, torch or jax, and whatever else it takes.

    `kernel` is what `nki.jit` of either API made, with a launch grid or without, or a function of
    today's API that lacks the decorator. `target` is the name of a machine; it and `options` are
    by default what is set, else the environment's. `seed`, 32 bits, is what random numbers start
    from: those of the engines' generators, and of stochastic rounding where that is on
    (`rng_seed` and `stochastic_seed` of the options). Arguments that the kernel writes are changed;
    the Run keeps copies of them as they were given.

    With `per_rank`, a tuple or dict of arguments for each rank, it runs on so many ranks of `lnc`
    cores together, by default as many cores as the kernel's grid asks for, else one. An array that
    several ranks are given is each rank's own, and the caller's stays as it is. `instance` is what
    the ranks are in, such as trn2.48xlarge; by default the largest with chips of the target.

    Raises KernelError for what the device would refuse, UsageError if nothing was launched.
    """
    if seed is not None:
        base = options or current_settings().options or environment_options()
        options = replace(base, stochastic_seed=seed, rng_seed=seed)
    launched: Any = jit(kernel) if isinstance(kernel, FunctionType) else kernel
    if per_rank is None:
        given = copied((args, kwargs))
        last = last_launch(launched, args, kwargs, target, options)
        return of(last, arguments=((args, kwargs), given))
    if args or kwargs:
        raise UsageError("arguments are given rank by rank, in per_rank, or all together")
    ranks = [of_a_rank(one) for one in per_rank]
    kept = [copied(one) for one in ranks]
    launches = launched.on_ranks(ranks, lnc, target=target, options=options, instance=instance)
    tell(*launches)
    return of_ranks(launches, [(one.arguments, one.named) for one in launches], kept)


def of(*ranks: Launch, arguments: tuple[Arguments, Arguments] | None = None) -> Run:
    """The Run of a launch, or of those of all ranks of a world. `arguments` are a kernel's on
    one rank, as it left them and as they were; without them, the arrays that launches kept."""
    pairs = [outcomes.kept(one) for one in ranks] if arguments is None else [arguments]
    return of_ranks(ranks, [used for used, _ in pairs], [given for _, given in pairs])


def of_ranks(
    launches: Sequence[Launch], used: Sequence[Arguments], given: Sequence[Arguments | None]
) -> Run:
    """The Run of the launches of all ranks of a world, with the arguments of each."""
    first, several = launches[0], len(launches) > 1
    cores = [core for launch in launches for core in launch.cores]
    programs = [core.program for core in cores if core.program is not None]
    record = None
    if len(programs) == len(cores):
        each = zip(launches, used, given, strict=True)
        settings = [outcomes.setting(rank, *one) for rank, one in enumerate(each)]
        record = Record(programs, {"kernel": first.kernel}, outcomes.together(settings))
    finished = Finished(
        kernel=first.kernel,
        machine=first.machine,
        programs=[share for launch in launches for share in launch.programs],
        results=[launch.outputs for launch in launches] if several else first.outputs,
        findings=list(dict.fromkeys(found for launch in launches for found in launch.findings)),
        record=record,
        precision=first.precision,
        world=first.core.world,
    )
    if not several:
        return Run(finished, used[0], given[0])
    kept = [one for one in given if one is not None]
    whole: Arguments | None = (tuple(kept), {}) if len(kept) == len(given) else None
    return Run(finished, (tuple(used), {}), whole)


def load(path: str | Path) -> Run:
    """The Run that was saved in a file. It tells all that it told but what float64 did, and its
    arrays are numpy's.

    Nothing in the file is run. Raises UsageError for a file that can't be read or is no saved run,
    and for what its machine refuses.
    """
    record = saved.load(Path(path))
    setting, outcome = record.setting, record.outcome
    if setting is None or outcome is None:
        raise UsageError(f"{path} is the record of programs alone: Run.save writes all of a run")
    arrays = [*setting.arrays.values()]
    left = [outcome.changed.get(n, array) for n, array in enumerate(arrays)]
    given, used = (by_rank(setting, those) for those in (arrays, left))
    finished = Finished(
        kernel=str(record.about.get("kernel", "kernel")),
        machine=setting.machine,
        programs=outcome.shares,
        results=outcome.results,
        findings=[Finding(*one) for one in outcome.findings],
        record=record,
        world=setting.world,
    )
    return Run(finished, used, given)
