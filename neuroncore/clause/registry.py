"""The tables that isa/ fills: instructions, operators, activation functions."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, MutableMapping
from typing import TypeVar

T = TypeVar("T")


class Table(MutableMapping[str, T]):
    """Rows by name. All of isa/, whose modules enter them, is loaded when a row is first asked for:
    what neither runs kernels nor reads records does without."""

    def __init__(self) -> None:
        self._entered: dict[str, T] = {}

    @property
    def _rows(self) -> dict[str, T]:
        importlib.import_module("neuroncore.isa")
        return self._entered

    def __getitem__(self, name: str) -> T:
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __setitem__(self, name: str, row: T) -> None:
        self._entered[name] = row

    def __delitem__(self, name: str) -> None:
        del self._rows[name]
