r"""A legal call of any instruction, made from its clause, for tests of a rule for all instructions.

Letters along partitions are `lanes`, others `free`, as nearly as the clause allows; a tile has the
requested format if its operand may have it. `OTHERWISE` has the facts that are not in a clause."""

from dataclasses import dataclass, replace
from functools import cache, cached_property

import nki.isa as nisa
import nki.language as nl
import numpy as np
from accepted import takes
from device import tiles_in

from neuroncore.base.enums import MemoryRegion, engine, reduce_cmd
from neuroncore.clause.alu import OPERATORS
from neuroncore.clause.immediate import Immediate
from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.clause.operand import Act, Op, Operand
from neuroncore.memory.register import VirtualRegister
from neuroncore.numerics import packed
from neuroncore.numerics.formats import FORMATS, lookup
from neuroncore.plain.arithmetic import EXACT

SIZES = ((1, 1), (3, 17), (5, 127), (17, 3), (127, 5))
"""Odd partitions and free sizes. 33 lanes, the usual, are a quadrant and one."""
SEVERAL = "core_barrier", "sendrecv", "all_to_all", "all_gather_v", "all_to_all_v"
ONE_CORE = [name for name in INSTRUCTIONS if name not in SEVERAL]
"""Instructions that one core can issue, or a group of one rank."""
FLOATS = tuple(form for form, row in FORMATS.items() if row.is_float)
ONE = [[0]]  # a group of one rank
REGIONS = {MemoryRegion.sbuf: "sbuf", MemoryRegion.psum: "psum"}
NAMES = [*FORMATS]
PAIRS = [(f, NAMES[(i + n) % len(NAMES)]) for i, f in enumerate(NAMES) for n in (0, 1, 5)]
"""Each format before each of three: itself, and others. Reads convert to float32 and writes from
it, whatever the other format is; test_copy.py has all pairs."""
SPECIAL = np.array([0, -0.0, 1, np.inf, -np.inf, np.nan, 1e-40, 3e38], np.float32)
FOLDS = ("add", "maximum", "minimum", "multiply", "subtract")


def values(form, shape, seed=0):
    """Numbers for a format: float32 for floats, including special numbers, and the limits of
    integers; codes for packed formats and scales."""
    return _values(lookup(form), tuple(shape), seed).copy()


@cache
def _values(form, shape, seed):
    rng = np.random.default_rng([seed, *shape])
    if form.is_opaque:
        return rng.integers(0, 1 << form.bits, shape).astype(form.code_type)
    if form == "bool":
        return rng.random(shape) < 0.6
    if form.is_integer:
        low, high = (int(n) for n in form.range)
        small = rng.integers(max(low, -99), min(high, 99), shape, endpoint=True)
        return np.where(rng.random(shape) < 0.1, rng.choice([low, high], shape), small).astype(form)
    numbers = (rng.normal(size=shape) * 2.0 ** rng.integers(-2, 4, shape)).astype(np.float32)
    return np.where(rng.random(shape) < 0.1, rng.choice(SPECIAL, shape), numbers)


