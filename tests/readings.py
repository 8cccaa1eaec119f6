"""Comparison of a core's memory with the plain reading of its record."""

import numpy as np

from neuroncore.plain.formats import FORMATS
from neuroncore.plain.memory import Operand
from neuroncore.plain.reading import Reading, approximate
from neuroncore.record.inputs import Setting
from neuroncore.record.program import Record
from neuroncore.replay.verification import codes_at, described, differing, text_of


def agrees(core, contents, storages):
    """Assert that every tensor has the contents that the plain reading gives: the result of the
    last instruction in each place, and elsewhere the previous contents or none. `contents` are the
    bytes of tensors that tests have filled, by number; `storages` are the tensors."""
    program = core.program
    assert len(program), "nothing was issued"
    setting = Setting(core.machine, core.options, (), (), {}, core.world)
    reading = Reading(Record([program], {}, setting), contents)
    steps = [(reading.rows[0][number], reading.step(0)) for number in range(len(program))]
    later, tensors = {}, {}
    for row, i in reversed(steps):
        for name in (*row.call.writes, *row.call.reads):
            operand, number = vars(i)[name], row.windows[name].tensor
            tensors[number] = operand.tensor
            flags = later.setdefault(number, np.zeros(len(operand.tensor.written), bool))
            if name in row.call.writes:
                _window_agrees(row, i, name, storages[number], flags)
    for number, tensor in tensors.items():
        if number in storages and tensor.layout.spread == 1:
            _rest_agrees(tensor, storages[number], later[number])


def _window_agrees(row, i, name, storage, later):
    """Compare one result in the elements that no instruction wrote `later`, and add its bytes to
    the written ones."""
    operand = vars(i)[name]
    emulator = codes_at(storage, operand)
    wrong = differing(vars(i), name, emulator, row, approximate(i))
    places = operand.positions[..., np.newaxis] + np.arange(operand.form.size)
    wrong &= ~later[places].any(axis=-1)
    later[places] = True
    if wrong.any():
        first = tuple(int(places[0]) for places in wrong.nonzero())
        operands = {n: described(v) for n, v in vars(i).items() if isinstance(v, Operand)}
        raise AssertionError(
            f"{row.call.name}: {name}{list(first)} is {text_of(operand, emulator[first])}; the "
            f"plain reading has {text_of(operand, operand.codes()[first])}; of {operands}"
        )


def _rest_agrees(tensor, storage, written):
    """Compare the elements that no instruction wrote: their bytes are unchanged, and uninitialized
    ones are marked as such."""
    byte = FORMATS["uint8"]
    places = np.flatnonzero(~written)
    if places.size:
        rest = Operand(tensor, places, byte, byte, 0, None, False)
        wrong = (codes_at(storage, rest) != rest.codes()) & ~rest.missing()
        assert not wrong.any(), f"byte {places[wrong.argmax()]} of {storage.shape} was overwritten"
    if not storage.placed:
        every = np.arange(len(tensor.written))
        assert np.array_equal(_written(storage, every), tensor.written != 0), (
            f"{storage.shape}: what is noted as written is not what was"
        )


def _written(storage, places):
    """Return which bytes the emulator has marked as written."""
    if storage.gaps is None:
        return np.ones(len(places), bool)
    if storage.layout.in_rows:
        row, column = np.divmod(places, storage.layout.row_bytes)
        places = row * storage.layout.pitch + column
    return np.repeat(storage.gaps.mask, storage.gaps.granule)[places + storage.origin]
