"""Insert small faults into a copy of the package: tests or random programs must detect each one.

    python bench/mutants.py [--only WORD] [--programs COUNT] [--results FILE]

A mutant is a copy of the tree with one fault. `mutants.toml` lists some faults as patches, and
files in which other faults are drawn at random by a seed: changes of a comparison, a sign, an
argument, a part of a key, or a statement. A package is a folder of neuroncore/. The tests for each
package must pass without a mutant. The limit for a mutant is TIMES as long as these tests take, and
at least LEAST seconds. A mutant is killed if a test fails, if `bench.programs` finds a difference
in COUNT random programs (3,000 by default), or if tests or programs exceed the limit ("time"). The
results are appended to FILE; a mutant that is in FILE already is not run again.

The script prints a table by package, and the mutants that survive. A fault that no test can detect
is not in `mutants.toml`."""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LIST = Path(__file__).with_suffix(".toml")
# always this path, because numba's caches depend on it
COPY = Path(tempfile.gettempdir()) / "neuroncore-mutants"
SELDOM = 4  # exit code of bench.programs if no program fails, but a kind of step is too rare
# A mutant has an endless loop if it takes TIMES as long as the tests without it, and longer than
# LEAST seconds, because compiling loops and running programs also takes time.
TIMES, LEAST = 10, 900
COPIED = ("neuroncore", "isa", "kernels", "tests", "bench", "docs", ".ci")
FILES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "pyproject.toml")


@dataclass(frozen=True)
class Mutant:
    """One fault: the text `old`, which begins at byte `at` of `file`, becomes `new`."""

    file: str
    at: int
    old: str
    new: str
    why: str

    @property
    def name(self) -> str:
        """The file and the change. This is the key of the mutant in the results."""
        return f"{self.file}: {_line(self.old)} -> {_line(self.new)}"

    @property
    def package(self) -> str:
        return self.file.split("/")[1]

    def apply(self, tree: Path) -> None:
        """Write the fault into a copy of the tree."""
        path = tree / self.file
        text = path.read_bytes()
        old = self.old.encode()
        assert text[self.at : self.at + len(old)] == old
        path.write_bytes(text[: self.at] + self.new.encode() + text[self.at + len(old) :])


def _line(text: str) -> str:
    return " ".join(text.split())


# --- faults by patch -----------------------------------------------------------------------------


def patches(entries: Sequence[dict[str, str]], root: Path = ROOT) -> Iterator[Mutant]:
    """Yield the mutants of the patches `entries`. Raises ValueError unless the text `find` of a
    patch occurs exactly once in its file."""
    for entry in entries:
        text = (root / entry["file"]).read_text()
        if text.count(entry["find"]) != 1:
            count = text.count(entry["find"])
            raise ValueError(f"{entry['file']} has {entry['find']!r} {count} times")
        at = len(text[: text.index(entry["find"])].encode())
        yield Mutant(entry["file"], at, entry["find"], entry["replace"], entry["why"])


# --- faults by operator --------------------------------------------------------------------------

COMPARISONS = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
}
SIGNS = {ast.Add: "-", ast.Sub: "+", ast.FloorDiv: "*", ast.Mod: "*", ast.LShift: ">>"}
NOT_COMPUTED = (ast.Raise, ast.Assert, ast.JoinedStr, ast.AnnAssign, ast.Import, ast.ImportFrom)


def drawn(file: str, count: int, seed: int, root: Path = ROOT) -> list[Mutant]:
    """Return `count` mutants of the functions in a file, drawn at random with this seed; all
    mutants if there are fewer."""
    text = (root / file).read_bytes()
    found = list({mutant.name: mutant for mutant in _faults(file, text)}.values())
    return random.Random(f"{file} {seed}").sample(found, min(count, len(found)))


def _faults(file: str, text: bytes) -> Iterator[Mutant]:
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def fault(node: Any, new: str, why: str) -> Mutant:
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        return Mutant(file, begin, text[begin:end].decode(), new, why)

    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef):
            for statement in function.body:
                for node in _computed(statement):
                    for new, why in _changes(node):
                        yield fault(node, new, why)


