"""`import nki` imports neuroncore's API in every test, and hypothesis draws the same examples on
every machine."""

import gc
import json
import os
import sys
from collections import defaultdict
from pathlib import Path

import hypothesis
import pytest

import neuroncore
from neuroncore.base import errors
from neuroncore.core import core, legality
from neuroncore.memory.geometry import View

neuroncore.activate()
# Byte code is kept whatever the environment says, as numba's machine code is: without it, compiling
# the tests takes longer than most of them do, and so does each process that they start.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# lines that only a slow machine has; some tests ask for them
os.environ["NEURONCORE_PROGRESS"] = "0"
os.environ["NEURONCORE_ASSERTS"] = "1"
hypothesis.settings.register_profile("neuroncore", deadline=None, derandomize=True, max_examples=40)
hypothesis.settings.load_profile("neuroncore")

COVERED = Path(__file__).parent / "data/covered.json"


def computes(*_, **__):
    """Raises an error instead of making cores and errors while tests are collected."""
    raise RuntimeError(
        "this runs or checks instructions when it is imported, in each process that collects "
        "tests; parametrize over names, and compute inside"
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    with pytest.MonkeyPatch.context() as patch:
        for kind in (core.Core, errors.KernelError):
            patch.setattr(kind, "__init__", computes)
        return (yield)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Each worker runs whole files, so that fixtures and caches of a file are made once."""
    from xdist.scheduler import LoadFileScheduling

    return LoadFileScheduling(config, log) if config.getoption("dist") == "load" else None


def pytest_collection_finish(session):
    """Tests live until the end, so the garbage collector need not visit them again. Their objects
    are small and short-lived, so it runs much less often than by default."""
    gc.freeze()
    gc.set_threshold(200_000, 50, 100)


def pytest_addoption(parser):
    parser.addoption(
        "--covered",
        action="store_true",
        help="note which instruction was issued with which format on which machine",
    )


def pytest_configure(config):
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        # Tests name pages and kernels by paths from there. The process that starts workers of xdist
        # stays, because workers read the paths of its arguments from its folder.
        os.chdir(Path(__file__).parents[1])
    if config.getoption("--covered"):
        if config.getoption("numprocesses", None):
            raise pytest.UsageError("--covered needs one process: leave out -n")
        legality.KNOWN_MOST = 1 << 30  # drop nothing


def pytest_sessionfinish(session):
    if not session.config.getoption("--covered"):
        return
    found = defaultdict(lambda: defaultdict(set))
    for call in legality.known.values():
        formats = {v.dtype.name for v in call.arguments.values() if isinstance(v, View)}
        found[call.name][call.machine.name] |= formats
    table = {n: {m: sorted(f) for m, f in sorted(row.items())} for n, row in sorted(found.items())}
    rows = ",\n".join(f" {json.dumps(n)}: {json.dumps(row)}" for n, row in table.items())
    COVERED.write_text(f"{{\n{rows}\n}}\n")
