"""Calls that the clause of each instruction excludes by itself. In a legal call, each argument in
turn is replaced by each value that its declaration, its letters or its kind exclude. The call is
refused with the right code, names the argument, and leaves no trace."""

import nki.language as nl
import numpy as np
from accepted import takes
from calls import ONE_CORE, Case
from device import REGIONS, Device, tiles_in
from every import for_all

from neuroncore import machine
from neuroncore.base.enums import ON_CHIP, engine
from neuroncore.base.errors import KernelError, SignatureError
from neuroncore.clause.immediate import Immediate, Register
from neuroncore.clause.instruction import INSTRUCTIONS
from neuroncore.clause.operand import Act, Op, Operand, Static
from neuroncore.memory.register import VirtualRegister
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import FORMATS, OPAQUE

OF_TILES = [name for name in ONE_CORE if INSTRUCTIONS[name].operands]
LANEWISE = [name for name in OF_TILES if INSTRUCTIONS[name].traits.lanewise]
SIZES = "FREE_SIZE", "PARTITION_LIMIT", "RESHAPE_VIEW", "SHAPE_MISMATCH", "START_PARTITION"
FORMS = "DTYPE_RULE", "TARGET"


def legal(name, **options):
    """Return a call that some machine accepts."""
    feature = INSTRUCTIONS[name].feature
    target = next(t for t in ("trn2", "trn3") if not feature or machine.load(t).has(feature))
    return Case(Device(target, **options), name, lanes=3, free=32)


def refused(case, argument, value, codes):
    """Issue the call with another value of an argument."""
    error = case.device.refuses(KernelError, case.name, **case.arguments | {argument: value})
    said = " ".join([str(error), *error.more])
    assert error.code in codes and argument in said, f"{argument}={value}: {error}"


# --- tiles ----------------------------------------------------------------------------------------


def excluded(case, name, tile):
    """Yield tiles that the clause excludes for an argument, with the codes of their errors."""
    declared, make = case.declared(name), case.device.zeros
    own = next(place for place, region in REGIONS.items() if region is tile.region)
    for place, region in REGIONS.items():
        if region not in declared.regions:
            yield make(tile.shape, tile.dtype, place), ["BUFFER_KIND"]
    for form in (*FORMATS, *OPAQUE):
        if not takes(declared, form, case.machine):
            yield make(tile.shape, form, own), FORMS
    if has_given_size(case, name, 1):
        yield make((*tile.shape[:-1], tile.shape[-1] + 1), tile.dtype, own), SIZES
    if tile.region in ON_CHIP and has_given_size(case, name, 0):
        yield make((tile.shape[0] + 1, *tile.shape[1:]), tile.dtype, own), SIZES
    if tile.region in ON_CHIP and declared.starts:
        yield from misplaced(make((128, *tile.shape[1:]), tile.dtype, own), tile)
    if tile.region in ON_CHIP and declared.free_dims and tile.shape[1:] == (32,):
        whole = make((tile.shape[0], *[4] * 5), tile.dtype, own)
        yield whole[(slice(None), *[slice(0, 4, 2)] * 5)], SIZES


