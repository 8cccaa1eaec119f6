"""The tenth chapter and docs/rounding.md: the figures on the page are computed, and its claims are
true."""

import importlib
import io
import re
import sys
from contextlib import redirect_stdout
from functools import cache

import ml_dtypes
import numpy as np
import pytest
from accepted import DOCS, module
from device import TARGETS
from every import for_all

from neuroncore.base.options import Options
from neuroncore.frontend.settings import settings

BF16 = ml_dtypes.bfloat16
rounding = module("rounding")
chapter = importlib.import_module("neuroncore.kernels.ch10_rounding")

PARTS = {name: getattr(chapter, name) for name in ("long_sum", "training")}


@cache
def computed(part, *arguments):
    """Return the result and the output of a part of the chapter; they are cached, because a part
    takes a second."""
    with redirect_stdout(io.StringIO()) as printed:
        result = PARTS[part](*arguments)
    return result, printed.getvalue()


# --- the page -------------------------------------------------------------------------------------


def test_the_page_shows_what_the_chapter_prints_and_draws(tmp_path, monkeypatch, capsys):
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")

    def shown(part):
        def again(*arguments):
            result, printed = computed(part, *arguments)
            print(printed, end="")
            return result

        return again

    for part in PARTS:
        monkeypatch.setattr(chapter, part, shown(part))
    chapter.main(tmp_path)
    text = rounding.page(capsys.readouterr().out)
    assert text == rounding.PAGE.read_text(), "run docs/generate/rounding.py"
    assert not re.search(r"\{\w+( \d)?\}", text)  # every kernel and every part is on the page
    shown = set(re.findall(r"\]\((\w+\.svg)\)", text))
    assert shown == {file.name for file in tmp_path.iterdir()}
    for name in shown:
        assert (DOCS / name).stat().st_size < 100_000
        for file in (DOCS / name, tmp_path / name):
            assert "</svg>" in file.read_text() and "dc:date" not in file.read_text()


def test_a_plot_always_has_the_same_bytes(tmp_path):
    pytest.importorskip("matplotlib")
    curve = np.linspace(2, 1, 5)
    for name in ("first", "second"):
        chapter.plot_training({"float32": (None, curve, curve / 4)}, tmp_path / f"{name}.svg")
        chapter.plot_sums(*np.ones((2, 128, 4097)), tmp_path / f"{name} sums.svg")
    for kind in (".svg", " sums.svg"):
        first, second = (tmp_path / f"{name}{kind}" for name in ("first", "second"))
        assert first.read_bytes() == second.read_bytes()


def test_without_matplotlib_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(SystemExit, match="pip install matplotlib"):
        chapter.figure()


def test_both_ways_of_rounding_use_the_target_and_call_the_observer():
    class Observer:
        def begun(self, core):
            pass

        def done(self, run):
            launched.append((run.machine.name, run.core.options.stochastic))

    launched = []
    with settings("trn1", Options(stochastic=True, stochastic_seed=3), Observer()):
        for seed in (None, 0):
            chapter.sums(BF16, 0.0, 1.0, 1, seed)
    assert launched == [("trn1", False), ("trn1", True)]


# --- one number -----------------------------------------------------------------------------------


def test_a_number_at_a_fifth_of_a_step_is_rounded_up_with_probability_a_fifth():
    found = chapter.one_number()
    assert (found.below, found.above, found.draws) == (1, 1 + 2**-7, 2**18)
    assert abs(found.ups - found.draws / 5) < 4.5 * (found.draws * 0.16) ** 0.5
    assert found.worst < 4.5


# --- sums -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("x, stops", [(0.125, 32), (0.126, 64), (0.1, 32), (0.0625, 16), (1, 256)])
def test_a_bfloat16_sum_rounded_to_nearest_stagnates_where_predicted(x, stops):
    assert chapter.standstill(BF16, x) == stops
    assert set(chapter.sums(BF16, 0.0, x, 600, None)[:, -1]) == {stops}


@for_all("dtype", [np.float16, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3])
@for_all("x", [2.0**-5, 0.3, 0.7])
def test_sums_in_other_formats_stagnate_where_predicted(dtype, x):
    wide, sum_ = np.float32(x), np.zeros((), dtype)
    for _ in range(3000):
        sum_ = (sum_ + wide).astype(dtype)
    assert chapter.standstill(dtype, x) == float(sum_)


def test_a_stochastically_rounded_bfloat16_sum_of_4096_terms_is_right():
    (nearest, random), _ = computed("long_sum")
    exact = np.arange(4097) / 8
    assert nearest.shape == (128, 4097) and random.shape == (512, 4097)
    assert (nearest == np.minimum(exact, 32)).all()
    # An addition where numbers are u apart has the variance x (u - x).
    step = 2.0 ** (np.floor(np.log2(np.maximum(random[:, :-1], 16))) - 7)
    variance = np.cumsum((step - 0.125) / 8, axis=1).mean(axis=0)
    error = random.mean(axis=0) - exact
    assert (error[: 256 + 1] == 0).all()
    for count in (512, 1024, 2048, 4096):
        spread = variance[count - 1] ** 0.5
        assert abs(error[count]) < 4 * spread / 512**0.5
        assert abs(random[:, count].std() - spread) < 4 * spread / 1024**0.5
        assert len(np.unique(random[:, count])) > 20


