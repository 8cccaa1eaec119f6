"""The structure of the project: the limits in its rules are checked here."""

import ast
import re
import subprocess
import sys
from functools import cache
from itertools import combinations
from pathlib import Path

import parsed
import pytest
import readme
from accepted import module

pytestmark = pytest.mark.source

architecture = module("architecture")

ROOT = Path(__file__).resolve().parent.parent
GENERATED = {*module("functions").pages()}
ON_TOP = 10  # modules of neuroncore/ itself: what every package reads
LONGEST = 60  # lines of a function
MODULE = 500  # lines of a file
FIRST = 150  # modules that a first run loads: each costs a part of the start
POSITIONAL = 8  # arguments that a reader can still distinguish


def packages():
    """Every folder of modules."""
    for folder in ("neuroncore", "isa"):
        yield from sorted({file.parent for file in (ROOT / folder).rglob("*.py")})


def stem(name):
    """A module's name without endings such as plural forms."""
    for ending in ("ing", "ed", "es", "s", "er", "or"):
        if len(name) > len(ending) + 2 and name.endswith(ending):
            return stem(name.removesuffix(ending))
    return name.rstrip("e")


def sources():
    """Every module that is written by hand."""
    for folder in ("neuroncore", "isa"):
        yield from sorted({*(ROOT / folder).rglob("*.py")} - GENERATED)


@cache
def functions_and_calls():
    """Yield the place and the node of every function and call."""
    return [
        (f"{path.relative_to(ROOT)}:{node.lineno}", node)
        for path in sources()
        for node in parsed.nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Call)
    ]


def nodes(kind):
    return ((where, node) for where, node in functions_and_calls() if isinstance(node, kind))


def test_no_function_is_longer_than_a_page():
    functions = nodes((ast.FunctionDef, ast.AsyncFunctionDef))
    found = [(where, f.end_lineno - f.lineno + 1) for where, f in functions]
    long = [(where, lines) for where, lines in found if lines > LONGEST]
    assert not long, f"divide these functions, which have more than {LONGEST} lines: {long}"


def test_no_module_is_longer_than_it_may_be():
    found = [(path, len(path.read_text("utf-8").splitlines())) for path in sources()]
    long = [(str(path), lines) for path, lines in found if lines > MODULE]
    assert not long, f"move a part of these modules, which have more than {MODULE} lines: {long}"


def test_no_call_has_many_positional_arguments():
    long = [where for where, call in nodes(ast.Call) if len(call.args) > POSITIONAL]
    assert not long, f"pass at most {POSITIONAL} arguments by position, the others by name: {long}"


def test_compiled_loops_take_tables_for_many_arrays():
    loops = ((w, f) for w, f in nodes(ast.FunctionDef) if "/loops/" in w)
    long = [where for where, f in loops if len(f.args.args) > POSITIONAL]
    assert not long, f"put arrays in a NamedTuple, for at most {POSITIONAL} parameters: {long}"


def test_the_page_of_the_architecture_is_current():
    page = architecture.PAGE.read_text()
    assert architecture.page() == page, "run docs/generate/architecture.py"


def test_the_page_shows_the_current_path_of_an_instruction(capsys):
    exec(compile(architecture.PATH, "architecture.md", "exec"), {})
    assert float(capsys.readouterr().out) > 0


def test_every_package_has_a_sentence():
    told = [
        package
        for layer in architecture.layers()
        for each in layer
        for package in architecture.inside(each)
    ]
    known = {package for package in packages() if "alias" not in package.parts}
    named = {ROOT.joinpath(*package.split(".")) for package in told}
    new = {*map(str, known - named - {ROOT / "neuroncore"})}
    assert not new, f"add these packages to a layer of pyproject.toml: {new}"
    for package in told:
        assert 10 < len(architecture.sentence(package)) < 150, package


def test_the_top_folder_has_only_modules_that_every_package_uses():
    top = [file for file in (ROOT / "neuroncore").glob("*.py") if file.name != "__init__.py"]
    assert len(top) <= ON_TOP, f"at most {ON_TOP} modules; move others into a package: {top}"


def test_calls_of_lazy_modules_are_typed():
    blind = re.compile(r""": Any = Lazy\(\s*["']neuroncore""")
    found = [str(path) for path in sources() if blind.search(path.read_text("utf-8"))]
    assert not found, f"import lazy modules under TYPE_CHECKING, so that they have types: {found}"


def test_no_two_modules_of_a_package_differ_by_an_ending():
    for package in packages():
        names = sorted({f.stem for f in package.iterdir() if f.suffix == ".py" or f.is_dir()})
        alike = [pair for pair in combinations(names, 2) if stem(pair[0]) == stem(pair[1])]
        assert not alike, f"rename a module of each pair in {package}: {alike}"


FIRST_RUN = """
import sys
from contextlib import redirect_stdout
from neuroncore.cli import main
with redirect_stdout(sys.stderr):
    main(["run", "first.py"])
print(*(name for name in sys.modules if name.split(".")[0] == "neuroncore"), sep="\\n")
"""


def test_a_first_run_loads_few_modules(tmp_path):
    """A module that only some runs need is loaded when they need it (`neuroncore.base.lazy`)."""
    first = next(body for body in readme.blocks("python") if body.startswith("# first.py"))
    (tmp_path / "first.py").write_text(first)
    command = [sys.executable, "-c", FIRST_RUN]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    loaded = sorted(done.stdout.split())
    assert "neuroncore.frontend.launch" in loaded
    assert len(loaded) <= FIRST, f"a first run loads {len(loaded)} modules; use Lazy: {loaded}"
