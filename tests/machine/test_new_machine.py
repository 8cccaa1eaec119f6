"""A machine is a file: a copy of a file with another name and generation works everywhere."""

import subprocess
import sys

import pytest

from neuroncore import machine
from neuroncore.base.errors import DefinitionError
from neuroncore.cli import main

ALIASES = 'aliases = ["gen4", "trn3pre"]'
NEW = {
    'name = "trn3"': 'name = "trn7"',
    'generation = "NeuronCore-v4"': 'generation = "NeuronCore-v8"',
    'api_version = "gen4"': 'api_version = "gen8"',
    ALIASES: 'aliases = ["gen8", "inf7"]',
}
KERNEL = """
import nki, nki.isa as nisa, nki.language as nl

@nki.jit
def kernel(x):
    assert nisa.get_nc_version() is nisa.nc_version.gen8 > nisa.nc_version.gen4
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.exp(nl.load(x)))
    return out
"""


def text(name):
    return (machine.machine._folder() / f"{name}.toml").read_text("utf-8")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with all machines, to which a test may add files."""
    for name in machine.names():
        (tmp_path / f"{name}.toml").write_text(text(name))
    with monkeypatch.context() as patch:
        patch.setattr(machine.machine, "_folder", lambda: tmp_path)
        forget()
        yield tmp_path
    forget()


def forget():
    machine.load.cache_clear()
    machine.aliases.cache_clear()


def copy(folder, changes=NEW):
    made = text("trn3")
    for old, new in changes.items():
        assert made.count(old) == 1
        made = made.replace(old, new)
    (folder / "trn7.toml").write_text(made)


def test_a_new_machine_is_found_by_its_names_and_listed(folder, capsys):
    copy(folder)
    assert "trn7" in machine.names()
    assert machine.load("inf7") is machine.load("gen8") is machine.load("trn7")
    assert "gen8" in machine.api_versions()
    assert main(["machines"]) == 0
    assert "trn7: NeuronCore-v8" in capsys.readouterr().out
    assert main(["machines", "inf7"]) == 0
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    assert "trn7" in capsys.readouterr().out.partition("; beats the environment")[0]


def test_kernels_run_on_a_new_machine_and_get_its_generation(folder, tmp_path):
    copy(folder)
    (tmp_path / "mine.py").write_text(KERNEL)
    code = f"""
import pathlib
from neuroncore import machine
machine.machine._folder = lambda: pathlib.Path({str(folder)!r})
from neuroncore.cli import main
raise SystemExit(main(["run", "mine.py::kernel", "--target", "inf7", "--args", "float32[128,64]"]))
"""
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "trn7" in done.stdout


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({**NEW, ALIASES: ALIASES}, "'gen4' is already a name of trn3"),
        ({**NEW, ALIASES: 'aliases = ["trn1"]'}, "'trn1' is already a name of trn1"),
        ({**NEW, 'name = "trn3"': 'name = "trn3"'}, "name is 'trn3', but the file has the name"),
        ({**NEW, 'api_version = "gen4"': 'api_version = "v5"'}, "must be gen and a number: 'v5'"),
    ],
)
def test_names_that_mean_two_machines_are_refused(folder, changes, says):
    copy(folder, changes)
    with pytest.raises(DefinitionError, match="trn7") as refused:
        machine.load("trn7")
        machine.aliases()
    assert says in str(refused.value)
