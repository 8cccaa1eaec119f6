"""Findings from the source of a file and of everything that its kernels call. They include the
vendor's lists of known issues (`api/issues.toml`). Nothing is executed."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from neuroncore.base.errors import UsageError
from neuroncore.base.findings import Finding, Severity, rule
from neuroncore.lint import api_calls, constructs, dynamic
from neuroncore.lint.constructs import Rule, Spot, Told, spots
from neuroncore.lint.inference import Scope, Scopes
from neuroncore.lint.kernels import SourceFiles
from neuroncore.lint.modules import HOME, RELEASES, Module, Modules, asks_if_run, is_in
from neuroncore.lint.syntax import argument

MILDER: dict[Severity, Severity] = {"error": "warning", "warning": "note"}
KINDS = (constructs.RULES, dynamic.RULES, api_calls.RULES)
OfNodes = Mapping[type[ast.AST], Sequence[Rule]]
RULES: OfNodes = {
    node: [tell for kind in KINDS for tell in kind.of.get(node, ())]
    for node in {node for kind in KINDS for node in kind.of}
}
# rules whose codes are about forms that a release accepts
OF_FORMS: OfNodes = {
    ast.Compare: [constructs.identity],
    ast.Call: [constructs.identity, api_calls.kinds],
}


@dataclass(frozen=True)
class Read:
    """The findings of a file, the files that were read, the release, and whether the file or the
    requested kernel can run without arguments."""

    findings: Sequence[Finding]
    files: Sequence[str]
    api: str
    runs: bool


def read(file: Path, kernel: str | None, api: str | None) -> Read:
    """Read a file and check it against a release, by default the latest of the releases that it
    fits best. Raises UsageError as `check` does."""
    if api is not None and api not in RELEASES:
        raise UsageError(f"{api!r} is not a release of the API: {', '.join(RELEASES)}")
    try:
        return _read(Modules(file), kernel, api)
    except RecursionError:
        raise UsageError(f"{file} is nested too deeply") from None


def _read(modules: Modules, kernel: str | None, api: str | None) -> Read:
    program = SourceFiles(modules, kernel)
    scopes = Scopes(program, api or RELEASES[-1])
    seen = _spots(scopes)
    uses = [one for one in seen if api_calls.of_the_api(one)]
    others: list[str] = []
    findings: list[Finding] = []
    if api is None:
        forms = [one for one in _told(scopes, seen, OF_FORMS) if rule(one.code).form_of]
        *others, release = _fitting(scopes, uses, forms)
        scopes.hold_against(release)
        findings = [*_of_other_releases(uses, release, others), *_forms(forms, release)]
    findings += [*_told(scopes, seen, RULES), *_issues(uses, scopes.release)]
    return Read(findings, program.files, scopes.release, _runs(modules.first.tree, kernel))


def _spots(scopes: Scopes) -> list[Spot]:
    return [spot for scope in scopes.all() for spot in spots(scope)]


def _fitting(latest: Scopes, uses: Sequence[Spot], forms: Sequence[Finding]) -> list[str]:
    """Return the releases that fit best. Each is judged by the names and parameters that the
    functions use, and by `forms`: findings about source that the latest release refuses and an
    older one accepts."""
    if latest.program.modules.first.is_older or any(one.is_older for one in latest.all()[:1]):
        return [RELEASES[0]]
    alike = [(spots[0], len(spots)) for spots in api_calls.alike(uses)]
    strange = {}
    for release in RELEASES[1:]:
        misfits = ((one, many) for spot, many in alike for one in api_calls.misfits(spot, release))
        grave = Counter({"error": 0, "warning": 0})
        for (code, *_), many in misfits:
            grave[rule(code).severity] += many
        for one in forms:
            grave[rule(one.code).severity] += release > rule(one.code).form_of
        strange[release] = grave["error"], grave["warning"]
    fewest = min(strange.values())
    return [release for release, count in strange.items() if count == fewest]


def _told(scopes: Scopes, seen: Sequence[Spot], rules: OfNodes) -> Iterator[Finding]:
    """Return the findings of those rules whose codes apply in the release."""
    for scope in scopes.all():
        for one in (*api_calls.kernels(scope), *api_calls.decorators(scope)):
            yield from _finding(scope.module, scope.release, one, scope.device.name)
    for spot in seen:
        for one in (one for tell in rules.get(type(spot.node), ()) for one in tell(spot)):
            scope = spot.scope
            yield from _finding(scope.module, scope.release, one, scope.device.name)
    for one in api_calls.launches(scopes.program):
        yield from _finding(scopes.program.modules.first, scopes.release, one, "")


def _finding(module: Module, release: str, result: Told, function: str) -> Iterator[Finding]:
    code, node, sentence = result
    if is_in(rule(code).releases, release):
        yield Finding(code, sentence, module.place(node, function))


def _of_other_releases(
    uses: Sequence[Spot], release: str, others: Sequence[str]
) -> Iterator[Finding]:
    """Return findings for a release that the user did not choose. Names that the latest release
    removed are reported one severity lower. Known issues of other releases that the kernels fit are
    notes."""
    for spot in uses if release not in (RELEASES[0], RELEASES[-1]) else ():
        for code, node, sentence in api_calls.misfits(spot, RELEASES[-1]):
            place = spot.scope.module.place(node, spot.scope.device.name)
            message = f"{sentence}; the file is checked against {release}"
            yield Finding(code, message, place, MILDER[rule(code).severity])
    known = {(one.code, one.place) for one in _issues(uses, release)}
    for other in others:
        for one in _issues(uses, other):
            if (one.code, one.place) not in known:
                yield replace(one, severity="note")


def _forms(forms: Sequence[Finding], release: str) -> Iterator[Finding]:
    """Yield `forms`, the findings about source that the latest release refuses, one severity lower
    if a file is for an older `release` that accepts it."""
    for one in forms:
        if not is_in(rule(one.code).releases, release):
            message = f"{one.message}; the file is checked against {release}"
            yield replace(one, message=message, severity=MILDER[rule(one.code).severity])


def _issues(uses: Sequence[Spot], release: str) -> Iterator[Finding]:
    """Return the vendor's known issues of a release."""
    for spot in uses:
        for one in known_issues(spot, release):
            place = spot.scope.module.place(spot.node, spot.scope.device.name)
            details = {"because": one.because, "hint": one.hint, "source": one.source}
            text = f"{one.sentence} (releases {one.releases})"
            yield Finding(one.code, text, place, **details)  # type: ignore[arg-type]


