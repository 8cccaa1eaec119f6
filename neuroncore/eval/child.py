"""The work of a candidate's process. The process runs the kernel on public inputs, and its answer
contains the records of the runs, without the contents of arrays. A case is one shape of the
specification with its inputs."""

from __future__ import annotations

import linecache
import sys
import types
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from neuroncore.base.errors import KernelError
from neuroncore.base.options import Options
from neuroncore.eval import answers
from neuroncore.eval.spec import Spec, split
from neuroncore.hosts import api
from neuroncore.memory.register import deciding
from neuroncore.record import saved

FILE = "candidate.py"


class Request(NamedTuple):
    """A request to run a candidate.

    `source`: the candidate's source
    `case`: the index of the case on which the candidate runs; None for all cases
    `decisions`: the values on which the kernel's loops and conditions depend, in the order of use.
        The device computes them."""

    source: str
    case: int | None = None
    decisions: tuple[int, ...] = ()


class Task(NamedTuple):
    """The settings that all candidates for a specification share.

    `entry`: the names that the kernel may have
    `cases`: the public arguments for each shape
    `prelude`: the source that is executed before the candidate's source
    `keywords`: the names of the last arguments, which are passed by keyword

    There are also the machine and the options of the run."""

    entry: tuple[str, ...]
    target: str
    options: Options
    cases: Sequence[tuple[Any, ...]]
    prelude: str = ""
    keywords: tuple[str, ...] = ()

    @classmethod
    def of(cls, spec: Spec, cases: Sequence[tuple[Any, ...]]) -> Self:
        """Return the task for a specification. `cases` lists the public arguments for each
        shape."""
        entry, keywords = tuple(spec.entry), tuple(spec.keywords)
        return cls(entry, spec.target, spec.options, cases, spec.prelude, keywords)

    def answer(self, request: Request) -> bytes:
        """Run a candidate, and return the bytes of the answer: the records of the runs, or an
        exception that the candidate raised. `Request` explains `decisions`."""
        cases = self.cases if request.case is None else [self.cases[request.case]]
        return answer(request.source, self._replace(cases=cases), request.decisions)


def answer(source: str, task: Task, decisions: Sequence[int]) -> bytes:
    """Run a candidate, and return the bytes of the answer. It contains the records of the runs, or
    an exception that the candidate raised. `decisions` is explained at `Request`."""
    try:
        return answers.encoded(answers.RECORDS, _records(source, task, decisions))
    except MemoryError:
        return answers.error({"code": "MEMORY", "message": "the candidate uses too much memory"})
    except BaseException as error:
        return answers.error(_error_fields(error))


def _records(source: str, task: Task, decisions: Sequence[int]) -> list[bytes]:
    module = types.ModuleType("candidate")
    module.__file__ = FILE
    sys.modules["candidate"] = module
    linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
    exec(task.prelude, module.__dict__)
    exec(compile(source, FILE, "exec"), module.__dict__)
    kernel = next((vars(module)[name] for name in task.entry if name in vars(module)), None)
    if kernel is None:
        raise LookupError(f"the file defines no {' or '.join(task.entry)}")
    records = []
    for arguments in task.cases:
        positional, named = split(arguments, task.keywords)
        with deciding(decisions):
            run = api.run(kernel, *positional, target=task.target, options=task.options, **named)
        records.append(saved.packed(run.record, arrays=False))
    return records


def _error_fields(error: BaseException) -> dict[str, Any]:
    """Return the code, the message, the hint and the line of an error."""
    code = error.code if isinstance(error, KernelError) else type(error).__name__
    message = getattr(error, "statement", None) or str(error)
    line = _line(error)
    return {"code": code, "message": message, "hint": getattr(error, "hint", None), "line": line}


def _line(error: BaseException) -> int | None:
    if isinstance(error, KernelError) and error.place is not None:
        return error.place.line
    if isinstance(error, SyntaxError):
        return error.lineno
    trace, line = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == FILE:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
