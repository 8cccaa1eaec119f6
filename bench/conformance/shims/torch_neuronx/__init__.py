"""torch_neuronx.nki_jit: a kernel called with torch tensors, as every kernel of ours can be."""

from nki import jit as nki_jit

from torch_neuronx import xla_impl

__all__ = ["nki_jit", "xla_impl"]
