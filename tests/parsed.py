"""Python files as trees, which several tests of the source tree look through."""

import ast
from functools import cache


@cache
def tree(path):
    """The syntax tree of a file, parsed once. Nobody changes it."""
    return ast.parse(path.read_text("utf-8"))


@cache
def nodes(path):
    """All nodes of a file."""
    return [*ast.walk(tree(path))]
