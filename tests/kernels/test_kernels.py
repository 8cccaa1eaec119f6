"""The chapters: each kernel is compared with its reference on every machine, and each file runs as
a script."""

import importlib
import os
import re
import runpy
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from device import TARGETS
from every import every, for_all

import neuroncore
from neuroncore import machine
from neuroncore.frontend.nki.kernel import Kernel
from neuroncore.frontend.settings import settings
from neuroncore.report.summary import bound_by, summary
from neuroncore.time.schedule import schedule

FOLDER = Path(importlib.import_module("neuroncore.kernels").__file__).parent
BF16 = ml_dtypes.bfloat16


def chapter(name):
    return importlib.import_module(f"neuroncore.kernels.{name}")


# chapter, reference, and the relative L2 error allowed: both sides sum in float32
KERNELS = {
    "add": ("ch01_add", "reference", 0.0),
    "softmax": ("ch02_softmax", "reference", 1e-5),
    "rmsnorm": ("ch03_rmsnorm", "reference", 1e-6),
    "layernorm": ("ch04_layernorm", "reference", 1e-6),
    "naive": ("ch05_matmul", "reference", 1e-3),
    "hoisted": ("ch05_matmul", "reference", 1e-3),
    "blocked_free": ("ch05_matmul", "reference", 1e-3),
    "blocked": ("ch05_matmul", "reference", 1e-3),
    "transpose": ("ch06_transpose", "reference", 0.0),
    "attention": ("ch07_attention", "reference", 1e-5),
    "causal_attention": ("ch07_attention", "causal_reference", 1e-5),
    "swiglu": ("ch08_mlp", "reference", 5e-3),
    "running_sums": ("ch10_rounding", "reference", 0.0),
}
# other shapes than the chapter's; chapters that need whole tiles get other multiples of them
SHAPES = {
    "add": [((1, 1), (1, 1)), ((129, 4097), (129, 4097))],
    "softmax": [((1, 1),), ((129, 37),)],
    "rmsnorm": [((1, 1), (1,)), ((129, 37), (37,))],
    "layernorm": [((1, 2), (2,), (2,)), ((129, 37), (37,), (37,))],
    "naive": [((128, 128), (128, 512)), ((384, 256), (384, 512))],
    "hoisted": [((128, 128), (128, 512)), ((384, 256), (384, 512))],
    "blocked_free": [((128, 256), (128, 1024)), ((384, 256), (384, 1024))],
    "blocked": [((128, 512), (128, 512)), ((384, 512), (384, 1024))],
    "transpose": [((1, 1),), ((513, 129),)],
    "attention": [((128, 1),) * 3, ((384, 33),) * 3],
    "causal_attention": [((128, 1),) * 3, ((1152, 33),) * 3],
    "swiglu": [
        ((128, 128), (128, 128), (128, 128), (128, 128)),
        ((384, 256), (256, 384), (256, 384), (384, 256)),
    ],
}
NARROW = ("naive", "hoisted", "blocked_free", "blocked", "swiglu")


def check(name, given):
    """Compare results of machines with one run of the reference."""
    module, reference, allowed = KERNELS[name]
    want = getattr(chapter(module), reference)(*given)
    before = [np.array(g) for g in given]

    def agrees(target):
        with settings(target=target):
            got = getattr(chapter(module), name)(*given)
        assert got.shape == want.shape and got.dtype == want.dtype
        difference = got.astype(np.float64) - want.astype(np.float64)
        assert np.linalg.norm(difference) <= allowed * np.linalg.norm(want.astype(np.float64))
        for array, old in zip(given, before, strict=True):
            np.testing.assert_array_equal(array, old)

    every(TARGETS, agrees)


@pytest.mark.parametrize("name", [name for name in KERNELS if name not in SHAPES])
def test_a_kernel_agrees_with_its_reference(name):
    """The other kernels are compared at other sizes below, and by the scripts of their chapters."""
    check(name, chapter(KERNELS[name][0]).inputs(np.random.default_rng(1)))


@pytest.mark.parametrize("name", SHAPES)
def test_a_kernel_agrees_at_other_sizes(name):
    rng = np.random.default_rng(2)
    for shapes in SHAPES[name]:
        given = [rng.standard_normal(shape, np.float32) for shape in shapes]
        if name in NARROW:
            given = [g.astype(BF16) for g in given]
        check(name, given)


@for_all("name", SHAPES)
def test_the_record_of_a_kernel_has_the_bits_of_a_run_on_any_inputs(name):
    rng = np.random.default_rng(6)
    dtype = BF16 if name in NARROW else np.float32
    one, other = (
        [rng.standard_normal(shape, np.float32).astype(dtype) for shape in SHAPES[name][0]]
        for _ in range(2)
    )
    kernel = getattr(chapter(KERNELS[name][0]), name)
    run = neuroncore.run(kernel, *one, target="trn2")
    assert run.replay().tobytes() == run.results.tobytes()
    assert run.replay(*other).tobytes() == kernel(*other).tobytes()


@pytest.mark.parametrize("dtype", [np.float16, BF16, np.int32, np.uint8])
def test_sums_and_transposes_take_other_formats(dtype):
    rng = np.random.default_rng(3)
    a, b = (rng.integers(0, 100, (130, 7)).astype(dtype) for _ in range(2))
    np.testing.assert_array_equal(chapter("ch01_add").add(a, b), a + b)
    if dtype in (np.float16, BF16):
        np.testing.assert_array_equal(chapter("ch06_transpose").transpose(a), a.T)


@pytest.mark.parametrize("name", ["naive", "hoisted", "blocked_free", "blocked"])
def test_matmuls_refuse_shapes_that_are_not_whole_tiles(name):
    with pytest.raises(AssertionError, match="not multiples of"):
        getattr(chapter("ch05_matmul"), name)(np.ones((128, 130), BF16), np.ones((128, 512), BF16))


