"""Run nki-library's own test suite, unmodified, in its simulation mode.

    python bench/conformance/nki_library.py CHECKOUT [--python VENV/bin/python] [--platform trn2]
        [--only FILE | -k EXPRESSION | --all | --smallest] [--within FOLDER] [--workers 2]
        [--timeout 600] [--memory 8] [--json] [--log LOG] [--resume LOG]

The tests that the suite's rules keep are run, cheap ones first, in processes with limits
(nki_library_plugin.py). `--python` names an interpreter whose environment has neuroncore and the
suite's requirements. FILE has the id of a test on each line. Only the modules of these tests are
collected. If some of the tests are then missing, all other modules are collected too, because the
suite draws tests at random while modules are imported. `--all` adds the tests that the suite skips
because of their size. `--smallest` runs one test of each test function: the one with the smallest
numbers in its name. LOG gets a line of JSON for each outcome; with `--resume`, tests that are in
LOG are not run again.

A test passes if it expects a refusal and gets one. A test that fails after it has read
uninitialized memory is run again with zeros in this memory. If it then passes, it gets a separate
verdict.

Tests of several ranks are run on these ranks, each with its own inputs (ranks_of_tests.py). FOLDER
is a folder in test/integration, such as nkilib/experimental/collectives. With NKI_LIBRARY_ORDERS=3
in the environment, the ranks start in three orders, and the results must have equal bits. With
NKI_LIBRARY_FLOAT64=1, the values that neuroncore computes in float64 are compared in place of the
results.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from outcome import Outcome, options, told

HERE = Path(__file__).resolve().parent
# the suite draws tests by hashes
REPRODUCIBLE = {"PYTHONHASHSEED": "0", "NEURON_PYTHONHASHSEED": "0"}
NOT_LOST = (0, 1, 2, 5)  # exit codes with which pytest has run all tests, failed or not
EVERYTHING = {"NKILIB_SIMULATION_RUN_ALL": "1"}


def outcomes(given: argparse.Namespace, scratch: Path) -> Iterator[Outcome]:
    """Yield the outcomes in the log to resume, and then each new outcome."""
    log = (given.resume or given.log or scratch / "log.jsonl").resolve()
    if given.resume is None:
        log.write_text("")
    wanted = set(given.only.read_text().split("\n")) - {""} if given.only else set()
    everything = given.checkout.resolve() / "test/integration" / given.within
    with log.open() as lines:
        if modules := _modules(given.checkout.resolve(), wanted):
            done = set()
            for outcome in _collected(given, scratch, log, lines, modules):
                done.add(outcome.name)
                yield outcome
            if all(name in done or name.partition("::")[0] in done for name in wanted):
                return
        yield from _collected(given, scratch, log, lines, [everything])


def _modules(checkout: Path, wanted: set[str]) -> list[Path]:
    """Return the existing files of the tests with the ids `wanted`."""
    files = {checkout / "test" / name.partition("::")[0] for name in wanted}
    return sorted(file for file in files if file.is_file())


def _collected(
    given: argparse.Namespace, scratch: Path, log: Path, lines: TextIO, places: list[Path]
) -> Iterator[Outcome]:
    """Run the tests in some files or folders, and yield each outcome when it appears in the log."""
    with (scratch / "output").open("w+") as output:
        process = subprocess.Popen(
            _command(given, scratch, places),
            env=_environment(given, log),
            cwd=scratch,  # the suite writes files into the current folder
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield from _followed(lines, process)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        if process.wait() not in NOT_LOST:
            output.seek(0)
            last = output.read().strip().splitlines()[-1:]
            yield Outcome("(the suite)", "failed", f"pytest: {' '.join(last)}")


def _command(given: argparse.Namespace, scratch: Path, places: list[Path]) -> list[str]:
    command = [given.python, "-m", "pytest", *map(str, places)]
    command += ["-p", "nki_library_plugin", "-p", "no:cacheprovider", "-q", "--capture=sys"]
    command += ["--continue-on-collection-errors", "--test-mode", "simulation"]
    command += ["--platform-target", given.platform, "--force-local-cleanup"]
    command += ["--output-directory", str(scratch / "artifacts")]
    return [*command, "-k", given.k] if given.k else command


def _environment(given: argparse.Namespace, log: Path) -> dict[str, str]:
    settings: dict[str, Any] = {
        "log": str(log),
        "workers": given.workers,
        "seconds": given.timeout,
        "gigabytes": given.memory,
        "only": str(given.only.resolve()) if given.only else "",
        "replay": given.replay,
        "smallest": given.smallest,
    }
    return {
        **REPRODUCIBLE,
        **os.environ,
        **(EVERYTHING if given.all else {}),
        "PYTHONPATH": _path(given),
        "PYTHONDONTWRITEBYTECODE": "1",
        "NKI_LIBRARY_RUN": json.dumps(settings),
        "NKI_LIBRARY_UNINITIALISED": given.uninitialized,
    }


def _path(given: argparse.Namespace) -> str:
    """Return the PYTHONPATH for the suite: the folders of the suite, of its substitutes, and of
    neuroncore's alias."""
    checkout = given.checkout.resolve()
    alias = [given.python, "-m", "neuroncore", "alias-path"]
    found = subprocess.run(alias, capture_output=True, text=True, check=True).stdout.strip()
    folders = [found, HERE / "shims", HERE, checkout / "src", checkout]
    if before := os.environ.get("PYTHONPATH"):
        folders.insert(0, before)
    return os.pathsep.join(map(str, folders))


