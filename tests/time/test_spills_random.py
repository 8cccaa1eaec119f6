r"""Random small programs of the older API, whose repetitions and spills are computed again by a
slow, short and simple model.

It knows the rows and columns of every access, and searches the whole program for every question.
Calls and their lines come from the record."""

from dataclasses import dataclass

import nki.isa as nisa
import nki.language as nl
import numpy as np
from device import Device
from hypothesis import given, settings
from hypothesis import strategies as st

from neuroncore.time.loops.work import RELOADED, REREAD, SAVED
from neuroncore.time.residency import loads_and_spills

SHAPE = (64, 64)
WIDTH = 4 * SHAPE[1]  # bytes of a tile in each partition


@dataclass(frozen=True)
class Part:
    """A part of a tensor, from its first row and column to its last; `dense` if it is the whole
    tensor."""

    tensor: int
    memory: str
    rows: range
    columns: range
    dense: bool = True

    @property
    def on_chip(self):
        return self.memory != "hbm"

    def within(self, whole):
        """Return the place of the part in another part; in HBM the other part matters."""
        return (
            self.rows.start - whole.rows.start, self.rows.stop - whole.rows.start,
            self.columns.start - whole.columns.start, self.columns.stop - whole.columns.start,
            None if self.on_chip else self,
        )  # fmt: skip


class Recorder:
    """Issues instructions on variables and records the parts that each one reads and writes. A
    variable is a tensor until it is created again."""

    def __init__(self):
        self.device, self.tensors = Device(), 0
        self.variables, self.issued = {}, []
        for name in (*HBM, *SBUF, *PSUM, *PLACED):
            self.make(name)

    def make(self, name):
        memory = next(m for m, names in MEMORIES.items() if name in names)
        place = {"buffer": "sbuf", "address": (0, 0)} if memory == "placed" else {"buffer": memory}
        self.variables[name] = self.tensors, memory, self.device.zeros(SHAPE, **place)
        self.tensors += 1

    def part(self, name, where):
        tensor, memory, tile = self.variables[name]
        taken = [range(n)[s] for n, s in zip(SHAPE, where)]
        reach = [range(r[0], r[-1] + 1) for r in taken]
        return tile[where], Part(tensor, memory, *reach, dense=taken == reach)

    def issue(self, function, writes, reads):
        dst, src = ([self.part(*operand) for operand in operands] for operands in (writes, reads))
        self.device.call(function, *(tile for tile, _ in (*dst, *src)))
        self.issued.append(([part for _, part in src], [part for _, part in dst]))

    def move(self, dst, src):
        self.issue(lambda dst, src: nisa.dma_copy(dst, src), [dst], [src])

    def move_from_another_line(self, dst, src):
        self.issue(lambda dst, src: nisa.dma_copy(dst, src), [dst], [src])

    def copy(self, dst, src):
        self.issue(lambda dst, src: nisa.tensor_copy(dst, src), [dst], [src])

    def turn(self, dst, src):
        self.issue(lambda dst, src: nisa.nc_transpose(dst, src), [dst], [src])

    def compute(self, dst, src):
        self.issue(lambda dst, src: nisa.reciprocal(dst, src), [dst], [src])

    def add(self, dst, one, other):
        self.issue(lambda dst, a, b: nisa.tensor_tensor(dst, a, b, nl.add), [dst], [one, other])

    def fill(self, dst):
        self.issue(lambda dst: nisa.memset(dst, 0.0), [dst], [])

    def compute_and_sum(self, dst, src):
        """Compute, and write sums to the first column of the same variable."""
        name, (rows, _) = dst
        self.issue(
            lambda dst, sums, src: nisa.activation(dst, nl.exp, src, reduce_op=nl.add,
                                                   reduce_res=sums),
            [dst, (name, (rows, slice(0, 1)))], [src],
        )  # fmt: skip


# --- programs -------------------------------------------------------------------------------------

