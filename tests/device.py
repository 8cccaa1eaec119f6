"""A core that a test fills, drives and reads directly, one instruction at a time."""

from dataclasses import MISSING, fields, replace
from functools import cache

import ml_dtypes  # noqa: F401  numpy learns the names of narrow formats
import numpy as np
import pytest
from readings import agrees

from neuroncore import machine
from neuroncore.base.enums import MemoryRegion
from neuroncore.base.errors import KernelError
from neuroncore.base.options import Options
from neuroncore.clause.instruction import INSTRUCTIONS, Call
from neuroncore.core.core import Core, on
from neuroncore.frontend.issue import function
from neuroncore.frontend.nki.language import ndarray
from neuroncore.frontend.settings import settings
from neuroncore.memory.tile import Tile
from neuroncore.numerics.formats import lookup
from neuroncore.record.columns import mark, packer
from neuroncore.time.schedule import schedule

TARGETS = tuple(machine.names())
REGIONS = {"sbuf": MemoryRegion.sbuf, "psum": MemoryRegion.psum, "hbm": MemoryRegion.shared_hbm}


def usual(it):
    """The machine without the effects on time whose numbers have a default. Tests that calculate a
    time by hand leave these effects out; each effect has a test that sets its number."""
    for part in ("dma", "fixed"):
        costs = getattr(it, part)
        defaults = {f.name: f.default for f in fields(costs) if f.default is not MISSING}
        it = replace(it, **{part: replace(costs, **defaults)}) if defaults else it
    return it


@cache
def usual_machine(name):
    return usual(machine.load(name))


