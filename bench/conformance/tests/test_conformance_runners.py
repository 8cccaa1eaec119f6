"""Tests of the runners in bench/conformance: they detect errors, and keep to their limits."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import guide_blocks
import outcome
import references
import samples_tests
import scripts
from held import Documented, Held, Reference, numpy_of, tolerance

KERNEL = """
import nki, nki.language as nl, numpy as np
@nki.jit
def twice(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(x), nl.load(x)))
    return out
"""
X = "np.arange(6, dtype=np.float32).reshape(2, 3)"


def launched(source, reference, tolerance=None, part=None):
    """Return a Held that has observed the launches of a script."""
    held = Held({"twice": Reference(reference, tolerance, part)})
    with held.launches():
        exec(compile(KERNEL + source, "script", "exec"), {})
    return held


def test_a_launch_that_agrees_is_counted(capsys):
    launched(f"twice({X}); twice({X})", lambda x: 2 * x).finish()
    assert "held twice: launches 2, relative L2 0" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [lambda x: 0 * x, lambda x: 2 * x + 1, lambda x: -2 * x])
def test_a_launch_that_disagrees_fails(wrong):
    with pytest.raises(AssertionError, match="twice result 0 has a relative L2 error of"):
        launched(f"twice({X})", wrong)


def test_a_part_of_a_launch_may_do(capsys):
    first = "np.zeros((3, 4), np.float32)"
    seen = []
    launched(f"twice({first})", lambda x: seen.append(x.shape) or 2 * x, part=2).finish()
    assert seen == [(2, 4)] and "launches 1" in capsys.readouterr().out
    with pytest.raises(AssertionError, match="has a relative L2 error of"):
        launched(f"twice({first})", lambda x: 2 * x + 1, part=2)


def test_kernels_without_a_launch_or_a_reference_fail():
    with pytest.raises(Exception, match="never launched twice"):
        launched("", lambda x: x).finish()
    with pytest.raises(Exception, match="no reference for the kernel other"):
        launched("def other(x):\n    pass\nnki.jit(other)(1)", lambda x: x)


def test_a_reference_sees_the_arguments_as_they_were():
    source = (
        "def change(x):\n    nl.store(x, nl.full(x.shape, 7.0, nl.float32))\n    return x\n"
        f"change.__name__ = 'twice'\nnki.jit(change)({X})"
    )
    with pytest.raises(AssertionError, match=r"got 7\.0, want 0\.0"):
        launched(source, lambda x: x)


def test_results_round_once():
    torch = pytest.importorskip("torch")
    assert tolerance(torch.zeros(1, dtype=torch.bfloat16)) == 2.0**-7
    assert tolerance(torch.zeros(1)) == 1e-5
    assert tolerance(torch.zeros(1, dtype=torch.int8)) == 0.0
    assert numpy_of(torch.ones(2, dtype=torch.bfloat16)).tolist() == [1.0, 1.0]


def ran(program, **limits):
    return outcome.run([sys.executable, "-c", program], **limits)


def test_a_process_is_judged_by_its_exit_code_and_its_last_error():
    assert outcome.judged("a", ran("print(3)")).verdict == "passed"
    failed = outcome.judged("b", ran("raise ValueError('12 of 7 in \"x\"')"))
    assert (failed.verdict, failed.cause) == ("failed", "ValueError: N of N in '...'")
    assert outcome.judged("c", ran("raise SystemExit(3)")).cause == "exit code 3"
    ours = "raise SystemExit('x.py:3:1: error[DTYPE_RULE] nc_matmul: 3 and 4\\n  more')"
    refused = outcome.judged("d", ran(ours))
    assert (refused.verdict, refused.cause) == ("refused", "DTYPE_RULE: nc_matmul: N and N")


def test_a_process_and_what_it_started_end_with_their_time():
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'while 1: pass'])"
    finished = ran(program, seconds=0.5)
    assert finished.code is None and finished.seconds < 30
    assert outcome.judged("a", finished).verdict == "timed out"


def test_a_process_that_wants_too_much_memory_fails():
    finished = ran("bytearray(2 << 30)", gigabytes=1.0)
    assert outcome.judged("a", finished).cause.startswith("MemoryError")


@pytest.mark.parametrize(
    ("statement", "cause"),
    [
        ("dst is float32, data is bfloat16", "dst is float32, data is bfloat16"),
        ("'x'(128x32x64 in sbuf) at -3 and 1.5e-07", "'...'(N in sbuf) at N and N"),
        ("a tile of 128 x 4. The rest is left out", "a tile of N x N. The rest is left out"),
        ("it is too large; make it smaller", "it is too large"),
        ("t[0:4] is 3", "t[N:N] is N"),
    ],
)
def test_causes_lose_numbers_and_names_but_no_formats(statement, cause):
    assert outcome.normalised(statement) == cause


def test_alike_causes_are_one_line_of_the_summary():
    outcomes = [outcome.Outcome(n, "failed", "ValueError: N") for n in "abc"]
    others = [outcome.Outcome(v, v) for v in ("passed", "skipped", "theirs")]
    lines = outcome.summary([*outcomes, *others])
    assert lines[1:] == [
        "passed 1  failed 3  refused 0  timed out 0  skipped 1  theirs 1",
        "     3  failed: ValueError: N",
        "1 of 4",
    ]
    assert outcome.document("s", outcomes)["counts"]["failed"] == 3


PAGE = """
Title
=====

