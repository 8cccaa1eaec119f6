"""neuroncore doctor: check whether this installation works. neuroncore warm: load and compile in
advance what a first run needs."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

import neuroncore
from neuroncore.base.options import cache_folder
from neuroncore.base.units import duration
from neuroncore.cli import terminal
from neuroncore.cli.environment import NEEDED, installed
from neuroncore.eval import answers, isolation
from neuroncore.eval.answers import Isolation

SCHEMA = "neuroncore.doctor/1"


class Diagnosis(NamedTuple):
    """The result of a check: `ok`, `warning` or `error`, a sentence, and a hint."""

    status: str
    sentence: str
    hint: str = ""


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Check this installation: packages, the cache, `import nki`, a kernel with a known result, "
        "and the isolation of `neuroncore eval`. Exit codes: 0 it works, 1 it does not."
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of text")
    parser.set_defaults(command=doctor)


def add_warm(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Load in advance everything that a first run loads, and compile the loops that are not "
        "compiled yet. Later runs of this user read the compiled loops from the cache."
    )
    parser.add_argument(
        "--target", default="trn2", metavar="MACHINE", help="the machine (default: trn2)"
    )
    parser.set_defaults(command=warm)


def warm(arguments: argparse.Namespace) -> int:
    begun = time.perf_counter()
    neuroncore.warm(arguments.target)
    taken = duration((time.perf_counter() - begun) * 1e9)
    terminal.write(f"ready for {arguments.target} after {taken}; the cache is {cache_folder()}")
    return 0


def doctor(arguments: argparse.Namespace) -> int:
    diagnoses: dict[str, Diagnosis] = {}
    for name, check in CHECKS.items():
        diagnoses[name] = _checked(check)
        if not arguments.json:
            for line in _lines(name, diagnoses[name]):
                terminal.write(line)
    works = all(diagnosis.status != "error" for diagnosis in diagnoses.values())
    if arguments.json:
        checks = [{"name": name, **diagnosis._asdict()} for name, diagnosis in diagnoses.items()]
        terminal.write_json({"schema": SCHEMA, "passed": works, "checks": checks})
    return int(not works)


def _checked(check: Callable[[], Diagnosis]) -> Diagnosis:
    try:
        return check()
    except Exception as error:
        return Diagnosis("error", f"{type(error).__name__}: {error}", "please report it")


def _lines(name: str, diagnosis: Diagnosis) -> Iterator[str]:
    yield f"{diagnosis.status:8} {name:10} {diagnosis.sentence}"
    if diagnosis.hint:
        yield f"{'':20}{diagnosis.hint}"


# --- checks ---------------------------------------------------------------------------------------


def packages() -> Diagnosis:
    versions = {name: installed(name) for name in NEEDED}
    if missing := [name for name, number in versions.items() if number is None]:
        return Diagnosis(
            "error", f"{', '.join(missing)} missing", "pip install " + " ".join(missing)
        )
    listed = ", ".join(f"{name} {number}" for name, number in versions.items())
    python = ".".join(map(str, sys.version_info[:3]))
    return Diagnosis("ok", f"Python {python}, {listed}")


def cache() -> Diagnosis:
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        sentence = f"{folder} can't be written: {error.strerror}"
        return Diagnosis("warning", sentence, "set XDG_CACHE_HOME to a folder that can be written")
    return Diagnosis("ok", str(folder))


def names() -> Diagnosis:
    """Check that `import nki` finds this package."""
    with neuroncore.activated():
        nki = importlib.import_module("nki")
    home = str(Path(neuroncore.__file__).parent)
    if not str(nki.__file__).startswith(home):
        hint = "another nki is installed in this environment; use a separate one"
        return Diagnosis("warning", f"`import nki` finds {nki.__file__}", hint)
    return Diagnosis("ok", "`import nki` finds this package")


def kernel() -> Diagnosis:
    module = importlib.import_module("neuroncore.kernels.ch01_add")
    a, b = np.random.default_rng(0).standard_normal((2, 128, 512), np.float32)
    begun = time.perf_counter()
    with neuroncore.activated():
        run = neuroncore.run(module.add, a, b)
    taken = duration((time.perf_counter() - begun) * 1e9)
    if not np.array_equal(run.results, a + b):
        return Diagnosis("error", "a + b is wrong on this machine", "please report it")
    return Diagnosis("ok", f"a + b is right on {run.machine.name}, after {taken}")


def isolated() -> Diagnosis:
    """Report which isolation a candidate gets on this system."""
    level = isolation.supported()
    if level != "linux":
        sentence = "`neuroncore eval` limits only the time and the memory of kernels"
        return Diagnosis("warning", sentence, "see docs/eval.md")
    held = _held()._asdict()
    if missing := [name for name, value in held.items() if not value]:
        hint = "judge hostile candidates in a container without network: docs/eval.md"
        sentence = f"incomplete isolation of kernels: this system grants no {', '.join(missing)}"
        return Diagnosis("warning", sentence, hint)
    return Diagnosis("ok", f"`neuroncore eval` isolates kernels by {', '.join(held)}")


def _held() -> Isolation:
    """Return the isolation that the system grants to a process of this user. A forked process
    isolates itself and reports the result."""
    reads, writes = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            namespaces = isolation.unshare()
            held = isolation.restrict(())._replace(namespaces=int(namespaces))
            os.write(writes, answers.ISOLATION.pack(*held))
        finally:
            os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as file:
        content = file.read()
    os.waitpid(process, 0)
    return answers.isolation(content)


def processors() -> Diagnosis:
    count = os.cpu_count() or 1
    threads = os.environ.get("NUMBA_NUM_THREADS", count)
    return Diagnosis("ok", f"{count}; compiled loops use {threads}")


CHECKS = {
    "packages": packages,
    "cache": cache,
    "nki": names,
    "kernel": kernel,
    "isolation": isolated,
    "processors": processors,
}
