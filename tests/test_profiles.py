"""Narrow formats held as float32 (Options.storage): no instruction rounds more than float32 does."""

import ml_dtypes
import numpy as np
import pytest
import recipes
import recipes_compute  # noqa: F401  fills the table
import recipes_move  # noqa: F401  so does this
from accepted import accepted
from device import Device, converted, same
from recipes import FLOATS, RECIPES, SHAPE, values

from neuroncore.formats import lookup

NARROW = FLOATS[1:]
TOGETHER = ("core_barrier", "sendrecv")  # take two cores: see below


class Wide(Device):
    """A core with the ideal storage. A tile of floats has any float32 numbers."""

    def __init__(self, target="trn2", **options):
        super().__init__(target, storage="float32", **options)

    def tile(self, values, dtype=None, buffer="sbuf", address=None):
        values = np.asarray(values)
        form = lookup(dtype or values.dtype)
        if not form.is_float:
            return super().tile(values, dtype, buffer, address)
        tile = self.empty(values.shape, form, buffer, address)
        tile.codes()[...] = values
        tile.mark_written()
        return tile


def numbers(form, shape=SHAPE, seed=0):
    """As recipes.values, but float32 numbers for every format of floats."""
    return values("float32" if lookup(form).is_float else form, shape, seed)


# --- every instruction with every format ----------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "form", "target"),
    [
        case
        for case in accepted(*(n for n in RECIPES if n not in TOGETHER))
        if case.values[1] in NARROW
    ],
)
def test_results_are_those_of_float32(name, form, target, monkeypatch):
    monkeypatch.setattr(recipes, "values", numbers)
    device, found = Wide(target), 0
    for tile, want in RECIPES[name](device, form):
        if tile.dtype.is_float:
            assert tile.held == "float32"
            same(tile.numpy(), want.astype(np.float32))
        elif tile.dtype.is_opaque:
            assert np.array_equal(tile.codes(), want)
        else:
            same(tile.numpy(), converted(want, tile.dtype))
        found += 1
    assert found and not device.findings
