"""The core of tests/device.py as the older API sees it: tiles that calls return and masks cut."""

from device import REGIONS, Device

from neuroncore.core.core import on
from neuroncore.frontend.neuronxcc.nki.results import flush
from neuroncore.frontend.neuronxcc.nki.tensor import Tensor
from neuroncore.numerics.formats import lookup


class Older(Device):
    """One core. Its tiles are tensors of the older API."""

    def empty(self, shape, dtype="float32", buffer="sbuf", address=None):
        """An uninitialized tensor."""
        memory = self.core.memory
        return Tensor.of(memory.allocate(REGIONS[buffer], shape, lookup(dtype), "", address))

    def call(self, function, *args, **kwargs):
        """Call a function like a kernel, to its end."""
        with on(self.core):
            result = function(*args, **kwargs)
            flush()
            return result

    def block(self, blocks, *index):
        """One tile of many, or a part of one."""
        return self.call(blocks.__getitem__, index)

    @property
    def lines(self):
        """(opcode, line of the source) of every instruction issued so far."""
        program = self.core.program
        columns = program.columns()
        return [
            (program.calls[call].instruction.opcode, program.place(line).line)
            for call, line in zip(columns.call, columns.line, strict=True)
        ]


def run(kernel, *values, buffers=(), **options):
    """A kernel's result and its core. The values are tiles in these memories, and in SBUF if there
    are more values."""
    device = Older(**options)
    regions = (*buffers, *("sbuf",) * (len(values) - len(buffers)))
    tiles = [device.tile(v, buffer=b) for v, b in zip(values, regions, strict=True)]
    result = device.call(kernel, *tiles)
    return None if result is None else result.numpy(), device
