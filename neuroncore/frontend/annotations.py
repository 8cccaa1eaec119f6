"""Annotations for kernel signatures, such as `x: nt.tensor[[128, 512], nl.float32]`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from neuroncore.base import source
from neuroncore.base.findings import Finding


class Annotation:
    """An annotation that ignores its brackets, except for `mutable`, for sizes, and for a list of
    sizes and a format: with those it describes a tensor."""

    def __init__(self, name: str, shape: tuple[int, ...] = (), dtype: Any = None) -> None:
        self.__name__ = name
        self.shape, self.dtype = shape, dtype

    def __getitem__(self, parameters: Any) -> Annotation:
        listed = parameters if isinstance(parameters, tuple) else (parameters,)
        if any(one is mutable for one in listed):
            return mutable_tensor
        if len(listed) == 2 and isinstance(listed[0], list | tuple):
            return Annotation(self.__name__, tuple(listed[0]), listed[1])
        if all(isinstance(one, int) for one in listed):
            return Annotation(self.__name__, listed)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Annotation:
        return self

    def __repr__(self) -> str:
        return f"nki.typing.{self.__name__}"


tensor = Annotation("tensor")
mutable_tensor = Annotation("mutable_tensor")
scalar = Annotation("scalar")
mutable = Annotation("mutable")


def disagreements(function: Callable[..., Any], args: Any, kwargs: Any) -> Iterator[Finding]:
    """Return findings for arguments whose shape differs from their parameter's annotation."""
    declared = getattr(function, "__annotations__", {})
    if not any(isinstance(one, Annotation) and one.shape for one in declared.values()):
        return
    arguments = inspect.signature(function).bind(*args, **kwargs).arguments
    for name, one in declared.items():
        shape = tuple(getattr(arguments.get(name), "shape", ()))
        if isinstance(one, Annotation) and one.shape and shape and one.shape != shape:
            place = source.parameter(inspect.unwrap(function).__code__, name)
            message = f"{name} has the shape {shape}; its annotation declares {one.shape}"
            yield Finding("ANNOTATION_SHAPE", message, place)
