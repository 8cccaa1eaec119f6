"""Where in the user's kernel something happened: file, line, columns and call stack."""

from __future__ import annotations

import ast
import linecache
import opcode
import os.path
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import wraps
from itertools import islice
from types import CodeType, FrameType, TracebackType
from typing import Any, NamedTuple, TypeVar

from neuroncore.base.sites import Sites
from neuroncore.base.structs import dataclass


@dataclass(frozen=True)
class Place:
    """A span of source text; columns count characters from 0, `end_column` is exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    function: str

    @property
    def text(self) -> str:
        return linecache.getline(self.file, self.line).rstrip("\n")

    def __str__(self) -> str:
        return self._spelt(self.file)

    @property
    def short(self) -> str:
        """Without the folder."""
        return self._spelt(os.path.basename(self.file))

    def _spelt(self, file: str) -> str:
        cell = cell_name(self.file) if cell_name is not None else None
        return f"{file}:{self.line}" if cell is None else f"{cell}, line {self.line}"


# What a notebook calls the cell that a file stands for, None for a file, where there is a notebook.
cell_name: Callable[[str], str | None] | None = None


_our_code: dict[int, CodeType] = {}  # by id, and so kept: torch makes and drops code
_users_code: dict[int, CodeType] = {}  # by id, and so kept
# numpy may call the emulator for a kernel, and what torch.compiler.disable makes calls kernels.
OURS = ("neuroncore.", "numpy.", "torch._dynamo.")
MACHINERY = (
    *("runpy", "threading", "importlib._bootstrap", "importlib._bootstrap_external"),
    *("IPython.core.interactiveshell", "_pytest.python"),
)


def is_ours(frame: FrameType) -> bool:
    """Return whether a frame runs the emulator, or code that may come between it and the user's
    code. The chapters of `neuroncore.kernels` count as the user's code."""
    if id(frame.f_code) in _our_code:
        return True
    name: str = frame.f_globals.get("__name__", "")
    ours = name.startswith(OURS) and not name.startswith("neuroncore.kernels")
    if ours and id(frame.f_code) not in _doors:
        _keep_code(_our_code, frame.f_code)
    return ours


def is_users(frame: FrameType) -> bool:
    """Return whether a frame is neither neuroncore's nor code that starts programs, starts threads
    or imports modules."""
    return not is_ours(frame) and frame.f_globals.get("__name__", "") not in MACHINERY


_doors: set[int] = set()  # ids of code objects: whoever calls these is not the user's kernel


