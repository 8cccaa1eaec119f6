"""Findings from the source of a file, and of all functions that its kernels call. They include the
known issues that AWS lists (`api/issues.toml`). The file is not executed."""

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
from neuroncore.lint.constructs import Report, Rule, Spot, spots
from neuroncore.lint.inference import Scope, Scopes
from neuroncore.lint.kernels import SourceFiles
from neuroncore.lint.modules import HOME, RELEASES, Module, Modules, asks_if_run, is_in
from neuroncore.lint.syntax import argument

MILDER: dict[Severity, Severity] = {"error": "warning", "warning": "note"}
KINDS = (constructs.RULES, dynamic.RULES, api_calls.RULES)
OfNodes = Mapping[type[ast.AST], Sequence[Rule]]
RULES: OfNodes = {
    node: [rule_function for kind in KINDS for rule_function in kind.of.get(node, ())]
    for node in {node for kind in KINDS for node in kind.of}
}
# rules with codes about source that older releases accept and the latest release refuses
OF_FORMS: OfNodes = {
    ast.Compare: [constructs.identity],
    ast.Call: [constructs.identity, api_calls.kinds],
}


@dataclass(frozen=True)
class Read:
    """The result of reading a file.

    `findings`: the findings
    `files`: the paths of all files that were read
    `api`: the release against which the files were checked
    `runs`: True if the file, or the requested kernel, can run without arguments from the user
    `has_inputs`: True if the file has a function `inputs`"""

    findings: Sequence[Finding]
    files: Sequence[str]
    api: str
    runs: bool
    has_inputs: bool


def read(file: Path, kernel: str | None, api: str | None) -> Read:
    """Read a file, and check it against the release `api`, by default the latest of those that fit
    best. Raises UsageError for an unknown release or kernel, and if the file can't be read or isn't
    Python."""
    if api is not None and api not in RELEASES:
        raise UsageError(f"{api!r} is not a release of the API: {', '.join(RELEASES)}")
    try:
        return _read(Modules(file), kernel, api)
    except RecursionError:
        raise UsageError(
            f"the code of {file}, or of a file that it imports, is nested too deeply to be read"
        ) from None


def _read(modules: Modules, kernel: str | None, api: str | None) -> Read:
    program = SourceFiles(modules, kernel)
    scopes = Scopes(program, api or RELEASES[-1])
    spots_of_kernels = _spots(scopes)
    uses = [spot for spot in spots_of_kernels if api_calls.of_the_api(spot)]
    others: list[str] = []
    findings: list[Finding] = []
    if api is None:
        forms = [
            finding
            for finding in _findings(scopes, spots_of_kernels, OF_FORMS)
            if rule(finding.code).form_of
        ]
        *others, release = _fitting(scopes, uses, forms)
        scopes.use_release(release)
        findings = [*_of_other_releases(uses, release, others), *_forms(forms, release)]
    findings += [*_findings(scopes, spots_of_kernels, RULES), *_issues(uses, scopes.release)]
    tree = modules.first.tree
    runs = _has_main(tree) if kernel is None else _has_inputs(tree)
    return Read(findings, program.files, scopes.release, runs, _has_inputs(tree))


def _spots(scopes: Scopes) -> list[Spot]:
    everything = (spot for scope in scopes.all() for spot in spots(scope))
    return [spot for spot in everything if scopes.program.runs_on_device(spot.scope)]


def _fitting(latest: Scopes, uses: Sequence[Spot], forms: Sequence[Finding]) -> list[str]:
    """Return the releases with the fewest errors, and then the fewest warnings, about names and
    parameters that they lack.

    `forms`: findings about source that the latest release refuses; each counts for all releases
        that refuse it

    A file of the older API fits only the first release."""
    if latest.program.modules.first.is_older or any(
        scope_of_function.is_older for scope_of_function in latest.all()[:1]
    ):
        return [RELEASES[0]]
    alike = [(spots[0], len(spots)) for spots in api_calls.alike(uses)]
    misfit_counts = {}
    for release in RELEASES[1:]:
        misfits = (
            (misfit, many) for spot, many in alike for misfit in api_calls.misfits(spot, release)
        )
        grave = Counter({"error": 0, "warning": 0})
        for (code, *_), many in misfits:
            grave[rule(code).severity] += many
        for finding in forms:
            grave[rule(finding.code).severity] += release > rule(finding.code).form_of
        misfit_counts[release] = grave["error"], grave["warning"]
    fewest = min(misfit_counts.values())
    return [release for release, count in misfit_counts.items() if count == fewest]


def _findings(
    scopes: Scopes, spots_of_kernels: Sequence[Spot], rules: OfNodes
) -> Iterator[Finding]:
    """Yield the findings whose codes apply in the release of their function. `rules` maps each type
    of node to its rules."""
    for scope in scopes.all():
        for report in (*api_calls.kernels(scope), *api_calls.decorators(scope)):
            yield from _finding(scope.module, scope.release, report, scope.device.name)
    for spot in spots_of_kernels:
        for report in (
            report
            for rule_function in rules.get(type(spot.node), ())
            for report in rule_function(spot)
        ):
            scope = spot.scope
            yield from _finding(scope.module, scope.release, report, scope.device.name)
    for report in api_calls.launches(scopes.program):
        yield from _finding(scopes.program.modules.first, scopes.release, report, "")