@for_all("name", OF_TILES)
def test_operands_with_an_index_are_refused_unless_declared(name):
    for case in (legal(name), Case(Device("trn3"), name, lanes=3, free=32)):
        codes = ["RESHAPE_VIEW" if case.machine.has("tensor_indirection") else "TARGET"]
        for operand, given in case.arguments.items():
            if not isinstance(given, Tile) or given.region not in ON_CHIP:
                continue
            if not case.declared(operand).indirect:
                index = case.device.zeros((given.shape[0], given.size), "uint16")
                picked = given.indirect(index, given.size // given.shape[0])
                refused(case, operand, picked, codes)


def misplaced(whole, tile):
    rows = tile.shape[0]
    for start in (1, 16, 33):
        if start + rows <= 128:
            yield whole[start : start + rows], ["START_PARTITION"]
    if 1 < rows <= 64:
        yield whole[: 2 * rows : 2], ["START_PARTITION"]


def has_given_size(case, name, axis):
    """Return whether another argument determines how many partitions, or elements per partition, an
    operand has."""
    given = [n for n, value in case.arguments.items() if isinstance(value, Tile)]
    shapes = {n: shape for n, shape in case.instruction.shapes.items() if n in given}
    if name not in shapes or (letter := shapes[name][axis].letter) is None:
        return name in shapes
    alike = [term for shape in shapes.values() for term in shape if term.letter == letter]
    return len(alike) > 1 and all(isinstance(term.times, int) for term in alike)


@for_all("name", OF_TILES)
def test_tiles_that_an_operand_excludes(name):
    case, twins = legal(name), 0
    case.issue()
    for operand in (p.name for p in case.instruction.operands):
        for tile in tiles_in([case.arguments[operand]]):
            for wrong, codes in excluded(case, operand, tile):
                given = case.arguments[operand]
                refused(case, operand, [wrong] if isinstance(given, list) else wrong, codes)
                twins += 1
    assert twins


def included(case, name, tile):
    """Yield the same tile in other legal forms: in any quadrant, with four free axes, with axes of
    1."""
    declared, make = case.declared(name), case.device.zeros
    own = next(place for place, region in REGIONS.items() if region is tile.region)
    if tile.region in ON_CHIP and declared.starts and tile.shape[0] <= 32:
        whole = make((128, *tile.shape[1:]), tile.dtype, own)
        yield from (whole[start : start + tile.shape[0]] for start in (0, 32, 64, 96))
    if tile.region in ON_CHIP and declared.free_dims and tile.shape[1:] == (32,):
        whole = make((tile.shape[0], 4, 4, 4, 8), tile.dtype, own)
        yield whole[:, ::2, ::2, ::2, ::2]
        yield make((tile.shape[0], 2, 1, 4, 1, 2, 2), tile.dtype, own)


@for_all("name", LANEWISE)
def test_tiles_that_an_operand_accepts(name):
    case = legal(name)
    for operand, given in case.arguments.items():
        for tile in included(case, operand, given) if isinstance(given, Tile) else ():
            case.device.issue(name, **case.arguments | {operand: tile})


@for_all("name", OF_TILES)
def test_the_first_wrong_operand_is_named_and_the_others_are_listed(name):
    case = legal(name)
    moved = {}
    for operand, given in case.arguments.items():
        if isinstance(given, Tile) and REGIONS["hbm"] not in case.declared(operand).regions:
            moved[operand] = case.device.zeros(given.shape, given.dtype, "hbm")
    if moved:
        error = case.device.refuses(KernelError, name, **case.arguments | moved)
        lines = [error.statement, *error.more]
        assert error.code == "BUFFER_KIND"
        assert all(any(operand in line for line in lines) for operand in moved)


@for_all("name", OF_TILES)
def test_an_uninitialized_tile_is_reported_or_refused(name):
    for uninitialized in ("report", "raise"):
        case = legal(name, uninitialized=uninitialized)
        case.issue()
        for operand in (p.name for p in case.instruction.operands):
            declared, given = case.declared(operand), case.arguments[operand]
            if not declared.reads or declared.partial or not isinstance(given, Tile):
                continue
            place = next(place for place, region in REGIONS.items() if region is given.region)
            empty = case.device.empty(given.shape, given.dtype, place)
            if uninitialized == "raise":
                refused(case, operand, empty, ["UNINIT_READ"])
                continue
            before = len(case.device.findings)
            case.device.issue(name, **case.arguments | {operand: empty})
            assert "UNINIT_READ" in case.device.findings[before:]
            assert any(operand in finding.message for finding in case.device.core.findings)


# --- kinds of arguments ---------------------------------------------------------------------------

NUMBERS = 1.0, 5
OTHERS = "text", [1.0], np.ones((3, 4), np.float32), object()


def misused(parameter, given):
    """Yield values of the wrong kind for a parameter, with the code of the error."""
    declared = parameter.declared
    if isinstance(declared, Operand) and declared.many:
        tile = given[0]
        return [None, 5, "text", tile, [1, 2], [tile, None]], "SIGNATURE"
    if isinstance(declared, Operand):
        numbers = () if declared.scalar else NUMBERS
        return [*OTHERS, *numbers, *([] if declared.optional else [None])], "SIGNATURE"
    if isinstance(declared, Act):
        return [nl.add, nl.bitwise_and, "exp", None, np.exp, 3], "UNSUPPORTED_OP_COMBO"
    if isinstance(declared, Op):
        return ["add", 1, np.add, nl.exp, *([] if declared.optional else [None])], "SIGNATURE"
    if isinstance(declared, Static) and declared.members:
        return ["vector", 55, None], "SIGNATURE"
    if isinstance(declared, Static):
        return ([2, -1, 1 << 70, 1.0, "yes"] if declared.flag else []), "SIGNATURE"
    if isinstance(declared, Register):
        return ([] if declared.number else [5, "text"]), "DYNAMIC_CTRL"
    required = [] if declared.optional else [None]
    if declared.depth:
        return [5, "text", [object()], *required], "SIGNATURE"
    broken = [] if declared.kind is float else [0.5]
    return ["text", object(), [1, 2], *broken, *required], "SIGNATURE"


@for_all("name", ONE_CORE)
def test_values_of_another_kind_are_refused(name):
    case = legal(name)
    case.issue()
    for p in case.instruction.parameters:
        values, code = misused(p, case.arguments.get(p.name))
        for value in values:
            refused(case, p.name, value, [code])
        if isinstance(p.declared, Immediate) and not p.declared.depth:
            refused(case, p.name, VirtualRegister(), ["DYNAMIC_CTRL"])
            for end in (p.declared.low - 1, p.declared.high + 1):
                if abs(end) != float("inf"):
                    refused(case, p.name, end, ["DTYPE_RULE"])


@for_all("name", ONE_CORE)
def test_arguments_that_do_not_fit_the_signature_are_refused(name):
    case = legal(name)
    required = [p.name for p in case.instruction.parameters if p.required]
    for missing in required:
        given = {n: value for n, value in case.arguments.items() if n != missing}
        case.device.refuses(SignatureError, name, **given, words=[name, missing])
    for right in case.arguments:
        error = case.device.refuses(
            SignatureError, name, **case.arguments | {f"{right}s": 1}, words=[name, f"{right}s"]
        )
        assert error.hint == f"did you mean {right!r}?"
    error = case.device.refuses(SignatureError, name, *case.arguments.values(), *[None] * 20)
    assert "positional" in error.statement


# --- engines --------------------------------------------------------------------------------------

WITH_ENGINES = [
    name for name in ONE_CORE if any(p.name == "engine" for p in INSTRUCTIONS[name].parameters)
]


@for_all("name", WITH_ENGINES)
def test_engines_that_an_instruction_does_not_run_on_are_refused(name):
    case = legal(name)
    for unit in engine:
        if unit not in (engine.unknown, *case.instruction.engines):
            refused(case, "engine", unit, ["BUFFER_KIND"])
