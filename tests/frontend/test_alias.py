"""`import nki` imports neuroncore's API while the alias is active, and has no effect otherwise."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

KERNEL = """
import nki, numpy as np
import nki.isa as nisa, nki.language as nl

@nki.jit
def doubled(x):
    tile = nl.load(x)
    nl.store(x, nl.add(tile, tile))
    return x

assert doubled(np.full((2, 3), 4, np.float32)).tolist() == [[8.0] * 3] * 2
"""
ACTIVE = "import neuroncore\nneuroncore.activate()\n"


def script(name):
    """Return the path of a command that is installed next to this Python."""
    return str(Path(sys.executable).with_name(name))


def run(command, folder, path=None, check=True):
    """Run a command in a folder, without neuroncore on PYTHONPATH unless `path` is given."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONSAFEPATH")}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 or not check, done.stdout + done.stderr
    return done


def python(code, folder, path=None, check=True):
    """Run code, without the current folder on the path."""
    return run([sys.executable, "-P", "-c", code], folder, path, check)


@pytest.fixture(scope="module")
def alias_path(tmp_path_factory):
    done = run([script("neuroncore"), "alias-path"], tmp_path_factory.mktemp("alias"))
    return Path(done.stdout.strip())


# --- in one process -------------------------------------------------------------------------------


def test_without_activation_there_is_no_nki(tmp_path):
    python(
        """
for first in ("sys", "neuroncore", "neuroncore.frontend.nki"):
    __import__(first)
    try:
        import nki
    except ModuleNotFoundError as error:
        assert str(error) == "No module named 'nki'"
    else:
        raise AssertionError(first)
""",
        tmp_path,
    )


def test_an_alias_is_the_module_itself(tmp_path):
    python(
        """
import sys, neuroncore
neuroncore.activate()
neuroncore.activate()
import nki, nki.language as nl, nki.isa, nki.isa.constants, nki.typing, nki.compiler
import neuroncore.frontend.nki as expected
import neuroncore.frontend.nki.language
assert nki is expected and nl is expected.language and nki.isa is expected.isa
assert nki.isa.constants is expected.isa.constants and nki.typing is expected.typing
assert nl.__name__ == nl.__spec__.name == "neuroncore.frontend.nki.language"
from nki.isa import tensor_copy
assert tensor_copy is expected.isa.tensor_copy
assert len([f for f in sys.meta_path if type(f).__name__ == "Alias"]) == 1
""",
        tmp_path,
    )


def test_activation_may_follow_the_import_of_neuroncore(tmp_path):
    python(f"import neuroncore.frontend.nki.language\n{ACTIVE}{KERNEL}", tmp_path)


def test_deactivation_removes_the_alias_and_all_modules_imported_through_it(tmp_path):
    python(
        """
import sys, neuroncore
def missing():
    try:
        import nki.language
    except ModuleNotFoundError as error:
        return error.name == "nki"
assert missing()
with neuroncore.activated():
    import nki.language
    first = nki.language
    with neuroncore.activated():
        import nki.isa
    import nki.typing
assert missing() and not [n for n in sys.modules if n.partition(".")[0] == "nki"]
neuroncore.deactivate()
neuroncore.activate()
with neuroncore.activated():
    pass
import nki.language
assert nki.language is first
neuroncore.deactivate()
assert missing()
try:
    with neuroncore.activated():
        raise KeyError
except KeyError:
    assert missing()
""",
        tmp_path,
    )


def test_modules_that_do_not_exist_are_import_errors(tmp_path):
    python(
        """
import neuroncore
neuroncore.activate()
for name in ("nki.nothing", "nki.language.nothing", "nkix", "nki.isa.constants.nothing"):
    try:
        __import__(name)
    except ModuleNotFoundError as error:
        assert error.name == name, error
    else:
        raise AssertionError(name)
try:
    from nki.language import nothing
except ImportError:
    pass
""",
        tmp_path,
    )


def test_another_nki_that_was_imported_before_is_not_replaced(tmp_path):
    (tmp_path / "nki.py").write_text("theirs = True\n")
    code = """
import neuroncore, nki
try:
    neuroncore.activate()
except neuroncore.base.errors.UsageError as error:
    assert "'nki' is already imported, from" in str(error) and "nki.py" in str(error)
else:
    raise AssertionError
assert nki.theirs
"""
    python("import neuroncore.base.errors\n" + code, tmp_path, path=tmp_path)


def test_an_active_alias_comes_before_an_installed_nki(tmp_path):
    (tmp_path / "nki.py").write_text("raise RuntimeError\n")
    python(ACTIVE + KERNEL, tmp_path, path=tmp_path)


def test_importing_neuroncore_imports_only_used_modules(tmp_path):
    python(
        """
import sys, neuroncore
from neuroncore.cli import main
try:
    main(["--help"])
except SystemExit as ended:
    assert ended.code == 0
assert "numpy" not in sys.modules
assert "neuroncore.isa" not in sys.modules
neuroncore.activate()
import nki, nki.language, nki.isa
heavy = {"numba", "llvmlite", "torch", "scipy", "sklearn", "matplotlib"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
""",
        tmp_path,
    )


# --- programs that start other programs -----------------------------------------------------------


def test_a_script_needs_only_the_alias_path(alias_path, tmp_path):
    (tmp_path / "kernel.py").write_text(KERNEL)
    run([sys.executable, "kernel.py"], tmp_path, path=alias_path)
    assert run([sys.executable, "kernel.py"], tmp_path, check=False).returncode == 1


def test_the_alias_path_has_only_the_aliases(alias_path):
    held = {entry.name for entry in alias_path.iterdir()} - {"__pycache__"}
    assert held == {"nki", "neuronxcc", "jax_neuronx", "torch_neuronx", "torch_xla"}


def test_with_the_alias_path_the_alias_is_the_module_itself(alias_path, tmp_path):
    code = """
import {first}
import nki, nki.language as nl, neuroncore.frontend.nki as expected
assert nki is expected and nl is expected.language
"""
    for first in ("nki.language", "nki.isa as nisa", "neuroncore"):
        python(code.format(first=first), tmp_path, path=alias_path)


def test_child_processes_of_child_processes_find_the_alias(alias_path, tmp_path):
    code = "import subprocess, sys; subprocess.run([sys.executable, 'kernel.py'], check=True)"
    (tmp_path / "kernel.py").write_text(KERNEL)
    run([sys.executable, "-c", code], tmp_path, path=alias_path)


def test_workers_of_a_test_runner_find_the_alias(alias_path, tmp_path, monkeypatch):
    pytest.importorskip("xdist")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the other runners take longer
    body = "".join(f"    {line}\n" for line in KERNEL.splitlines())
    tests = "".join(f"def test_{i}():\n{body}\n" for i in range(2))
    (tmp_path / "test_kernels.py").write_text(tests)
    command = [script("pytest"), "-q", "-p", "xdist", "-n", "1", "-p", "no:cacheprovider"]
    assert "2 passed" in run(command, tmp_path, path=alias_path).stdout


def test_a_process_pool_finds_the_alias(alias_path, tmp_path):
    (tmp_path / "kernel.py").write_text(f"def work(_):\n    exec({KERNEL!r}, {{}})\n    return 1\n")
    code = """
import multiprocessing, kernel
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(kernel.work, [0, 1]) == [1, 1]
"""
    (tmp_path / "pool.py").write_text(code)
    run([sys.executable, "pool.py"], tmp_path, path=alias_path)