class Device:
    """One core. Tiles are made from numpy arrays by numpy's conversions, not by neuroncore's."""

    def __init__(self, target="trn2", **options):
        self.core = Core(usual_machine(target), Options(**options))
        self.filled = {}  # the first bytes of storages that tests have filled, by their numbers
        self.changed = {}  # those that were filled since the last instruction
        self.storages = {}  # those of tiles that instructions were given, by their numbers

    @property
    def findings(self):
        """The codes of findings, without notes."""
        grave = ("error", "warning")
        return [finding.code for finding in self.core.findings if finding.severity in grave]

    @property
    def opcodes(self):
        """The opcode of every instruction issued so far, in order."""
        return opcodes(self.core.program)

    def call(self, function, *args, **kwargs):
        """Call a function as a kernel would."""
        self._keep()
        with on(self.core):
            return function(*args, **kwargs)

    def empty(self, shape, dtype="float32", buffer="sbuf", address=None):
        """An uninitialized tile."""
        with on(self.core):
            return ndarray(shape, lookup(dtype), buffer=REGIONS[buffer], address=address)

    def tile(self, values, dtype=None, buffer="sbuf", address=None):
        """A tile with the values, converted by numpy to `dtype` if one is given."""
        values = np.asarray(values)
        form = lookup(dtype or values.dtype)
        tile = self.empty(values.shape, form, buffer, address)
        with np.errstate(all="ignore"):
            tile.codes()[...] = values.astype(form.numpy).view(form.storage)
        return self.enter(tile)

    def enter(self, tile):
        """Record that a test has filled a tile."""
        tile.mark_written()
        self.changed[tile.storage.id] = tile.storage
        return tile

    def _keep(self, *numbers):
        """Keep the data that tests have filled, before an instruction with these storages, or with
        any, changes it. Tiles at addresses have one storage, which is large."""
        for number in {*numbers} & {*self.changed} if numbers else [*self.changed]:
            self.filled[number] = self.changed.pop(number).data.tobytes()

    def zeros(self, shape, dtype="float32", buffer="sbuf", address=None):
        """A tile for tests in which only its geometry matters."""
        tile = self.empty(shape, dtype, buffer, address)
        tile.codes()[...] = 0
        return self.enter(tile)

    def agrees(self):
        """Assert that every tensor has the contents that the plain reading of the record gives."""
        self._keep()
        agrees(self.core, self.filled, self.storages)

    def repeat(self, times):
        """Add the last instruction to the record this many more times; nothing else in the record
        differs."""
        program = self.core.program
        rows, begins = program.raw()
        number, line, *row = rows[begins[-2] :].tolist()
        call, windows = program.calls[number], np.transpose(program.windows()[:3]).tolist()
        tiles = len(row) - call.has_values
        noted = [number for window in row[:tiles] for number in windows[window]]
        for _ in range(times):
            program.append(call.pack(line, ~number, *noted, *row[tiles:]))

    def boxes_of(self, tiles):
        """The numbers of the boxes of tiles, for a row that is added to the record: an instruction
        that reads all of them."""
        program = self.core.program
        read, some = tuple(str(i) for i in range(len(tiles))), INSTRUCTIONS["tensor_tensor"]
        program.calls.append(
            Call(some, self.core.machine, {}, index=len(program.calls), reads=read)
        )
        windows = [number for tile in tiles for number in program.window(tile)]
        program.append(packer(len(tiles), False)(0, -len(program.calls), *windows))
        columns = program.columns()
        return columns.operands[columns.start[-2] :].tolist()

    def timeline(self, target=None):
        """The timeline of all issued instructions, on this machine or another."""
        return schedule(self.core.program, usual_machine(target) if target else self.core.machine)

    def cost(self):
        """The cost of the last instruction, without effects of the instructions before it."""
        call = self.core.program.calls[-1]
        return call.instruction.cost(call, self.core.machine)

    def issue(self, name, *args, **kwargs):
        """Issue one instruction, as a kernel would."""
        given = {tile.storage.id: tile.storage for tile in tiles_in((*args, *kwargs.values()))}
        self.storages |= given
        self._keep(*given)
        with on(self.core):
            function(name)(*args, **kwargs)

    def random(self, shape, dtype="uint32", **options):
        """The numbers that rng writes to a fresh tile."""
        dst = self.empty(shape, dtype)
        self.issue("rng", dst, **options)
        return dst.numpy()

    def refuses(self, kind, name, *args, words=(), **kwargs):
        """Issue an illegal instruction: it is refused with this kind of error (KernelError is any),
        whose message holds the words, and it leaves no trace in the tiles it was given or in the
        record."""
        given = (*args, *kwargs.values())
        given = (*given, *(t for list_ in given if isinstance(list_, list) for t in list_))
        tiles = [t for t in given if isinstance(t, Tile)]
        before = self._state(tiles)
        with pytest.raises(kind) as caught, on(self.core):
            function(name)(*args, **kwargs)
        assert kind in (type(caught.value), KernelError)
        fields = caught.value.to_dict()
        message = " ".join(str(fields[f]) for f in ("statement", "expected", "got", "because"))
        missing = [word for word in words if word not in message]
        assert not missing, f"{missing} not in: {message}"
        assert self._state(tiles) == before
        return caught.value

    def _state(self, tiles):
        """The length of the record, and for each storage of tiles its bytes and its written
        flags."""

        def written(gaps):
            return None if gaps is None else np.repeat(gaps.mask, gaps.granule).tobytes()

        storages = {t.storage.id: t.storage for t in tiles}.values()
        state = [(one.data.tobytes(), written(one.gaps)) for one in storages]
        return len(self.core.program), self.findings, state


def tiles_in(values):
    """The tiles among values, and in lists of them."""
    for value in values:
        if isinstance(value, list | tuple):
            yield from tiles_in(value)
        elif isinstance(value, Tile):
            yield value


def opcodes(program):
    """The opcode of every instruction of a record, in order."""
    return [program.calls[i].instruction.opcode for i in program.columns().call]


def called(function, *values, target="trn2", tiles_in="sbuf", **options):
    """The result of a function of nki.language, whose arrays become tiles, and its opcodes."""
    device = Device(target)
    tiles = [device.tile(v, buffer=tiles_in) if isinstance(v, np.ndarray) else v for v in values]
    result = device.call(function, *tiles, **options)
    assert not device.findings
    return result.numpy(), device.opcodes


