"""The text of the user's kernel where something happened: the call, its arguments, and the node
that uses a value. Files are parsed on demand."""

from __future__ import annotations

import ast
import linecache
import opcode
import textwrap
from collections.abc import Callable
from functools import wraps
from types import CodeType, FrameType
from typing import Any, NamedTuple, TypeVar

from neuroncore.base import source
from neuroncore.base.source import Place

T = TypeVar("T")
MISSING = object()


def by_site(made_of: Callable[[FrameType], T]) -> Callable[[FrameType], T]:
    """Keep the result of a function of a frame, by the frame's code and current instruction. The
    result must depend on nothing else of the frame."""
    kept: source.Sites[Any] = source.Sites()

    @wraps(made_of)
    def function(frame: FrameType) -> T:
        known: Any = kept.get(id(frame.f_code) + frame.f_lasti, MISSING)
        if known is MISSING:
            known = kept.keep(frame.f_code, frame.f_lasti, made_of(frame))
        result: T = known
        return result

    return function


Span = tuple[int | None, ...]  # first line and column, last line and column, in bytes


def span(frame: FrameType) -> Span:
    """The span of the text that a frame is at."""
    line, end_line, column, end_column = source.span(frame.f_code, frame.f_lasti)
    return line, column, end_line, end_column


@by_site
def user_of_value(frame: FrameType) -> ast.AST | None:
    """The node of the source that uses the value of the expression that a frame is at."""
    return _parents(frame.f_code.co_filename).get(span(frame))


BETWEEN = frozenset(
    opcode.opmap[name] for name in ("EXTENDED_ARG", "COPY", "TO_BOOL") if name in opcode.opmap
)
COMPARISON = opcode.opmap["COMPARE_OP"]


TESTS = ast.If | ast.IfExp | ast.While | ast.Assert | ast.BoolOp | ast.UnaryOp | ast.comprehension


class Question(NamedTuple):
    """Nodes of the source: an expression, and the node that tests its truth, such as an `if` or an
    `and`. Both are None without the source."""

    of: ast.AST | None
    by: ast.AST | None

    @property
    def tests_truth(self) -> bool:
        """Return whether the node needs a truth value, such as an `if`; a call does not."""
        return isinstance(self.by, TESTS)


@by_site
def question(frame: FrameType) -> Question:
    """Return the expression whose truth a frame asks for.

    Python 3.11 gives a jump the span of the whole statement, and later releases the span of the
    value, so the instruction before the jump finds the expression. Since Python 3.13 a comparison
    may also ask for the truth of its result.
    """
    at, written = frame.f_lasti, frame.f_code.co_code
    if written[at] != COMPARISON:
        at -= 2
        while written[at] in BETWEEN:
            at -= 2
    line, end_line, column, end_column = source.span(frame.f_code, at)
    where = line, column, end_line, end_column
    by = _parents(frame.f_code.co_filename).get(where)
    children = ast.iter_child_nodes(by) if by is not None else ()
    of = next((one for one in children if lies(one) == where), None)
    return Question(of, by)


def lies(node: ast.AST) -> Span:
    """The span of a node."""
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
    return caller is not None and not source.is_ours(caller) and is_assigned(caller)


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
        lies(value): node
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
    """Return the call that a bytecode instruction makes; None if it makes none, or if the source is
    missing."""
    return _calls(code.co_filename).get(source.span(code, instruction))


@by_text
def _calls(file: str) -> dict[tuple[int | None, ...], ast.Call]:
    return {
        (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset): node
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Call)
    }


def conjuncts(frame: FrameType) -> list[Any]:
    """Return the values of all comparisons of the expression `a < b and c < d` that a frame is
    evaluating. The list is empty if the frame evaluates no such expression, or if the expression
    joins anything but comparisons."""
    where = source.span(frame.f_code, frame.f_lasti)
    values = _conjunctions(frame.f_code.co_filename).get(where, [])
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
    """Return the place of a parameter in the definition of its function; None if the file does not
    have it any more."""
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


def argument(where: Place, name: str, position: int | None) -> Place:
    """Return the span of one argument of the call at `where`; the span of the whole call if the
    argument cannot be found."""
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
        source.characters(lines[node.lineno - 1], node.col_offset) + shift,
        where.line + node.end_lineno - 1,
        source.characters(lines[node.end_lineno - 1], node.end_col_offset) + end_shift,
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
