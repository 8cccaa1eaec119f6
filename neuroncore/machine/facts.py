"""The data files of isa/, in TOML. Every number has a source, and a grade: documented, measured or
assumed."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self, TypeVar

from neuroncore.base.errors import DefinitionError, did_you_mean

GRADES = ("documented", "measured", "assumed")
T = TypeVar("T")


@dataclass(frozen=True)
class Fact:
    """One value of a data file in isa/, with its grade (one of GRADES) and source."""

    value: Any
    grade: str
    source: str


@cache
def isa() -> Path:
    """Return the folder isa/. Its data files are read without importing the instructions."""
    spec = find_spec("neuroncore.isa")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def by_alias(folder: str, aliases: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Return the name that each alternative name means, from the alternative names of all files in
    a folder of isa/. Raises DefinitionError if an alternative name means two of them."""
    meant: dict[str, str] = {}
    for name, others in aliases.items():
        for alias in others:
            other = alias if alias in aliases else meant.get(alias)
            if other is not None:
                where = f"isa/{folder}/{name}.toml"
                raise DefinitionError(f"{where}: the alias {alias!r} is already a name of {other}")
            meant[alias] = name
    return meant


class FactReader:
    """Reads the tables of a file. Unknown keys and numbers without a grade are errors."""

    def __init__(self, raw: dict[str, Any], where: str) -> None:
        self.raw, self.where = raw, where
        self.facts: dict[str, Fact] = {}

    @classmethod
    def of(cls, file: str) -> Self:
        """Return the reader of a file in isa/."""
        text = (isa() / file).read_text("utf-8")
        return cls(tomllib.loads(text), f"isa/{file}")

    def section(self, cls: type[T], path: str, table: dict[str, Any]) -> T:
        fields = dataclasses.fields(cls)  # type: ignore[arg-type]
        required = [f.name for f in fields if f.default is dataclasses.MISSING or f.name in table]
        self.exactly(table, required, path)
        values = {name: self.value(f"{path}.{name}", entry) for name, entry in table.items()}
        return cls(**values)

    def value(self, path: str, entry: Any) -> Any:
        if isinstance(entry, dict) and "value" not in entry:
            return self.numbers(path, entry)
        return self.fact(entry, path).value

    def numbers(self, path: str, table: dict[str, Any]) -> dict[str, Any]:
        return {name: self.fact(entry, f"{path}.{name}").value for name, entry in table.items()}

    def fact(self, entry: Any, path: str) -> Fact:
        if not isinstance(entry, dict) or set(entry) != {"value", "grade", "source"}:
            raise DefinitionError(f"{self.where}: {path} must give value, grade and source")
        if entry["grade"] not in GRADES:
            raise DefinitionError(f"{self.where}: {path}: grade must be one of {', '.join(GRADES)}")
        for key in entry["source"].split(","):
            self.known({key.strip(): 0}, self.raw["sources"], "sources")
        self.facts[path] = Fact(**entry)
        return self.facts[path]

    def exactly(self, table: Mapping[str, Any], names: Sequence[str], path: str) -> None:
        """Check that a table has exactly these keys."""
        self.known(table, names, path)
        missing = [name for name in names if name not in table]
        if missing:
            raise DefinitionError(f"{self.where}: [{path}] lacks {', '.join(missing)}")

    def known(self, table: Mapping[str, Any], names: Any, path: str) -> None:
        for key in table:
            if key not in names:
                hint = did_you_mean(key, names)
                message = f"{self.where}: [{path}] has the unknown key {key!r}"
                raise DefinitionError(f"{message}; {hint}" if hint else message)
