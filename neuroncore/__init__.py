"""neuroncore: run NKI kernels on the CPU.

`neuroncore.activate()` makes `import nki` find this package, in this process.
"""

import importlib as _importlib
from pathlib import Path as _Path
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

# In a source checkout isa/ and kernels/ stand beside this folder; in an install they lie inside it.
if not (_Path(__file__).parent / "isa").is_dir():
    __path__.append(str(_Path(__file__).parents[1]))

_importlib.import_module("neuroncore.isa")  # fills the instruction table

from neuroncore import numerics  # noqa: E402
from neuroncore.frontend.alias import activate, activated, deactivate  # noqa: E402
from neuroncore.frontend.precision import precision_of  # noqa: E402
from neuroncore.frontend.settings import settings  # noqa: E402
from neuroncore.options import Options  # noqa: E402

if _TYPE_CHECKING:
    from neuroncore.api import Run, run


def __getattr__(name: str) -> _Any:
    """Run and run, with which the API that kernels import is loaded, when they are first used."""
    if name not in ("Run", "run"):
        raise AttributeError(f"module 'neuroncore' has no attribute {name!r}")
    return getattr(_importlib.import_module("neuroncore.api"), name)


__all__ = [
    "Options",
    "Run",
    "activate",
    "activated",
    "deactivate",
    "numerics",
    "precision_of",
    "run",
    "settings",
]