def _computed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a statement and the nodes in it, except errors, messages, annotations and imports."""
    if isinstance(node, NOT_COMPUTED):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _computed(child)


def _changes(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the texts that can replace a node, each with the kind of the fault."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
        left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
        yield f"({left} {COMPARISONS[type(node.ops[0])]} {right})", "a comparison"
    elif isinstance(node, ast.BinOp) and type(node.op) in SIGNS:
        left, right = ast.unparse(node.left), ast.unparse(node.right)
        yield f"(({left}) {SIGNS[type(node.op)]} ({right}))", "an operator"
    elif isinstance(node, ast.Call) and len(node.args) >= 2:
        if isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
            other = {"min": "max", "max": "min"}[node.func.id]
            yield f"{other}({', '.join(map(ast.unparse, node.args))})", "an extreme"
        elif all(isinstance(one, ast.Name) for one in node.args[:2]) and not node.keywords:
            swapped = [node.args[1], node.args[0], *node.args[2:]]
            called = ", ".join(map(ast.unparse, swapped))
            yield f"{ast.unparse(node.func)}({called})", "swapped operands"
    elif isinstance(node, ast.AugAssign):
        yield "pass", "a dropped update"
    elif _makes_a_key(node):
        for left_out in range(len(node.value.elts)):
            kept = [one for i, one in enumerate(node.value.elts) if i != left_out]
            yield f"key = ({', '.join(map(ast.unparse, kept))},)", "a dropped part of a key"


def _makes_a_key(node: Any) -> bool:
    assigned = isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple)
    return assigned and ast.unparse(node.targets[0]) == "key"


def mutants(entries: dict[str, Any], root: Path = ROOT) -> list[Mutant]:
    """Return all mutants of a list. The entry `mutant` of the list has patches, and `drawn` has
    files with a count and a seed."""
    found = list(patches(entries["mutant"], root))
    for files in entries["drawn"]:
        found += drawn(files["file"], files["count"], files["seed"], root)
    return found


# --- running -------------------------------------------------------------------------------------


def killed_by(
    mutant: Mutant, tests: Sequence[str], programs: int, limit: float, tree: Path = COPY
) -> str:
    """Return how a fault is detected: "tests", "programs", "time" if the tests or the programs take
    longer than `limit` seconds, or "" if it survives."""
    original = (tree / mutant.file).read_bytes()
    mutant.apply(tree)
    caches = {}
    if "/loops/" in mutant.file:  # numba's caches ignore changes of inlined functions
        caches = {"NUMBA_CACHE_DIR": str(tree / "compiled" / str(mutant.at))}
    try:
        if not _passes(_tests(tests), tree, limit, caches):
            return "tests"
        command = ["-m", "bench.programs", "--count", str(programs)]
        if programs and not _passes(command, tree, limit, caches, (0, SELDOM)):
            return "programs"
    except subprocess.TimeoutExpired:
        return "time"
    finally:
        (tree / mutant.file).write_bytes(original)
        # Python would use this bytecode if the next fault has the same second and size.
        Path(cache_from_source(tree / mutant.file)).unlink(missing_ok=True)
        shutil.rmtree(tree / "compiled", ignore_errors=True)
    return ""


def seconds_without(tests: Sequence[str], tree: Path = COPY) -> float:
    """Return how many seconds the tests take without a mutant. Raises RuntimeError if one fails."""
    begun = time.monotonic()
    if not _passes(_tests(tests), tree, None):
        raise RuntimeError(f"without a mutant, a test of {' '.join(tests)} fails")
    return time.monotonic() - begun


def _tests(tests: Sequence[str]) -> list[str]:
    return ["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]


def _passes(
    arguments: Sequence[str],
    tree: Path,
    limit: float | None,
    caches: dict[str, str] | None = None,
    passing: Sequence[int] = (0,),
) -> bool:
    """Run Python in the tree. Raises subprocess.TimeoutExpired after `limit` seconds."""
    paths = {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    finished = subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env={**os.environ, **paths, **(caches or {})},
        capture_output=True,
        timeout=limit,
    )
    return finished.returncode in passing


def copied(tree: Path = COPY) -> Path:
    """Return a new copy of the project."""
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    without = shutil.ignore_patterns("__pycache__")
    for name in COPIED:
        shutil.copytree(ROOT / name, tree / name, ignore=without)
    for name in FILES:
        shutil.copy(ROOT / name, tree / name)
    return tree


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", default="", help="only mutants whose names contain WORD")
    parser.add_argument(
        "--programs", type=int, default=3000, help="random programs for each mutant"
    )
    parser.add_argument("--results", type=Path, default=Path("mutants.jsonl"))
    parser.add_argument("--list", action="store_true", help="only print the mutants")
    given = parser.parse_args(arguments)
    entries = tomllib.loads(LIST.read_text())
    asked = [one for one in mutants(entries) if given.only in one.name]
    if given.list:
        for one in asked:
            print(f"{one.name}  ({one.why})")
        return 0
    results = _read(given.results)
    tree = copied()
    limits: dict[str, float] = {}
    for n, one in enumerate(asked, 1):
        if one.name not in results:
            tests = entries["tests"][one.package]
            if one.package not in limits:
                limits[one.package] = max(LEAST, TIMES * seconds_without(tests, tree))
            results[one.name] = killed_by(one, tests, given.programs, limits[one.package], tree)
            with given.results.open("a") as file:
                print(json.dumps({"mutant": one.name, "killed_by": results[one.name]}), file=file)
        print(f"{n} of {len(asked)}  {results[one.name] or 'SURVIVES':9} {one.name}", flush=True)
    return _report(asked, results)


def _read(file: Path) -> dict[str, str]:
    if not file.exists():
        return {}
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return {line["mutant"]: line["killed_by"] for line in lines}


def _report(asked: Sequence[Mutant], results: dict[str, str]) -> int:
    """Print how many mutants of each package are killed, and the mutants that survive. Return 1 if
    a mutant survives, otherwise 0."""
    print(f"\n{'package':12}{'mutants':>9}{'tests':>9}{'programs':>9}{'time':>9}{'survive':>9}")
    for package in sorted({one.package for one in asked}):
        own = Counter(results[one.name] for one in asked if one.package == package)
        counts = own.total(), own["tests"], own["programs"], own["time"], own[""]
        print(f"{package:12}" + "".join(f"{count:9}" for count in counts))
    alive = [one for one in asked if not results[one.name]]
    print(f"{len(asked) - len(alive)} of {len(asked)} are killed")
    for one in alive:
        print(f"survives: {one.name} ({one.why})")
    return int(bool(alive))


if __name__ == "__main__":
    sys.exit(main())
