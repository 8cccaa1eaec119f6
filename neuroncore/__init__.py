"""neuroncore: run NKI kernels on the CPU.

After `neuroncore.activate()`, `import nki` in this process imports neuroncore's implementation of
NKI.
"""

import importlib as _importlib
import importlib.util as _util
import os.path as _path
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

# In a source checkout isa/ and kernels/ are next to this folder; in an install they are inside it.
_HERE = _path.dirname(__file__)
if not _path.isdir(_path.join(_HERE, "isa")):
    __path__.append(_path.dirname(_HERE))

if _TYPE_CHECKING:
    from neuroncore import numerics
    from neuroncore.base.options import Options
    from neuroncore.checks.check import check
    from neuroncore.frontend.alias import activate, activated, deactivate
    from neuroncore.frontend.settings import precision_of, settings
    from neuroncore.hosts.api import Run, load, run
    from neuroncore.hosts.warm import warm

_HOMES = {
    "Options": "base.options",
    "Run": "hosts.api",
    "activate": "frontend.alias",
    "activated": "frontend.alias",
    "check": "checks.check",
    "deactivate": "frontend.alias",
    "load": "hosts.api",
    "load_ipython_extension": "hosts.notebook",
    "precision_of": "frontend.settings",
    "run": "hosts.api",
    "settings": "frontend.settings",
    "unload_ipython_extension": "hosts.notebook",
    "warm": "hosts.warm",
}


def __getattr__(name: str) -> _Any:
    """Return a public name or a module of this package. It is imported when it is first used."""
    if name in _HOMES:
        public = getattr(_importlib.import_module(f"neuroncore.{_HOMES[name]}"), name)
    elif name.startswith("_") or _util.find_spec(f"neuroncore.{name}") is None:
        raise AttributeError(f"module 'neuroncore' has no attribute {name!r}")
    else:
        public = _importlib.import_module(f"neuroncore.{name}")
    globals()[name] = public
    return public


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "Options",
    "Run",
    "activate",
    "activated",
    "check",
    "deactivate",
    "load",
    "numerics",
    "precision_of",
    "run",
    "settings",
    "warm",
]
