"""Kernels as texts in which the text at fault is marked."""

import numpy as np
import pytest

from neuroncore.base import errors
from neuroncore.frontend.launch import launch
from neuroncore.frontend.nki.tensor import NkiTensor

HEADER = """\
import nki.isa as nisa
import nki.language as nl
import numpy as np

def tile(p, f, dtype=nl.float32, buffer=nl.sbuf):
    made = nl.ndarray((p, f), dtype, buffer=buffer)
    made.mark_written()
    return made

"""
X = np.ones((4, 6), np.float32)


def refused(tmp_path, body):
    """The error of a kernel whose text at fault is between « and », and that place."""
    text = HEADER + body
    before, marked, _ = text.partition("«")[0], *text.partition("«")[2].partition("»")[::2]
    line, column = before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1
    text = text.replace("«", "").replace("»", "")
    path = tmp_path / "mine.py"
    path.write_text(text, encoding="utf-8")
    scope = {"__name__": "mine"}
    exec(compile(text, str(path), "exec"), scope)
    with pytest.raises(errors.KernelError) as caught:
        launch(scope["kernel"], (X,), tensor=NkiTensor, target="trn2")
    source = text.splitlines()[line - 1]
    carets = len(marked) if "\n" not in marked else len(source) - column + 1
    return caught.value, path, line, column, source, carets