def door(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark an entry point of neuroncore: its callers are not the user's kernel."""
    _doors.add(id(function.__code__))
    return function


def user_frame() -> FrameType | None:
    """The innermost frame that runs the user's code, or None."""
    return user_above(sys._getframe(1))


def user_above(frame: FrameType | None) -> FrameType | None:
    """The innermost frame that runs the user's code, from this one on, or None."""
    ours, users = _our_code, _users_code
    while frame is not None:
        code = frame.f_code
        if id(code) not in ours:  # which costs less than a call, for most of the way
            if users.get(id(code)) is code:
                return frame
            if id(code) in _doors:
                return None
            if not is_ours(frame):
                _keep_code(users, code)
                return frame
        frame = frame.f_back
    return None


def user_level() -> int:
    """How many frames below the function that warns the user's code is."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and is_ours(frame):
        frame, level = frame.f_back, level + 1
    return level


# A frame and an earlier bytecode instruction of it, while what that called for is done.
resumed: ContextVar[tuple[FrameType, int] | None] = ContextVar("resumed", default=None)


def instruction_of(frame: FrameType) -> int:
    """The byte offset of the instruction that a frame is at."""
    there = resumed.get()
    return there[1] if there is not None and there[0] is frame else frame.f_lasti


def site(frame: FrameType | None) -> tuple[CodeType, int] | None:
    """Where a frame is, as `place` takes it."""
    return None if frame is None else (frame.f_code, instruction_of(frame))


def _span(code: CodeType, instruction: int) -> tuple[int | None, ...]:
    """First line, last line, first column and last column, in bytes."""
    spans = islice(code.co_positions(), instruction // 2, None)
    return next(spans, (None, None, None, None))


CODES = 4096  # tuners make and drop kernels without end
_places: Sites[Place] = Sites(CODES)  # equal code objects may be of different files


def _keep_code(kept: dict[int, CodeType], code: CodeType) -> None:
    """Remember a code object by its id, which stays its own while the object is kept."""
    if len(kept) >= CODES:
        kept.clear()
    kept[id(code)] = code


def place(code: CodeType, instruction: int) -> Place:
    """The source span of the bytecode instruction at byte offset `instruction`."""
    known = _places.at(code, instruction)
    return known or _places.keep(code, instruction, _place(code, instruction))


def _place(code: CodeType, instruction: int) -> Place:
    line, end_line, column, end_column = _span(code, instruction)
    line = line or code.co_firstlineno
    end_line = end_line or line
    start = _characters(linecache.getline(code.co_filename, line), column or 0)
    end = _characters(linecache.getline(code.co_filename, end_line), end_column or 0)
    return Place(code.co_filename, line, start, end_line, end, code.co_name)


def _characters(text: str, column: int) -> int:
    """A column in characters; Python counts bytes of UTF-8."""
    return len(text.encode()[:column].decode(errors="ignore")) if text else column


Visit = tuple[CodeType, int, dict[str, int]]


def visits() -> list[Visit]:
    """The user's frames inside the kernel, innermost first: what `place` takes, and the integer
    variables as they are now.

    It ends where our own code called the kernel.
    """
    found: list[Visit] = []
    frame = user_frame()
    while frame is not None and is_users(frame):
        found.append((frame.f_code, instruction_of(frame), _variables(frame)))
        frame = frame.f_back
    return found


Frames = list[tuple[FrameType, int]]


def _through(trace: TracebackType | None) -> Frames:
    """The frames of the user's that an error came through, innermost first, each with the byte
    offset of its instruction: those inside the kernel, if it came out of one."""
    found: Frames = []
    links = reversed([(link.tb_frame, link.tb_lasti) for link in _links(trace)])
    for frame, instruction in links:
        if is_users(frame):
            found.append((frame, instruction))
        elif found and is_ours(frame):
            break
    return found


def _links(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def innermost(trace: TracebackType | None) -> tuple[FrameType | None, int]:
    """The innermost frame of the user's that an error came through, and its instruction."""
    found = _through(trace)
    return found[0] if found else (None, 0)


def innermost_place(trace: TracebackType | None) -> Place | None:
    """The place of the innermost frame of the user's that an error came through."""
    frame, instruction = innermost(trace)
    return None if frame is None else place(frame.f_code, instruction)


def visits_of(trace: TracebackType | None) -> list[Visit]:
    """As `visits`, of an error that has left them."""
    return [(frame.f_code, at, _variables(frame)) for frame, at in _through(trace)]


def _variables(frame: FrameType) -> dict[str, int]:
    return {} if frame.f_code.co_name == "<module>" else _integers(frame)


def _integers(frame: FrameType) -> dict[str, int]:
    """Integers, and loop variables that are integers; booleans are left out."""
    values = frame.f_locals.items()
    numbers = {n: v for n, v in values if isinstance(v, int) and not isinstance(v, bool)}
    return {n: int(v) for n, v in numbers.items() if not n.startswith("_")}


T = TypeVar("T")
MISSING = object()


def by_site(made_of: Callable[[FrameType], T]) -> Callable[[FrameType], T]:
    """Keep the result of a function of a frame, by the frame's code and current instruction. The
    result must depend on nothing else of the frame."""
    kept: Sites[Any] = Sites()

    @wraps(made_of)
    def function(frame: FrameType) -> T:
        known: Any = kept.get(id(frame.f_code) + frame.f_lasti, MISSING)
        if known is MISSING:
            known = kept.keep(frame.f_code, frame.f_lasti, made_of(frame))
        result: T = known
        return result

    return function


@by_site
def user_of_value(frame: FrameType) -> ast.AST | None:
    """The node of the source that uses the value of the expression that a frame is at."""
    line, end_line, column, end_column = _span(frame.f_code, frame.f_lasti)
    parents = _parents(frame.f_code.co_filename)
    return parents.get((line, column, end_line, end_column))


BETWEEN = frozenset(
    opcode.opmap[name] for name in ("EXTENDED_ARG", "COPY", "TO_BOOL") if name in opcode.opmap
)


class Question(NamedTuple):
    """Nodes of the source: an expression, and what asks whether its value is true, such as an `if`
    or an `and`. Both are None without the source."""

    of: ast.AST | None
    by: ast.AST | None


@by_site
def question(frame: FrameType) -> Question:
    """Return the expression whose truth a frame asks for.

    Python 3.11 gives a jump the span of the whole statement, and later releases the span of the
    value, so the instruction before the jump finds the expression.
    """
    at, written = frame.f_lasti - 2, frame.f_code.co_code
    while written[at] in BETWEEN:
        at -= 2
    line, end_line, column, end_column = _span(frame.f_code, at)
    span = line, column, end_line, end_column
    by = _parents(frame.f_code.co_filename).get(span)
    children = ast.iter_child_nodes(by) if by is not None else ()
    of = next((one for one in children if _lies(one) == span), None)
    return Question(of, by)


def _lies(node: ast.AST) -> tuple[int | None, ...]:
    where = ("lineno", "col_offset", "end_lineno", "end_col_offset")
    return tuple(getattr(node, name, None) for name in where)


def is_assigned(frame: FrameType) -> bool:
    """Return whether the value of the current expression of a frame is stored into a subscript
    next: `t[...] = value` or `t[...] += value`, also by the caller of a function that returns it.

    Without source text it may be, so the result is True.
    """
    stored = _is_stored(frame)
    if stored is not None:
        return stored
    caller = frame.f_back
    return caller is not None and not is_ours(caller) and is_assigned(caller)


@by_site
def _is_stored(frame: FrameType) -> bool | None:
    """Return whether the user of a frame's current value stores it into a subscript; None if the
    value is returned to the caller."""
    match user_of_value(frame):
        case None | ast.Assign(targets=[ast.Subscript()]) | ast.AugAssign():
            return True
        case ast.Return() | ast.Lambda():
            return None
    return False


FILES = 64  # of which something is kept


def by_text(made_of: Callable[[str], T]) -> Callable[[str], T]:
    """Keep the result of a function of a file's source while the file has that text: a file that is
    edited and imported again, or a new cell of the same name, has another text. Beyond FILES files
    the least recently used one is dropped."""
    kept: dict[str, tuple[list[str], T]] = {}

    @wraps(made_of)
    def function(file: str) -> T:
        lines, known = linecache.getlines(file), kept.pop(file, None)
        if known is None or known[0] != lines:
            known = lines, made_of(file)
        kept[file] = known
        if len(kept) > FILES:
            del kept[next(iter(kept))]
        return known[1]

    return function


@by_text
def _parents(file: str) -> dict[tuple[int | None, ...], ast.AST]:
    """The node that uses the value of each expression of a file, by the expression's span; pytest
    gives an `assert` a different span."""
    return {
        _lies(value): node
        for node in ast.walk(tree(file))
        for value in (node, *ast.iter_child_nodes(node))
        if isinstance(value, ast.expr if value is not node else ast.Assert)
    }


@by_text
def tree(file: str) -> ast.Module:
    """The syntax of a file; empty if there is no source text."""
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return ast.Module([], [])


def call(code: CodeType, instruction: int) -> ast.Call | None:
    """The call that a bytecode instruction makes; None if it makes none, or without the source."""
    return _calls(code.co_filename).get(_span(code, instruction))


@by_text
def _calls(file: str) -> dict[tuple[int | None, ...], ast.Call]:
    return {
        (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset): node
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Call)
    }


