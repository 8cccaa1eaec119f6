"""A core that a test fills, drives and reads directly, one instruction at a time."""

import ml_dtypes  # noqa: F401  numpy learns the names of narrow formats
import numpy as np

from neuroncore import machine
from neuroncore.core import Core, on
from neuroncore.enums import MemoryRegion
from neuroncore.formats import lookup
from neuroncore.frontend.nki import isa
from neuroncore.frontend.nki.language import ndarray
from neuroncore.options import Options

TARGETS = ("trn1", "trn2", "trn3")
REGIONS = {"sbuf": MemoryRegion.sbuf, "psum": MemoryRegion.psum, "hbm": MemoryRegion.shared_hbm}


class Device:
    """One core. Tiles are made from numpy arrays by numpy's own conversions, none of ours."""

    def __init__(self, target="trn2", **options):
        self.core = Core(machine.load(target), Options(**options))

    @property
    def findings(self):
        return [finding.code for finding in self.core.findings]

    def empty(self, shape, dtype="float32", buffer="sbuf", address=None):
        """A tile that nothing has written."""
        with on(self.core):
            return ndarray(shape, lookup(dtype), buffer=REGIONS[buffer], address=address)

    def tile(self, values, dtype=None, buffer="sbuf", address=None):
        """A tile with the values, converted by numpy to `dtype` if one is given."""
        values = np.asarray(values)
        form = lookup(dtype or values.dtype)
        tile = self.empty(values.shape, form, buffer, address)
        tile.codes()[...] = values.astype(form.numpy).view(form.storage)
        tile.mark_written()
        return tile

    def issue(self, name, *args, **kwargs):
        """Issue one instruction, as a kernel would."""
        with on(self.core):
            getattr(isa, name)(*args, **kwargs)


def bits(array):
    """The bit patterns of an array, so that NaN and -0.0 compare as what they are."""
    array = np.ascontiguousarray(array)
    return array.view(f"uint{8 * array.itemsize}")