def issue_ns(it, generators=1):
    """The time for which a transfer occupies its queue; hardware writes its descriptors if it
    can."""
    if not it.has("hardware_dge"):
        return it.dma.issue_ns
    written = it.dma.hardware_issue_ns - it.dma.issue_ns
    return it.dma.issue_ns + written / generators


def bits(array):
    """The bit patterns of an array, so that NaN and -0.0 compare as what they are."""
    array = np.ascontiguousarray(array)
    return array.view(f"uint{8 * array.itemsize}")


def same(got, want):
    """Bit for bit, but one NaN is as good as another."""
    assert got.dtype == want.dtype and got.shape == want.shape
    nan = np.isnan(want) if want.dtype.kind not in "iub" else np.zeros(want.shape, bool)
    assert np.array_equal(nan, np.isnan(got) if nan.any() else nan)
    assert np.array_equal(bits(got)[~nan], bits(want)[~nan])


def ten_bits(values):
    """float32 numbers rounded to the nearest that TF32 has, with ten bits of fraction."""
    magnitude = bits(values) & 0x7FFFFFFF
    kept = (magnitude + 0xFFF + (magnitude >> 13 & 1)) & 0xFFFFE000
    return (kept | bits(values) & 0x80000000).astype(np.uint32).view(np.float32)


def converted(values, dtype):
    """numpy's conversion, through float32: integers to nearest even, then saturated, NaN to 0."""
    if dtype == "tfloat32":
        return ten_bits(converted(values, np.float32))
    if values.dtype == dtype:
        return values
    with np.errstate(all="ignore"):
        single = values.astype(np.float32)
        if dtype == "bool":
            return single != 0
        if np.dtype(dtype).kind not in "iu":
            return single.astype(dtype)
        bounds = np.iinfo(dtype)
        whole = np.rint(np.nan_to_num(single.astype(np.float64), nan=0, posinf=1e99, neginf=-1e99))
        return np.clip(whole, bounds.min, bounds.max).astype(np.int64).astype(dtype)


def noise(shape, dtype="float32", seed=0, special=True):
    """Numbers of many magnitudes, and some that are not finite; for integers any numbers, including
    their limits."""
    return _noise(tuple(shape), np.dtype(dtype), seed, special).copy()


@cache
def _noise(shape, dtype, seed, special):
    rng = np.random.default_rng([seed, len(shape), *shape])
    if np.dtype(dtype).kind in "iu":
        bounds = np.iinfo(dtype)
        values = rng.integers(bounds.min, bounds.max, shape, dtype, endpoint=True)
        odd = np.array([bounds.min, bounds.max, 0, 1], dtype)
    else:
        values = (rng.normal(size=shape) * 2.0 ** rng.integers(-9, 7, shape)).astype(np.float32)
        odd = np.array([0, -0.0, 1, -2, np.inf, -np.inf, np.nan, 1e-40, 3e38], np.float32)
    if special:
        values = np.where(rng.random(shape) < 0.2, rng.choice(odd, shape), values)
    with np.errstate(all="ignore"):
        return values.astype(dtype)


def launched(kernel, *arguments, **options):
    """The run of a kernel instead of its outputs."""
    kept = _Kept()
    with settings(observer=kept, options=Options(**options)):
        kernel(*arguments)
    return kept.run


class _Kept:
    """An observer that keeps the last launch."""

    def begun(self, core):
        pass

    def done(self, run):
        self.run = run


def parallel(device, count, body):
    """Run a body for each iteration of a loop, with the loop in the record."""
    program = device.core.program
    marks, number = program.data.iterations, program.data.iterations.words
    for k in range(count):
        marks.extend(mark(len(program), number, k))
        body(k)
        marks.extend(mark(len(program), ~number, 0))