def test_every_matmul_gives_the_same_bits():
    module = chapter("ch05_matmul")
    given = [g[:256] for g in module.inputs(np.random.default_rng(4))]
    first = module.naive(*given)
    for kernel in (module.hoisted, module.blocked_free, module.blocked):
        np.testing.assert_array_equal(kernel(*given), first)


STEPS = ("naive", "hoisted", "blocked_free", "blocked")


@cache
def recorded(name):
    """Return the program of a step of the matmul."""
    module, seen = chapter("ch05_matmul"), []
    observer = SimpleNamespace(begun=lambda core: None, done=seen.append)
    with settings(observer=observer):
        getattr(module, name)(*module.inputs(np.random.default_rng(0)))
    return seen[0].cores[0].program


def timed(name, target):
    return schedule(recorded(name), machine.load(target))


def steps(target):
    """Return for each step the MiB that it reads and its time in us."""
    for name in STEPS:
        told = summary(timed(name, target))
        assert told["matmul_instruction_count"] == 128
        yield told["hbm_read_bytes"] / 2**20, told["total_time"] * 1e6


def test_each_step_of_the_matmul_loads_less_and_is_as_fast_as_in_the_chapter():
    text = " ".join(chapter("ch05_matmul").__doc__.split())
    said = re.findall(r"`(\w+)`: [^:]*?\. (\d+) MiB, ([\d.]+) us\.", text)
    found = {target: [*steps(target)] for target in TARGETS}
    assert [(n, int(mib), float(us)) for n, mib, us in said] == [
        (name, mib, round(us, 1)) for name, (mib, us) in zip(STEPS, found["trn2"])
    ]
    for of_target in found.values():
        loaded, times = zip(*of_target)
        assert sorted(loaded, reverse=True) == [*loaded] and len({*loaded}) == 4
        assert sorted(times, reverse=True) == [*times] and len({*times}) == 4
    *_, (_, before), (_, last) = found["trn1"]
    assert "On trn1 DMA is slower, and" in text
    assert f"the last two steps take {before:.1f} us and {last:.1f} us" in text
    bounds = (bound_by(timed(name, "trn2"))["bound_by"] for name in STEPS)
    first = [bound.partition(" ")[0] for bound in bounds]  # bound by "DMA issue"
    assert first == ["DMA", "DMA", "DMA", "Tensor"]


def test_every_kernel_of_every_chapter_is_listed_here():
    found = {
        name
        for file in FOLDER.glob("ch*.py")
        for name, value in vars(chapter(file.stem)).items()
        if isinstance(value, Kernel)
    }
    assert found == {*KERNELS, "classify", "narrowed", "trained", "late", "early"}


def test_every_chapter_has_prose_inputs_and_a_reference():
    for file in FOLDER.glob("ch*.py"):
        module = chapter(file.stem)
        number = int(file.stem[2:4])
        assert module.__doc__.startswith(f"{number}. ")
        assert f"neuroncore run kernels/{file.name}" in module.__doc__
        assert callable(module.inputs) and callable(module.reference)


# test_rounding.py runs the tenth, which is long, and reads its output; test_model.py has the
# eleventh at a smaller size.
LONG = {FOLDER / "ch10_rounding.py", FOLDER / "ch11_model.py"}
SCRIPTS = sorted({*FOLDER.glob("ch*.py")} - LONG)


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: file.stem)
def test_a_chapter_runs_as_a_script(file, tmp_path, monkeypatch, capsys):
    if file.stem == "ch09_digits":
        pytest.importorskip("sklearn")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(file)])
    for name in os.environ:
        if name.startswith(("NEURON_", "NKI_")):
            monkeypatch.delenv(name)
    runpy.run_path(str(file), run_name="__main__")
    printed = capsys.readouterr().out
    assert ("accuracy in float8_e4m3" in printed) == (file.stem == "ch09_digits")


def test_a_chapter_needs_only_the_alias_path(tmp_path):
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(neuroncore.__file__).parent / "hosts/alias"),
    }
    command = [sys.executable, "-W", "error", str(SCRIPTS[0])]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


# --- digits ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained():
    pytest.importorskip("sklearn")
    module = chapter("ch09_digits")
    x_train, x_test, train_labels, test_labels = module.digits()
    return x_test, test_labels, module.train(x_train, train_labels, np.random.default_rng(0))


@pytest.mark.parametrize("target", TARGETS)
def test_digits_are_classified_in_every_format(trained, target):
    module = chapter("ch09_digits")
    images, labels, parameters = trained
    accuracy = []
    for dtype in module.FORMATS:
        given = module.arguments(images, parameters, dtype)
        with settings(target=target):
            scores = module.classify(*given)
        accuracy.append(np.mean(scores.argmax(axis=0) == labels))
        if dtype is np.float32:
            want = module.reference(*given)
            assert np.linalg.norm(scores - want) < 1e-5 * np.linalg.norm(want)
    assert accuracy[0] > 0.95
    assert np.abs(np.array(accuracy) - accuracy[0]).max() < 0.02


def test_few_images_and_a_network_of_zeros_are_classified_too():
    module = chapter("ch09_digits")
    x = np.eye(64, 3, dtype=np.float32)
    zeros = np.zeros((64, 128), np.float32), np.zeros((128, 10), np.float32)
    b2 = np.arange(10, dtype=np.float32).reshape(10, 1)
    scores = module.classify(x, zeros[0], np.ones((128, 1), np.float32), zeros[1], b2, 1.0, 1.0)
    np.testing.assert_array_equal(scores, np.repeat(b2, 3, axis=1))
