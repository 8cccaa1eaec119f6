"""Finds syntax nodes in the user's kernel: the call at a place, the arguments of a call, and the
node that uses a value.

A file is parsed when its syntax is first needed."""

from __future__ import annotations

import ast
import linecache
import opcode
import textwrap
from collections.abc import Callable
from functools import wraps
from operator import attrgetter
from types import CodeType, FrameType
from typing import Any, NamedTuple, TypeVar

from neuroncore.base import source
from neuroncore.base.source import Place

T = TypeVar("T")
MISSING = object()


def by_site(compute: Callable[[FrameType], T]) -> Callable[[FrameType], T]:
    """Decorate a function of a frame so that its results are cached by the frame's code and current
    instruction. The result must not depend on anything else in the frame."""
    kept: source.Sites[Any] = source.Sites()

    @wraps(compute)
    def function(frame: FrameType) -> T:
        known: Any = kept.get(id(frame.f_code) + frame.f_lasti, MISSING)
        if known is MISSING:
            known = kept.keep(frame.f_code, frame.f_lasti, compute(frame))
        result: T = known
        return result

    return function


Span = tuple[int | None, ...]  # first line and column, last line and column, in bytes
# the span of an expression or a statement
SPAN = attrgetter("lineno", "col_offset", "end_lineno", "end_col_offset")


def span(frame: FrameType) -> Span:
    """Return the source span of the instruction that a frame is executing."""
    line, end_line, column, end_column = source.span(frame.f_code, frame.f_lasti)
    return line, column, end_line, end_column


@by_site
def user_of_value(frame: FrameType) -> ast.AST | None:
    """Return the syntax node that uses the value of the expression that a frame is evaluating.
    Return None if there is no such node or no source text."""
    return _parents(frame.f_code.co_filename).get(span(frame))


BETWEEN = frozenset(
    opcode.opmap[name] for name in ("EXTENDED_ARG", "COPY", "TO_BOOL") if name in opcode.opmap
)
COMPARISON = opcode.opmap["COMPARE_OP"]


TESTS = ast.If | ast.IfExp | ast.While | ast.Assert | ast.BoolOp | ast.UnaryOp | ast.comprehension


class Question(NamedTuple):
    """A test of the truth of a value.

    `of` is the tested expression. `by` is the node that tests it, such as an `if` or an `and`. Both
    are None if there is no source text."""

    of: ast.AST | None
    by: ast.AST | None

    @property
    def tests_truth(self) -> bool:
        """True if the node needs a truth value. An `if` needs one; a call does not."""
        return isinstance(self.by, TESTS)


@by_site
def question(frame: FrameType) -> Question:
    """Return the expression whose truth a frame is testing, and the node that tests it.

    The frame is executing a jump. In Python 3.11 its span is the whole statement, and later only
    the tested value. So the instruction before the jump is used. Since Python 3.13, the frame may
    also be executing a comparison, which tests its own result."""
    at, written = frame.f_lasti, frame.f_code.co_code
    if written[at] != COMPARISON:
        at -= 2
        while written[at] in BETWEEN:
            at -= 2
    line, end_line, column, end_column = source.span(frame.f_code, at)
    where = line, column, end_line, end_column
    by = _parents(frame.f_code.co_filename).get(where)
    children = ast.iter_child_nodes(by) if by is not None else ()
    of = next((child for child in children if node_span(child) == where), None)
    if written[at] == COMPARISON and isinstance(of, ast.UnaryOp):
        return Question(of.operand, of)  # the span of a comparison after `not` includes the `not`
    return Question(of, by)


def node_span(node: ast.AST) -> Span:
    """Return the source span of a node."""
    where = ("lineno", "col_offset", "end_lineno", "end_col_offset")
    return tuple(getattr(node, name, None) for name in where)


def is_assigned(frame: FrameType) -> bool:
    """Return whether the current statement of a frame stores the current value by `t[...] = value`
    or an operator such as `+=`. If it returns the value, the calling frame decides. Without source,
    return True."""
    stored = _is_stored(frame)
    if stored is not None:
        return stored
    caller = frame.f_back
    return caller is not None and not source.is_ours(caller) and is_assigned(caller)