def test_the_vendors_example():
    """1024 + 2048 times 0.5 in float16: the result is 1024 with rounding to nearest, and 2056 with
    stochastic rounding on the vendor's page."""
    (nearest, random), _ = computed("long_sum", np.float16, 1024.0, 0.5, 2048)
    assert (nearest == 1024).all()
    numbers, probability = chapter.distribution(np.float16, 1024.0, 0.5, 2048)
    mean, spread = chapter.moments(numbers, probability)
    last = random[:, -1]
    assert abs(last.mean() - mean) < 4 * spread / last.size**0.5
    assert abs(last.std() - spread) < 4 * spread / (2 * last.size) ** 0.5
    assert abs(2056 - mean) < spread and probability[numbers == 2056] > 0.01


def test_a_seed_repeats_its_sums_and_another_seed_does_not():
    first, again, other = (chapter.sums(BF16, 32.0, 0.125, 64, seed) for seed in (1, 1, 2))
    assert (first == again).all() and (first != other).any()


def test_the_distribution_follows_from_the_equation():
    """32 + 3 times 1/8: each addition adds 1/4 with probability 1/2."""
    numbers, probability = chapter.distribution(BF16, 32.0, 0.125, 3)
    found = dict(zip(numbers[probability > 0], probability[probability > 0]))
    assert found == {32: 1 / 8, 32.25: 3 / 8, 32.5: 3 / 8, 32.75: 1 / 8}
    # Across a power of two steps double: from 63.75, up by 1/4 half the time, then by 1/2 rarely.
    numbers, probability = chapter.distribution(BF16, 63.75, 0.125, 2)
    found = dict(zip(numbers[probability > 0], probability[probability > 0]))
    assert found == {63.75: 1 / 4, 64: 1 / 4 + 1 / 2 * 3 / 4, 64.5: 1 / 2 * 1 / 4}


@pytest.mark.parametrize("dtype, start, x", [(BF16, 0.0, 0.125), (np.float16, 1024.0, 0.5)])
def test_the_mean_of_the_distribution_is_the_exact_sum(dtype, start, x):
    numbers, probability = chapter.distribution(dtype, start, x, 2048)
    assert abs(probability.sum() - 1) < 1e-12 and probability[-1] < 1e-100
    assert abs(chapter.moments(numbers, probability)[0] - (start + 2048 * x)) < 1e-6


# --- training -------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype, allowed", [(np.float32, 1e-6), (BF16, 1e-3)])
def test_the_kernel_trains_like_numpy(target, dtype, allowed):
    pytest.importorskip("sklearn")
    given = chapter.training_inputs(np.random.default_rng(1), dtype, epochs=3)
    with settings(target):
        got = chapter.trained(*given)
    want = chapter.training_reference(*given)
    assert got.dtype == want.dtype == dtype and got.shape == want.shape == (3, 64, 10)
    error = np.float64(got) - np.float64(want)
    assert np.linalg.norm(error) < allowed * np.linalg.norm(np.float64(want))


def test_bfloat16_training_stops_with_nearest_and_follows_float32_with_stochastic_rounding():
    pytest.importorskip("sklearn")
    runs, printed = computed("training")
    first = [[figures[:100] for figures in run] for run in runs.values()]
    (exact, loss, accuracy), nearest, random = first
    assert accuracy[-1] > 0.75
    assert nearest[2][-1] < accuracy[-1] - 0.4 and nearest[1][-1] > loss[-1] + 0.7
    assert np.abs(random[2] - accuracy).max() < 0.05
    assert np.abs(random[1] / loss - 1).max() < 0.03
    # What is lost: most weights do not move in an epoch.
    lit = np.ptp(exact, axis=0).any(axis=1)
    still, at_random = (np.mean(w[-1][lit] == w[-2][lit]) for w, _, _ in (nearest, random))
    assert still > 0.8 and at_random < 0.7
    kept, size = nearest[0][-1][lit] == nearest[0][-2][lit], np.abs(nearest[0][-1][lit])
    assert np.median(size[~kept]) < np.median(size[kept]) / 3  # small ones have small steps
    change = np.linalg.norm(exact[-1] - exact[0])
    assert np.linalg.norm(random[0][-1] - exact[-1]) < 0.1 * change
    assert np.linalg.norm(nearest[0][-1] - exact[-1]) > 0.5 * change
    assert "after 300 epochs" in printed


def test_at_a_larger_rate_rounding_to_nearest_costs_a_few_points(monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.setattr(chapter, "RATE", 5 * chapter.RATE)
    exact, nearest, random = (run[2][-1] for run in chapter.training(chapter.EPOCHS // 5).values())
    assert 0.01 < exact - nearest < 0.07 and abs(exact - random) < 0.02
