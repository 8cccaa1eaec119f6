"""The machine code that numba keeps on disk: of which loops there is some, and that it is of the
sources as they are."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[1]
STAMP = "neuroncore.sources"  # the file, beside machine code, that says what that was made of


def is_there(dispatcher: Any) -> bool:
    """Return whether numba has machine code of a function, on disk or in memory."""
    folder, function = dispatcher.stats.cache_path, dispatcher.py_func
    if dispatcher.signatures or folder is None:
        return bool(dispatcher.signatures)
    module = Path(function.__code__.co_filename).stem
    return any(Path(folder).glob(f"{module}.{function.__qualname__}-*.nbi"))


@cache
def renew(folder: str) -> None:
    """Remove machine code that was made of other sources. numba asks only whether the file of a
    loop has changed, not whether those have that it imports."""
    stamp, sources = Path(folder, STAMP), digest(PACKAGE)
    with suppress(OSError):  # where nothing can be removed numba keeps nothing either
        if not stamp.is_file() or stamp.read_text() != sources:
            for index in Path(folder).glob("*.nbi"):
                index.unlink(missing_ok=True)
            stamp.write_text(sources)


def digest(package: Path) -> str:
    """A hash of all modules with compiled loops, and of those that they import."""
    found = sha256()
    for file in sorted([*package.glob("native/*.py"), *package.glob("*/loops/*.py")]):
        found.update(
            file.relative_to(package).as_posix().encode()
            + b"\0"
            + sha256(file.read_bytes()).digest()
        )
    return found.hexdigest()
