"""The refusal of a candidate, with its reason as a code and a sentence."""

from __future__ import annotations

from typing import Any

TEXT = 400  # the most characters of a message; a record may contain names of any length


class Refused(Exception):
    """The refusal of a candidate: a code, a message, a hint, and the line in the candidate's file
    or None. If the results are wrong, `errors` contains their errors (`eval.comparison`)."""

    def __init__(
        self,
        code: str,
        message: str,
        line: int | None = None,
        hint: str = "",
        *,
        errors: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message[:TEXT])
        self.code, self.message, self.line, self.hint = code, message[:TEXT], line, hint[:TEXT]
        self.errors = errors

    def to_dict(self) -> dict[str, Any]:
        """Return the entry `error` of a verdict."""
        fields = {"code": self.code, "message": self.message, "line": self.line, "hint": self.hint}
        return fields if self.errors is None else {**fields, "errors": self.errors}


def failed(refusal: Refused) -> dict[str, Any]:
    """Return the entries of the verdict on a candidate that was refused."""
    return {"passed": False, "error": refusal.to_dict(), "shapes": []}