def _followed(lines: TextIO, process: subprocess.Popen[bytes]) -> Iterator[Outcome]:
    rest, ended = "", False
    while not ended:
        ended = process.poll() is not None
        text, _, rest = (rest + lines.read()).rpartition("\n")
        yield from _read(text)
        time.sleep(0.0 if ended else 0.5)


def _read(text: str) -> Iterator[Outcome]:
    for line in text.splitlines():
        fields = json.loads(line)
        yield Outcome(**{**fields, "details": tuple(fields["details"])})


# ---- what the suite needs ------------------------------------------------------------------------


def lacking(given: argparse.Namespace) -> list[str]:
    """Return the packages that the suite's own tools import, but that the interpreter lacks."""
    tools = given.checkout / "test"
    files = [tools / "conftest.py", *sorted((tools / "utils").glob("*.py"))]
    names = {name for file in files if file.is_file() for name in _imported(file)}
    finds = "import sys; from importlib.util import find_spec as f; print(*filter(f, sys.argv[1:]))"
    command = [given.python, "-c", finds, *sorted(names)]
    try:
        environment = {**os.environ, "PYTHONPATH": _path(given)}
    except (OSError, subprocess.CalledProcessError):
        return ["neuroncore"]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return sorted(names - set(found.stdout.split()))


def _imported(file: Path) -> Iterator[str]:
    """Yield the packages that a file imports at its top level, without those that it imports inside
    a `try` or a function."""
    for node in ast.parse(file.read_bytes()).body:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def main() -> int:
    parser = options(__doc__, "checkout")
    parser.set_defaults(timeout=600.0, memory=8.0)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--platform", choices=("trn2", "trn3"), default="trn2")
    parser.add_argument(
        "--only", type=Path, metavar="FILE", help="run only the tests with the ids in FILE"
    )
    parser.add_argument(
        "--within", default="", metavar="FOLDER", help="run only the tests in FOLDER"
    )
    parser.add_argument("--all", action="store_true", help="also run tests with large shapes")
    parser.add_argument("--smallest", action="store_true", help="run one test of each function")
    parser.add_argument("--uninitialized", default="report", help="as in neuroncore.Options")
    parser.add_argument(
        "--replay", action="store_true", help="compare every launch with its replay"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--log", type=Path, help="write each outcome to this file")
    parser.add_argument("--resume", type=Path, metavar="LOG", help="continue with this log")
    given = parser.parse_args()
    if names := lacking(given):
        needs = f"{given.python} lacks {', '.join(names)}"
        listed = f"the extra `test` of {given.checkout / 'pyproject.toml'}"
        parser.exit(2, f"nki_library: {needs}; the suite's needs are {listed}\n")
    # end as on Ctrl-C, so that the workers end too
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as scratch:
        return told("nki_library", outcomes(given, Path(scratch)), given.json)


if __name__ == "__main__":
    raise SystemExit(main())
