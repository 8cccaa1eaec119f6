"""The state of a program while it is made: its tensors, the parts of them that were written, and
its statements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from bench.programs import registers
from bench.programs.draws import MOST_FREE, PARTITIONS
from bench.programs.program import CONSTANTS, Input, Launch, Program, Statement, Views, numbers
from bench.programs.views import SIZES, Array, Tensor, View
from bench.programs.windows import How, Windows

REGIONS = {"hbm": "nl.shared_hbm", "sbuf": "nl.sbuf", "psum": "nl.psum"}
BANK_BYTES, BANKS = 2048, 8  # of PSUM, in each partition
PLACED_BYTES = 4096  # per partition of a memory, for tensors at addresses


class Maker(Windows):
    """Draws statements that fit the tensors of the earlier statements."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.cores = self.ranks = self.programs = 1
        self.options: dict[str, Any] = {}
        self.tensors: list[Tensor] = []
        self.inputs: list[Input] = []
        self.statements: list[Statement] = []
        self.used: list[View] = []
        self.issued: list[tuple[str, tuple[str, ...], dict[str, Any]]] = []
        self.results: list[str] = []
        self.placed: dict[str, Array] = {}
        self._names = 0

    def name(self, letter: str) -> str:
        self._names += 1
        return f"{letter}{self._names}"

    def size(self) -> tuple[int, int]:
        """Return numbers of partitions and of elements per partition, usually those of a view that
        was used before, or smaller ones."""
        if self.used and self.chance(0.75):
            view = self.choose(self.used[-12:])
            if view.lanes <= PARTITIONS and view.free <= MOST_FREE:
                lanes = view.lanes if self.chance(0.7) else self.between(1, view.lanes)
                return lanes, view.free if self.chance(0.6) else self.columns(view.free)
        return self.lanes(), self.columns()

    # --- statements -------------------------------------------------------------------------------

    def say(
        self, text: str, makes: str | None = None, kinds: Iterable[str] = (),
        views: Sequence[Views] = (), line: int = 0,
    ) -> None:  # fmt: skip
        """Add a statement. If `views` is given, line `line` of the statement has an instruction,
        and `views` has its operands for each time that the line is executed."""
        seen = [one for each in views for one in each.values() if isinstance(one, View)]
        told = frozenset(kinds).union(*(view.kinds for view in seen))
        at = {line: views} if views else {}
        self.statements.append(Statement(text, at, makes, told))

    def issue(self, name: str, writes: Iterable[str] = ("dst",), **given: Any) -> None:
        """Add a statement that issues an instruction. Its arguments are given by name, as views,
        lists of views, or text. The arguments `writes` are then written."""
        kinds = given.pop("kinds", ())
        views = {key: one for key, one in given.items() if isinstance(one, View)}
        lists = {key: many for key, many in given.items() if isinstance(many, list)}
        views |= {f"{key}[{i}]": one for key, many in lists.items() for i, one in enumerate(many)}
        written = [one for key, one in views.items() if key.partition("[")[0] in writes]
        kinds = {*kinds, *self._roles(name, views), *_changes(written)}
        texts = {key: one for key, one in given.items() if isinstance(one, str)}
        constants = {key: one for key, one in texts.items() if one in CONSTANTS}
        text, held = self.written_as(name, given, views | constants)
        self.say(text, None, kinds, held, text.count("\n"))
        for view in written:
            self.wrote(view)
        self.used += views.values()
        if name.startswith("nisa.") and not any(one.tensor.is_shared for one in written):
            self.issued.append((name, tuple(writes), given))

    def written_as(
        self, name: str, given: dict[str, Any], views: Views
    ) -> tuple[str, Sequence[Views]]:
        """Return the text of a statement that issues an instruction, and its operands `views` for
        each time that it is issued."""
        return self.call(name, given), [views]

    def call(self, name: str, given: dict[str, Any]) -> str:
        """Return the text of a call of a function, with arguments by name."""
        return f"{name}({', '.join(f'{key}={text_of(one)}' for key, one in given.items())})"

    def _roles(self, name: str, views: dict[str, View]) -> list[str]:
        """Return names for new kinds of use: a tensor is used in another role than before, or in
        another size."""
        found = []
        for key, view in views.items():
            roles, role = view.tensor.roles, f"{name} {key}"
            size = f"{view.lanes} x {view.free}"
            if roles:
                found += ["another role"] * (role not in roles)
                found += ["another size"] * (size not in roles)
            roles |= {role, size}
        return found

    def wrote(self, view: View) -> None:
        """Note that a statement has written a view."""
        view.mark_written()
        view.tensor.last = view

    def new(
        self, region: str, shape: Sequence[int], form: str, address: tuple[int, int] | None = None
    ) -> View:
        """Make a tensor, and return it as a view. It is uninitialized, unless other tensors share
        the bytes at its address."""
        made = Tensor(self.name("p" if region == "psum" else "t"), region, tuple(shape), form)
        given = {"dtype": f"nl.{form}", "buffer": self._memory(region)}
        if address is not None:
            fresh = np.zeros((PARTITIONS, PLACED_BYTES), np.bool_)
            made.place(self.placed.setdefault(region, fresh), address)
            given["address"] = str(address)
        self.tensors.append(made)
        told = "".join(f", {key}={value}" for key, value in given.items())
        kinds = ["an address"] * (address is not None)
        self.say(f"{made.name} = nl.ndarray({made.shape}{told})", makes=made.name, kinds=kinds)
        return made.whole()

    def _memory(self, region: str) -> str:
        """Return the name of a memory in a kernel. If there are two cores, each has separate
        tensors in HBM."""
        if region == "hbm" and (self.cores > 1 or self.chance(0.3)):
            return "nl.private_hbm"
        return REGIONS[region]

    def given(self, shape: Sequence[int], form: str, kind: str = "any", *more: int) -> View:
        """Make an input of the kernel, and return it as a view. Programs of one core may write to
        it if it has the kind "any"."""
        fixed = kind != "any" or self.cores > 1
        made = Tensor(self.name("x"), "hbm", tuple(shape), form, constant=fixed)
        made.written[:] = True
        self.inputs.append(Input(made.name, made.shape, form, kind, *more))
        self.tensors.append(made)
        return made.whole()

    def fill(self, view: View) -> View:
        """Fill a new tensor on the chip from an input, and return the tensor. If there are two
        cores, each may have a separate part of the input."""
        source = self._own(view) or self.given(view.shape, view.form)
        if view.tensor.region == "psum":
            through = self.new("sbuf", view.shape, view.form)
            self.issue("nisa.dma_copy", dst=through, src=source)
            self.issue("nisa.tensor_copy", dst=view, src=through)
        else:
            self.issue("nisa.dma_copy", dst=view, src=source)
        return view

    def _own(self, view: View) -> View | None:
        if self.cores == 1 or self.chance(0.4):
            return None
        both = self.given((self.cores, *view.shape), view.form)
        apart = prod(view.shape) * view.size
        return replace(both, text=f"{both.text}[core]", at=both.at[0], apart=apart)

    def known(self, lanes: int, free: int, high: int, form: str, kind: str = "known") -> Any:
        """Return a tile of integers from 0 to `high`, and their values, which are known. No other
        statement writes the tile, because an instruction that uses it as an index may be issued
        again."""
        one = self.known_input((lanes, free), high, form, kind)
        tile = self.new("sbuf", (lanes, free), form)
        self.issue("nisa.dma_copy", dst=tile, src=one)
        tile.tensor.constant = True
        return tile, self.last_numbers()

    def known_input(self, shape: Sequence[int], high: int, form: str, kind: str = "known") -> View:
        return self.given(shape, form, kind, self.between(0, 1 << 20), high)

    def last_numbers(self) -> Array:
        """Return the numbers of the last input."""
        one = self.inputs[-1]
        return numbers(one, np.random.default_rng(one.seed)).astype(np.int64)

    def register(self, high: int) -> tuple[str, int]:
        """Return the name of a register, and its number, which is at most `high`."""
        return registers.made(self, high)

    # --- operands ---------------------------------------------------------------------------------

    def room_in_psum(self, free: int, form: str) -> bool:
        """Return whether another tensor with `free` elements per partition fits in PSUM."""
        used = sum(-(-one.row // BANK_BYTES) for one in self.tensors if one.region == "psum")
        banks = BANKS - 2 * ("psum" in self.placed)
        return used + 1 <= banks and free * SIZES[form] <= BANK_BYTES

    def column(self, lanes: int, forms: Sequence[str] = ("float32",)) -> View:
        """Return a tile to read with one number for each partition."""
        return self.to_read(lanes, 1, forms, flat=True)

    def to_read(
        self, lanes: int, free: int, forms: Sequence[str], regions: Sequence[str] = ("sbuf",),
        **how: bool,
    ) -> View:  # fmt: skip
        """Return a view to read, with `lanes` partitions and `free` elements per partition. All of
        it was written."""
        asked = How(reads=True, **how)
        found = self._existing(lanes, free, forms, regions, asked)
        return found or self.window(
            self._fresh(lanes, free, forms, regions, True), lanes, free, asked
        )

    def to_write(
        self, lanes: int, free: int, forms: Sequence[str], regions: Sequence[str] = ("sbuf",),
        written: bool = False, apart: View | None = None, **how: bool,
    ) -> View:  # fmt: skip
        """Return a view to write, in which no element occurs twice. If `written` is true, all of it
        was written before, because the instruction may leave elements unchanged. It shares no bytes
        with `apart`, another result of the instruction."""
        asked = How(**how)
        found = self._existing(lanes, free, forms, regions, asked, written)
        if found is not None and apart is not None and found.tensor.shares(apart.tensor):
            found = None
        made = found or self._fresh(lanes, free, forms, regions, written)
        return found or self.window(made, lanes, free, asked)

    def _existing(
        self, lanes: int, free: int, forms: Sequence[str], regions: Sequence[str], how: How,
        written: bool = False,
    ) -> View | None:  # fmt: skip
        """Return a view of an existing tensor, often one that was used before. Return None if there
        is no suitable tensor. Also return None in a tenth of all cases."""
        if self.chance(0.1):
            return None
        if self.chance(0.5):
            same = [
                view
                for view in self.used
                if view.lanes == lanes and view.free == free and view.form in forms
                and view.tensor.region in regions and (how.anywhere or view.starts_well)
                and not (how.flat and len(view.shape) > 2) and (how.moves or not view.moved)
                and not view.picked and (how.reads or not view.tensor.is_shared)
                and (view.is_written() if how.reads else view.is_free())
            ]  # fmt: skip
            if same:
                return self.choose(same)
        roomy = [
            one
            for one in self.tensors
            if one.region in regions and one.shape[0] >= lanes and (how.reads or not one.constant)
        ]
        for _ in range(min(4, 2 * len(roomy))):
            tensor = self.choose(roomy)
            form = self._form_there(tensor, forms, 0.25 if how.moves else 0.1)
            if form is None:
                continue
            base = tensor.whole()
            base = base if form == tensor.form else base.view(form)
            # the chosen format may have changed the size
            if base.lanes < lanes or base.free < free:
                continue
            if not (how.reads or written) or base.is_written():
                return self._part_of(base, lanes, free, how)
        return None

    def _part_of(self, base: View, lanes: int, free: int, how: How) -> View:
        """Return a window of `base`, a whole tensor in some format. If this is not the format of
        the tensor but has the same width, the window may be drawn in the tensor's format and then
        converted."""
        own = base.tensor.whole()
        if own.form != base.form and own.size == base.size and self.chance(0.6):
            return self.window(own, lanes, free, how._replace(moves=False)).view(base.form)
        return self.window(base, lanes, free, how)

    def _form_there(self, tensor: Tensor, forms: Sequence[str], share: float) -> str | None:
        """Return a format in which to read a tensor: its own format, or with the probability
        `share` another one of `forms` that fits. Return None if no format was found."""
        if tensor.form in forms and not self.chance(share):
            return tensor.form
        form = self.choose(forms)
        fits = tensor.shape[-1] * SIZES[tensor.form] % SIZES[form] == 0
        return form if fits and self.chance(0.5) else None

    def _fresh(
        self, lanes: int, free: int, forms: Sequence[str], regions: Sequence[str], fill: bool
    ) -> View:
        """Return a new tensor with at least this many partitions and elements per partition. With
        `fill`, it is filled from an input."""
        region, form = self.choose(regions), self.choose(forms)
        if "float32" in forms and self.chance(0.4):
            form = "float32"
        more = self.choose((0, 0, 0, 1, 3, 8))
        if region == "psum" and not self.room_in_psum(free + more, form):
            region, more = "sbuf" if "sbuf" in regions else region, 0
        height = lanes if self.chance(0.6) else min(PARTITIONS, lanes + self.between(0, 32))
        wide = free + more
        shape = (height, *self.parts(wide)) if self.chance(0.3) else (height, wide)
        made = self.new(region, shape, form)
        return self.fill(made) if fill else made

    # --- the end ----------------------------------------------------------------------------------

    def returned(self, most: int = 3) -> None:
        """Return at most `most` results from the kernel: copies in HBM of tensors, or of the part
        of a tensor that was written last."""
        left = [
            one for one in self.tensors if one.last is not None and (one.on_chip or one.is_input)
        ]
        self.random.shuffle(left)
        for tensor in left[:most]:
            assert tensor.last is not None
            self.result(tensor.whole() if tensor.whole().is_written() else tensor.last)

    def result(self, view: View) -> View:
        """Copy a view to HBM, and let the kernel return the copy. If there are two cores, the copy
        has a part for each. Return the view of the copy, or of the core's part."""
        if view.tensor.region == "psum":
            through = self.new("sbuf", view.shape, view.form)
            self.issue("nisa.tensor_copy", dst=through, src=view)
            view = through.tensor.whole()
        shape = view.shape if self.cores == 1 else (self.cores, *view.shape)
        out = Tensor(self.name("o"), "hbm", shape, view.form)
        made = f"nl.ndarray({shape}, dtype=nl.{view.form}, buffer=nl.shared_hbm)"
        self.say(f"{out.name} = {made}", makes=out.name)
        own = out.whole()
        if self.cores > 1:
            apart = view.at.size * view.size
            own = replace(own, text=f"{out.name}[core]", at=own.at[0], apart=apart)
        self.issue("nisa.dma_copy", dst=own, src=view)
        self.results.append(out.name)
        return own

    def program(self) -> Program:
        """Return the program."""
        launch = Launch(self.target, self.cores, self.ranks, self.options, self.programs)
        parts = self.inputs, self.statements, self.results
        return Program(self.seed, launch, *parts, self.dialect)


def _changes(written: Iterable[View]) -> list[str]:
    """Return a list with a kind for counts if the statement writes to an input of the kernel;
    otherwise an empty list."""
    return ["an input that changes"] * any(one.tensor.is_input for one in written)


def text_of(given: Any) -> str:
    """Return the text of an argument in a kernel."""
    if isinstance(given, list):
        return f"[{', '.join(map(text_of, given))}]"
    return given.text if isinstance(given, View) else str(given)