def _runs(tree: ast.Module, kernel: str | None) -> bool:
    """Return whether there is something to run: for a kernel a function `inputs`, for a file a part
    under `if __name__ == "__main__"`."""
    if kernel is not None:
        return any(isinstance(one, ast.FunctionDef) and one.name == "inputs" for one in tree.body)
    return any(isinstance(one, ast.If) and asks_if_run(one.test) for one in tree.body)


# --- known issues ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Issue:
    """A row of the vendor's lists of known issues, about a name in some releases. `when` is a key
    of CONDITIONS: the issue concerns only calls that meet this condition. Issues of single machines
    are reported by a run."""

    name: str
    when: str
    releases: str
    sentence: str
    hint: str
    source: str
    code: str = "KNOWN_ISSUE"
    because: str | None = None


@cache
def issues() -> Mapping[str, Sequence[Issue]]:
    """Return all known issues, by the name that they are about."""
    table = tomllib.loads((HOME / "issues.toml").read_text("utf-8"))
    rows = [Issue(name, **row) for row in table["issue"] for name in row.pop("names")]
    return {name: [one for one in rows if one.name == name] for name in {one.name for one in rows}}


def _always(_: Scope, __: ast.Call) -> bool:
    return True


def _second_is_a_number(scope: Scope, call: ast.Call) -> bool:
    first, second = argument(call, 0, "x"), argument(call, 1, "y")
    if first is None or second is None:
        return False
    is_number = scope.value(second).kind in ("host", "integer")
    return scope.value(first).kind == "tensor" and is_number


def _not_transposed(scope: Scope, call: ast.Call) -> bool:
    transpose = argument(call, 2, "transpose_x")
    transpose = None if transpose is None else scope.stands_for(transpose)
    return transpose is None or (isinstance(transpose, ast.Constant) and not transpose.value)


def _of_other_shapes(scope: Scope, call: ast.Call) -> bool:
    """Return whether two operands are known to have different shapes."""
    operands = [argument(call, 0, "x"), argument(call, 1, "y")]
    shapes = [scope.value(one).shape for one in operands if one is not None]
    if len(shapes) < 2 or None in shapes:
        return False
    first, second = (shape for shape in shapes if shape is not None)
    known = [pair for pair in zip(first, second, strict=False) if None not in pair]
    return len(first) == len(second) and any(one != other for one, other in known)


def _reads_psum(scope: Scope, call: ast.Call) -> bool:
    operand = call.args[0] if call.args else argument(call, 0, "x")
    return operand is not None and scope.value(operand).memory == "psum"


def _stores_psum(scope: Scope, call: ast.Call) -> bool:
    stored = argument(call, 1, "value")
    return stored is not None and scope.value(stored).memory == "psum"


NAMED = "it is named"  # true wherever the name is used
CONDITIONS: Mapping[str, Callable[[Scope, ast.Call], bool]] = {
    "it is called": _always,
    "the second operand is a number": _second_is_a_number,
    "transpose_x is not True": _not_transposed,
    "the shapes differ": _of_other_shapes,
    "the operand is in PSUM": _reads_psum,
    "it stores PSUM": _stores_psum,
}


def known_issues(spot: Spot, release: str) -> Iterator[Issue]:
    """Return the issues of a name or a call in a release of today's API."""
    node, scope = spot.node, spot.scope
    if scope.is_older:
        return
    called = node.func if isinstance(node, ast.Call) else node
    named = scope.api(called) if isinstance(called, ast.expr) else ""
    for one in issues().get(named, ()):
        if not is_in(one.releases, release):
            continue
        if isinstance(node, ast.Call) and one.when != NAMED:
            holds = CONDITIONS[one.when](scope, node)
        else:
            holds = one.when == NAMED and not isinstance(node, ast.Call)
        if holds:
            yield one
