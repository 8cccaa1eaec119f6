"""The instruction set: every module here is loaded, and each defines one engine's share of it.

A clause is a function. Its parameters are the API's; their annotations say what each operand may
be. The decorator names the engines, the rules about several operands and the cost. The docstring
is the equation, with the paper's letters: P partition, F free; K, M, N of a matmul. The body is
the meaning: it reads everything, then writes.
"""

from __future__ import annotations

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
