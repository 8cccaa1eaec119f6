"""What Python and numpy ask of a number, and a tensor can't answer: what it holds is known on the
device only."""

from __future__ import annotations

import ast
from typing import Any, NoReturn

from neuroncore import source
from neuroncore.errors import DynamicControlError, SignatureError


class Unread:
    """Refuses to be an array, a number or a container of the host: without this numpy would make an
    array of one object, and `in` would compare objects."""

    __slots__ = ()

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise _unknown(
            self,
            "an array",
            "compute with instructions, and return a tensor in hbm: the caller gets an array; "
            "nl.device_print(text, tensor) shows what is there",
        )

    def __index__(self) -> NoReturn:
        raise _unknown(
            self,
            "a number",
            "use it as a run-time index, or load it into a register with nisa.register_load",
        )

    __int__ = __index__
    __float__ = __index__

    def __contains__(self, value: object) -> NoReturn:
        raise _unknown(self, "searched", "compare with nl.equal")

    def __len__(self) -> NoReturn:
        raise SignatureError(
            f"{self} has no len()",
            because="a tensor has a size for each of its axes",
            hint="tensor.shape[0] is the size of the first",
        )

    def __delitem__(self, key: object) -> NoReturn:
        raise SignatureError(
            f"elements of {self} can't be deleted",
            because="a tensor has the size that it was made with",
            hint="tensor[...] is a part of it, by the elements to keep",
        )


def _unknown(tensor: object, what: str, hint: str) -> DynamicControlError:
    return DynamicControlError(
        f"{tensor} can't be {what} while the kernel is compiled",
        because="what a tensor holds is known on the device only",
        hint=hint,
    )


def asserted() -> bool:
    """Whether the user's code is at an `assert` of a value."""
    frame = source.user_frame()
    return frame is not None and isinstance(source.user_of_value(frame), ast.Assert)


def truth_value(tensor: object) -> DynamicControlError:
    """The error for a tile that `if`, `while`, `and`, `or` or `not` asks whether it is true."""
    return _unknown(
        tensor,
        "a condition",
        "choose by nl.where; `while register:` with nisa.register_load loops as the device says; "
        "compare None by `is`",
    )
