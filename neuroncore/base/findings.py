"""Findings (reports of likely problems that do not stop the kernel) and the table of their codes
(`codes/*.toml`)."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from neuroncore.base.errors import DefinitionError
from neuroncore.base.source import Place

# The severity of a finding about some code of a kernel. error: the device or its compiler refuses
# the code. warning: the code is likely wrong on the device. note: the code may be a problem; for
# example, a guide forbids it, but no public source shows that it is refused. advice: the code is
# legal, but slower than necessary.
Severity = Literal["error", "warning", "note", "advice"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)


@dataclass(frozen=True)
class CodeRule:
    """The meaning of the code of a finding: a row of `codes/*.toml`.

    `sentence` states the problem in general; the message of a finding states the problem at one
    place. `source` is the public text from which the rule comes. `releases` are the API releases in
    which the rule holds, such as "0.3-" or "0.2-0.5"; if it is empty, the rule holds in all
    releases. Some rules report kernels that an earlier release accepts. `form_of` is this release;
    a file with such a kernel was probably written for it.

    `example` is a diff of the lines that follow `header`. The text with the "-" lines has a finding
    with this code, at one of the "-" lines. The text with the "+" lines has no such finding. If a
    code is also the code of an error, it has no example, because `neuroncore explain` has a page
    for each of these codes."""

    code: str
    severity: Severity
    sentence: str
    because: str
    hint: str
    source: str
    releases: str = ""
    form_of: str = ""
    header: str = ""
    example: str = ""


@dataclass(frozen=True)
class Finding:
    """A likely problem at a line of the user's kernel. If `severity`, `because`, `hint` or `source`
    is None, the value in the row of the finding's code applies."""

    code: str
    message: str
    place: Place | None
    severity: Severity | None = None
    because: str | None = None
    hint: str | None = None
    source: str | None = None

    def __post_init__(self) -> None:
        missing = [name for name in FROM_THE_RULE if getattr(self, name) is None]
        for name in missing:
            object.__setattr__(self, name, getattr(rule(self.code), name))

    def __str__(self) -> str:
        where = f"{self.place}:{self.place.column + 1}: " if self.place else ""
        return f"{where}{self.severity}[{self.code}] {self.message}"

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as a dict for JSON. Lines and columns count from 1."""
        place = self.place
        return {
            "code": self.code,
            "severity": self.severity,
            "file": place.file if place else None,
            "line": place.line if place else None,
            "column": place.column + 1 if place else None,
            "end_line": place.end_line if place else None,
            "end_column": place.end_column + 1 if place else None,
            "sentence": self.message,
            "because": self.because,
            "hint": self.hint,
            "source": self.source,
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Finding:
        """Return the finding for a dict that `to_dict` returned."""
        place = None
        if fields["line"] is not None:
            columns = fields["column"] - 1, fields["end_line"], fields["end_column"] - 1
            place = Place(fields["file"], fields["line"], *columns, "")
        from_rule = {name: fields[name] for name in FROM_THE_RULE}
        return cls(fields["code"], fields["sentence"], place, **from_rule)


FROM_THE_RULE = ("severity", "because", "hint", "source")


@cache
def tables() -> Mapping[str, Mapping[str, CodeRule]]:
    """Return the rows of the table of codes, by file (without its ending) and then by code. Raise
    DefinitionError for a row that does not fit `CodeRule`."""
    folder = Path(__file__).with_name("codes")
    by_file: dict[str, Mapping[str, CodeRule]] = {}
    for path in sorted(folder.iterdir(), key=lambda file: file.name):
        if path.name.endswith(".toml"):
            rows = tomllib.loads(path.read_text("utf-8"))
            header = rows.pop("header", "")
            by_file[path.name.removesuffix(".toml")] = {
                code: _rule(code, header, row) for code, row in rows.items()
            }
    return by_file


@cache
def rules() -> Mapping[str, CodeRule]:
    """Return all rows of the table of codes, by code. Raise DefinitionError if two rows have one
    code."""
    by_code: dict[str, CodeRule] = {}
    for table in tables().values():
        if twice := by_code.keys() & table:
            raise DefinitionError(f"{min(twice)} is in the table of codes twice")
        by_code |= table
    return by_code


def _rule(code: str, header: str, row: dict[str, str]) -> CodeRule:
    try:
        code_rule = CodeRule(code, **{"header": header if "example" in row else "", **row})  # type: ignore[arg-type]
    except TypeError as error:
        raise DefinitionError(f"the entry {code} in the table of codes is wrong: {error}") from None
    if code_rule.severity not in SEVERITIES:
        raise DefinitionError(
            f"the entry {code} in the table of codes is wrong: "
            f"{code_rule.severity!r} is not a severity"
        )
    return code_rule


def without_advice(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings except advice about speed. Courses use this if students must find out
    themselves how to make a kernel faster."""
    return [finding for finding in findings if finding.severity != "advice"]


def rule(code: str) -> CodeRule:
    """Return the row of a code. Raise DefinitionError if the table has no such code."""
    if code not in rules():
        raise DefinitionError(f"{code} is not in the table of codes")
    return rules()[code]
