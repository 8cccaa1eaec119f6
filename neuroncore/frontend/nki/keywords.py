"""Words that kernels of NKI 0.1 and 0.2 find without importing them: sbuf, psum and hbm.

"The sbuf keyword is available in any NKI kernel", says the quickstart of SDK 2.27 and 2.28
(nki/get-started/quickstart-implement-run-kernel.rst); that of 2.29 has nl.sbuf instead.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from neuroncore.base.enums import MemoryRegion
from neuroncore.frontend.nki.language.creation import MemoryName

WORDS = {
    "sbuf": MemoryName(MemoryRegion.sbuf),
    "psum": MemoryName(MemoryRegion.psum),
    "hbm": MemoryName(MemoryRegion.private_hbm),
}


_lock, _running = Lock(), 0


@contextmanager
def known() -> Iterator[None]:
    """While a kernel runs, in any thread: names that neither it nor its module defines are looked
    for among Python's own, and the words are among them."""
    global _running
    with _lock:
        _running += 1
        for name, word in WORDS.items():
            setattr(builtins, name, word)
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            for name in () if _running else WORDS:
                delattr(builtins, name)
