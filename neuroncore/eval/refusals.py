"""The refusal of a candidate by the judge."""

from __future__ import annotations

from typing import Any

TEXT = 400  # most characters of a message: a record may have names of any length


class Refused(Exception):
    """A candidate is refused: a code, a sentence, and the line of the candidate if there is one.
    `by_candidate` is True if the kernel raised the error in the candidate's process. `errors` has
    the figures of a wrong result."""

    def __init__(
        self,
        code: str,
        message: str,
        line: int | None = None,
        hint: str = "",
        *,
        by_candidate: bool = False,
        errors: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message[:TEXT])
        self.code, self.message, self.line, self.hint = code, message[:TEXT], line, hint[:TEXT]
        self.by_candidate, self.errors = by_candidate, errors

    def to_dict(self) -> dict[str, Any]:
        """Return the entry `error` of a verdict."""
        found = {"code": self.code, "message": self.message, "line": self.line, "hint": self.hint}
        return found if self.errors is None else {**found, "errors": self.errors}


def failed(refusal: Refused) -> dict[str, Any]:
    """Return the entries of the verdict on a refused candidate."""
    return {"passed": False, "error": refusal.to_dict(), "shapes": []}
