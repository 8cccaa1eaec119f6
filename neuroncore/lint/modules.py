"""Python files as text and syntax trees, the meanings of their names, and the names and parameters
of each release of the API. The files are not executed.

Release 0.1 is the older API: neuronxcc.nki of SDK 2.21 to 2.26. Release 0.2 is nki of SDK 2.27 and
2.28, and releases 0.3 to 0.6 are nki of SDK 2.29 to 2.32.

`api/signatures.json` lists the signatures of each name. A signature is the first and the last
release, and the parameters, with "=" after a parameter that has a default. The names and parameters
come from the reference pages of these SDKs, and from nki-library of the same SDK. Reference pages
before 0.3 omit many parameters that kernels use."""

from __future__ import annotations

import ast
import json
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from neuroncore.base.errors import UsageError, reading
from neuroncore.base.source import Place, encoding_error
from neuroncore.lint.syntax import DEFINITIONS, Definition, inside, name_of, statements

RELEASES = ("0.1", "0.2", "0.3", "0.4", "0.5", "0.6")
COMPLETE = "0.3"  # the first release whose SDK contains the declarations of the API
HOME = Path(__file__).with_name("api")
ROLES: Mapping[str, Any] = tomllib.loads((HOME / "roles.toml").read_text("utf-8"))


