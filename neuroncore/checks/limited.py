"""`python -m neuroncore.checks.limited BYTES WORD ...`: the command line, in a process with
that limit of address space."""

from __future__ import annotations

import contextlib
import runpy
import sys

if __name__ == "__main__":
    _, memory, *words = sys.argv
    with contextlib.suppress(ImportError, ValueError):  # Windows has no such limits, macOS refuses
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
    sys.argv = ["neuroncore", *words]
    runpy.run_module("neuroncore", run_name="__main__")
