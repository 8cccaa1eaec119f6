"""The instruction set: each module here has a family of clauses, and all modules are loaded.

A clause is a function that defines one instruction. Its parameters are the API's; their annotations
state which values are legal. The decorator has the engines, the shapes as letters, the rules that
letters can't express, and the cost. The docstring is the equation, with the letters of NKI's pages:
P partition, F free; K, M, N of a matmul. The body computes the result: it reads all operands before
it writes. In the body, `engine` is the engine that executes the instruction; the kernel's argument
may have left the choice open. Sources in brackets, such as (ISA), are keys of `[sources]` in the
files of machines.
"""

from __future__ import annotations

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
