"""Comparison of two runs: which is faster with which confidence, bits, figures and lines."""

import json
import re
from math import log
from pathlib import Path

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from neuroncore.kernels import ch05_matmul

import neuroncore
from neuroncore.cli import main
from neuroncore.report import pairs

X = np.arange(128 * 512, dtype=np.float32).reshape(128, 512)
ROOT = Path(__file__).parents[2]


def scaling(times, factor=2.0):
    """A kernel that multiplies this many times."""

    @nki.jit
    def scale(x):
        tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, x)
        for _ in range(times):
            nisa.tensor_scalar(tile, tile, nl.multiply, factor)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out

    return scale


def run(*kernel, target="trn2"):
    return neuroncore.run(scaling(*kernel), X, target=target)


@pytest.fixture(scope="module")
def products():
    given = ch05_matmul.inputs(np.random.default_rng(0))
    kernels = ch05_matmul.naive, ch05_matmul.blocked_free, ch05_matmul.blocked
    return [neuroncore.run(kernel, *given, target="trn2") for kernel in kernels]


def test_a_much_faster_kernel_is_faster_with_high_confidence(products):
    naive, _, blocked = products
    found, back = naive.diff(blocked), blocked.diff(naive)
    assert found.told_apart and found.faster == pairs.stated().most
    assert back.told_apart and back.faster == pytest.approx(1 - found.faster)
    assert "faster with probability 9" in str(found) and "slower with probability 9" in str(back)


def test_a_kernel_that_costs_less_in_each_instruction_is_faster():
    """The same instructions process half the bytes; with one more instruction nothing is
    certain."""
    kernel = scaling(2)
    wide = neuroncore.run(kernel, X, target="trn2")
    narrow = neuroncore.run(kernel, np.ones(X.shape, np.float16), target="trn2")
    other = neuroncore.run(scaling(3), np.ones(X.shape, np.float16), target="trn2")
    assert wide.diff(narrow).faster == pytest.approx(1 - narrow.diff(wide).faster) == 0.99
    assert wide.diff(other).faster < 0.99


def test_a_small_difference_is_inside_the_noise(products):
    _, free, blocked = products
    found = free.diff(blocked)
    assert not found.told_apart and "inside the noise: new is faster" in str(found)
    same = free.diff(free)
    assert "inside the noise: the estimates are equal" in str(same)
    assert same.figures == {} and same.faster == 0.5


def test_results_are_equal_by_their_bits(products):
    assert products[0].diff(products[2]).results == "equal bit for bit"
    assert run(1).diff(run(1, 4.0)).results == "differ: relative L2 error 1"
    shorter = neuroncore.run(scaling(1), X[:64], target="trn2")
    assert run(1).diff(shorter).results.startswith("not comparable: ")


def test_a_kernel_without_results_is_compared_by_what_it_changes():
    @nki.jit
    def fill(x):
        tile = nl.full(x.shape, 3, x.dtype)
        nisa.dma_copy(x, tile)

    one, other = (neuroncore.run(fill, X.copy(), target="trn2") for _ in range(2))
    assert one.diff(other).results == "equal bit for bit"
    nothing = neuroncore.run(fill, np.full_like(X, 3), target="trn2")
    assert one.diff(nothing).results == "none to compare"


def test_different_figures_are_reported(products):
    naive, _, blocked = products
    found = naive.diff(blocked).figures
    assert found["dma_transfer_count"] == (272, 56)
    assert found["hbm_read_bytes"] == (20 << 20, 5 << 20)
    assert "model_flops" not in found  # as many


def test_lines_are_the_same_wherever_they_are(products):
    naive, _, blocked = products
    found = {line.text: line for line in naive.diff(blocked).lines}
    loads = found["nisa.dma_copy(dst=tile, src=source)"]
    assert loads.old > 0.9 > 0.2 > loads.new
    (product,) = (line for text, line in found.items() if text.endswith("moving=right)")
                  and "left[:, i" in text)  # fmt: skip
    assert product.old is None and product.new > 0.5


def test_runs_on_different_machines_have_no_order():
    found = run(1, target="trn1").diff(run(1, target="trn2"))
    assert found.faster is None and not found.told_apart
    assert "on different machines" in str(found) and "trn1 -> trn2" in str(found)


def test_answers_are_omitted_for_classes(products):
    found = products[0].diff(products[2], answers=False)
    assert "bound" not in str(found) and "bound_by" not in found.to_dict()
    assert "bound_by" in products[0].diff(products[2]).to_dict()


FILE = """\
import nki, nki.isa as nisa, nki.language as nl
import numpy as np


def inputs(rng):
    return (rng.standard_normal((128, 64), np.float32),)


@nki.jit
def double(a):
    tile = nl.ndarray(a.shape, a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def wrong(a):
    return nl.ndarray((129, 4), a.dtype, buffer=nl.sbuf)
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return path


def test_the_command_accepts_kernels_and_saved_runs(file, tmp_path, capsys):
    saved = tmp_path / "double.run"
    assert main(["run", f"{file}::double", "--save", str(saved), "--target", "trn2"]) == 0
    capsys.readouterr()
    assert main(["diff", str(saved), f"{file}::double", "--json", "--target", "trn2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "neuroncore.diff/1" and found["results"] == "equal bit for bit"
    assert found["figures"] == {} and found["total_time"][0] == found["total_time"][1]


def test_a_side_that_fails_fails_the_command(file, capsys):
    assert main(["diff", f"{file}::double", f"{file}::wrong"]) == 1
    assert "PARTITION_LIMIT" in capsys.readouterr().err


def test_a_side_is_one_launch(tmp_path, capsys):
    path = tmp_path / "twice.py"
    kernel = FILE.partition("@nki.jit\ndef wrong")[0]
    path.write_text(kernel + "for _ in range(2):\n    double(np.ones((4, 4), np.float32))\n")
    assert main(["diff", str(path), str(path)]) == 2
    assert "launches 2 kernels: name one" in capsys.readouterr().err


def test_the_page_has_the_used_names():
    page, sure = (ROOT / "docs/diff.md").read_text(), pairs.stated()
    head, *lines = re.findall(r"^\| (?:apart|\d+ %) .*$", page, re.MULTILINE)
    parts = [int(part) / 100 for part in re.findall(r"(\d+) %", head)]
    for line in lines:
        apart, *told = (int(number) / 100 for number in re.findall(r"(\d+) %", line))
        assert told == [round(sure.of(log(1 + apart), part), 2) for part in parts]
    assert len(lines) > 4 and len(parts) > 2
    assert f"{sure.noise:.0%}".replace("%", " %") in page
    assert f"{sure.pairs:,} pairs" in page and f"{sure.chains} chains" in page
