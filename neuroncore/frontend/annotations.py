"""Annotations for kernel signatures, such as `x: nt.tensor[[128, 512], nl.float32]`."""

from __future__ import annotations

from typing import Any


class Annotation:
    """Stands for itself whatever is put in its brackets, but for `mutable`, and for a list of sizes
    and a format: those make it the description of a tensor."""

    def __init__(self, name: str, shape: tuple[int, ...] = (), dtype: Any = None) -> None:
        self.__name__ = name
        self.shape, self.dtype = shape, dtype

    def __getitem__(self, parameters: Any) -> Annotation:
        listed = parameters if isinstance(parameters, tuple) else (parameters,)
        if any(one is mutable for one in listed):
            return mutable_tensor
        if len(listed) == 2 and isinstance(listed[0], list | tuple):
            return Annotation(self.__name__, tuple(listed[0]), listed[1])
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Annotation:
        return self

    def __repr__(self) -> str:
        return f"nki.typing.{self.__name__}"


tensor = Annotation("tensor")
mutable_tensor = Annotation("mutable_tensor")
scalar = Annotation("scalar")
mutable = Annotation("mutable")