INPUTS, OUTPUTS = ("h", "i"), ("o",)
HBM, SBUF, PSUM, PLACED = (*INPUTS, *OUTPUTS), ("a", "b"), ("p",), ("x",)
MEMORIES = {"hbm": HBM, "sbuf": SBUF, "psum": PSUM, "placed": PLACED}
ALL = slice(None)
ROWS = [ALL, ALL, slice(0, 32), slice(32, 64)]
COLUMNS = [slice(0, 32), slice(0, 32), slice(32, 64), slice(32, 64), slice(16, 48),
           slice(0, 64, 2), slice(1, 64, 2)]  # fmt: skip
INSTRUCTIONS = [
    ("move", SBUF, INPUTS), ("move", SBUF, HBM), ("move_from_another_line", SBUF, HBM),
    ("move", PLACED, INPUTS), ("move", OUTPUTS, SBUF), ("move", HBM, HBM + PLACED),
    ("turn", PSUM, SBUF), ("copy", SBUF, PSUM), ("copy", SBUF + PSUM, SBUF + PSUM + PLACED),
    ("compute", SBUF + PSUM, SBUF + PSUM), ("compute_and_sum", SBUF, SBUF),
    ("add", SBUF, SBUF, SBUF), ("fill", SBUF),
]  # fmt: skip


@st.composite
def instructions(draw, in_parts):
    """Draw (method, whether it creates its result's variable, operands of the same shape)."""
    method, *reach = draw(st.sampled_from(INSTRUCTIONS))
    names = [draw(st.sampled_from(variables)) for variables in reach]
    makes = names[0] in SBUF + PSUM and draw(st.integers(0, 3)) > 0
    parts = in_parts and method != "turn" and draw(st.integers(0, 3)) > 0
    rows = draw(st.sampled_from(ROWS)) if parts else ALL
    places = [(rows, draw(st.sampled_from(COLUMNS)) if parts else ALL) for _ in names]
    return method, makes, list(zip(names, places))


def loops(in_parts):
    body = st.lists(instructions(in_parts), min_size=1, max_size=8)
    return st.lists(st.tuples(body, st.integers(1, 4)), min_size=1, max_size=4)


programs = (loops(in_parts=False) | loops(in_parts=True)).map(
    lambda loops: [instruction for body, times in loops for instruction in body * times]
)


def record(program):
    recorder = Recorder()
    for method, makes, operands in program:
        if makes:
            recorder.make(operands[0][0])
        getattr(recorder, method)(*operands)
    return recorder.issued, recorder.device.core.program


# --- the slow model -------------------------------------------------------------------------------


class Step:
    """One instruction, with the pieces that it reads and writes, and those that it overwrites
    completely."""

    def __init__(self, call, line, reads, writes, pieces):
        self.line = line
        self.reads, self.writes = (
            [piece_of(p, pieces) for p in parts] for parts in (reads, writes)
        )
        self.made = call, *(p.within(piece_of(p, pieces)) for p in (*reads, *writes))
        self.fresh = {part for part in writes if part in pieces} - set(self.reads)


def piece_of(part, pieces):
    return next(
        p for p in pieces
        if p.tensor == part.tensor and (not p.on_chip or set(part.columns) <= set(p.columns))
    )  # fmt: skip


def pieces_of(parts):
    """Merge parts of tensors that share columns, and all parts of a tensor in HBM."""
    pieces = []
    for part in parts:
        near = [
            p for p in pieces
            if p.tensor == part.tensor and (not p.on_chip or set(p.columns) & set(part.columns))
        ]  # fmt: skip
        pieces = [p for p in pieces if p not in near]
        rows, columns = (
            range(min(r.start for r in ranges), max(r.stop for r in ranges))
            for ranges in zip(*((p.rows, p.columns) for p in (part, *near)))
        )
        pieces.append(Part(part.tensor, part.memory, rows, columns))
    return pieces


def nbytes(piece):
    return 4 * len(piece.rows) * len(piece.columns)


def next_use(tile, uses):
    """Return the piece in which the tile is used next, or None if it is not used before it is
    overwritten."""
    for used, fresh in uses:
        if tile in fresh:
            return None
        if tile in used:
            return used[tile]
    return None


