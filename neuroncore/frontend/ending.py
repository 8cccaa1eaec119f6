"""Checks at the end of a kernel: that it issued instructions, and returned tensors."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from types import CodeType
from typing import Any

import numpy as np

from neuroncore.base.errors import BufferKindError, KernelError, SignatureError
from neuroncore.core.core import Core
from neuroncore.memory.tile import Tile

RETURNS = ("RETURN_VALUE", "RETURN_CONST")


def check(
    function: Callable[..., Any], result: Any, cores: Sequence[Core], given: Collection[int]
) -> None:
    """Refuse results that no device can give, and report a launch that did nothing.

    `given` are the storages of the arguments, which a kernel may return unchanged. Kernels without
    an instruction are not refused: guides of the SDK use them to show views and sizes. Raises
    SignatureError.
    """
    if inspect.isgenerator(result):
        raise SignatureError(
            f"{_name(function)} is a generator",
            because="the device runs a kernel from its first line to its last",
            hint="return the results instead of yielding them",
        )
    values = list(leaves(result))
    for value in values:
        if is_host_array(value):
            raise _host_array(function, value)
    tiles = [value for value in values if isinstance(value, Tile)]
    _check_exchanged(tiles, cores[0])
    passed_on = tiles and all(t.storage.id in given or not t.size for t in tiles)
    if not passed_on and not any(map(_has_issued, cores)):
        cores[0].report(
            "NO_INSTRUCTIONS",
            f"{_name(function)} issued no instruction, so there is nothing for the device to run",
            site=_last_return(function),
        )


def _check_exchanged(tiles: Sequence[Tile], core: Core) -> None:
    """Refuse a result that ranks have exchanged."""
    for tile in tiles:
        if tile.storage.id in core.hbm.exchanged:
            error = exchanged(f"{tile} is a result of the kernel", "dsts", tile)
            raise error.placed(core.hbm.exchanged[tile.storage.id])


def exchanged(statement: str, argument: str, tile: Tile) -> KernelError:
    """Return the error for a tensor of a collective that is an argument or a result of the kernel,
    which a collective can't read or write (nki-library's comments on NKI 0.2 and 0.3)."""
    return BufferKindError(
        statement,
        argument=argument,
        expected="a tensor that the kernel allocates",
        got=repr(tile),
        because="collectives cannot access arguments and results of a kernel",
        hint="copy with nisa.dma_copy from or into nl.ndarray(..., buffer=nl.shared_hbm, name=...)",
        also="checkCollective",
    )


def check_turns(cores: Sequence[Core]) -> None:
    """Report a loop of the device that cores leave after different numbers of iterations: the cores
    of a logical core run one program (SDK release notes, NKI 0.3)."""
    first, *others = cores
    for rank, core in enumerate(others, 1):
        for site in first.turns.keys() | core.turns.keys():
            here, there = first.turns.get(site, []), core.turns.get(site, [])
            if here != there:
                first.report(
                    "DIVERGENT_LOOP",
                    f"core 0 runs this loop {_listed(here)}, core {rank} {_listed(there)}",
                    site=site,
                )


def check_constants(cores: Sequence[Core]) -> None:
    """Report a constant whose value differs between cores: the program has one value for all of
    them (nl.shared_constant)."""
    first, *others = cores
    for rank, core in enumerate(others, 1):
        for site, constants in core.constants.items():
            pairs = enumerate(zip(first.constants.get(site, []), constants, strict=False), 1)
            apart = next((n for n, (here, there) in pairs if here != there), None)
            if apart is not None:
                first.report(
                    "CONSTANT_DIFFERS",
                    f"constant {apart} of this line is another one on core {rank} than on core 0",
                    site=site,
                )


def _listed(turns: list[int]) -> str:
    if not turns:
        return "never"
    shown = ", ".join(map(str, turns[:4])) + (", ..." if len(turns) > 4 else "")
    return f"for {shown} turns"


def _has_issued(core: Core) -> bool:
    """Return whether a core has reached an instruction, also one that is left out for its size of
    0."""
    return bool(core.calls) or any(finding.code == "NO_ELEMENTS" for finding in core.findings)


def leaves(value: Any) -> Iterator[Any]:
    """Return the single values in a result, in order."""
    if isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from leaves(item)
    else:
        yield value


def is_host_array(value: Any) -> bool:
    """Return whether a value is an array of numpy, torch or a similar library, and not a number or
    a tensor."""
    return hasattr(value, "__array__") and not isinstance(value, np.generic | Tile | type)


def at_return(function: Callable[..., Any], error: KernelError) -> KernelError:
    """Return the error, placed at the function's last return statement."""
    site = _last_return(function)
    return error if site is None else error.placed(site)


def _last_return(function: Callable[..., Any]) -> tuple[CodeType, int] | None:
    code: CodeType | None = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return None
    *_, last = (one for one in dis.get_instructions(code) if one.opname in RETURNS)
    return code, last.offset


def _host_array(function: Callable[..., Any], value: Any) -> KernelError:
    error = SignatureError(
        f"{_name(function)} returns an array of the host, {type(value).__name__} "
        f"{tuple(value.shape)}",
        expected="tensors in hbm",
        because="the host computed this array, not the device",
        hint="compute with instructions, store into an nl.ndarray(..., buffer=nl.shared_hbm), and "
        "return that",
    )
    return at_return(function, error)


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", "the kernel")
