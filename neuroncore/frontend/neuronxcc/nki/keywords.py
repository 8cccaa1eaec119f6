"""Keywords that functions of the older API accept in addition to their parameters.

Each function ends in **kwargs, which would hide a misspelled keyword.
"""

from __future__ import annotations

import sys
import warnings
from types import CodeType
from typing import Any

from neuroncore.base import source
from neuroncore.base.errors import SignatureError, did_you_mean

# Labels and hints to the device's compiler, which change no result.
HINTS = frozenset({"name", "lazy_initialization", "directives", "precise_schedule"})
# Passed by published kernels (nki-samples), and without effect in all known releases.
IGNORED = frozenset({"buffer", "max_free_vec_size"})


def check_keywords(
    kwargs: dict[str, Any], *known: str, name: str = "", code: CodeType | None = None
) -> None:
    """Refuse keywords that no release has; `known` are the keywords that the function reads.

    `code` is the code of the function, by default the caller's; `name` is the user's name of the
    function, if it differs. Raises SignatureError.
    """
    if not kwargs:
        return
    unknown = kwargs.keys() - HINTS.union(known)
    if not unknown:
        return
    code = code or sys._getframe(1).f_code
    called = name or code.co_name
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    for keyword in sorted(unknown):
        if keyword not in IGNORED:
            hint = did_you_mean(keyword, [*parameters, *known])
            returned = f"the older API returns its result: tensor[...] = {called}(...)"
            raise SignatureError(
                f"{called} has no parameter {keyword!r}",
                argument=keyword,
                expected=f"{called}({', '.join(parameters)})",
                hint=hint or (returned if keyword == "dst" else None),
            )
        warnings.warn(f"{called} ignores {keyword}=", stacklevel=source.user_level())