class Model:
    """Computes which instructions are omitted, and which tiles have to be moved."""

    def __init__(self, steps, capacity):
        self.steps, self.capacity = steps, capacity
        self.same_as, self.loads, self.makers = {}, {}, {}
        self.find_repetitions()
        saved, _, dropped = self.replay()
        lines = {self.makers[p].line for p in (*saved, *dropped) if p in self.makers}
        for piece, step in self.makers.items():
            if step.line in lines:
                self.same_as[piece] = piece
        saved, reloaded, dropped = self.replay()
        self.saved, self.reloaded, self.reread = (
            sum(map(nbytes, p)) for p in (saved, reloaded, dropped)
        )
        self.kept = [self.runs(step) for step in steps]

    def root(self, piece):
        return self.same_as.get(piece, piece)

    def find_repetitions(self):
        written, made = {p for step in self.steps for p in step.writes}, {}
        for i, step in enumerate(self.steps):
            for piece in step.writes:
                own = [s for s in self.steps if piece in s.writes]
                sources = {p for s in own for p in s.reads}
                if (
                    not piece.on_chip
                    or step is not own[-1]
                    or any(len(s.writes) > 1 for s in own)
                    or any(piece in s.reads for s in self.steps[: i + 1])
                ):
                    continue
                is_load = bool(sources) and not any(p.on_chip or p in written for p in sources)
                if is_load and len(own) == 1:
                    self.loads[piece] = step
                if is_load:
                    self.makers[piece] = step
                    content = [(s.made, s.reads) for s in own]
                    self.same_as[piece] = made.setdefault(repr(content), piece)

    def runs(self, step):
        return not step.writes or any(self.root(p) == p for p in step.writes)

    def uses(self, step):
        """Return tiles with the piece in which each is used, and tiles that are overwritten
        completely first."""
        used = {self.root(p): p for p in (*step.reads, *step.writes)}
        kept = {tile: piece for tile, piece in used.items() if tile.memory == "sbuf"}
        return kept, set(map(self.root, step.fresh))

    def replay(self):
        """Return the tiles that are saved, the tiles that are reloaded, and the pieces that would
        have had to stay in order to be available."""
        steps = list(filter(self.runs, self.steps))
        uses = [self.uses(step) for step in steps]
        there = {}  # least recently used first, and whether it is only kept to omit a load
        known, clean = set(), set()  # tiles that were in SBUF before, and tiles that HBM has too
        saved, reloaded, dropped = [], [], []
        for i, step in enumerate(steps):
            used, _ = uses[i]
            for tile, piece in used.items():
                if tile not in there and tile in known:
                    if tile in self.loads:
                        dropped.append(piece)
                    else:
                        reloaded.append(tile)
                there.pop(tile, None)
                there[tile] = False
                known.add(tile)
            while sum(4 * len(tile.columns) for tile in there) > self.capacity:
                idle = [tile for tile, only_stays in there.items() if only_stays]
                victims = idle or [tile for tile in there if tile not in used]
                if not victims:
                    break
                victim = victims[0]
                del there[victim]
                if victim not in self.loads and victim not in clean:
                    saved.append(victim)
                    clean.add(victim)
            clean -= set(map(self.root, step.writes))
            for tile, piece in used.items():
                following = next_use(tile, uses[i + 1 :])
                if following is None:
                    del there[tile]
                    known.discard(tile)
                    clean.discard(tile)
                else:
                    there[tile] = tile in self.loads and following != piece
        return saved, reloaded, dropped


@settings(max_examples=50)
@given(
    program=programs,
    capacity=st.sampled_from([0, WIDTH // 2, WIDTH, 3 * WIDTH // 2, 2 * WIDTH, 100 * WIDTH]),
)
def test_random_programs_move_the_tiles_of_the_slow_model(program, capacity):
    issued, recorded = record(program)
    columns = recorded.columns()
    pieces = pieces_of(part for reads, writes in issued for part in (*reads, *writes))
    steps = [
        Step(call, line, *parts, pieces)
        for call, line, parts in zip(columns.call.tolist(), columns.line.tolist(), issued)
    ]
    reads = np.array([call.inputs for call in recorded.calls], np.int32)[columns.call]
    (repeated, moves), model = loads_and_spills(recorded, reads, capacity), Model(steps, capacity)
    assert (repeated < 0).tolist() == model.kept
    found = [moves.bytes_of(kind) for kind in (SAVED, RELOADED, REREAD)]
    assert found == [model.saved, model.reloaded, model.reread]
