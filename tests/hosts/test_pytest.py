"""The pytest plugin: if requested, it provides nki, prints errors without tracebacks, and fails
tests with findings."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from viewed import document

from neuroncore.hosts import pytest as plugin
from neuroncore.view.page import Page

pytest_plugins = "pytester"

KERNELS = """
import nki, nki.isa as nisa, nki.language as nl, numpy as np, pytest
X = np.ones((4, 8), np.float32)

def kernel(x, illegal=False, reads_nothing=False):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((4, 8), x.dtype, buffer=nl.sbuf)
    if not reads_nothing:
        nisa.dma_copy(dst=tile, src=x)
    if illegal:
        nisa.tensor_scalar(dst=tile, data=x, op0=nl.add, operand0=1.0)
    nisa.dma_copy(dst=out, src=tile)
    return out

kernel = nki.jit(kernel)

@nki.jit
def idle(x):
    return None
"""


@pytest.fixture
def tests(pytester):
    """Return a function that runs a test file in this process and returns pytest's output."""
    pytester.plugins = [plugin]

    def run(body, *options):
        pytester.makepyfile(KERNELS + body)
        return pytester.runpytest_inprocess("-q", "-p", "no:cacheprovider", *options)

    return run


@pytest.mark.parametrize("asked", ["--neuroncore", "-pneuroncore.pytest"])
def test_a_correct_kernel_passes(tests, asked):
    body = """
def test_it(request):
    assert (kernel(X) == 1).all()
    assert request.config.pluginmanager.has_plugin("neuroncore.pytest.kernels")
"""
    tests(body, asked).assert_outcomes(passed=1)


def test_an_illegal_instruction_is_printed_without_a_traceback(tests):
    body = "def test_it(): kernel(X, illegal=True)"
    result = tests(body, "--neuroncore")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*error?BUFFER_KIND?*", "*because*"])
    result.stdout.no_fnmatch_line("*Traceback*")
    assert "neuroncore/frontend" not in result.stdout.str()
    whole = tests(body, "--neuroncore", "--full-trace").stdout.str()
    assert "neuroncore/frontend" in whole


def test_a_misspelled_name_of_the_api_is_printed_without_a_traceback(tests):
    said = tests("def test_it(): nisa.tensor_scaler", "--neuroncore").stdout.str()
    assert "did you mean 'tensor_scalar'" in said and "def __getattr__" not in said


def test_errors_of_the_test_are_printed_by_pytest(tests):
    said = tests(
        "def test_it():\n    y = kernel(X)\n    assert y is X", "--neuroncore"
    ).stdout.str()
    assert "y = kernel(X)" in said and "assert y is X" in said


@pytest.mark.parametrize(
    "call, code",
    [("kernel(X, reads_nothing=True)", "UNINIT_READ"), ("idle(X)", "NO_INSTRUCTIONS")],
    ids=["uninitialized", "idle"],
)
def test_findings_fail_a_test_unless_it_allows_them(tests, call, code):
    body = f"""
def test_strict():
    {call}

@pytest.mark.neuroncore(allow=["{code}"])
def test_allowed():
    {call}
"""
    result = tests(body, "--neuroncore")
    result.assert_outcomes(failed=1, passed=1)
    assert "NeuronWarning" not in result.stdout.str()


def test_findings_under_settings_of_the_test_fail_it_too(tests):
    body = """
import neuroncore
def test_it():
    with neuroncore.settings("trn3"):
        kernel(X, reads_nothing=True)
"""
    tests(body, "--neuroncore").assert_outcomes(failed=1)


def test_targets_are_parameters(tests, pytester):
    body = """
import neuroncore
def test_it(neuroncore_target):
    assert neuroncore.run(kernel, X).machine.name == neuroncore_target
"""
    result = tests(
        body, "--neuroncore", "-vv", "--neuroncore-target=trn2", "--neuroncore-target=trn3"
    )
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*test_it?trn2?*", "*test_it?trn3?*"])
    pytester.makeini("[pytest]\nneuroncore = true\nneuroncore_targets = trn1")
    result = tests(body, "-vv")
    result.stdout.fnmatch_lines(["*test_it?trn1?*"])


def test_a_failed_test_has_a_page_on_request(tests, pytester):
    body = """
def test_right(): kernel(X)
def test_wrong(): assert kernel(X) is None
"""
    result = tests(body, "--neuroncore", "--neuroncore-pages", "pages")
    page = "pages/test_a_failed_test_has_a_page_on_request.py_test_wrong.html"
    result.stdout.fnmatch_lines([f"page: {page}"])
    assert [path.name for path in (pytester.path / "pages").iterdir()] == [Path(page).name]
    (core,) = document(Page((pytester.path / page).read_text("utf-8")))["cores"]
    assert core["kernel"] == "kernel" and len(core["values"]["tiles"]) > 0


