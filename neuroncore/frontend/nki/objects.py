"""nki.language.NKIObject: the base of classes that kernels define."""

from __future__ import annotations

import inspect
from typing import Any


class NKIObject:
    """Attributes by keyword, as a dataclass would have them, with or without the decorator.

    Published kernels rely on three things that a plain dataclass doesn't give: keywords become
    attributes of any subclass, fields need no annotation, and a field without a default may be
    left out (it is None).
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        annotations = inspect.get_annotations(cls)
        for name, value in list(cls.__dict__.items()):
            data = not (callable(value) or isinstance(value, property | classmethod | staticmethod))
            if data and not name.startswith("_"):
                annotations.setdefault(name, Any)
        for name in annotations:
            if name not in cls.__dict__:
                setattr(cls, name, None)
        cls.__annotations__ = annotations

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        names = [n for c in reversed(type(self).__mro__) for n in inspect.get_annotations(c)]
        for name, value in [*zip(names, args, strict=False), *kwargs.items()]:
            setattr(self, name, value)
        post = getattr(self, "__post_init__", None)
        if post is not None:
            post()
