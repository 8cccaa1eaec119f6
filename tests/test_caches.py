"""docs/caches.md names all caches of the package, and no others."""

import ast
import re
from pathlib import Path

import parsed
import pytest

pytestmark = pytest.mark.source

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "neuroncore"
PAGE = (ROOT / "docs/caches.md").read_text()
KEEPERS = {"cache", "lru_cache", "by_text", "by_site"}
TABLES = {"OrderedDict", "WeakKeyDictionary", "WeakValueDictionary"}


def _called(node):
    """The last part of the name that a decorator or a call refers to."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _is_memo(node):
    if isinstance(node, ast.FunctionDef):
        return any(_called(one) in KEEPERS for one in node.decorator_list)
    empty = isinstance(getattr(node, "value", None), ast.Dict) and not node.value.keys
    weak = isinstance(getattr(node, "value", None), ast.Call) and _called(node.value) in TABLES
    return isinstance(node, ast.AnnAssign) and (empty or weak)


def memos():
    """Yield (file, name) of functions whose results are cached, and of empty tables of modules."""
    for file in sorted(PACKAGE.rglob("*.py")):
        where = file.relative_to(PACKAGE).as_posix()
        functions = [n for n in parsed.nodes(file) if isinstance(n, ast.FunctionDef)]
        nodes = functions + parsed.tree(file).body
        for node in filter(_is_memo, nodes):
            yield where, node.name if isinstance(node, ast.FunctionDef) else node.target.id


def test_the_page_names_every_memo():
    listed = set(re.findall(r"`([\w/]+\.py)` `(\w+)`", PAGE))
    assert sorted(set(memos()) - listed) == []


def test_everything_that_the_page_of_caches_names_exists():
    for file, name in re.findall(r"`([\w/]+\.py)` `(\w+)`", PAGE):
        assert re.search(rf"\b{name}\b", (PACKAGE / file).read_text()), (file, name)
    for test in re.findall(r"`(tests/[\w/]+\.py)`", PAGE):
        assert (ROOT / test).exists(), test