@by_site
def _is_stored(frame: FrameType) -> bool | None:
    """Return whether the statement that a frame is executing stores the value of its current
    expression, as in `t[...] = value` or `t += value`. Return None if the statement returns the
    value, and True if there is no source text."""
    match user_of_value(frame):
        case None | ast.Assign(targets=[ast.Subscript()]) | ast.AugAssign():
            return True
        case ast.Return() | ast.Lambda():
            return None
    return False


FILES = 64  # the largest number of files whose results are kept


def by_text(compute: Callable[[str], T]) -> Callable[[str], T]:
    """Decorate a function of a file so that its results are cached by the text of the file.

    The text is compared because a file may be edited and imported again, and because a new notebook
    cell may have the name of another cell. The results for the last FILES files are kept."""
    kept: dict[str, tuple[list[str], T]] = {}

    @wraps(compute)
    def function(file: str) -> T:
        lines, known = linecache.getlines(file), kept.pop(file, None)
        if known is None or known[0] != lines:
            known = lines, compute(file)
        kept[file] = known
        if len(kept) > FILES:
            del kept[next(iter(kept))]
        return known[1]

    return function


@by_text
def _parents(file: str) -> dict[tuple[int | None, ...], ast.AST]:
    """Return the node that uses the value of each expression in a file, by the span of the
    expression.

    An `assert` is also listed under its own span, because pytest rewrites asserts, and then the
    tested expression has the span of the whole statement."""
    users: dict[tuple[int | None, ...], ast.AST] = {}
    nodes: list[ast.AST] = [tree(file)]
    for node in nodes:  # the list grows, so that the children of each node are listed only once
        if isinstance(node, ast.Assert):
            users[SPAN(node)] = node
        for child in ast.iter_child_nodes(node):
            nodes.append(child)
            if isinstance(child, ast.expr):
                users[SPAN(child)] = node
    return users


@by_text
def tree(file: str) -> ast.Module:
    """Return the syntax tree of a file, empty if the source text is missing or invalid."""
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return ast.Module([], [])


def call(code: CodeType, instruction: int) -> ast.Call | None:
    """Return the syntax node of the call that a bytecode instruction makes. Return None if it makes
    no call, or if there is no source text."""
    return _calls(code.co_filename).get(source.span(code, instruction))


@by_text
def _calls(file: str) -> dict[tuple[int | None, ...], ast.Call]:
    return {
        (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset): node
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Call)
    }


def conjuncts(frame: FrameType) -> list[Any]:
    """Return the values of the comparisons in an expression such as `a < b and c < d` that a frame
    is evaluating. The list is empty for another expression, or if an operand of the `and` is not a
    comparison."""
    where = source.span(frame.f_code, frame.f_lasti)
    values = _conjunctions(frame.f_code.co_filename).get(where, [])
    return [eval(code, frame.f_globals, frame.f_locals) for code in values]


@by_text
def _conjunctions(file: str) -> dict[tuple[int | None, ...], list[CodeType]]:
    """Return the compiled comparisons of each expression with `and` in a file, by the span of the
    expression. All operands of the `and` must be comparisons."""
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
    """Return the place of the parameter `name` in the definition of the function with this code, or
    None if the file no longer contains the function."""
    for node in ast.walk(tree(code.co_filename)):
        if not isinstance(node, ast.FunctionDef) or node.name != code.co_name:
            continue
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        arguments = node.args
        for argument_node in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if first == code.co_firstlineno and argument_node.arg == name:
                end = (
                    argument_node.end_lineno or argument_node.lineno,
                    argument_node.end_col_offset or argument_node.col_offset,
                )
                return Place(
                    code.co_filename,
                    argument_node.lineno,
                    argument_node.col_offset,
                    *end,
                    node.name,
                )
    return None


def argument(where: Place, name: str, position: int | None) -> Place:
    """Return the place of one argument of the call at `where`: the keyword `name`, or the argument
    at `position`. If it can't be found, return the place of the whole call."""
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
    if any(isinstance(passed, ast.Starred) for passed in call.args[: position + 1]):
        return None
    return call.args[position]