@dataclass(frozen=True)
class Case:
    """A call: a device, a format and a size. `turn` selects operators, and whether a column is a
    tile or a number."""

    device: object
    name: str
    form: str = "float32"
    lanes: int = 33
    free: int = 15
    turn: int = 0

    @property
    def instruction(self):
        return INSTRUCTIONS[self.name]

    @property
    def machine(self):
        return self.device.core.machine

    @cached_property
    def arguments(self):
        """All arguments by name."""
        given = OTHERWISE.get(self.name, lambda case: {})(self)
        parameters = self.instruction.parameters
        names = [p.name for p in parameters if (p.required or p.operand) and p.name not in given]
        return given | {name: self.argument(name) for name in names}

    @property
    def tiles(self):
        """The tiles among the arguments."""
        return [*tiles_in(self.arguments.values())]

    def issue(self):
        """Issue the call, and copy the registers and the states of generators that it leaves to
        tensors."""
        self.device.issue(self.name, **self.arguments)
        if isinstance(self.arguments.get("dst"), VirtualRegister):
            cell = self.device.empty((1, 1), "int32")
            self.device.issue("register_store", cell, self.arguments["dst"])
        elif "src_seeds" in self.arguments:
            unit = self.arguments.get("engine", engine.vector)
            self.device.random((self.lanes, self.free), engine=unit)

    # --- facts about an argument in its clause ----------------------------------------------------

    def declared(self, name):
        return next(p.declared for p in self.instruction.parameters if p.name == name)

    def argument(self, name):
        declared = self.declared(name)
        if isinstance(declared, Operand):
            return self.operand(name)
        if isinstance(declared, Op):
            names = declared.names or FOLDS
            return OPERATORS[names[self.turn % len(names)]]
        if isinstance(declared, Act):
            return getattr(nl, sorted(EXACT)[self.turn % len(EXACT)])
        assert isinstance(declared, Immediate), f"{self.name}: OTHERWISE has to say what {name} is"
        return 2 if declared.depth == 0 else [2]

    def operand(self, name, shape=None, form=None, buffer=None):
        """A tile for an operand, filled with numbers unless all of it is written."""
        declared = self.declared(name)
        shape, form = shape or self.shape(name), form or self.format(name)
        buffer = buffer or REGIONS.get(declared.regions[0], "hbm")
        if declared.scalar and self.turn % 2:
            return 0.75
        if declared.writes and not declared.partial:
            tile = self.device.empty(shape, form, buffer)
        else:
            tile = self.tile(shape, form, buffer, seed=len(name))
        return [tile] if declared.many else tile

    def tile(self, shape, form=None, buffer="sbuf", seed=0):
        """A tile of numbers."""
        form = lookup(form or self.form)
        numbers = values(form, shape, seed + 10 * self.turn)
        if form.is_opaque:
            return self.device.tile(numbers, buffer=buffer).view(form)
        return self.device.tile(numbers, form, buffer)

    def format(self, name):
        """The requested format, or the first legal one of the operand."""
        declared = self.declared(name)
        others = ("float32", "bfloat16", "uint8", *FORMATS, "float8_e8m0fnu", "float8_e5m2_x4")
        return next(f for f in (self.form, *others) if takes(declared, f, self.machine))

    def either(self, name, other="float32"):
        """The requested format if an operand may have it, otherwise another one."""
        return self.form if self.format(name) == self.form else other

    def shape(self, name):
        terms = self.instruction.shapes.get(name)
        return tuple(map(self.size, terms)) if terms else (self.lanes, self.free)

    def size(self, term):
        """The size of a term, whose letter has a size that all operands allow."""
        if term.letter is None:
            return term.plus
        shapes, limits = self.instruction.shapes.values(), self.machine.limits
        alike = [t for shape in shapes for t in shape if t.letter == term.letter]
        size = self.lanes if term.letter in {first.letter for first, _ in shapes} else self.free
        size = max([size, *(t.least for t in alike)])
        size += -size % max(t.step(limits) for t in alike)
        size = min([size, *(getattr(limits, t.most) for t in alike if t.most)])
        return size * (term.times if isinstance(term.times, int) else 1) + term.plus

    def drawn(self, shape, end, form):
        """A tile of numbers below one."""
        rng = np.random.default_rng([self.turn, *shape])
        return self.device.tile(rng.integers(0, end, shape), form)

    def register(self, number=0):
        return self.device.call(nisa.register_alloc, number)


# --- facts that are not in a clause ---------------------------------------------------------------

OTHERWISE = {}


def otherwise(*names):
    """Register a function that sets the arguments of a Case that its clause does not determine."""

    def enter(function):
        OTHERWISE.update(dict.fromkeys(names, function))
        return function

    return enter


@otherwise("activation", "activation_reduce")
def _summed(case):
    given = {"op": (nl.square, nl.copy, nl.relu, nl.exp, nl.abs)[case.turn % 5]}
    if not case.machine.has("scalar_constant_bias"):
        given["bias"] = case.tile((case.lanes, 1), case.format("bias"))
    if case.name == "activation":
        given |= {"reduce_op": nl.add, "reduce_cmd": reduce_cmd.reset_reduce}
    return given


@otherwise("activate2")
def _stepped(case):
    steps = ("multiply", "add"), ("multiply", "subtract"), ("add", "bypass"), ("bypass", "bypass")
    op0, op1 = (OPERATORS[name] for name in steps[case.turn % 4])
    folded = {"reduce_op": nl.maximum, "reduce_cmd": reduce_cmd.reset_reduce}
    return {"op": (nl.prelu, nl.square)[case.turn % 2], "op0": op0, "op1": op1, **folded}


@otherwise("rand2")
def _ends(case):
    return {"min": -2.5, "max": case.tile((case.lanes, 1), "float32")}


@otherwise("exponential", "select_reduce")
def _reduced(case):
    more = {"reduce_init": 0.0} if case.name == "exponential" else {}
    return {"reduce_cmd": reduce_cmd.reset_reduce, **more}


@otherwise("tensor_scalar_reduce", "tensor_scalar_cumulative")
def _loaded(case):
    start = {"tensor_scalar_reduce": "reduce_init", "tensor_scalar_cumulative": "imm1"}[case.name]
    command = reduce_cmd.load_reduce if case.turn % 3 == 0 else reduce_cmd.reset_reduce
    return {"reduce_cmd": command} | ({} if case.turn % 3 == 0 else {start: None})