ASSERTING = """
def test_close(neuroncore_test):
    neuroncore_test.assert_close(kernel(X), X)
    with pytest.raises(AssertionError, match="worst element .1, 2.: 1, expected 3") as caught:
        want = X.copy()
        want[1, 2], want[3] = 3, X[3] + np.spacing(X[3])
        neuroncore_test.assert_close((kernel(X),), (want,))
    assert "result 0: " in str(caught.value)
    rows = [line.split()[:-1] for line in str(caught.value).splitlines()[3:]]
    assert rows == [["below", "1", "23"], ["1", "to", "2", "8"], ["8388608", "to", "16777216", "1"]]

def test_refused(neuroncore_test):
    with neuroncore_test.refused("BUFFER_KIND"):
        kernel(X, illegal=True)
    with neuroncore_test.refused("UNINIT_READ"):
        kernel(X, reads_nothing=True)
    with pytest.raises(AssertionError, match="no kernel was refused with UNINIT_READ"):
        with neuroncore_test.refused("UNINIT_READ"):
            kernel(X)

def test_limits(neuroncore_test):
    with neuroncore_test.budget(us=1e3, hbm_bytes=256, sbuf_kib=1 / 32):
        kernel(X)
    with pytest.raises(AssertionError, match="512 bytes of HBM traffic, the budget is 256"):
        with neuroncore_test.budget(us=1e3, hbm_bytes=256):
            kernel(X), kernel(X)

def test_file(neuroncore_test):
    with neuroncore_test.budget():
        kernel(X)
"""


def test_kernels_are_compared_and_checked_against_budgets(tests, pytester):
    result = tests(ASSERTING, "--neuroncore")
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*has no budget for*test_file*--neuroncore-update-budgets*"])
    tests(ASSERTING, "--neuroncore", "--neuroncore-update-budgets").assert_outcomes(passed=4)
    tests(ASSERTING, "--neuroncore").assert_outcomes(passed=4)
    file = pytester.path / "neuroncore_budgets.json"
    file.write_text(file.read_text().replace("256", "255"))
    result = tests(ASSERTING, "--neuroncore")
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*256 bytes of HBM traffic, the budget is 255*"])


@pytest.mark.parametrize(
    "call",
    [
        "neuroncore_test.assert_close(kernel(X), X + 1)",
        "with neuroncore_test.refused('UNINIT_READ'): kernel(X)",
        "with neuroncore_test.budget(us=0): kernel(X)",
        "with neuroncore_test.budget(): kernel(X)",
    ],
)
def test_a_failed_assertion_shows_the_test_and_no_source_of_neuroncore(tests, call):
    said = tests(f"def test_it(neuroncore_test):\n    {call}", "--neuroncore").stdout.str()
    assert f"    {call}\n" in said and "hosts/assertions.py" not in said


SEVERAL_CORES = (
    """
import neuroncore

@nki.jit
def halves(x, waits):
    """
    + '"""Each core copies half of x, and then the other half of what both wrote."""'
    + """
    core = nl.program_id(0)
    mine, other = (slice(2 * c, 2 * c + 2) for c in (core, 1 - core))
    middle = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(middle[mine], nl.load(x[mine]))
    if waits:
        nisa.core_barrier(middle, (0, 1))
    nl.store(out[other], nl.load(middle[other]))
    return out

def test_budget(neuroncore_test):
    once = neuroncore.run(halves[2], X, True).estimate.seconds * 1e6
    with neuroncore_test.budget(us=once, hbm_bytes=512, sbuf_kib=1):
        halves[2](X, True)
    with neuroncore_test.budget(us=once * 1.01, hbm_bytes=4 * 512):
        neuroncore.run(halves, per_rank=[(X, True)] * 4, lnc=2)
    with pytest.raises(AssertionError, match="2,048 bytes of HBM traffic"):
        with neuroncore_test.budget(hbm_bytes=2000):
            neuroncore.run(halves, per_rank=[(X, True)] * 4, lnc=2)

@pytest.mark.neuroncore(allow=["UNINIT_READ"])
def test_race(neuroncore_test):
    with neuroncore_test.refused("RACE"):
        halves[2](X, False)

def test_page():
    neuroncore.run(halves, per_rank=[(X, True)] * 2, lnc=2)
    assert False
"""
)


def test_a_launch_on_several_cores_is_one_launch(tests, pytester):
    """Budgets had the sum of the times of all ranks, and the bytes of one core of each rank."""
    result = tests(SEVERAL_CORES, "--neuroncore", "--neuroncore-pages", "pages")
    result.assert_outcomes(passed=2, failed=1)
    (page,) = (pytester.path / "pages").iterdir()
    assert len(document(Page(page.read_text("utf-8")))["cores"]) == 4


def test_workers_of_xdist_write_one_file_of_budgets(pytester):
    pytest.importorskip("xdist")
    pytester.makepyfile(KERNELS + ASSERTING)
    options = "-q", "-p", "no:cacheprovider", "--neuroncore", "-n1", "-k", "test_file"
    result = pytester.runpytest_subprocess(*options, "--neuroncore-update-budgets")
    result.assert_outcomes(passed=1)
    kept = json.loads((pytester.path / "neuroncore_budgets.json").read_text())
    ((name, limits),) = kept.items()
    assert (name.partition("::")[2], limits["hbm_bytes"]) == ("test_file", 256)


def test_nothing_changes_without_the_option(tests):
    body = """
def test_it(request):
    with pytest.warns(match="UNINIT_READ"):
        kernel(X, reads_nothing=True)
    assert not request.config.pluginmanager.has_plugin("neuroncore.pytest.kernels")
"""
    tests(body).assert_outcomes(passed=1)


def test_without_the_option_almost_nothing_is_imported():
    code = "import sys, neuroncore.pytest; assert not {'numpy', 'numba'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.source
def test_the_plugin_is_registered_under_the_name_of_its_option():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {plugin.NAME: plugin.NAME}
