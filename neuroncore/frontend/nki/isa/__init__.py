"""nki.isa: one function for each clause, the definition of an instruction in isa/.

A function has the parameters and defaults of its clause, in the same order, and `name` at the end.
Parameters of older releases that published kernels still pass are accepted and ignored."""

import typing as _typing

from neuroncore.base.errors import KernelError as NkiValidationError  # noqa: F401 the API's name
from neuroncore.frontend import dialects as _dialects
from neuroncore.frontend import issue as _issue
from neuroncore.frontend.limits import get_nc_sub_version as get_nc_sub_version
from neuroncore.frontend.limits import get_nc_version as get_nc_version
from neuroncore.frontend.nki.isa import constants as constants
from neuroncore.frontend.nki.isa.constants import *
from neuroncore.frontend.nki.isa.constants import engine

if _typing.TYPE_CHECKING:  # for editors: the functions that __getattr__ finds
    from neuroncore.frontend.instructions import *

tensor_engine = engine.tensor
vector_engine = engine.vector
scalar_engine = engine.scalar
gpsimd_engine = engine.gpsimd
unknown_engine = engine.unknown
NkiInstruction = _issue.NkiInstruction
VirtualRegister = _issue.VirtualRegister
register_alloc = _issue.register_alloc

_NAMES = _issue.names("nki.isa")
__all__ = [*_dialects.api(globals()), "constants", *_NAMES]


def __getattr__(name: str) -> _issue.Issues:
    if name not in _NAMES:
        raise _dialects.unknown("nki.isa", name, __all__)
    function = globals()[name] = _issue.with_promises(name, _issue.function(name))
    return function


def __dir__() -> list[str]:
    return __all__
