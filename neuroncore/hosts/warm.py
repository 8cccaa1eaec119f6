"""Loads everything that is otherwise loaded at its first use: instructions, compiled loops, and
modules that read records."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from neuroncore.base.errors import KernelError
from neuroncore.frontend import alias
from neuroncore.hosts.api import Run, run
from neuroncore.numerics.formats import bfloat16, float32
from neuroncore.record import saved
from neuroncore.replay import batches
from neuroncore.report import loops

# Modules that Python, numpy and neuroncore import only when they first need them. Such an import
# fails in a process that may not open files any more.
LATE = (
    *("importlib.readers", "importlib.resources", "linecache", "traceback", "difflib", "socket"),
    *("neuroncore.replay.cursor", "neuroncore.report.why", "multiprocessing.shared_memory"),
)
# Kernels of the chapters with small shapes. Together they use most instructions.
KERNELS = (
    ("ch01_add", "add", float32, ((128, 64), (128, 64))),
    ("ch02_softmax", "softmax", float32, ((128, 64),)),
    ("ch03_rmsnorm", "rmsnorm", float32, ((128, 64), (64,))),
    ("ch05_matmul", "blocked", bfloat16, ((128, 512), (128, 512))),
    ("ch05_matmul", "blocked", float32, ((128, 512), (128, 512))),
    ("ch07_attention", "attention", float32, ((128, 128), (128, 128), (128, 128))),
)


def warm(target: str = "trn2") -> None:
    """Load everything that the first run of a kernel loads. Later runs in this process and in its
    forks load nothing more. This takes some seconds. Raises UsageError for an unknown target."""
    for name in LATE:
        importlib.import_module(name)
    with alias.activated():
        for finished_run in _runs(target):
            saved.packed(finished_run.record, arrays=False)
            finished_run.replay()
            _ = finished_run.estimate, finished_run.findings, finished_run.summary
        _refused(target)
    batches.load()
    loops.distance(np.ones(1, np.float32), np.ones(1, np.float32))


def _runs(target: str) -> Iterator[Run]:
    for chapter, kernel, form, shapes in KERNELS:
        module = importlib.import_module(f"neuroncore.kernels.{chapter}")
        arrays = [np.ones(shape, form.numpy) for shape in shapes]
        yield run(getattr(module, kernel), *arrays, target=target)


def _refused(target: str) -> None:
    """Launch a kernel that raises an error, because error messages load modules too."""
    module: Any = importlib.import_module("neuroncore.kernels.ch01_add")
    try:
        run(module.add, np.ones((128, 8), np.float32), np.ones((64, 4), np.float32), target=target)
    except KernelError as error:
        str(error)
