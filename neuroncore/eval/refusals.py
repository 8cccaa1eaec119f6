"""The reasons for which a judge refuses a candidate."""

from __future__ import annotations

TEXT = 400  # characters of a message that are kept: a record may have names of any length


class Refused(Exception):
    """A candidate that is refused: a code, a sentence, and the line of the candidate if there is
    one. With `by_candidate`, the candidate's own process says so: the kernel raised it."""

    def __init__(
        self,
        code: str,
        message: str,
        line: int | None = None,
        hint: str = "",
        *,
        by_candidate: bool = False,
    ) -> None:
        super().__init__(message[:TEXT])
        self.code, self.message, self.line, self.hint = code, message[:TEXT], line, hint[:TEXT]
        self.by_candidate = by_candidate

    def to_dict(self) -> dict[str, str | int | None]:
        """Return the entry `error` of a verdict."""
        return {"code": self.code, "message": self.message, "line": self.line, "hint": self.hint}