@otherwise("tensor_scalar")
def _two_steps(case):
    columns = {f"operand{n}": case.operand(f"operand{n}", form="float32") for n in (0, 1)}
    return {"op0": nl.multiply, "op1": OPERATORS[FOLDS[case.turn % 5]], **columns}


@otherwise("tensor_reduce")
def _last_axis(case):
    data = case.tile((case.lanes, 3, case.free))
    dst = case.device.empty((case.lanes, 3), case.form)
    return {"dst": dst, "data": data, "axis": 2, "negate": bool(case.turn % 2)}


@otherwise("tensor_partition_reduce")
def _numbers(case):
    return {"op": (nl.add, nl.maximum)[case.turn % 2]}


@otherwise("nc_stream_shuffle")
def _shuffled(case):
    lanes = -(-case.lanes // 32) * 32
    dst, src = (case.tile((lanes, case.free), seed=seed) for seed in (0, 1))
    return {"dst": dst, "src": src, "shuffle_mask": [*range(31, 0, -1), 255]}


@otherwise("tensor_copy_predicated")
def _same_format(case):
    return {"src": case.tile((case.lanes, case.free), seed=1)}


@otherwise("dropout")
def _probability(case):
    floats = case.either("dst") if lookup(case.form).is_float else "float32"
    return {"prob": case.drawn((case.lanes, 1), 2, floats)}


@otherwise("memset")
def _constant(case):
    form = lookup(case.form)
    return {"value": 0 if form.is_opaque else 1 if form.is_integer else 1.3}


@otherwise("iota", "affine_select")
def _pattern(case):
    more = {"offset": -11, "channel_multiplier": 9}
    return {"pattern": [[40, 1], [-3, case.free]], **more}


@otherwise("local_gather")
def _gathered(case):
    lanes = -(-case.lanes // 16) * 16
    index, src = case.drawn((lanes, 2), case.free, "uint16"), case.tile((lanes, case.free))
    dst = case.device.empty((lanes, 32), case.form)
    return {"dst": dst, "src_buffer": src, "index": index, "num_elem_per_idx": 1}


@otherwise("nc_n_gather")
def _picked(case):
    return {"indices": case.drawn((case.lanes, case.free), case.free, "uint32")}


@otherwise("nc_find_index8", "nc_match_replace8")
def _looked_for(case):
    """Eight values, some of which are in the data, one of them twice."""
    free, form = max(case.free, 8), case.format("data")
    data = case.tile((case.lanes, free), form)
    vals = np.roll(data.numpy()[:, :8], 3, axis=1)
    vals[:, 1] = vals[:, 4]
    vals[:, 7] = values(form, (case.lanes,), 5).astype(vals.dtype)
    found = {"data": data, "vals": case.device.tile(vals, form)}
    if case.name == "nc_match_replace8":
        found |= {"dst": case.device.empty((case.lanes, free), form), "imm": 2.0}
    return found


@otherwise("range_select")
def _range(case):
    bounds = np.tile(np.float32([[case.free / 4, case.free / 2]]), (case.lanes, 1))
    low, high = (case.device.tile(bounds[:, n : n + 1]) for n in (0, 1))
    given = {"bound0": low, "bound1": high, "comp_op0": nl.greater_equal, "comp_op1": nl.less}
    return {**given, "range_start": case.turn % 3}


@otherwise("sequence_bounds")
def _runs(case):
    ids = np.sort(np.random.default_rng(case.free).integers(0, 4, (1, case.free)))
    dst = case.device.empty((1, 2, case.free), case.form)
    return {"segment_ids": case.device.tile(ids, case.form), "dst": dst}


@otherwise("topk")
def _greatest(case):
    lanes, columns = -(-case.lanes // 16) * 16, -(-case.free // 16) + 1
    numbers = np.random.default_rng(case.free).normal(size=(lanes, columns))
    results = [case.device.zeros((lanes, 5), form) for form in ("bfloat16", "uint32")]
    src = case.device.tile(numbers, "bfloat16")
    return {"val_dst": results[0], "idx_dst": results[1], "src": src, "n": max(8, case.free)}


@otherwise("dma_compute")
def _two_sources(case):
    srcs = [case.tile((case.lanes, case.free), buffer="hbm", seed=seed) for seed in (0, 1)]
    return {"srcs": srcs, "reduce_op": nl.add}


@otherwise("dma_transpose")
def _turned(case):
    lanes, free = case.lanes, case.free
    src = case.tile((lanes, 5, free), buffer=("hbm", "sbuf")[case.turn % 2])
    return {"src": src, "dst": case.device.empty((free, 5, lanes), case.form)}


@otherwise("nc_transpose")
def _transposed(case):
    shape = case.free, case.lanes
    array = max(shape) > 32 or (case.turn % 2 and lookup(case.form).name != "tfloat32")
    dst = case.device.empty(shape, case.form, "psum" if array else "sbuf")
    return {"dst": dst, "data": case.tile(shape[::-1])}


# --- products -------------------------------------------------------------------------------------


@otherwise("nc_matmul")
def _product(case):
    k, m, n = case.lanes, min(case.free, 128), case.free + 1
    native, bits = case.machine.has("native_transpose"), case.either("dst", "")
    if case.turn % 3 == 2 and native and bits:
        picked = np.eye(k, dtype=np.float32)
        moving, dst = case.device.tile(picked, case.form), case.device.empty((m, k), bits, "psum")
        return {"stationary": case.tile((k, m)), "moving": moving, "dst": dst, "is_transpose": True}
    short = case.form == "bfloat16" and case.machine.has("psum_bfloat16")
    dst = case.device.empty((m, n), "bfloat16" if short else "float32", "psum")
    return {"stationary": case.tile((k, m)), "moving": case.tile((k, n), seed=1), "dst": dst}


@otherwise("nc_matmul_mx")
def _scaled_product(case):
    k, m, n = -(-case.lanes // 32) * 32, min(case.free + case.free % 2, 128), case.free
    data, scale = case.format("moving"), case.format("moving_scale")
    dst = case.device.empty((m, n), case.either("dst"), "psum")
    tiles = {"dst": dst, "stationary": case.tile((k, m), data)}
    tiles |= {"moving": case.tile((k, n), data, seed=1)}
    for name, columns in (("stationary_scale", m), ("moving_scale", n)):
        exponents = np.random.default_rng(columns).integers(120, 131, (128, columns))
        tiles[name] = case.device.tile(exponents, "uint8").view(lookup(scale))
    return tiles


@otherwise("quantize_mx")
def _quantized(case):
    lanes = -(-case.lanes // 32) * 32
    src = case.tile((lanes, 4 * case.free), case.either("src", "bfloat16"))
    data, scale = case.format("dst"), case.format("dst_scale")
    dst = case.device.empty((lanes, case.free), data)
    return {"src": src, "dst": dst, "dst_scale": case.tile((lanes, case.free), scale)}


@otherwise("nc_matmul_sparse")
def _sparse_product(case):
    case.device.core.options = replace(case.device.core.options, experimental=True)
    pattern = kept, among = packed.PATTERNS[case.turn % len(packed.PATTERNS)]
    rows = min(-(-case.lanes // kept) * kept, 128 // kept * kept)
    columns, slots = 4 * min(-(-case.free // 4), 32), among // kept
    rng, places = np.random.default_rng(case.free), np.arange(among)
    tags = [rng.permutation(places)[:kept] for _ in range(rows // kept * columns)]
    tags = np.sort(np.reshape(tags, (-1, columns, kept)), axis=2).swapaxes(1, 2)
    form = case.format("moving")
    return {
        "dst": case.device.empty((columns, case.free), "float32", "psum"),
        "stationary": case.tile((rows, columns), form),
        "moving": case.tile((rows, slots, case.free), form, seed=1),
        "tags": case.device.tile(packed.packed(tags.reshape(rows, columns)), "uint16"),
        "pattern": pattern,
    }


# --- states, registers, and collectives of one rank -----------------------------------------------


@otherwise("rand_set_state", "rand_get_state")
def _states(case):
    name = {"rand_set_state": "src_seeds", "rand_get_state": "dst"}[case.name]
    wide = bool(case.turn % 2 and case.machine.has("vector_random_state"))
    tile = case.operand(name, (case.lanes, 24 if wide else 6))
    return {name: tile, "engine": engine.vector if wide else engine.gpsimd}


@otherwise("register_move", "register_load", "rank_id")
def _loaded_register(case):
    return {"dst": case.register()} | ({"src": 7} if case.name == "register_move" else {})


@otherwise("register_store")
def _stored_register(case):
    return {"src": case.register(case.turn)}


@otherwise("all_reduce", "all_gather", "reduce_scatter")
def _of_one_rank(case):
    dim = {} if case.name == "all_reduce" else {"collective_dim": 0}
    return {"replica_group": ONE, **dim}


@otherwise("collective_permute")
def _to_itself(case):
    return {"source_target_pairs": [[0, 0]]}


@otherwise("collective_permute_implicit", "collective_permute_implicit_reduce")
def _around(case):
    return {"replica_group": ONE, "channel_ids": [0]}


@otherwise("collective_permute_implicit_current_processing_rank_id")
def _whose(case):
    return {"dst": case.register(), "iteration_id": 3, "replica_group": ONE}
