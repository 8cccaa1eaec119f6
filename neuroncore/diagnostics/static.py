"""What the source of a kernel tells, of the file and of all that it calls; nothing is executed."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from neuroncore.diagnostics import calls, dynamic, older, purity, signatures, subset
from neuroncore.diagnostics.kernels import Program
from neuroncore.diagnostics.modules import Module, Modules
from neuroncore.diagnostics.releases import RELEASES, is_in
from neuroncore.diagnostics.values import Scopes
from neuroncore.diagnostics.walk import Spot, Told, spots
from neuroncore.errors import UsageError
from neuroncore.findings import Finding, Severity, rule

MILDER: dict[Severity, Severity] = {"error": "warning", "warning": "note"}
RULES = (subset.RULES, dynamic.RULES, purity.RULES, older.RULES, calls.RULES)


@dataclass(frozen=True)
class Read:
    """What was found in which files, for which release, and whether the file, or the kernel that
    is asked for, can be run without being given arguments."""

    findings: Sequence[Finding]
    files: Sequence[str]
    api: str
    runs: bool


def read(file: Path, kernel: str | None, api: str | None) -> Read:
    """Read a file, hold it against a release, by default the latest of those that it fits best.
    Raises UsageError as `check` does."""
    if api is not None and api not in RELEASES:
        raise UsageError(f"{api!r} is no release of the API: {', '.join(RELEASES)}")
    try:
        return _read(Modules(file), kernel, api)
    except RecursionError:
        raise UsageError(f"{file} is nested too deeply") from None


def _read(modules: Modules, kernel: str | None, api: str | None) -> Read:
    program = Program(modules, kernel)
    scopes, others = (Scopes(program, api), ()) if api else _fitting(program)
    seen = [spot for scope in scopes.all() for spot in spots(scope)]
    found = [*_told(scopes, seen), *_issues(seen, scopes.release)]
    if api is None:
        found += _of_other_releases(seen, scopes.release, others)
    return Read(found, program.files, scopes.release, _runs(modules.first.tree, kernel))


def _fitting(program: Program) -> tuple[Scopes, Sequence[str]]:
    """The functions for the latest release of those whose names and parameters they fit best, and
    the others of these."""
    latest = Scopes(program, RELEASES[-1])
    if program.modules.first.is_older or any(scope.is_older for scope in latest.all()[:1]):
        return Scopes(program, RELEASES[0]), ()
    uses = [
        spot
        for scope in latest.all()
        for spot in spots(scope)
        if isinstance(spot.node, ast.Call | ast.Attribute | ast.Name)
    ]
    strange = {
        release: sum(1 for spot in uses for _ in calls.misfits(spot, release))
        for release in RELEASES[1:]
    }
    fewest = min(strange.values())
    fitting = [release for release, count in strange.items() if count == fewest]
    same = fitting[-1] == latest.release
    return latest if same else Scopes(program, fitting[-1]), fitting[:-1]


def _told(scopes: Scopes, seen: Sequence[Spot]) -> Iterator[Finding]:
    """All that the rules tell, as far as their codes hold in the release."""
    for scope in scopes.all():
        for one in (*signatures.kernels(scope), *signatures.decorators(scope)):
            yield from _finding(scope.module, scope.release, one, scope.device.name)
    for spot in seen:
        for rules in RULES:
            for one in rules.told(spot):
                yield from _finding(
                    spot.scope.module, spot.scope.release, one, spot.scope.device.name
                )
    for one in signatures.launches(scopes.program):
        yield from _finding(scopes.program.modules.first, scopes.release, one, "")


def _finding(module: Module, release: str, told: Told, function: str) -> Iterator[Finding]:
    code, node, sentence = told
    if is_in(rule(code).releases, release):
        yield Finding(code, sentence, module.place(node, function))


def _of_other_releases(
    seen: Sequence[Spot], release: str, others: Sequence[str]
) -> Iterator[Finding]:
    """Of a release that was not asked for: what the latest doesn't have any more, a step milder,
    and known issues of the older ones that the kernels would fit as well, as notes."""
    for spot in seen if release not in (RELEASES[0], RELEASES[-1]) else ():
        for code, node, sentence in calls.misfits(spot, RELEASES[-1]):
            place = spot.scope.module.place(node, spot.scope.device.name)
            said = f"{sentence}; the file is held against {release}"
            yield Finding(code, said, place, MILDER[rule(code).severity])
    told = {(one.code, one.place) for one in _issues(seen, release)}
    for other in others:
        for one in _issues(seen, other):
            if (one.code, one.place) not in told:
                yield replace(one, severity="note")


def _issues(seen: Sequence[Spot], release: str) -> Iterator[Finding]:
    """What the vendor lists of a release."""
    for spot in seen:
        for one in calls.known_issues(spot, release):
            place = spot.scope.module.place(spot.node, spot.scope.device.name)
            said = {"because": one.because, "hint": one.hint, "source": one.source}
            text = f"{one.sentence} (releases {one.releases})"
            yield Finding(one.code, text, place, **said)  # type: ignore[arg-type]


def _runs(tree: ast.Module, kernel: str | None) -> bool:
    """Whether there is something to run: a function `inputs` for a kernel, or a part of the file
    that asks if it is run."""
    if kernel is not None:
        return any(isinstance(one, ast.FunctionDef) and one.name == "inputs" for one in tree.body)
    return any(isinstance(one, ast.If) and _asks_if_run(one.test) for one in tree.body)


def _asks_if_run(test: ast.expr) -> bool:
    names = {one.id for one in ast.walk(test) if isinstance(one, ast.Name)}
    return "__name__" in names
