"""nki.typing: annotations for kernel signatures, such as `x: nt.tensor[[128, 512], nl.float32]`."""

from __future__ import annotations

from typing import Any


class Annotation:
    """Stands for itself whatever is put in its brackets, but for `mutable`."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getitem__(self, parameters: Any) -> Annotation:
        listed = parameters if isinstance(parameters, tuple) else (parameters,)
        return mutable_tensor if any(one is mutable for one in listed) else self

    def __call__(self, *args: Any, **kwargs: Any) -> Annotation:
        return self

    def __repr__(self) -> str:
        return f"nki.typing.{self.__name__}"


tensor = Annotation("tensor")
mutable_tensor = Annotation("mutable_tensor")
scalar = Annotation("scalar")
mutable = Annotation("mutable")
