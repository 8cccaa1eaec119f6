"""The contents of an installation: packages, data, one name, one version."""

import json
import os
import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from importlib import metadata
from itertools import chain
from pathlib import Path

import pytest

import neuroncore
from neuroncore import machine

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETUPTOOLS = PROJECT["tool"]["setuptools"]
HOMES = {package: ROOT / home for package, home in SETUPTOOLS["package-dir"].items()}
DATA = SETUPTOOLS["package-data"]


def python(code, folder):
    """Run code in a folder, which comes first on the path, like for any script there."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONSAFEPATH")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def is_data(package, path):
    name = path.relative_to(HOMES[package]).as_posix()
    return any(fnmatch(name, pattern) for pattern in DATA.get(package, ()))


BUILT = "site/html/**/*"  # the documentation, if it was built


@pytest.mark.source
def test_every_package_is_listed():
    found = {
        ".".join([package, *init.parent.relative_to(home).parts])
        for package, home in HOMES.items()
        for init in home.rglob("__init__.py")
        if not is_data(package, init)
    }
    assert sorted(SETUPTOOLS["packages"]) == sorted(found)


def test_every_folder_of_code_is_a_package_or_data():
    for package, home in HOMES.items():
        for file in home.rglob("*.py"):
            assert (file.parent / "__init__.py").is_file() or is_data(package, file), file


@pytest.mark.source
@pytest.mark.parametrize("package", DATA)
def test_every_pattern_of_data_finds_files(package):
    for pattern in DATA[package]:
        assert pattern == BUILT or [*HOMES[package].glob(pattern)], pattern


def test_the_wheel_has_every_file():
    ours = [
        (package, file)
        for package, home in HOMES.items()
        for file in home.rglob("*")
        if file.is_file() and not {"__pycache__", "site"} & {*file.parts}
    ]
    forgotten = [f for p, f in ours if not (f.suffix == ".py" or is_data(p, f))]
    assert not forgotten


def test_machines_and_types_are_found_where_they_are_installed():
    from importlib.resources import files

    machines = {entry.name for entry in (files("neuroncore.isa") / "machines").iterdir()}
    assert {f"{name}.toml" for name in machine.names()} <= machines
    assert (files("neuroncore") / "py.typed").is_file()
    assert (files("neuroncore") / "hosts" / "alias" / "nki" / "__init__.py").is_file()


@pytest.mark.parametrize("folder", ["elsewhere", "root", "inside"])
def test_everything_imports_from_any_folder(folder, tmp_path):
    where = {"elsewhere": tmp_path, "root": ROOT, "inside": ROOT / "tests"}[folder]
    modules = ", ".join(SETUPTOOLS["packages"])
    code = f"import sys, {modules}\nassert not {{'isa', 'kernels'}} & set(sys.modules)\n"
    code += "from neuroncore import machine; print(*machine.names())"
    assert python(code, where).split() == machine.names()


def test_one_top_level_name_is_installed():
    assert metadata.distribution("neuroncore").read_text("top_level.txt").split() == ["neuroncore"]
    assert {p.partition(".")[0] for p in SETUPTOOLS["packages"]} == {"neuroncore"}
    assert "py-modules" not in SETUPTOOLS


def test_folders_of_the_repository_are_not_importable_outside_it(tmp_path):
    code = "import importlib.util as u, sys\n"
    code += (
        "ours = [s.origin for n in ('isa', 'kernels', 'tests', 'bench') if (s := u.find_spec(n))]\n"
    )
    code += "print(*ours)"
    assert str(ROOT) not in python(code, tmp_path)


def test_the_version_is_the_same_everywhere():
    version = PROJECT["project"]["version"]
    assert metadata.version("neuroncore") == version
    changes = ROOT / "CHANGELOG.md"
    if changes.is_file():
        newest = re.search(r"^## \[?v?(\d[^\]\s]*)", changes.read_text(), re.MULTILINE)
        assert newest and newest[1] == version
        citation = (ROOT / "CITATION.cff").read_text()
        assert f"\nversion: {version}\n" in citation and "license: Apache-2.0" in citation


def test_public_names_and_modules_are_attributes(tmp_path):
    code = "import neuroncore as n\nassert {*n.__all__} <= {*dir(n)}\nprint(n.errors.__name__)\n"
    code += "print(*(getattr(n, name).__module__ for name in ('Options', 'run', 'settings')))\n"
    code += "try: n.nothing\nexcept AttributeError as error: print(error)"
    assert python(code, tmp_path).splitlines() == [
        "neuroncore.errors",
        "neuroncore.base.options neuroncore.hosts.api neuroncore.frontend.settings",
        "module 'neuroncore' has no attribute 'nothing'",
    ]


def test_the_command_is_the_module():
    scripts = metadata.entry_points(group="console_scripts", name="neuroncore")
    assert [s.value for s in scripts] == [PROJECT["project"]["scripts"]["neuroncore"]]
    outputs = {
        subprocess.run([*command, "alias-path"], capture_output=True, text=True, check=True).stdout
        for command in (
            [str(Path(sys.executable).with_name("neuroncore"))],
            [sys.executable, "-m", "neuroncore"],
        )
    }
    assert outputs == {f"{Path(neuroncore.__file__).parent / 'hosts/alias'}\n"}


def test_every_extra_and_dependency_has_a_lower_bound():
    project = PROJECT["project"]
    lists = project["dependencies"], *project["optional-dependencies"].values()
    for requirement in chain.from_iterable(lists):
        bound = re.search("[>=~]=", requirement)
        assert bound or requirement.startswith("neuroncore"), requirement


@pytest.mark.source
def test_the_matrix_of_ci_has_each_python_and_system():
    text = (ROOT / ".github/workflows/tests.yml").read_text()
    lowest = PROJECT["project"]["requires-python"].removeprefix(">=")
    assert f'python: ["{lowest}", "3.12", "3.13", "3.14"]' in text
    assert "os: [ubuntu-latest, macos-latest, windows-latest]" in text
    named = re.findall(r"Python :: (3\.\d+)", str(PROJECT["project"]["classifiers"]))
    assert named == [v for v in ("3.11", "3.12", "3.13", "3.14") if v in named]


@pytest.mark.source
def test_files_of_a_repository_are_in_the_sdist():
    included = (ROOT / "MANIFEST.in").read_text().splitlines()[0].split()[1:]
    assert all((ROOT / name).is_file() for name in included)
    assert json.loads((ROOT / ".devcontainer/devcontainer.json").read_text())["postCreateCommand"]