.. code-block:: python
   :emphasize-lines: 1

   @nki.jit
   def first(x):
       return x

   @nki.jit
   def other(x):
       return x

   @nki.jit
   def first(y):
       return y

text

  .. code::

     @nki.jit()
     def first(z): ...

.. code-block:: python

   @nki.jit
   def broken(...): ...

.. code-block:: python

   def plain(): ...
"""


def test_blocks_of_a_guide_are_cut_out_one_kernel_at_a_time(tmp_path):
    (tmp_path / "nki/about").mkdir(parents=True)
    (tmp_path / "nki/about/page.rst").write_text(PAGE)
    found = list(guide_blocks.kernels(tmp_path))
    keys = [k.key.removeprefix("about/page:") for k in found]
    assert keys == ["first", "other", "first#2", "first#3", "?"]
    assert [k.parses for k in found] == [True] * 4 + [False]
    one, _, two, three, _ = found
    assert "first(x)" in one.source and "first(y)" not in one.source
    assert "first(x)" in two.source and "first(y)" in two.source
    assert three.source.strip() == "@nki.jit()\ndef first(z): ..." and three.line == 22


def test_kernels_of_the_vendors_documentation_are_next_to_the_script(tmp_path, monkeypatch):
    (tmp_path / "some_kernels.py").write_text("here = True\n")
    monkeypatch.setattr(sys, "meta_path", [Documented(tmp_path), *sys.meta_path])
    from neuronxcc.nki.docs.examples.layer.some_kernels import here

    assert here
    with pytest.raises(ModuleNotFoundError):
        import neuronxcc.nki.other.some_kernels  # noqa: F401
    for name in [n for n in sys.modules if n.startswith("neuronxcc.nki.docs")]:
        monkeypatch.delitem(sys.modules, name)


def test_every_script_has_a_table_and_every_table_a_script():
    assert {s.table for s in scripts.SCRIPTS} == set(scripts.TABLES)
    names = [s.name for s in scripts.SCRIPTS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "line", ["passed? False", "Is close?  False", "Is close:  False", "NKI and NumPy differ"]
)
def test_a_script_that_says_so_disagrees(line):
    assert scripts.DISAGREES.search(line)
    assert not scripts.DISAGREES.search(line.replace("False", "True").replace("differ", "match"))


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_doubling_interpolates_between_the_nearest(axes):
    x = np.random.default_rng(0).random((2, 3, 4, 5))
    want = x
    for axis in range(4 - axes, 4):
        at = np.clip((np.arange(2 * x.shape[axis]) + 0.5) / 2 - 0.5, 0, x.shape[axis] - 1)
        low = np.minimum(at.astype(int), x.shape[axis] - 2)
        share = (at - low).reshape([-1 if a == axis else 1 for a in range(4)])
        want = want.take(low, axis) * (1 - share) + want.take(low + 1, axis) * share
    assert np.allclose(references.doubled(x, axes), want)


TESTS = """
import neuronxcc.nki, pytest

@pytest.mark.parametrize("n", [1, 2])
def test_one(n):
    assert n == 1, f"it is {n}"

def test_two():
    warnings.warn("of a module that was not imported")
    raise neuronxcc.nki.language.MissingName if n else ValueError("a: b")

n = 0
"""


def test_each_test_of_a_checkout_is_a_case(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # plugins take longer than the tests
    (tmp_path / "test").mkdir()
    (tmp_path / "test/test_it.py").write_text(TESTS)
    suite = samples_tests.Suite("test", "test_it.py")
    names = samples_tests.listed(tmp_path, suite)
    assert names == ["test_it.py::test_one[1]", "test_it.py::test_one[2]", "test_it.py::test_two"]
    cases = [samples_tests.case(tmp_path, suite, name, 100.0, 8.0) for name in names]
    assert [c.verdict for c in cases] == ["passed", "failed", "failed"]
    assert [c.cause for c in cases[1:]] == ["AssertionError: it is N", "ValueError: a: b"]
