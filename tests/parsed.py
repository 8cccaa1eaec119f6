"""Python files as trees, for tests that read the source."""

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
