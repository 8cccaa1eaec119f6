"""The record of a run: the instructions that the run issued, and the file that stores them."""

from pathlib import Path
from typing import TYPE_CHECKING

from neuroncore.base.lazy import modules

if TYPE_CHECKING:
    from neuroncore.record import saved as saved
    from neuroncore.record import stacks as stacks
else:
    globals().update(modules(__name__, "saved stacks"))

MARK = b"neuroncore.record.saved/"


def is_record(path: Path) -> bool:
    """Return whether a file begins with the mark of a saved record."""
    try:
        with path.open("rb") as file:
            return file.read(len(MARK)) == MARK
    except OSError:
        return False