@dataclass(frozen=True)
class ApiSignature:
    """The parameters of a name from release `first` to release `last`; None if it isn't a
    function."""

    first: str
    last: str
    parameters: tuple[str, ...] | None

    def holds_in(self, release: str) -> bool:
        return self.first <= release <= self.last

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters, without the "=" that marks a default."""
        return tuple(parameter.rstrip("=") for parameter in self.parameters or ())

    @cached_property
    def required(self) -> tuple[str, ...]:
        """The names of the parameters without a default."""
        return tuple(
            parameter
            for parameter in self.parameters or ()
            if parameter[0] != "*" and parameter[-1] != "="
        )

    @cached_property
    def takes_any(self) -> bool:
        return self.parameters is None or any(
            parameter.startswith("**") for parameter in self.parameters
        )


@cache
def signatures() -> Mapping[str, Sequence[ApiSignature]]:
    """Return the signatures of all names in the API. The signatures of a name are sorted by
    release."""
    table = json.loads((HOME / "signatures.json").read_text("utf-8"))
    return {name: [_signature(*row) for row in rows] for name, rows in table.items()}


def _signature(first: str, last: str, parameters: str | None) -> ApiSignature:
    return ApiSignature(first, last, None if parameters is None else tuple(parameters.split()))


@cache
def signature_in(name: str, release: str) -> ApiSignature | None:
    """Return the signature of a name in a release, or None if no signature is known for this
    release."""
    return next(
        (signature for signature in signatures().get(name, ()) if signature.holds_in(release)), None
    )


def elsewhere(rows: Sequence[ApiSignature], release: str) -> str:
    """Return the releases of `rows` as text, such as "0.3 to 0.6", if `release` certainly has none
    of these signatures; otherwise "".

    This is certain for a release after the last signature. It is certain for a release before the
    first signature if that signature is later than COMPLETE, because older lists of releases are
    incomplete."""
    if not rows:
        return ""
    first, last = rows[0].first, rows[-1].last
    if last < release or first > max(release, COMPLETE):
        return first if first == last else f"{first} to {last}"
    return ""


def is_in(releases: str, release: str) -> bool:
    """Return whether a release is in a range such as "0.3-0.5", "0.3-" or "0.1"; "" contains all
    releases."""
    if not releases:
        return True
    first, dash, last = releases.partition("-")
    return first <= release <= (last or (RELEASES[-1] if dash else first))


API = ("nki", "neuronxcc.nki")
# Packages whose files are not read: kernels call none of their functions, or the functions are not
# the user's code.
NOT_KERNELS = {
    *sys.stdlib_module_names,
    *("neuroncore", "numpy", "ml_dtypes", "scipy", "torch", "jax", "jaxlib", "pytest"),
}


@dataclass(eq=False)
class Module:
    """A file that was read: its path, text and syntax tree."""

    path: Path
    tree: ast.Module

    @cached_property
    def folder(self) -> Path:
        return self.path.resolve().parent

    @cached_property
    def imports(self) -> dict[str, tuple[int, str]]:
        """The names that imports in the file bind: (dots of a relative import, dotted name that is
        imported)."""
        targets: dict[str, tuple[int, str]] = {}
        for node in statements(self.tree.body):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    whole = alias.name if alias.asname else alias.name.partition(".")[0]
                    targets[alias.asname or whole] = (0, whole)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    dotted = f"{node.module}.{alias.name}" if node.module else alias.name
                    targets[alias.asname or alias.name] = (node.level, dotted)
        return targets

    @cached_property
    def definitions(self) -> dict[str, Definition]:
        """The functions and classes at module level by name, also under an `if` or a `try`."""
        return {
            statement.name: statement
            for statement in _top(self.tree.body)
            if isinstance(statement, DEFINITIONS)
        }

    @cached_property
    def values(self) -> dict[str, ast.expr]:
        """The value that is assigned last to each name at module level."""
        assigned: dict[str, ast.expr] = {}
        for statement in _top(self.tree.body):
            if isinstance(statement, ast.Assign):
                assigned |= {
                    at.id: statement.value for at in statement.targets if isinstance(at, ast.Name)
                }
            elif (
                isinstance(statement, ast.AnnAssign)
                and statement.value
                and isinstance(statement.target, ast.Name)
            ):
                assigned[statement.target.id] = statement.value
        return assigned

    @cached_property
    def changed(self) -> frozenset[str]:
        """The global names that change under `if __name__ == "__main__"`, also in an element of the
        value."""
        runs = [
            statement
            for statement in self.tree.body
            if isinstance(statement, ast.If) and asks_if_run(statement.test)
        ]
        assigned: set[str] = set()
        for statement in statements([part for run in runs for part in run.body]):
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            targets = [statement.target] if isinstance(statement, ast.AugAssign) else targets
            assigned |= {(name_of(_root(target)) or "").partition(".")[0] for target in targets}
        outside = (statement for statement in self.tree.body if statement not in runs)
        defined = {
            name_of(target)
            for statement in _top([*outside])
            for target in (statement.targets if isinstance(statement, ast.Assign) else [])
        }
        return frozenset(assigned & defined)

    @cached_property
    def is_older(self) -> bool:
        """True if the file imports the older API (SDK 2.26 and earlier), and not today's API."""
        origins = [origin for _, origin in self.imports.values()]
        older = any(origin.startswith("neuronxcc.nki") for origin in origins)
        return older and not any(origin.partition(".")[0] == "nki" for origin in origins)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the file."""
        return inside(self.tree)

    def place(self, node: ast.AST, function: str = "") -> Place:
        """Return the place of a node in the function named `function`; for a definition only its
        first line."""
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        if isinstance(node, DEFINITIONS):  # only its first line
            return Place(str(self.path), line, column, line, column + len(node.name), function)
        end = getattr(node, "end_lineno", None) or line
        end_column = getattr(node, "end_col_offset", None) or column + 1
        return Place(str(self.path), line, column, end, end_column, function)


def asks_if_run(test: ast.expr) -> bool:
    """Return whether a condition tests `__name__`: whether the file is run or imported."""
    return any(isinstance(node, ast.Name) and node.id == "__name__" for node in inside(test))


def _root(target: ast.expr) -> ast.expr:
    while isinstance(target, ast.Subscript | ast.Starred):
        target = target.value
    return target


def _top(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a file that are outside all functions and classes."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.Try | ast.With | ast.For | ast.While):
            yield from _top(statement.body)
            yield from _top(getattr(statement, "orelse", []))
            for handler in getattr(statement, "handlers", []):
                yield from _top(handler.body)


def parsed(path: Path, strict: bool = False) -> Module:
    """Read a file as a Module. Raises UsageError if it can't be read, or isn't Python. With
    `strict`, bytes that Python can't decode are an error too: Python imports such a file, but does
    not run it."""
    with reading(path):
        content = path.read_bytes()
    if strict and (found := encoding_error(content)) is not None:
        raise UsageError(f"{path}:{found[0]}: {found[1]}")
    try:
        return Module(path, ast.parse(content, str(path)))
    except (MemoryError, RecursionError):  # Python raises these for very deep nesting
        raise UsageError(f"the code of {path} is nested too deeply to be read") from None
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        raise UsageError(f"{path}:{line}: {getattr(error, 'msg', error)}") from None


class Modules:
    """The checked file, and the files that it imports, directly or through other files.

    A file is read if a relative import names it, or if it is in the folder of the importing file or
    above. A file that is only on sys.path is read if it contains "nki"."""

    def __init__(self, first: Path) -> None:
        self.first = parsed(first, strict=True)
        self._read: dict[Path, Module | None] = {first.resolve(): self.first}
        self._known: dict[tuple[Module, str], object] = {}
        # names that are being looked up, to stop at cycles
        self._entered: set[tuple[Module, str]] = set()
        self._found: dict[tuple[Path, int, str], Module | None] = {}

    def meaning(self, module: Module, expression: ast.expr) -> object:
        """Return the meaning of a name, or of an attribute of a name, in a file; None for other
        expressions.

        It is a pair (Module, Definition) for a function or class in a file that was read. For other
        imports it is a dotted name, such as "nki.isa.iota" or "math.pi"."""
        dotted = name_of(expression)
        return None if dotted is None else self.meaning_of(module, dotted)

    def meaning_of(self, module: Module, dotted: str) -> object:
        """Return the meaning of a dotted name in a file, in the form that `meaning` returns."""
        if (module, dotted) not in self._known:
            self._known[module, dotted] = self._meaning(module, dotted)
        return self._known[module, dotted]

    def _meaning(self, module: Module, dotted: str) -> object:
        first, _, rest = dotted.partition(".")
        if not rest and first in module.definitions:
            return module, module.definitions[first]
        if first in module.values and first not in module.imports:
            return self._of_a_value(module, module.values[first], rest)
        if first not in module.imports and (whole := self._of_a_star(module, dotted)) is not None:
            return whole
        return self._imported(module, first, rest, 8)

    def _of_a_star(self, module: Module, dotted: str) -> str | None:
        """Return the API's name for a name that `from nki.language import *` binds; None for
        others."""
        _, origin = module.imports.get("*", (0, ""))
        known = of_the_api(origin.removesuffix("*") + dotted)
        return known if known in signatures() else None

    def _of_a_value(self, module: Module, value: ast.expr, rest: str) -> object:
        """Return the meaning of a name with this value, or of its attributes `rest`. It is known
        for another name, and for a call that makes a kernel or a partial function."""
        dotted = name_of(value)
        if isinstance(value, ast.Call) and value.args and not rest:
            maker = self.meaning(module, value.func)
            if maker == "functools.partial" or maker in ROLES["launchers"]:
                dotted = name_of(value.args[0])
        if dotted is None or (module, dotted) in self._entered:
            return None
        self._entered.add((module, dotted))
        meaning = self.meaning_of(module, f"{dotted}.{rest}" if rest else dotted)
        self._entered.discard((module, dotted))
        return meaning

    def is_bound(self, module: Module, expression: ast.expr) -> bool:
        """Return whether a name is the result of a call that may bind arguments, such as
        functools.partial(f, 1)."""
        visited: set[str | None] = set()
        while (name := name_of(expression)) in module.values and name not in module.imports:
            if name in visited:
                return False
            visited.add(name)
            expression = module.values[name]
        return isinstance(expression, ast.Call)

    def _imported(self, module: Module, first: str, rest: str, more: int) -> object:
        if first not in module.imports or not more:
            return None
        level, origin = module.imports[first]
        whole = f"{origin}.{rest}" if rest else origin
        if not level and (known := of_the_api(whole)) is not None:
            return known
        definition = self._defined(module, level, whole, more)
        return definition or (None if level else whole)

    def _defined(self, module: Module, level: int, whole: str, more: int) -> object:
        """Return the definition of the dotted name `whole`, which begins with a file; None if there
        is none.

        `level`: the dots of a relative import (0: absolute)
        `more`: how many further imports are followed"""
        parts = whole.split(".")
        for count in range(len(parts) - 1, -1, -1):
            home = self._find(module, level, parts[:count])
            if home is None:
                continue
            rest_of_parts = parts[count:]
            if len(rest_of_parts) == 1 and rest_of_parts[0] in home.definitions:
                return home, home.definitions[rest_of_parts[0]]
            if rest_of_parts:
                return self._imported(home, rest_of_parts[0], ".".join(rest_of_parts[1:]), more - 1)
        return None

    def _find(self, module: Module, level: int, parts: Sequence[str]) -> Module | None:
        """Return the file that an import means, or None if it is not found or not read.

        `level`: the dots of a relative import. For 0, search the folder of the importing file, the
            folders above, and Python's search path."""
        if not level and (not parts or parts[0] in NOT_KERNELS):
            return None
        key = module.folder, level, ".".join(parts)
        if key not in self._found:
            self._found[key] = self._looked_for(*key)
        return self._found[key]

    def _looked_for(self, folder: Path, level: int, dotted: str) -> Module | None:
        parts = dotted.split(".") if dotted else []
        above = [folder, *folder.parents]
        near = above[level - 1 : level] if level else above[:8]
        known = [] if level else [Path(entry) for entry in sys.path if entry]
        for number, folder in enumerate([*near, *known]):
            path = _file(folder, parts)
            if path is not None:
                return self._load(path, nearby=number < len(near))
        return None

    def _load(self, path: Path, nearby: bool) -> Module | None:
        """Read a file as a Module. Return None if it is not Python. Also return None if it does not
        contain "nki", unless `nearby` is True."""
        if path not in self._read:
            self._read[path] = None
            try:
                if nearby or b"nki" in path.read_bytes():
                    self._read[path] = parsed(path)
            except (OSError, UsageError):
                pass
        return self._read[path]


def _file(folder: Path, parts: Sequence[str]) -> Path | None:
    """Return the file of a module or a package in a folder, or None. `parts` are the parts of the
    module's dotted name."""
    base = folder.joinpath(*parts)
    for path in (base.with_suffix(".py") if parts else None, base / "__init__.py"):
        if path is not None and path.is_file():
            return path
    return None


def of_the_api(dotted: str) -> str | None:
    """Return today's name for a dotted name of either API; None if it is in neither."""
    for root in API:
        if dotted == root or dotted.startswith(f"{root}."):
            return "nki" + dotted.removeprefix(root)
    return None
