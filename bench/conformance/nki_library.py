"""nki-library's own test suite, unmodified, in its simulation mode.

    python bench/conformance/nki_library.py CHECKOUT [--python VENV/bin/python] [--platform trn2]
        [--only FILE | -k EXPRESSION | --all] [--workers 2] [--timeout 600] [--memory 8] [--json]
        [--log LOG] [--resume LOG]

runs what the suite's rules keep of it, cheap tests first, in processes with limits (see
nki_library_plugin.py). Python is one in whose environment are the suite's needs and neuroncore.
FILE has a test id per line. `--all` adds the tests that the suite skips for their size. LOG gets a
line of JSON per outcome; with `--resume`, what it has already is not run again. A test that expects
a refusal and gets one has passed.
"""

from __future__ import annotations

import argparse
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
from typing import Any

from outcome import Outcome, options, told

HERE = Path(__file__).resolve().parent
REPRODUCIBLE = {"PYTHONHASHSEED": "0", "NEURON_PYTHONHASHSEED": "0"}  # the suite draws tests by it
NOT_LOST = (0, 1, 2, 5)  # pytest ran; tests or modules may have failed, or there were none
EVERYTHING = {"NKILIB_SIMULATION_RUN_ALL": "1"}


def outcomes(given: argparse.Namespace, scratch: Path) -> Iterator[Outcome]:
    """Those in the log first, then each as it comes."""
    log = (given.resume or given.log or scratch / "log.jsonl").resolve()
    if given.resume is None:
        log.write_text("")
    with (scratch / "output").open("w+") as output:
        process = subprocess.Popen(
            _command(given, scratch),
            env=_environment(given, log),
            cwd=scratch,  # the suite writes where it is started
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield from _followed(log, process)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        if process.wait() not in NOT_LOST:
            output.seek(0)
            last = output.read().strip().splitlines()[-1:]
            yield Outcome("(the suite)", "failed", f"pytest: {' '.join(last)}")


def _command(given: argparse.Namespace, scratch: Path) -> list[str]:
    command = [given.python, "-m", "pytest", str(given.checkout.resolve() / "test/integration")]
    command += ["-p", "nki_library_plugin", "-p", "no:cacheprovider", "-q", "--capture=sys"]
    command += ["--continue-on-collection-errors", "--test-mode", "simulation"]
    command += ["--platform-target", given.platform, "--force-local-cleanup"]
    command += ["--output-directory", str(scratch / "artifacts")]
    return [*command, "-k", given.k] if given.k else command


def _environment(given: argparse.Namespace, log: Path) -> dict[str, str]:
    checkout = given.checkout.resolve()
    alias = [given.python, "-m", "neuroncore", "alias-path"]
    found = subprocess.run(alias, capture_output=True, text=True, check=True).stdout.strip()
    folders = [found, HERE / "shims", HERE, checkout / "src", checkout]
    if before := os.environ.get("PYTHONPATH"):
        folders.insert(0, before)
    settings: dict[str, Any] = {
        "log": str(log),
        "workers": given.workers,
        "seconds": given.timeout,
        "gigabytes": given.memory,
        "only": str(given.only.resolve()) if given.only else "",
    }
    return {
        **REPRODUCIBLE,
        **os.environ,
        **(EVERYTHING if given.all else {}),
        "PYTHONPATH": os.pathsep.join(map(str, folders)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "NKI_LIBRARY_RUN": json.dumps(settings),
        "NKI_LIBRARY_UNINITIALISED": given.uninitialised,
    }


def _followed(log: Path, process: subprocess.Popen[bytes]) -> Iterator[Outcome]:
    with log.open() as lines:
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


def main() -> int:
    parser = options(__doc__, "checkout")
    parser.set_defaults(timeout=600.0, memory=8.0)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--platform", choices=("trn2", "trn3"), default="trn2")
    parser.add_argument("--only", type=Path, metavar="FILE", help="only the test ids in it")
    parser.add_argument("--all", action="store_true", help="large shapes as well")
    parser.add_argument("--uninitialised", default="report", help="as in neuroncore.Options")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--log", type=Path, help="where outcomes go as they come")
    parser.add_argument("--resume", type=Path, metavar="LOG", help="a log to go on with")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as on Ctrl-C, workers end with us
    with tempfile.TemporaryDirectory() as scratch:
        return told("nki_library", outcomes(given, Path(scratch)), given.json)


if __name__ == "__main__":
    raise SystemExit(main())
