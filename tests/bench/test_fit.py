"""bench/calibration/fit.py: which setting is best, and what a source that is left out gets."""

import importlib.util
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "bench/calibration/fit.py"


def loaded():
    spec = importlib.util.spec_from_file_location("calibration_fit", FILE)
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


fit = loaded()
NARROW, WIDE = fit.Setting(1), fit.Setting(2)


def kernels(source, *errors):
    return [fit.Kernel("k", source, {NARROW: a, WIDE: b}) for a, b in errors]


def test_the_best_setting_has_the_most_close_kernels():
    own = kernels("a", (0.1, 0.2), (0.1, 0.2), (0.9, 0.2))
    assert fit.best(own, [NARROW, WIDE]) == WIDE


def test_of_as_many_close_ones_the_smallest_mean_error_wins():
    own = kernels("a", (0.15, 0.1), (0.15, 0.1), (0.1, 0.24))
    assert fit.best(own, [WIDE, NARROW]) == NARROW
    assert fit.best(kernels("a", (0.1, 0.1)), [WIDE, NARROW]) == WIDE  # the first of equals


def test_a_source_that_is_left_out_gets_what_the_others_choose():
    """Each of two sources wants what is bad for the other."""
    own = [*kernels("a", (0.0, 0.5)), *kernels("b", (0.6, 0.1))]
    errors, chosen = fit.left_out(own, [NARROW, WIDE])
    assert errors == [0.5, 0.6]
    assert chosen == {NARROW: 1, WIDE: 1}
    assert fit.quality(errors).median == pytest.approx(0.55)
    assert fit.quality(errors).close == 0.0


def test_what_is_in_use_is_among_what_is_tried():
    known = fit.measurements.harnesses(FILE.parent / "offsets.toml")
    for order, settings in fit.GRID.items():
        assert fit.in_use(order, known) in settings
