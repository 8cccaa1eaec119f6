"""neuroncore: run NKI kernels on the CPU.

`neuroncore.activate()` makes `import nki` find this package, in this process.
"""

import importlib as _importlib
from pathlib import Path as _Path

# In a source checkout isa/ and kernels/ stand beside this folder; in an install they lie inside it.
if not (_Path(__file__).parent / "isa").is_dir():
    __path__.append(str(_Path(__file__).parents[1]))

_importlib.import_module("neuroncore.isa")  # fills the instruction table

from neuroncore import numerics  # noqa: E402
from neuroncore.api import Run, run  # noqa: E402
from neuroncore.frontend.alias import activate, activated, deactivate  # noqa: E402
from neuroncore.frontend.precision import precision_of  # noqa: E402
from neuroncore.frontend.settings import settings  # noqa: E402
from neuroncore.options import Options  # noqa: E402

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
