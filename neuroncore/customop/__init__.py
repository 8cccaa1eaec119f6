"""Custom C++ operators of the GpSimd engine, compiled for the host and run on emulated cores."""

from neuroncore.customop.library import CustomOpFault as CustomOpFault
from neuroncore.customop.library import CustomOpWarning as CustomOpWarning
from neuroncore.customop.library import Library as Library
from neuroncore.customop.library import LibraryCall as LibraryCall
from neuroncore.customop.library import load as load
from neuroncore.customop.library import load_library as load_library