def conjuncts(frame: FrameType) -> list[Any]:
    """The values of all comparisons of the `a < b and c < d` that a frame is in the middle of; none
    if it isn't, or if that joins anything but comparisons."""
    span = _span(frame.f_code, frame.f_lasti)
    values = _conjunctions(frame.f_code.co_filename).get(span, [])
    return [eval(code, frame.f_globals, frame.f_locals) for code in values]


@by_text
def _conjunctions(file: str) -> dict[tuple[int | None, ...], list[CodeType]]:
    """The operands of each `and` of comparisons in a file, by the span of the whole."""
    return {
        (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset): [
            compile(ast.Expression(value), file, "eval") for value in node.values
        ]
        for node in ast.walk(tree(file))
        if isinstance(node, ast.BoolOp)
        and isinstance(node.op, ast.And)
        and all(isinstance(value, ast.Compare) for value in node.values)
    }


def parameter(code: CodeType, name: str) -> Place | None:
    """A parameter where its function is defined; None if the file has it no more."""
    for node in ast.walk(tree(code.co_filename)):
        if not isinstance(node, ast.FunctionDef) or node.name != code.co_name:
            continue
        first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
        given = node.args
        for one in (*given.posonlyargs, *given.args, *given.kwonlyargs):
            if first == code.co_firstlineno and one.arg == name:
                end = one.end_lineno or one.lineno, one.end_col_offset or one.col_offset
                return Place(code.co_filename, one.lineno, one.col_offset, *end, node.name)
    return None


def position(name: str) -> int | None:
    """The position of a parameter in the neuroncore function that the user's code called."""
    called, frame = None, sys._getframe(1)
    while frame.f_back is not None and is_ours(frame):
        called, frame = frame, frame.f_back
    if called is None:
        return None
    names = called.f_code.co_varnames[: called.f_code.co_argcount]
    return names.index(name) - (names[0] == "self") if name in names else None


def argument(where: Place, name: str, position: int | None) -> Place:
    """The span of one argument of the call at `where`; the whole call if the argument can't be
    found."""
    lines = [linecache.getline(where.file, n) for n in range(where.line, where.end_line + 1)]
    if not lines or not lines[0]:
        return where
    lines[-1] = lines[-1][: where.end_column]
    lines[0] = lines[0][where.column :]
    node = _call_argument("".join(lines), name, position)
    if node is None or node.end_lineno is None or node.end_col_offset is None:
        return where
    shift = where.column if node.lineno == 1 else 0
    end_shift = where.column if node.end_lineno == 1 else 0
    return Place(
        where.file,
        where.line + node.lineno - 1,
        _characters(lines[node.lineno - 1], node.col_offset) + shift,
        where.line + node.end_lineno - 1,
        _characters(lines[node.end_lineno - 1], node.end_col_offset) + end_shift,
        where.function,
    )


def _call_argument(text: str, name: str, position: int | None) -> ast.expr | None:
    try:
        call = ast.parse(textwrap.dedent(text), mode="eval").body
    except SyntaxError:
        return None
    if not isinstance(call, ast.Call):
        return None
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if position is None or position >= len(call.args):
        return None
    if any(isinstance(given, ast.Starred) for given in call.args[: position + 1]):
        return None
    return call.args[position]