def _finding(module: Module, release: str, result: Report, function: str) -> Iterator[Finding]:
    code, node, sentence = result
    if is_in(rule(code).releases, release):
        yield Finding(code, sentence, module.place(node, function))


def _of_other_releases(
    uses: Sequence[Spot], release: str, others: Sequence[str]
) -> Iterator[Finding]:
    """Yield further findings for a `release` that the user did not choose: names that the latest
    release lacks, one step less severe, and known issues of `others`, as notes.

    `others`: the other releases that fit equally well"""
    for spot in uses if release not in (RELEASES[0], RELEASES[-1]) else ():
        for code, node, sentence in api_calls.misfits(spot, RELEASES[-1]):
            place = spot.scope.module.place(node, spot.scope.device.name)
            message = f"{sentence}; the file is checked against API {release}"
            yield Finding(code, message, place, MILDER[rule(code).severity])
    known = {(finding.code, finding.place) for finding in _issues(uses, release)}
    for other in others:
        for finding in _issues(uses, other):
            if (finding.code, finding.place) not in known:
                yield replace(finding, severity="note")


def _forms(forms: Sequence[Finding], release: str) -> Iterator[Finding]:
    """Yield, one step less severe, the findings about source that `release` accepts and the latest
    release refuses."""
    for finding in forms:
        if not is_in(rule(finding.code).releases, release):
            message = f"{finding.message}; the file is checked against API {release}"
            yield replace(finding, message=message, severity=MILDER[rule(finding.code).severity])


def _issues(uses: Sequence[Spot], release: str) -> Iterator[Finding]:
    """Yield the findings for the issues that AWS lists for a release."""
    for spot in uses:
        for issue in known_issues(spot, release):
            place = spot.scope.module.place(spot.node, spot.scope.device.name)
            details = {"because": issue.because, "hint": issue.hint, "source": issue.source}
            text = f"{issue.sentence} (releases {issue.releases})"
            yield Finding(issue.code, text, place, **details)  # type: ignore[arg-type]


def _has_inputs(tree: ast.Module) -> bool:
    return any(
        isinstance(statement, ast.FunctionDef) and statement.name == "inputs"
        for statement in tree.body
    )


def _has_main(tree: ast.Module) -> bool:
    """Return whether a file has a part under `if __name__ == "__main__"`."""
    return any(
        isinstance(statement, ast.If) and asks_if_run(statement.test) for statement in tree.body
    )


# --- known issues ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Issue:
    """An issue that AWS lists, about an API name in some releases: a row of `api/issues.toml`.

    If `when` is NAMED, the issue concerns all uses of the name except calls. Otherwise `when` is a
    key of CONDITIONS, and the issue concerns calls for which this condition holds. Issues of only
    one machine are not in the table, because a run on that machine reports them."""

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
    """Return all known issues: a dict from each name to the issues about this name."""
    table = tomllib.loads((HOME / "issues.toml").read_text("utf-8"))
    rows = [Issue(name, **row) for row in table["issue"] for name in row.pop("names")]
    return {name: [row for row in rows if row.name == name] for name in {row.name for row in rows}}


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
    shapes = [scope.value(operand).shape for operand in operands if operand is not None]
    if len(shapes) < 2 or None in shapes:
        return False
    first, second = (shape for shape in shapes if shape is not None)
    known = [pair for pair in zip(first, second, strict=False) if None not in pair]
    return len(first) == len(second) and any(size != other_size for size, other_size in known)


def _reads_psum(scope: Scope, call: ast.Call) -> bool:
    operand = call.args[0] if call.args else argument(call, 0, "x")
    return operand is not None and scope.value(operand).memory == "psum"


def _stores_psum(scope: Scope, call: ast.Call) -> bool:
    stored = argument(call, 1, "value")
    return stored is not None and scope.value(stored).memory == "psum"


NAMED = "it is named"  # the condition of an issue about each use of a name that is not a call
CONDITIONS: Mapping[str, Callable[[Scope, ast.Call], bool]] = {
    "it is called": _always,
    "the second operand is a number": _second_is_a_number,
    "transpose_x is not True": _not_transposed,
    "the shapes differ": _of_other_shapes,
    "the operand is in PSUM": _reads_psum,
    "it stores PSUM": _stores_psum,
}


def known_issues(spot: Spot, release: str) -> Iterator[Issue]:
    """Yield the known issues that concern a name or a call, in a release of today's API."""
    node, scope = spot.node, spot.scope
    if scope.is_older:
        return
    called = node.func if isinstance(node, ast.Call) else node
    name = scope.api(called) if isinstance(called, ast.expr) else ""
    for issue in issues().get(name, ()):
        if not is_in(issue.releases, release):
            continue
        if isinstance(node, ast.Call) and issue.when != NAMED:
            holds = CONDITIONS[issue.when](scope, node)
        else:
            holds = issue.when == NAMED and not isinstance(node, ast.Call)
        if holds:
            yield issue
